"""What else there is: the exponential histogram, exact AMTA and DABA; and the time of a row as windows grow.

    python -m benchmarks.approximate.peers

It writes ``exponential.csv``, ``exact.csv`` and ``flat.csv``. Times are CPU times.
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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cache", type=Path, default=Path(tempfile.gettempdir()))
    given = parser.parse_args()
    flat()
    histogram, trees = (
        Table(RESULTS / "exponential.csv", ("data", "buckets_of_a_size")),
        Table(RESULTS / "exact.csv", ("aggregate", "window", "algorithm")),
    )
    for data in DATA:
        values = np.asarray(readings(given.cache, data, ROWS))
        true = exact(values, WINDOW, "sum")
        for each in (51, 501):
            out = np.zeros(len(true))
            begin = time.process_time()
            most, _ = exponential_histogram(values, WINDOW, each, out)
            took = time.process_time() - begin
            share = np.abs(out - true) / np.where(true == 0, 1, true)
            row = {"data": data, "buckets_of_a_size": each, "error_in_rows_percent": 50.0 / (each - 1)}
            row |= {"leaves_most": most, "largest_error_percent": 100.0 * float(share.max())}
            histogram.add([{**row, "ns_per_row": round(1e9 * took / len(values))}])
    some = readings(given.cache, DATA[0], ROWS)[: 4 * WINDOW].astype(np.float64)
    for name, aggregate in {"mean": wr.Mean(), "max": wr.Max()}.items():
        for algorithm in ("AMTA", "DABA"):
            wr.sliding(some[:100_000], aggregate, 1000, algorithm=algorithm)
            begin = time.process_time()
            wr.sliding(some, aggregate, WINDOW, algorithm=algorithm)
            took = (time.process_time() - begin) / len(some)
            trees.add(
                [{"aggregate": name, "window": WINDOW, "algorithm": algorithm, "ns_per_row": 1e9 * took}]
            )


def flat() -> None:
    """The time of a row, for windows of 2¹⁰ rows and more."""
    table = Table(RESULTS / "flat.csv", ("window",))
    draw = np.random.default_rng(0)
    for power in (10, 13, 16, 19, 22, 25):
        window = 1 << power
        values = draw.integers(20_000_000, 30_000_000, window + (1 << 22))
        row = measured(values, window, "sum", wr.Within(relative=0.01), exact(values, window, "sum"))
        table.add([{"window": window, **{name: row[name] for name in ("leaves_most", "ns_per_row")}}])


if __name__ == "__main__":
    main()
