"""Rows a second: against peers and a copy of the array, and algorithm against algorithm."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import bottleneck
import numpy as np
import pandas
import polars

import windrow as wr
from benchmarks.algorithms.measure import Row, in_turns, ratio, rounded
from windrow.algorithms import REGISTRY

HERTZ = 100
"""Readings a second of the DEBS12-like series: a slide of 10 ms is one row."""

NAIVE = 1 << 9
"""The longest range for contenders that look at every row of every window."""

QUADRATIC = {"Recal", "numpy"}


def energy(rows: int, seed: int = 12) -> np.ndarray[Any, Any]:
    """Power readings of a machine at 100 Hz: a daily swing, working cycles, and noise."""
    random = np.random.default_rng(seed)
    seconds = np.arange(rows) / HERTZ
    cycle = np.where((seconds // 30).astype(np.int64) % 3 == 0, 4000.0, 1500.0)
    return cycle + 800.0 * np.sin(seconds * (2 * np.pi / 86_400)) + random.normal(0.0, 60.0, rows)


def against_peers(rows: int, ranges: list[int], rounds: int) -> Iterator[list[Row]]:
    """The largest of ``range`` rows, slide 1; every peer computes all windows of the same column."""
    values = np.random.default_rng(4).random(rows)
    series, frame = polars.Series(values), pandas.Series(values)
    for width in ranges:
        count = rows - width + 1
        out, head = np.zeros(count), values[:count]
        peers: dict[str, Callable[[], Any]] = {
            "windrow": lambda: wr.sliding(values, wr.Max(), width, out=out),  # noqa: B023
            "windrow, fresh output": lambda: wr.sliding(values, wr.Max(), width),  # noqa: B023
            "windrow, 2 threads": lambda: wr.sliding(values, wr.Max(), width, out=out, threads=2),  # noqa: B023
            "copy": lambda: np.copyto(out, head),  # noqa: B023
            "fresh copy": lambda: head.copy(),  # noqa: B023
            "bottleneck": lambda: bottleneck.move_max(values, width),  # noqa: B023
            "polars": lambda: series.rolling_max(width),  # noqa: B023
            "pandas": lambda: frame.rolling(width).max(),  # noqa: B023
        }
        if width <= NAIVE // 8:
            peers["numpy"] = lambda: np.lib.stride_tricks.sliding_window_view(values, width).max(axis=1)  # noqa: B023
        yield _rows("max", "count", in_turns(peers, rounds), rows, width, 1)


def count_windows(rows: int, sizes: list[tuple[int, int]], rounds: int) -> Iterator[list[Row]]:
    """Algorithm against algorithm, compiled, for the largest of a uniform series."""
    values = np.random.default_rng(5).random(rows)
    for width, slide in sizes:
        yield _rows("max", "count", in_turns(_algorithms(values, width, slide), rounds), rows, width, slide)


def time_windows(rows: int, sizes: list[tuple[float, float]], rounds: int) -> Iterator[list[Row]]:
    """The same over 100 Hz readings, range and slide in seconds."""
    values = energy(rows)
    for seconds, slide in sizes:
        width, step = round(seconds * HERTZ), round(slide * HERTZ)
        measured = in_turns(_algorithms(values, width, step), rounds)
        yield [
            {**row, "range_s": seconds, "slide_s": slide}
            for row in _rows("max", "time", measured, rows, width, step)
        ]


def _algorithms(values: Any, width: int, slide: int) -> dict[str, Callable[[], Any]]:
    out = np.empty((len(values) - width) // slide + 1)
    contenders: dict[str, Callable[[], Any]] = {
        "copy": lambda: values.copy(),
        "windrow": lambda: wr.sliding(values, wr.Max(), width, slide, out=out),
    }
    for name, kind in sorted(REGISTRY.items()):
        if "invertible" in kind.requires or (name in QUADRATIC and width // slide > NAIVE):
            continue
        contenders[name] = lambda name=name: wr.sliding(
            values, wr.Max(), width, slide, out=out, algorithm=name
        )
    return contenders


def _rows(
    aggregate: str, kind: str, seconds: dict[str, list[float]], rows: int, width: int, slide: int
) -> list[Row]:
    return [
        {
            "aggregate": aggregate,
            "window": kind,
            "range": width,
            "slide": slide,
            "contender": name,
            "million_rows_per_second": rounded(rows / min(taken) / 1e6),
            "times_copy": rounded(ratio(taken, seconds["copy"])),
            "windrow_is_times_as_fast": rounded(ratio(seconds["windrow"], taken)),
        }
        for name, taken in seconds.items()
    ]
