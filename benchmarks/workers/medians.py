"""The median of every window, slide 1: ``wr.Median`` beside bottleneck, which has one column, no keys and no times."""

from __future__ import annotations

from functools import partial
from typing import Any

import bottleneck
import numpy as np
import pyarrow as pa

import windrow as wr
from benchmarks.algorithms.measure import Row, in_turns, ratio, rounded
from windrow.kernels.extents.sliding import SlidingQuantiles

SIZES = (100, 1_000, 10_000, 100_000, 1 << 20)


def aggregate(values: Any, window: int) -> Any:
    """A query with one key: rows in, a table of windows with their bounds out."""
    query = wr.Query(window=wr.CountWindow(window, 1), aggregates={"middle": wr.Median("x")})
    return wr.aggregate(pa.table({"ts": np.arange(len(values)), "x": values}), query)


def sliding(values: Any, window: int) -> Any:
    return wr.sliding(values, wr.Median("x"), range=window)


def kernel(values: Any, window: int) -> Any:
    windows = len(values) - window + 1
    lo = np.arange(windows)
    out, ok = np.empty((windows, 1)), np.empty(windows, dtype=np.bool_)
    SlidingQuantiles(values.dtype, [0.5]).run(values, None, lo, lo + window, out, ok)
    return out


CONTENDERS = {
    "windrow aggregate": aggregate,
    "windrow sliding": sliding,
    "windrow kernel": kernel,
    "bottleneck move_median": lambda values, window: bottleneck.move_median(values, window),
}


def compared(rows: int, rounds: int) -> list[Row]:
    """Windows per second for each size, contenders in turn over the same rows."""
    values = np.random.default_rng(3).normal(size=rows)
    for run in CONTENDERS.values():
        run(values[:5000], 1000)
    measured: list[Row] = []
    for window in SIZES:
        seconds = in_turns({name: partial(run, values, window) for name, run in CONTENDERS.items()}, rounds)
        measured += [
            {
                "window": window,
                "contender": name,
                "million_windows_per_second": rounded((rows - window + 1) / min(taken) / 1e6),
                "share_of_bottleneck": rounded(ratio(taken, seconds["bottleneck move_median"])),
            }
            for name, taken in seconds.items()
        ]
    return measured
