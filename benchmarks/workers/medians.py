"""The median of every window, slide 1: ``wr.Median`` beside bottleneck, pandas and Polars, which have one column and no keys.

The seconds are those of the processor. Runs take turns.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

import windrow as wr
from benchmarks.algorithms.measure import Row, in_turns, ratio, rounded
from windrow.kernels.extents.sliding import SlidingQuantiles

SIZES = (100, 1_000, 10_000, 100_000, 1 << 20)
PEER = "bottleneck move_median"
SHORT = 10_000
"""pandas and Polars take part up to windows of this size: their time grows with it."""


Slides = Callable[[int], Any]


def aggregate(values: Any) -> Slides:
    """A query: rows with times in, a table of windows with their bounds out."""
    return _queried(values, wr.Median("x"))


def quantile(values: Any) -> Slides:
    return _queried(values, wr.Quantile("x", q=0.9))


def _queried(values: Any, of: wr.Aggregate) -> Slides:
    table = pa.table({"ts": np.arange(len(values)), "x": values})

    def run(window: int) -> Any:
        query = wr.Query(window=wr.CountWindow(window, 1), aggregates={"of": of})
        return wr.aggregate(table, query)["of"]

    return run


def sliding(values: Any) -> Slides:
    return lambda window: wr.sliding(values, wr.Median("x"), range=window)


def kernel(values: Any) -> Slides:
    """Without anything around it: extents in, numbers out."""

    def run(window: int) -> Any:
        lo = np.arange(len(values) - window + 1)
        out, ok = np.empty((len(lo), 1)), np.empty(len(lo), dtype=np.bool_)
        SlidingQuantiles(values.dtype, [0.5]).run(values, None, lo, lo + window, out, ok)
        return out[:, 0]

    return run


def bottleneck_median(values: Any) -> Slides:
    import bottleneck

    return lambda window: bottleneck.move_median(values, window)


def pandas_median(values: Any) -> Slides:
    import pandas

    series = pandas.Series(values)
    return lambda window: series.rolling(window).median()


def polars_median(values: Any) -> Slides:
    import polars

    series = polars.Series(values)
    return lambda window: series.rolling_median(window_size=window)


CONTENDERS: dict[str, Callable[[Any], Slides]] = {
    "windrow aggregate": aggregate,
    "windrow aggregate, Quantile": quantile,
    "windrow sliding": sliding,
    "windrow kernel": kernel,
    PEER: bottleneck_median,
    "pandas": pandas_median,
    "polars": polars_median,
}


def compared(share: int, rounds: int) -> Iterator[Row]:
    """Windows per second for each size, contenders in turn over the same rows."""
    present = {name: run for name, run in CONTENDERS.items() if _runs(name, run)}
    for window in SIZES:
        rows = 4 * window if window == SIZES[-1] else max(2_000_000 // share, 2 * window)
        values = np.random.default_rng(3).normal(size=rows)
        some = {
            name: run
            for name, run in present.items()
            if window <= SHORT or name.startswith(("windrow", PEER))
        }
        seconds = in_turns(
            {name: partial(run(values), window) for name, run in some.items()}, rounds, time.process_time
        )
        for name, taken in seconds.items():
            yield {
                "window": window,
                "contender": name,
                "million_windows_per_second": rounded((rows - window + 1) / min(taken) / 1e6),
                "of_bottleneck": rounded(ratio(taken, seconds[PEER])) if PEER in seconds else "",
            }


def _runs(name: str, run: Callable[[Any], Slides]) -> bool:
    """Is the library there, and does it give the medians? It also compiles what is compiled."""
    values = np.random.default_rng(4).normal(size=5000)
    try:
        found = np.asarray(run(values)(1000))[-4001:]
    except ImportError as missing:
        print(f"left out: {name}, {missing}")
        return False
    q = 0.9 if name.endswith("Quantile") else 0.5
    exact = [np.quantile(values[at : at + 1000], q) for at in range(0, 4001, 500)]
    assert np.allclose(found[::500], exact), name
    return True
