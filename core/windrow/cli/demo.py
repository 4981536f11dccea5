# SPDX-License-Identifier: Apache-2.0
"""`windrow demo`: the main job, or with `--small` a first look at bundled data."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING

import click

from windrow.cli.refusals import Refusal, refusals

if TYPE_CHECKING:
    from rich.console import Console

    from windrow.query.query import Query


@click.command()
@click.option(
    "--engine",
    type=click.Choice(["spark", "flink", "local"]),
    help="Default: spark if it is installed, else local.",
)
@click.option(
    "--output",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("windrow-demo"),
    show_default=True,
    help="The folder for data, windows and page.",
)
@click.option("--plugs", type=click.IntRange(6), default=60, show_default=True, help="How many smart plugs.")
@click.option("--small", is_flag=True, help="A quick look: bundled data of three plugs, in this process.")
@click.option(
    "--save",
    type=click.Path(file_okay=False, path_type=Path),
    help="With --small: also write the data (plugs.csv) and the query (query.json) to this folder.",
)
def demo(engine: str | None, output: Path, plugs: int, small: bool, save: Path | None) -> None:
    """Run a complete pipeline on smart-plug data.

    Peak, mean and p95 of each plug over the last hour, every second, and house totals. Generates the readings, runs
    a streaming job on an engine, writes Parquet, and compares every window with the in-process result.
    """
    from rich.console import Console

    console = Console(highlight=False)
    with refusals():
        if small or save is not None:
            _small(console, save)
            return
        from windrow.demo.show import default_engine, show

        chosen = engine or default_engine()
        if engine is None and chosen == "local" and importlib.util.find_spec("pyspark") is None:
            console.print(
                "This runs in process. For the Spark pipeline, in a clone: pip install '.\\[spark]'\n",
                soft_wrap=True,
            )
        if not show(console, chosen, output, plugs=plugs):
            sys.exit(1)


def _small(console: Console, save: Path | None) -> None:
    from rich.markup import escape

    import windrow as wr
    from windrow.cli.tables import EDGE, show
    from windrow.data import plugs

    rows = plugs()
    query = wr.Query(
        by=["plug"],
        time="ts",
        window=wr.TimeWindow(range="5m", slide="1m"),
        aggregates={"peak": wr.Max("load"), "mean": wr.Mean("load"), "n": wr.Count()},
    )
    started = perf_counter()
    with console.status("The first run on a machine compiles, which takes a while"):
        windows = wr.aggregate(rows, query)
    seconds = perf_counter() - started
    if save is not None:
        _keep(query, save)
    title = "Load in watts per plug: 5-minute windows that slide by 1 minute"
    show(console, windows.slice(0, EDGE), windows.slice(windows.num_rows - EDGE), title)
    console.print(
        f"\n[bold]{rows.num_rows}[/] readings became [bold]{windows.num_rows}[/] windows in {seconds:.2f} s: "
        "highest load (peak), mean load (mean) and number of readings (n) of every plug, every minute, over the "
        "five minutes before. The first and the last windows reach beyond the data, so they hold fewer readings.\n"
    )
    folder = "demo" if save is None else str(save)
    steps = [
        f"windrow demo --save {folder}",
        f"windrow run {folder}/query.json --input {folder}/plugs.csv --output peaks.csv",
        f"windrow explain {folder}/query.json",
    ]
    console.print("[bold]Next[/]")
    for command in steps if save is None else steps[1:]:
        console.print(f"  [cyan]{escape(command)}[/]", soft_wrap=True)


def _keep(query: Query, folder: Path) -> None:
    """Write the bundled data and a query to a folder, for the user's next steps."""
    from windrow.data import plugs_csv

    try:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "plugs.csv").write_bytes(plugs_csv())
        (folder / "query.json").write_text(query.to_json() + "\n", encoding="utf-8")
    except OSError as error:
        raise Refusal(f"{folder} cannot be written: {error}") from error
