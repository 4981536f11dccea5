"""The exponential histogram of Datar, Gionis, Indyk and Motwani (SODA 2002) over rows, with the sum of each bucket.

Buckets have 1, 2, 4, … rows, at most ``each`` of a size; when there is one more, the two oldest of that size merge. A
window lacks half of its oldest bucket, on the average, so its error is bounded in rows: 1 / (2·(each - 1)) of them.
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np


@numba.njit(cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def exponential_histogram(values: Any, window: int, each: int, out: Any) -> tuple[int, int]:
    """The sum of every window, the oldest bucket counted half. Returns the most buckets, and how many were merged."""
    levels = 48
    ends = np.zeros(
        (levels, each + 2), np.int64
    )  # of each bucket: the position of its newest row, oldest first
    sums = np.zeros((levels, each + 2))
    held = np.zeros(levels, np.int64)
    total, buckets, most, merged, top = 0.0, 0, 0, 0, 0
    for row in range(len(values)):
        ends[0, held[0]], sums[0, held[0]] = row, values[row]
        held[0] += 1
        buckets += 1
        total += values[row]
        level = 0
        while held[level] > each:
            end, both = ends[level, 1], sums[level, 0] + sums[level, 1]
            for n in range(2, held[level]):
                ends[level, n - 2], sums[level, n - 2] = ends[level, n], sums[level, n]
            held[level] -= 2
            level += 1
            ends[level, held[level]], sums[level, held[level]] = end, both
            held[level] += 1
            top = max(top, level)
            buckets -= 1
            merged += 1
        while held[top] == 0:
            top -= 1
        if ends[top, 0] <= row - window:
            total -= sums[top, 0]
            for n in range(1, held[top]):
                ends[top, n - 1], sums[top, n - 1] = ends[top, n], sums[top, n]
            held[top] -= 1
            buckets -= 1
            while held[top] == 0:
                top -= 1
        most = max(most, buckets)
        if row >= window - 1:
            out[row - window + 1] = total - sums[top, 0] / 2.0
    return most, merged
