"""What must be reached, and what was: every figure is a ratio within one run."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator

import numpy as np
import pyarrow as pa

import windrow as wr
from benchmarks.algorithms.measure import Row, in_turns, ratio, rounded
from windrow.kernels.columns.layout import ColumnOutput, Input, RowSegments
from windrow.kernels.columns.runner import ALL_VALID, Runner


@wr.aggregate_type(partial={"total": "f8", "n": "i8"}, identity=(0.0, 0))
class OwnMean:
    """The mean as the documentation shows it."""

    def lift(x):
        return x, 1

    def combine(a, b):
        return a[0] + b[0], a[1] + b[1]

    def lower(p):
        return p[0] / p[1]


def from_peers(rows: list[Row]) -> Iterator[Row]:
    """The worst range for each peer."""
    for peer, least in (("bottleneck", 3.0), ("polars", 5.0)):
        worst = min(
            (row for row in rows if row["contender"] == peer), key=lambda row: row["windrow_is_times_as_fast"]
        )
        yield _target(
            f"max at its worst range ({worst['range']}): × {peer}", worst["windrow_is_times_as_fast"], least
        )
    for contender, copy, least in (
        ("windrow", "copy", 0.5),
        ("windrow, fresh output", "fresh copy", None),
        ("windrow, 2 threads", "copy", None),
    ):
        ratios = [
            (mine["times_copy"] / theirs["times_copy"], mine["range"])
            for mine in rows
            for theirs in rows
            if (mine["contender"], theirs["contender"]) == (contender, copy)
            and mine["range"] == theirs["range"]
        ]
        worst, at = min(ratios)
        yield _target(f"{contender}, max at its worst range ({at}): × {copy}", worst, least)


def own_aggregate(rows: int, rounds: int) -> Iterator[Row]:
    """A user's aggregate against the built-in; a wide one against its interpreted form."""
    values = np.random.default_rng(9).random(rows)
    seconds = in_turns(
        {
            "own": lambda: wr.sliding(values, OwnMean("x"), 1000),
            "built-in": lambda: wr.sliding(values, wr.Mean(), 1000),
        },
        rounds,
    )
    yield _target(
        "user's mean: × the time of the built-in", ratio(seconds["built-in"], seconds["own"]), 1.3, most=True
    )
    few = values[:20_000] + 0.5
    sketch = wr.MomentSketch(
        k=10, q=0.0
    )  # of the smallest quantile, so that the sketch is timed and not the estimate
    interpreted = Runner(sketch.dense([pa.float64()]), False, compiled=False)
    windows = len(few) - 999
    rows_in, out = Input((few,), ALL_VALID), ColumnOutput(np.empty(windows), np.ones(windows, dtype=np.bool_))
    segments = RowSegments(np.array([0, len(few)]), np.array([0, windows]))
    seconds = in_turns(
        {
            "compiled": lambda: wr.sliding(few, sketch, 1000),
            "interpreted": lambda: interpreted.run(rows_in, segments, out, 1000, 1),
        },
        rounds,
    )
    yield _target(
        "MomentSketch, k = 10: × interpreted", ratio(seconds["compiled"], seconds["interpreted"]), 20.0
    )


def first_calls() -> Iterator[Row]:
    """The first call in a new process, without and with a compile cache, in seconds of the processor."""
    for aggregate in ("Max()", "Mean()", "Sum()", "MomentSketch()"):
        with tempfile.TemporaryDirectory() as cache:
            compiling, cached = (_first_call(aggregate, cache) for _ in range(2))
        yield _target(f"first call of {aggregate}: seconds", compiling, 5.0, most=True)
        yield _target(f"first call of {aggregate} from the cache: seconds", cached, 0.5, most=True)


def flat(rows: list[Row]) -> Iterator[Row]:
    """Time per slide at ranges from 2¹⁰ on, largest over smallest."""
    for name in ("windrow", "SBA", "PBA", "DABALite", "AMTA"):
        rates = [
            row["million_rows_per_second"]
            for row in rows
            if row["contender"] == name and row["range"] >= 1 << 10 and row["slide"] == 1
        ]
        if rates:
            yield _target(
                f"{name}: slowest over fastest slide, ranges from 2^10",
                max(rates) / min(rates),
                1.2 / 0.8,
                most=True,
            )


def worst_latency(rows: list[Row]) -> Iterator[Row]:
    at = {row["algorithm"]: row for row in rows if row["window"] == "2^14 rows"}
    if "PBA" in at and "TwoStacks" in at:
        worst, longest = (at["PBA"][name] / at["TwoStacks"][name] for name in ("worst_slide_ns", "max_ns"))
        yield _target("PBA's worst slide: × TwoStacks' (2^14 rows)", worst, 0.1, most=True)
        yield _target("PBA's longest slide, interruptions included: × TwoStacks'", longest, None)


def _target(what: str, reached: float, wanted: float | None, most: bool = False) -> Row:
    met = "" if wanted is None else "yes" if (reached <= wanted if most else reached >= wanted) else "no"
    return {
        "what": what,
        "reached": rounded(reached),
        "wanted": "" if wanted is None else f"{'≤' if most else '≥'} {wanted:g}",
        "met": met,
    }


def _first_call(aggregate: str, cache: str) -> float:
    code = (
        "import time, numpy, windrow as wr\n"
        "values = numpy.random.default_rng(0).random(10_000)\n"
        "begin = time.process_time()\n"
        f"wr.sliding(values, wr.{aggregate}, 9_990)\n"
        "print(time.process_time() - begin)\n"
    )
    ran = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "NUMBA_CACHE_DIR": cache},
        capture_output=True,
        text=True,
        check=True,
    )
    return float(ran.stdout)
