"""The right half of Table 5.1 of the MTA thesis: maxima, predicted from the maxima of blocks of B readings.

    python -m benchmarks.approximate.blocks

The operator has no B: its blocks are a thirtieth of the window. So this is a loop of its own, with the predictors of
:mod:`windrow.approximate.prediction`: the rule as it is printed, and as it is corrected. *Printed*: a value inside the interval
of block maxima starts a bucket, all others join the last one. *Corrected*: the interval is that of a window's maximum, and
a value above it starts a bucket too. A bucket stays as long as one of its readings is in the window. It writes ``blocks.csv``, and
the errors of all windows as distributions (Figure 5.6), ``distributions_blocks.csv``.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchmarks.approximate.__main__ import DATA, RESULTS, ROWS, WINDOW
from benchmarks.approximate.measure import SHARES
from benchmarks.approximate.readings import exact, readings
from benchmarks.approximate.table import Table
from windrow.approximate.prediction import extreme_interval
from windrow.kernels.specialise import specialise

BLOCKS = 30
SIZES = (10, 100, 1000, 10_000, 100_000, 1_000_000)


class Found(NamedTuple):
    """Buckets made, the most at a time, right results, the largest relative error; and how many errors are up to each share."""

    told: Any
    shares: Any
    counts: Any


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cache", type=Path, default=Path(tempfile.gettempdir()))
    given = parser.parse_args()
    table = Table(RESULTS / "blocks.csv", ("data", "rule", "block"))
    errors = Table(RESULTS / "distributions_blocks.csv", ("data", "aggregate", "within", "relative_error"))
    kernel = specialise(sys.modules[__name__], {}, compiled=True)
    for data in DATA:
        values = np.asarray(readings(given.cache, data, ROWS))
        true = exact(values, WINDOW, "max")
        for size in SIZES:
            for rule in ("printed", "corrected"):
                begin = time.process_time()
                found, work, counts = np.zeros(4), _work(WINDOW), np.zeros(len(SHARES) + 1, dtype=np.int64)
                out = Found(found, SHARES, counts)
                kernel.predicted_maxima(values, WINDOW, size, rule == "corrected", true, work, out)
                row = {"data": data, "rule": rule, "block": size, "readings": len(values)}
                row |= _told(found, len(values), len(true))
                table.add([{**row, "ns_per_row": round(1e9 * (time.process_time() - begin) / len(values))}])
                print(row, flush=True)
                what = {"data": data, "aggregate": f"max by blocks, {rule}", "within": f"block={size}"}
                below = np.cumsum(counts[:-1]) / len(true)
                errors.add(
                    {**what, "relative_error": f"{share:.3g}", "windows": round(part, 6)}
                    for share, part in zip(SHARES.tolist(), below.tolist(), strict=True)
                )


def _work(window: int) -> tuple[Any, ...]:
    """Room for the ends of buckets, for steps of the staircase and their heights, and for block maxima."""
    return (*(np.zeros(window + 1, dtype=np.int64) for _ in range(3)), np.zeros(BLOCKS), np.zeros(BLOCKS))


def _told(found: Any, rows: int, windows: int) -> dict[str, Any]:
    made, most, right, worst = found.tolist()
    return {
        "footprint_percent": 100.0 * made / rows,
        "leaves_most": int(most),
        "exact_percent": 100.0 * right / windows,
        "largest_error_percent": 100.0 * worst,
    }


def predicted_maxima(values, window, size, corrected, true, work, out):  # type: ignore[no-untyped-def]
    """Fill ``out``, a :class:`Found`.

    ``ends`` has the last readings of closed buckets, ``steps`` and ``tops`` those that may yet be a maximum.
    """
    ends, steps, tops, maxima, sample = work
    found = out.told
    room = window + 1
    first = last = gone = closed = 0
    low, high, block_top, top = -np.inf, np.inf, -1, values[0]
    blocks = window / size if corrected else 1.0
    for row in range(len(values)):
        value = values[row]
        if row > 0 and value >= low and (corrected or value <= high):
            ends[closed % room] = row - 1
            while last > first and tops[(last - 1) % room] <= top:
                last -= 1
            steps[last % room], tops[last % room] = row - 1, top
            last, closed, top = last + 1, closed + 1, value
        else:
            top = max(top, value)
        while gone < closed and ends[gone % room] <= row - window:
            gone += 1
        while first < last and steps[first % room] <= row - window:
            first += 1
        found[1] = max(found[1], closed - gone + 1)
        block_top = max(block_top, value)
        if (row + 1) % size == 0:
            maxima[(row // size) % BLOCKS] = block_top
            block_top = -1
            if row // size >= BLOCKS - 1:
                sample[:] = maxima
                sample.sort()
                low, high = extreme_interval(sample, blocks, 0.95)
        if row >= window - 1:
            result = max(top, tops[first % room]) if first < last else top
            right = true[row - window + 1]
            if result == right:
                found[2] += 1
                out.counts[0] += 1
            else:
                error, bin_ = abs(result - right) / right, len(out.shares)
                found[3] = max(found[3], error)
                while bin_ > 1 and error <= out.shares[bin_ - 1]:
                    bin_ -= 1
                out.counts[bin_] += 1
    found[0] = closed + 1


if __name__ == "__main__":
    main()
