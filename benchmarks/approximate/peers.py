"""What else there is: the exponential histogram, exact AMTA and DABA; and the time of a row as windows grow.

    python -m benchmarks.approximate.peers             # or with --only histogram, exact or flat

It writes ``exponential.csv``, ``exact.csv`` and ``flat.csv``. Times are CPU times. DataSketches is not among the peers: it has no
sketch of a sum, a mean or a maximum, and none from which old rows leave.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

import numpy as np

import windrow as wr
from benchmarks.approximate.__main__ import DATA, RESULTS, ROWS, WINDOW
from benchmarks.approximate.exponential import exponential_histogram
from benchmarks.approximate.measure import measured
from benchmarks.approximate.readings import exact, readings
from benchmarks.approximate.table import Table

CALLS = 1 << 10, 1 << 18
"""Rows of a call while windows slide: no more than the smallest window has; and many."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", choices=("histogram", "exact", "flat"))
    parser.add_argument("--cache", type=Path, default=Path(tempfile.gettempdir()))
    given = parser.parse_args()
    if given.only in (None, "histogram"):
        histogram(given.cache)
    if given.only in (None, "exact"):
        exact_trees(given.cache)
    if given.only in (None, "flat"):
        flat()


def histogram(cache: Path) -> None:
    """The exponential histogram over two years of readings, a month's window."""
    table = Table(RESULTS / "exponential.csv", ("data", "buckets_of_a_size"))
    for data in DATA:
        values = np.asarray(readings(cache, data, ROWS))
        true = exact(values, WINDOW, "sum")
        for each in (51, 501):
            out = np.zeros(len(true))
            begin = time.process_time()
            most, _ = exponential_histogram(values, WINDOW, each, out)
            took = time.process_time() - begin
            share = np.abs(out - true) / np.where(true == 0, 1, true)
            row = {"data": data, "buckets_of_a_size": each, "error_in_rows_percent": 50.0 / (each - 1)}
            row |= {"leaves_most": most, "largest_error_percent": 100.0 * float(share.max())}
            table.add([{**row, "ns_per_row": round(1e9 * took / len(values))}])


def exact_trees(cache: Path) -> None:
    """AMTA and DABA, exact, a month's window over four months of readings, compiled over a column."""
    table = Table(RESULTS / "exact.csv", ("aggregate", "window", "algorithm"))
    some = readings(cache, DATA[0], ROWS)[: 4 * WINDOW].astype(np.float64)
    for name, aggregate in {"mean": wr.Mean(), "max": wr.Max()}.items():
        for algorithm in ("AMTA", "DABA"):
            wr.sliding(some[:100_000], aggregate, 1000, algorithm=algorithm)
            begin = time.process_time()
            wr.sliding(some, aggregate, WINDOW, algorithm=algorithm)
            took = (time.process_time() - begin) / len(some)
            row = {"aggregate": name, "window": WINDOW, "algorithm": algorithm, "leaves": WINDOW}
            table.add([{**row, "ns_per_row": 1e9 * took}])


def flat() -> None:
    """The time of a row, for windows of 2¹⁰ rows and more. All windows get their rows in the same batches."""
    table = Table(RESULTS / "flat.csv", ("window", "rows_of_a_call"))
    draw = np.random.default_rng(0)
    for power in (10, 13, 16, 19, 22, 25):
        window = 1 << power
        values = draw.integers(20_000_000, 30_000_000, window + 4 * CALLS[-1])
        true = exact(values, window, "sum")
        for rows in CALLS:
            row = measured(values, window, "sum", wr.Within(relative=0.01), true, rows)
            found = {name: row[name] for name in ("leaves_most", "ns_per_row")}
            table.add([{"window": window, "rows_of_a_call": rows, **found}])


if __name__ == "__main__":
    main()
