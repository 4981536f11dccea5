"""Figures 5.9 to 5.11 of the MTA thesis: how long an update takes in A²MTA and in AMTA, as a distribution.

    python -m benchmarks.approximate.times

Update by update from Python: an insertion, the eviction that it makes due, and a query. As in ``hops``, time is divided by 96: a
window of 27,000 readings. In the hopping window a third of it leaves at once. It writes ``times.csv``: for each share of the updates,
the time that they do not exceed, on the clock. The machine has to be quiet.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

import windrow as wr
from benchmarks.approximate.__main__ import RESULTS, ROWS, WINDOW
from benchmarks.approximate.hops import SCALE
from benchmarks.approximate.readings import readings
from benchmarks.approximate.table import Table
from windrow.algorithms import REGISTRY

UPDATES = 30_000
SHARES = (0.01, 0.05, 0.1, 0.25, 0.5, 0.75, 0.8, 0.9, 0.95, 0.99, 0.999)
SIZE = WINDOW // SCALE
FIGURES: dict[str, tuple[Any, dict[str, Any], int]] = {
    "5.9, mean within 0.1 %": (wr.Mean(), {"within": wr.Within(relative=0.001, confidence=0.95)}, 1),
    "5.10, max within 1 %": (wr.Max(), {"within": wr.Within(relative=0.01, confidence=0.95)}, 1),
    "5.11, hops of the mean": (
        wr.Mean(),
        {"within": wr.Within(relative=1e-9, confidence=0.95), "hop": True},
        SIZE // 3,
    ),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cache", type=Path, default=Path(tempfile.gettempdir()))
    given = parser.parse_args()
    values = readings(given.cache, "stationary", ROWS)[::SCALE].astype(np.float64)
    table = Table(RESULTS / "times.csv", ("figure", "window", "share"))
    for figure, (aggregate, options, hop) in FIGURES.items():
        windows = {
            "AMTA": REGISTRY["AMTA"](aggregate, capacity=SIZE + 1),
            "A2MTA": REGISTRY["A2MTA"](aggregate, **options),
        }
        for name, window in windows.items():
            taken = timed(window, values, hop)
            table.add(
                {"figure": figure, "window": name, "share": share, "microseconds": float(at) / 1e3}
                for share, at in zip(SHARES, np.quantile(taken, SHARES), strict=True)
            )


def timed(window: Any, values: Any, hop: int) -> Any:
    """The times of updates, ns, of a window that is full, and that has seen the evictions which predictions need."""
    lift = window.monoid.lift
    partials = [lift(value) for value in values[: SIZE + 34 * hop + UPDATES].tolist()]
    taken = np.zeros(UPDATES, dtype=np.int64)
    for at, partial in enumerate(partials, UPDATES - len(partials)):
        begin = time.perf_counter_ns()
        window.insert(partial)
        if len(window) > SIZE:
            window.evict(hop)
        window.query()
        if at >= 0:
            taken[at] = time.perf_counter_ns() - begin
    return taken


if __name__ == "__main__":
    main()
