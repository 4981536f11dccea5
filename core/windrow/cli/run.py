# SPDX-License-Identifier: Apache-2.0
"""`windrow run`: a query over files, a folder that grows, or standard input, on any engine."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

import click

from windrow.cli.refusals import Refusal, refusals

if TYPE_CHECKING:
    from windrow.cli.job import Done, Job

ENGINES = {"local": "windrow.cli.local", "spark": "windrow_spark.job", "flink": "windrow_flink.job"}
NEEDS = {"spark": "pyspark", "flink": "pyflink"}
FORMATS = ["parquet", "csv", "jsonl", "arrow"]
WINDOWS = 10_000_000_000
"""More windows than this are most likely a mistake in the slide."""


@click.command()
@click.argument("query_file", metavar="QUERY", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option(
    "--input", "source", required=True, help="The rows: a file, a folder of files, or - for standard input."
)
@click.option(
    "--output",
    "target",
    help="Where the windows go: a file, a folder (ending in /), or - for standard output. Without it, they are printed as a table.",
)
@click.option(
    "--late-output",
    "late_target",
    help='Where late rows go, if the query has late = "side". Takes what --output takes. Without it, they are only counted.',
)
@click.option("--engine", type=click.Choice(list(ENGINES)), default="local", show_default=True)
@click.option(
    "--format",
    "form",
    type=click.Choice(FORMATS),
    help="The format of standard input or output (csv by default), or of a file whose name has no known ending.",
)
@click.option(
    "--delay",
    help="How far rows may be out of order, such as 5s. Windows are then written as they become final. Default: any order.",
)
@click.option(
    "--watch", is_flag=True, help="Also read files that appear in the folder later. Ctrl-C ends it."
)
@click.option(
    "--until-idle",
    "until_idle",
    help="With --watch: end when no file has appeared for this time, such as 30s.",
)
@click.option(
    "--windows-limit",
    type=click.IntRange(min=1),
    default=WINDOWS,
    show_default=True,
    help="Refuse a query that gives more windows than this.",
)
@click.option(
    "--memory",
    help="The memory for rows that are held or read at once, such as 4GB. Default: half of the free memory.",
)
@click.option(
    "--workers",
    type=click.IntRange(min=1),
    default=1,
    show_default=True,
    help="How many threads or processes compute functions of whole windows, such as Apply. In process only.",
)
@click.option(
    "--idle",
    help="Compress the windows of keys that got no row for this event time, such as 60s. It has an effect where the watermark "
    "moves: with --delay, and on Spark with --watch.",
)
@click.option("--explain", "explained", is_flag=True, help="First print how the query is computed, and why.")
@click.option(
    "--allow",
    multiple=True,
    metavar="MODULE",
    help="A module or package that QUERY may import, for aggregates and policies of your own; may be repeated.",
)
def run(query_file: Path, engine: str, explained: bool, allow: tuple[str, ...], **options: Any) -> None:
    """Compute a query over files or a stream.

    QUERY is a .toml or .json file; rows are Parquet, CSV, JSON lines or Arrow. Windows that are still open when
    the rows end are written too.
    """
    from rich.console import Console

    from windrow.cli.job import Job, Progress
    from windrow.cli.queries import read_query
    from windrow.cli.stopping import stoppable
    from windrow.kernels.compiling import compile_seconds, telling

    messages = Console(stderr=True, highlight=False)
    with refusals(), stoppable():
        job = Job(read_query(query_file, allow), **options)
        needed = NEEDS.get(engine)
        if needed is not None and importlib.util.find_spec(needed) is None:
            raise Refusal(f"--engine {engine} needs {needed}: in a clone, pip install '.[{engine}]'")
        if job.workers > 1 and engine != "local":
            raise Refusal(f"--workers needs --engine local; {engine} has its own workers")
        if explained:
            _explain(job)
        began, compiled = perf_counter(), compile_seconds()
        with Progress(messages) as progress, telling(progress.compiling):
            done = importlib.import_module(ENGINES[engine]).run(job, progress)
        compiled = compile_seconds() - compiled
        seconds = perf_counter() - began - compiled
    _report(job, done, seconds, compiled)


def _report(job: Job, done: Done, seconds: float, compiled: float) -> None:
    """Show the windows, if they have no other place, and say how many there were, in how many seconds after compiling."""
    from rich.console import Console

    from windrow.cli.tables import Ends

    target, late_target = job.target, job.late_target
    if isinstance(done.output, Ends):
        done.output.show(Console(highlight=False, stderr=late_target == "-"))
    where = "" if target in (None, "-") else f" in {target}"
    late = f", {done.late_rows:,} late" if done.late_rows else ""
    late += f" in {late_target}" if late and late_target not in (None, "-") else ""
    rate = f", {done.rows / seconds:,.0f} rows/s" if seconds >= 1 else ""
    rate += f" after {compiled:.0f} s of compiling" if rate and compiled >= 1 else ""
    click.echo(
        f"{done.rows:,} rows → {done.output.written:,} windows{where}{late}{rate}",
        err="-" in (target, late_target),
    )
    if done.late_rows and late_target is None and job.query.late == "side":
        click.echo("Warning: late rows were counted and not kept; --late-output FILE keeps them", err=True)
    sys.stdout.flush()


def _explain(job: Job) -> None:
    import windrow as wr
    from windrow.cli.files import STANDARD, open_rows

    schema = (
        None
        if job.source == STANDARD or job.watch
        else open_rows(job.source, job.form, job.memory_bytes).schema
    )
    click.echo(str(wr.explain(job.query, schema)) + "\n", err=STANDARD in (job.target, job.late_target))
