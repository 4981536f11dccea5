"""Spark benchmarks: ``python -m benchmarks.spark [--rows 2000000] [--only batch,break-even,streaming,latency] [--out folder]``.

Every number of ours has its peers from the same run, on the same rows, warm, with the same number of rounds, in turn. Results
go to CSV files and plots.
"""

from __future__ import annotations

import argparse
import csv
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, astuple, fields
from pathlib import Path

from benchmarks.spark import batch, break_even, latency, plots, streaming
from benchmarks.spark.measure import Line, measured
from benchmarks.spark.session import session

ROUNDS = 2


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.spark")
    parser.add_argument("--rows", type=int, default=2_000_000, help="rows of the larger inputs")
    parser.add_argument(
        "--only", default="batch,break-even,streaming,latency", help="which parts, with commas"
    )
    parser.add_argument("--case", default="", help="only cases whose name contains this")
    parser.add_argument("--loads", type=int, default=len(latency.LOADS), help="only so many loads of latency")
    parser.add_argument("--quick", action="store_true", help="few loads of latency: some minutes")
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/spark"))
    options = parser.parse_args()
    parts: dict[str, Callable[[Path, argparse.Namespace], None]] = {
        "batch": _batch,
        "break-even": _break_even,
        "streaming": _streaming,
        "latency": _latency,
    }
    for name in options.only.split(","):
        print(f"{name} …", file=sys.stderr, flush=True)
        with tempfile.TemporaryDirectory(prefix="windrow-benchmark-") as folder:
            parts[name](Path(folder), options)


def _batch(folder: Path, options: argparse.Namespace) -> None:
    spark = session(folder)
    cases = [case for case in batch.cases(spark, options.rows) if options.case in case.name]
    lines: list[Line] = []
    for case in cases:
        lines += measured(case, ROUNDS)
        _write(lines, options.out, "batch")
    _show(lines)
    spark.stop()


def _break_even(folder: Path, options: argparse.Namespace) -> None:
    spark = session(folder)
    found = []
    for cell in break_even.cells(spark, options.rows // 5, ROUNDS):
        found.append(cell)
        break_even.write(found, options.out)
    spark.stop()
    with _plotted():
        plots.draw([asdict(cell) for cell in found], options.out / "break-even.svg")


def _streaming(folder: Path, options: argparse.Namespace) -> None:
    spark = session(folder)
    cases = [case for case in streaming.cases(options.rows // 2) if options.case in case.name]
    lines: list[Line] = []
    for case in cases:
        lines += streaming.measured(spark, case, folder)
        _write(lines, options.out, "streaming")
    _show(lines)
    spark.stop()


def _latency(folder: Path, options: argparse.Namespace) -> None:
    listed = latency.QUICK if options.quick else latency.LOADS
    loads = [load for load in listed[: options.loads] if load.rows <= options.rows]
    found = []
    for each in latency.measure(loads, folder):
        print(f"    {each}", file=sys.stderr, flush=True)
        found.append(each)
        latency.write(found, options.out)
    with _plotted():
        plots.draw_latency([asdict(each) for each in found], options.out / "latency.svg")


@contextmanager
def _plotted() -> Iterator[None]:
    try:
        yield
    except ModuleNotFoundError as missing:
        print(f"no plot without {missing.name}: python -m benchmarks.redraw draws it later", file=sys.stderr)


def _write(lines: list[Line], folder: Path, name: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / f"{name}.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow([field.name for field in fields(Line)])
        writer.writerows(astuple(line) for line in lines)


def _show(lines: list[Line]) -> None:
    print(f"{'case':50} {'rows/s':>12} {'peer':44} {'rows/s':>12} {'ratio':>9} {'required':>9}")
    for line in lines:
        mark = "" if line.reached == "" else "reached" if line.reached else "MISSED"
        print(
            f"{line.case:50} {line.ours_rows_per_second:>12,} {line.peer:44} {line.peer_rows_per_second:>12,} "
            f"{line.ratio:>9,.2f} {line.required!s:>9.4} {mark}"
        )


if __name__ == "__main__":
    main()
