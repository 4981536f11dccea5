"""`windrow run`: a query over files, a folder that grows, or standard input, on any engine."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING

import click

from windrow.cli.refusals import Refusal, refusals

if TYPE_CHECKING:
    from windrow.cli.job import Job

ENGINES = {"local": "windrow.cli.local", "spark": "windrow_spark.job", "flink": "windrow_flink.job"}
NEEDS = {"spark": "pyspark", "flink": "pyflink"}
FORMATS = ["parquet", "csv", "jsonl", "arrow"]


@click.command()
@click.argument("query_file", metavar="QUERY", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option(
    "--input", "source", required=True, help="The rows: a file, a folder of files, or - for standard input."
)
@click.option(
    "--output",
    "target",
    help="Where the windows go: a file, a folder (ending in /), or - for standard output. Without it they are shown.",
)
@click.option(
    "--late-output",
    "late_target",
    help='Where rows go that came too late, if the query has late = "side": as --output. Without it they are counted.',
)
@click.option("--engine", type=click.Choice(list(ENGINES)), default="local", show_default=True)
@click.option(
    "--format",
    "form",
    type=click.Choice(FORMATS),
    help="The format of - (default csv), or of a file whose name does not tell it.",
)
@click.option(
    "--delay",
    help="How far out of order rows are, such as 5s: windows come out on the way. Without it, rows may be in any order.",
)
@click.option("--watch", is_flag=True, help="Go on with files that appear in the folder. Ends with Ctrl-C.")
@click.option(
    "--until-idle", "until_idle", help="With --watch: end when no file has come for so long, such as 30s."
)
@click.option("--explain", "explained", is_flag=True, help="First say how it is computed, and why.")
def run(
    query_file: Path,
    source: str,
    target: str | None,
    late_target: str | None,
    engine: str,
    form: str | None,
    delay: str | None,
    watch: bool,
    until_idle: str | None,
    explained: bool,
) -> None:
    """Compute a query over files or a stream.

    QUERY is a .toml or .json file; rows are Parquet, CSV, JSON lines or Arrow. Windows that are still open when
    the rows end are written too.
    """
    from rich.console import Console

    from windrow.cli.job import Job, Progress
    from windrow.cli.queries import read_query
    from windrow.cli.tables import Ends

    messages = Console(stderr=True, highlight=False)
    with refusals():
        job = Job(read_query(query_file), source, target, form, delay, watch, until_idle, late_target)
        needed = NEEDS.get(engine)
        if needed is not None and importlib.util.find_spec(needed) is None:
            raise Refusal(f"--engine {engine} needs {needed}: in a clone, pip install '.[{engine}]'")
        if explained:
            _explain(job)
        began = perf_counter()
        with Progress(messages) as progress:
            done = importlib.import_module(ENGINES[engine]).run(job, progress)
        seconds = perf_counter() - began
    if isinstance(done.output, Ends):
        done.output.show(Console(highlight=False, stderr=late_target == "-"))
    where = "" if target in (None, "-") else f" in {target}"
    late = f", {done.late_rows:,} too late" if done.late_rows else ""
    late += f" in {late_target}" if late and late_target not in (None, "-") else ""
    rate = f", {done.rows / seconds:,.0f} rows/s" if seconds > 0 else ""
    click.echo(
        f"{done.rows:,} rows → {done.output.written:,} windows{where}{late}{rate}",
        err="-" in (target, late_target),
    )
    sys.stdout.flush()


def _explain(job: Job) -> None:
    import windrow as wr
    from windrow.cli.files import STANDARD, open_rows

    schema = None if job.source == STANDARD or job.watch else open_rows(job.source, job.form).schema
    click.echo(str(wr.explain(job.query, schema)) + "\n", err=STANDARD in (job.target, job.late_target))
