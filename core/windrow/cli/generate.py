# SPDX-License-Identifier: Apache-2.0
"""`windrow generate`."""

from __future__ import annotations

import sys
from time import perf_counter

import click

from windrow.cli.refusals import refusals

NAMES = ("smart-home", "manufacturing", "linear-road", "server-memory", "quotes")


@click.command()
@click.argument("name", metavar="DATA", type=click.Choice(NAMES))
@click.option("--rows", default=1_000_000, show_default=True, type=click.IntRange(0), help="How many rows.")
@click.option(
    "--seed", default=0, show_default=True, type=click.IntRange(0), help="The seed of the random numbers."
)
@click.option(
    "--output",
    "target",
    required=True,
    help="A .parquet, .arrow, .csv or .jsonl file, or - for standard output.",
)
@click.option(
    "--format",
    "form",
    type=click.Choice(["parquet", "csv", "jsonl", "arrow"]),
    help="The format, if the name has no known ending; arrow for -.",
)
@click.option("--plugs", type=click.IntRange(1), help="smart-home: how many plugs.")
@click.option("--houses", type=click.IntRange(1), help="smart-home: how many houses.")
@click.option("--expressways", type=click.IntRange(1), help="linear-road: how many expressways.")
@click.option("--symbols", type=click.IntRange(1), help="quotes: how many symbols.")
def generate(name: str, rows: int, seed: int, target: str, form: str | None, **options: int | None) -> None:
    """Write synthetic DATA to a file.

    DATA is smart-home, manufacturing, linear-road, server-memory or quotes. The same seed gives the same rows.
    """
    import inspect

    import pyarrow as pa
    from rich.console import Console
    from rich.progress import track

    from windrow.cli.files import STANDARD, Writer
    from windrow.data import GENERATORS

    given = {option: value for option, value in options.items() if value is not None}
    for option in given:
        if option not in inspect.signature(GENERATORS[name]).parameters:
            raise click.UsageError(f"--{option} is not an option of {name}")
    began = perf_counter()
    with refusals():
        made = GENERATORS[name](rows=rows, seed=seed, **given)
        with Writer(target, made.schema, form or ("arrow" if target == STANDARD else None)) as out:
            batches = -(-rows // (1 << 16))
            quiet = not sys.stderr.isatty()
            for batch in track(
                made, "writing", total=batches, disable=quiet, console=Console(stderr=True), transient=True
            ):
                out.write(pa.Table.from_batches([batch]))
    seconds = perf_counter() - began
    rate = f", {out.written / seconds:,.0f} rows/s" if seconds >= 1 else ""
    click.echo(f"{out.written:,} rows of {name} in {target}{rate}", err=True)
