"""Agnostic workers on two cores: what Figs 11 to 16 of De Matteis and Mencagli (2017) measure on 24, scaled down.

The paper fits a polynomial by Levenberg–Marquardt to the quotes of each window. Here the windows of all symbols are
computed by one operator, with one and with two workers; contenders take turns.
"""

from __future__ import annotations

import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import numba
import numpy as np
import pyarrow as pa

import windrow as wr
from benchmarks.algorithms.measure import Row, in_turns, ratio, rounded

WORKERS = (1, 2)


def parabola(x: Any, p: Any) -> Any:
    return p[0] + x * (p[1] + x * p[2])


def quotes(rows: int, per_second: int, symbols: int = 1) -> pa.Table:
    """Bids of some symbols at a steady rate."""
    random = np.random.default_rng(7)
    seconds = np.arange(rows) / per_second
    return pa.table(
        {
            "symbol": random.integers(0, symbols, rows),
            "ts": (seconds * 1e6).astype(np.int64),
            "at": seconds % 60.0,
            "bid": 100.0 + np.cumsum(random.normal(0.0, 0.01, rows)),
        }
    )


def fit() -> wr.Aggregate:
    return wr.LevenbergMarquardt(parabola, "at", "bid", p0=(100.0, 0.0, 0.0))


def _query(window: Any, aggregate: wr.Aggregate) -> wr.Query:
    return wr.Query(by="symbol", window=window, aggregates={"fit": aggregate})


def by_workers(rows: int, rounds: int) -> list[Row]:
    """Windows per second over range and slide, time windows and slide-by-tuple, with one worker and with two."""
    table, measured = quotes(rows, 10_000), []
    windows = {
        f"time {length}/{slide}": wr.TimeWindow(length, slide)
        for length, slide in (("100ms", "10ms"), ("1s", "100ms"), ("1s", "10ms"))
    }
    windows["slide by tuple 1s/400"] = wr.SlideByTuple("1s", 400)
    for name, window in windows.items():
        query = _query(window, fit())
        runs: dict[str, Callable[[], Any]] = {
            str(count): lambda query=query, count=count: wr.aggregate(table, query, workers=count)
            for count in WORKERS
        }
        found = runs["1"]().num_rows
        seconds = in_turns(runs, rounds)
        for count in WORKERS:
            taken = statistics.median(seconds[str(count)])
            measured.append(
                {
                    "window": name,
                    "workers": count,
                    "windows": found,
                    "windows_per_second": rounded(found / taken),
                    "microseconds_per_window": rounded(1e6 * taken / found),
                    "times_one_worker": rounded(ratio(seconds[str(count)], seconds["1"])),
                }
            )
    return measured


def costly(y: Any) -> Any:
    """Work in proportion to the rows."""
    total = 0.0
    for value in y:
        total += np.sqrt(np.abs(np.sin(value)))
    return total


@numba.njit(nogil=True)
def _by_hand(y: Any, lo: Any, hi: Any, out: Any) -> None:
    for w in range(len(lo)):
        total = 0.0
        for row in range(lo[w], hi[w]):
            total += np.sqrt(np.abs(np.sin(y[row])))
        out[w] = total


def slow(y: Any) -> float:
    """Not compiled: sorted() of a list of Python numbers."""
    return float(sum(sorted(y.tolist())[:10]))


def apply(rows: int, rounds: int) -> list[Row]:
    """``Apply`` beside a loop by hand over the same column; even and uneven windows; Python functions."""
    y = np.random.default_rng(1).normal(size=rows)
    even = pa.table({"symbol": np.zeros(rows, np.int64), "ts": np.arange(rows), "y": y})
    gaps = np.where(np.arange(rows) % 2000 < 1800, 1, 9)  # 1,800 rows close together, then 200 that are not
    uneven = even.set_column(1, "ts", pa.array(np.cumsum(gaps)))
    lo = np.arange(0, rows - 1000 + 1, 100)
    out = np.empty(len(lo))
    count = _query(wr.CountWindow(1000, 100), wr.Apply(costly, "y"))
    time_ = _query(wr.TimeWindow(1800, 1800), wr.Apply(costly, "y"))
    python = _query(wr.CountWindow(1000, 100), wr.Apply(slow, "y"))
    runs: dict[str, Callable[[], Any]] = {"numba by hand": lambda: _by_hand(y, lo, lo + 1000, out)}
    for name, data, query in (("even", even, count), ("uneven", uneven, time_), ("python", even, python)):
        for workers in WORKERS:
            runs[f"{name}, workers={workers}"] = lambda d=data, q=query, w=workers: wr.aggregate(
                d, q, workers=w
            )
    seconds = in_turns(runs, rounds)
    return [
        {
            "contender": name,
            "seconds": rounded(statistics.median(taken)),
            "times_by_hand": rounded(ratio(taken, seconds["numba by hand"]))
            if name == "even, workers=1"
            else "",
            "times_one_worker": rounded(ratio(taken, seconds[name[:-1] + "1"])) if name.endswith("2") else "",
        }
        for name, taken in seconds.items()
    ]


def live(rate: int, seconds: int) -> Row:
    """The paper's stream: 200,000 quotes a second, slide-by-tuple 4,000, range 3 s. How long does a second of it take?"""
    table = quotes(rate * seconds, rate)
    query = _query(wr.SlideByTuple("3s", 4000), fit())
    operator, taken, windows = wr.Operator(query, table.schema, workers=2), [], 0
    for begin in range(0, table.num_rows, rate // 10):
        batch = table.slice(begin, rate // 10)
        before = time.perf_counter()
        operator.process(batch)
        windows += operator.advance(int(batch["ts"][-1].as_py())).num_rows
        taken.append(time.perf_counter() - before)
    full = taken[len(taken) // 2 :]
    return {
        "quotes_per_second": rate,
        "windows": windows,
        "seconds_of_work_per_second": rounded(10 * statistics.mean(full)),
        "slowest_tenth_of_a_second": rounded(max(full)),
    }


def memory(rows: int) -> Row:
    """The most memory while a window of so many rows slides by 1,000, in bytes of such a window; in a fresh process."""
    program = f"from benchmarks.workers.models import peak; print(peak({rows}))"
    grown = int(
        subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True).stdout
    )
    return {"rows": rows, "bytes_of_a_window": 8 * rows, "peak_in_windows": rounded(grown / (8 * rows))}


def peak(rows: int) -> int:
    """By how many bytes this process grows, after a short run that loads all code."""
    query = _query(wr.CountWindow(1000, 100), wr.Apply(costly_end, "y"))
    _slide(query, 20_000)
    before = _peak()
    _slide(_query(wr.CountWindow(rows, 1000), wr.Apply(costly_end, "y")), 4 * rows)
    return _peak() - before


def _slide(query: wr.Query, rows: int) -> None:
    operator = wr.Operator(query)
    for begin in range(0, rows, 10_000):
        times = np.arange(begin, begin + 10_000)
        operator.process(pa.table({"symbol": np.zeros(10_000, np.int64), "ts": times, "y": times / 7.0}))
        operator.advance(begin + 10_000)


def costly_end(y: Any) -> Any:
    return y[-1] - y[0]


def _peak() -> int:
    return 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
