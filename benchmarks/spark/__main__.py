"""Spark benchmarks: ``python -m benchmarks.spark [--rows 1000000] [--only batch,streaming] [--out folder]``.

Every number of ours has its native peer from the same run, on the same rows, in the same session. Results go to a CSV and a plot.
"""

from __future__ import annotations

import argparse
import csv
import os
import sys
import tempfile
from collections.abc import Callable
from dataclasses import astuple, dataclass, fields
from pathlib import Path

os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, sys.path))

from pyspark.sql import SparkSession

from benchmarks.spark import batch, streaming
from benchmarks.spark.measure import Case, Rate
from windrow_spark import session_conf

ROUNDS = 4


@dataclass
class Line:
    """One line of the report."""

    case: str
    ours_rows_per_second: int
    peer: str
    peer_rows_per_second: int
    ratio: float
    required: float
    reached: bool


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.spark")
    parser.add_argument("--rows", type=int, default=1_000_000, help="rows of the larger inputs")
    parser.add_argument("--only", default="batch,streaming", help="batch, streaming or both")
    parser.add_argument("--case", default="", help="only cases whose name contains this")
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/spark"))
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="windrow-benchmark-") as folder:
        spark = session(Path(folder))
        groups: dict[str, Callable[[], list[Case]]] = {
            "batch": lambda: batch.cases(spark, options.rows),
            "streaming": lambda: streaming.cases(spark, options.rows, Path(folder)),
        }
        lines = []
        for group in options.only.split(","):
            cases = [case for case in groups[group]() if options.case in case.name]
            for number, case in enumerate(cases, 1):
                print(f"{group} {number}/{len(cases)}: {case.name} …", file=sys.stderr, flush=True)
                lines.append(measured(case))
                print(f"    {lines[-1]}", file=sys.stderr, flush=True)
                write(lines, options.out, group=options.only.replace(",", "-"))
        spark.stop()
    show(lines)


def session(folder: Path) -> SparkSession:
    builder = SparkSession.builder.master("local[2]").appName("windrow benchmarks")
    settings = {
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.memory": "4g",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.local.dir": str(folder / "local"),
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "2",
        **session_conf(),
    }
    for name, value in settings.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def measured(case: Case) -> Line:
    for _ in range(ROUNDS):
        for each in (case.ours, case.peer):
            if isinstance(each, Rate):
                each.round()
    ours, peer = case.ours(), case.peer()
    ratio = ours / peer
    return Line(
        case.name,
        int(ours),
        case.peer_name,
        int(peer),
        round(ratio, 3),
        case.required,
        ratio >= case.required,
    )


def write(lines: list[Line], folder: Path, group: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / f"{group}.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow([field.name for field in fields(Line)])
        writer.writerows(astuple(line) for line in lines)
    try:
        from matplotlib import pyplot
    except ImportError:
        print("no plot: matplotlib is not installed", file=sys.stderr)
        return
    figure, axes = pyplot.subplots(figsize=(9, 0.6 * len(lines) + 1.2))
    places = range(len(lines))
    axes.barh([y - 0.2 for y in places], [line.ours_rows_per_second for line in lines], 0.4, label="windrow")
    axes.barh([y + 0.2 for y in places], [line.peer_rows_per_second for line in lines], 0.4, label="peer")
    axes.set_yticks(list(places), [f"{line.case}\nvs {line.peer}" for line in lines], fontsize=7)
    axes.set_xscale("log")
    axes.set_xlabel("rows per second")
    axes.invert_yaxis()
    axes.legend()
    figure.tight_layout()
    figure.savefig(folder / f"{group}.png", dpi=120)
    pyplot.close(figure)


def show(lines: list[Line]) -> None:
    print(f"{'case':58} {'rows/s':>12} {'peer rows/s':>12} {'ratio':>9} {'required':>9}")
    for line in lines:
        mark = "reached" if line.reached else "MISSED"
        print(
            f"{line.case:58} {line.ours_rows_per_second:>12,} {line.peer_rows_per_second:>12,} "
            f"{line.ratio:>9,.2f} {line.required:>9,.2f} {mark}"
        )


if __name__ == "__main__":
    main()
