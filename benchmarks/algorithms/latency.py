"""What one slide takes, and at worst: Tables 2 and 3 of the PBA paper.

Max over count windows of 2¹³ and 2¹⁴ rows, slide 1; MomentSketch (k = 10) over time windows of 1 and 2 hours
that slide by a second, whose slices are aggregated already, so that a slide is what the paper times: slice
in, window out. The first 3 % of the windows are left out, as there.

A run is repeated over the same rows. ``max_ns`` is the smallest of the runs' maxima; it still holds what the
machine did meanwhile, some 15 µs in every run here, also for algorithms that have nothing to do in any slide.
So ``worst_slide_ns`` takes of each slide its shortest time in all runs, and then the longest slide: what an
algorithm does at a boundary or a flip it does at the same slide in every run, an interruption comes anywhere.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa

import windrow as wr
from benchmarks.algorithms.clock import resolution, stamping, ticks_per_ns
from benchmarks.algorithms.measure import Row, rounded
from windrow.algorithms import REGISTRY
from windrow.errors import PropertyError

ALGORITHMS = ("TwoStacks", "TwoStacksLite", "DABA", "DABALite", "SlickDeque", "FlatFIT", "AMTA", "SBA", "PBA")

CASES = [
    ("max", wr.Max(), "2^13 rows", 1 << 13),
    ("max", wr.Max(), "2^14 rows", 1 << 14),
    ("MomentSketch", wr.MomentSketch(), "1 h of 1 s slices", 3_600),
    ("MomentSketch", wr.MomentSketch(), "2 h of 1 s slices", 7_200),
]


def summaries(windows: int, repeats: int) -> Iterator[list[Row]]:
    """Min, max, mean, standard deviation and quartiles of the time per slide, ns, for every algorithm."""
    tick, floor = ticks_per_ns(), rounded(resolution())
    for name, aggregate, label, slices in CASES:
        values = np.random.default_rng(6).random(windows + slices - 1) + 0.5
        monoid = stamping(aggregate.dense([pa.float64()]))
        rows = []
        for algorithm in ALGORITHMS:
            try:
                REGISTRY[algorithm].check(monoid)
            except PropertyError:
                continue
            runs = [_slides(values, monoid, slices, algorithm, tick) for _ in range(repeats + 1)][1:]
            rows.append({"aggregate": name, "window": label, "algorithm": algorithm, **_summary(runs)})
        for row in rows:
            row["clock_resolution_ns"] = floor
        yield rows


def _slides(values: Any, monoid: Any, slices: int, algorithm: str, tick: float) -> Any:
    stamps = wr.sliding(values, monoid, slices, algorithm=algorithm)
    return np.diff(stamps)[len(stamps) * 3 // 100 :] / tick


def _summary(runs: list[Any]) -> Row:
    """The median over the runs of each figure; of the maximum, the smallest, and that of single slides."""
    figures = {
        "min_ns": np.min,
        "mean_ns": np.mean,
        "std_ns": np.std,
        "lower_quartile_ns": lambda run: np.percentile(run, 25),
        "median_ns": np.median,
        "upper_quartile_ns": lambda run: np.percentile(run, 75),
        "p99_99_ns": lambda run: np.percentile(run, 99.99),
    }
    row = {name: rounded(float(np.median([figure(run) for run in runs]))) for name, figure in figures.items()}
    row["worst_slide_ns"] = rounded(float(np.min(runs, axis=0).max()))
    return {**row, "max_ns": rounded(float(min(np.max(run) for run in runs)))}
