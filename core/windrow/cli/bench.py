# SPDX-License-Identifier: Apache-2.0
"""`windrow bench`: the programs in benchmarks/, from a source checkout."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

import click

from windrow.cli.refusals import Refusal

PROGRAMS = {
    "algorithms": "algorithms and kernels against their peers",
    "operator": "the operator against Polars",
    "pipelines": "streams on top of streams: latency, rates, peers",
    "spark": "Spark's own windows against windrow on Spark",
    "flink": "Flink's own windows against windrow on Flink",
    "workers": "functions of whole windows: workers, fits, medians",
    "idle": "silent keys: memory and throughput of frozen windows",
    "soak": "streams that go on for long and behave badly",
}
QUICK = {
    "algorithms": ["--quick"],
    "operator": ["--quick"],
    "pipelines": ["--quick"],
    "workers": ["--quick"],
    "idle": ["--quick"],
    "spark": ["--rows", "100000"],
    "flink": ["--scale", "0.1"],
    "soak": [],
}
"""The options of each program for a quick run."""
NEEDS = {"spark": "pyspark", "flink": "pyflink"}


@click.command(context_settings={"ignore_unknown_options": True})
@click.argument("program", type=click.Choice(list(PROGRAMS)), default="algorithms")
@click.option("--quick", is_flag=True, help="A few minutes instead of an hour: fewer rows and sizes.")
@click.argument("more", nargs=-1, type=click.UNPROCESSED)
def bench(program: str, quick: bool, more: tuple[str, ...]) -> None:
    """Run a benchmark of windrow and its peers.

    Other options go to the program; `windrow bench spark -- --help` lists them. Results go to benchmarks/results/, tables and plots.
    """
    root = checkout()
    if root is None:
        raise Refusal(
            "the benchmarks are not part of the installed package; clone the source, and in its folder run "
            "pip install -e '.[dev]' and windrow bench"
        )
    needed = NEEDS.get(program)
    if needed is not None and importlib.util.find_spec(needed) is None:
        raise Refusal(f"windrow bench {program} needs {needed}: pip install -e '.[{program}]'")
    arguments = [*(QUICK[program] if quick else []), *more]
    click.echo(
        f"python -m benchmarks.{program} {' '.join(arguments)}".rstrip() + f"    ({PROGRAMS[program]})",
        err=True,
    )
    raise SystemExit(subprocess.call([sys.executable, "-m", f"benchmarks.{program}", *arguments], cwd=root))


def checkout() -> Path | None:
    """The root of the source checkout that this package runs from, or that is the current folder."""
    for root in (Path(__file__).resolve().parents[3], Path.cwd()):
        if (root / "benchmarks" / "algorithms" / "__main__.py").is_file():
            return root
    return None
