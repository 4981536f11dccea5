# SPDX-License-Identifier: Apache-2.0
"""Between which bounds the true results of due windows lie.

A window that begins at the start of a slice is exact. One that begins inside a bucket has the slices after the bucket,
the *rest*, and a suffix of the bucket. What is known of both gives the bounds. Rounding only makes them wider.

Every function is specialised for the buckets of one aggregate, as in :mod:`windrow.kernels.slices.combine`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from windrow.approximate.prediction import with_result
from windrow.kernels.partials import clear, copy, merge
from windrow.kernels.rounding import down, larger, smaller, up
from windrow.kernels.slices.bucket_layout import (
    AVERAGE,
    COUNT,
    EXTREME,
    FEW,
    HIGH,
    LARGEST,
    LEAST,
    LOW,
    MANY,
    MEAN,
    MOST,
    NULL,
    NUMBER,
    ROWS_MEAN,
    ROWS_SQUARES,
    SAMPLED,
    SMALLEST,
    SQUARES,
    SURE,
    UNKNOWN,
    N,
)
from windrow.kernels.slices.buckets import is_bucket
from windrow.kernels.slices.combine import extend_csa, fill_lcs
from windrow.kernels.slices.layout import NONE


def bound(partials, slices, due, slots, keys, found, count, kind, counting, sampling):
    """The bounds of due windows, in the order in which they were planned. ``sampling`` keeps their results for predictions."""
    parts, lcs, csa, scratch = partials.parts, partials.lcs, partials.csa, partials.scratch
    for w in range(count):
        base = due.which[w] * slots
        at = due.which[w] * keys + due.key[w]
        lo, hi = due.lo[w], due.hi[w]
        if due.flip[w]:
            fill_lcs(parts, lcs, slices.older, lo, hi, base)
            clear(csa, at)
            copy(scratch, 0, lcs, base + lo)
        else:
            extend_csa(parts, csa, at, slices.newer, due.back[w], hi)
            merge(scratch, 0, lcs, base + lo, csa, at)
        bucket = slices.older[lo]
        inside = bucket != NONE and slices.stop[bucket] >= due.start[w]
        found.inside[w] = inside
        found.missing[w] = 0
        found.state[w] = NUMBER
        if inside:
            rows = suffix_length(parts, bucket, slices.stamp[lo] - due.start[w], slices, counting)
            bound_inside(parts, bucket, scratch, kind, rows, found, w)
        if sampling:
            keep_result(parts, hi, scratch, kind, found, w)


def bound_searched(parts, slices, due, rests, work, found, count, kind, sampling):
    """The bounds of windows whose beginning was searched: ``rests`` has what is certain, and nothing to all of a bucket follows.

    The last bucket that was evicted may be in the window from its second row on, or not at all.
    """
    for w in range(count):
        bucket = slices.older[due.lo[w]]
        inside = is_bucket(bucket, parts[MANY])
        found.inside[w] = inside
        found.missing[w] = 0
        found.state[w] = NUMBER
        copy(work, 0, rests, w)
        if inside:
            copy(work, 1, parts, bucket)
            nothing = -np.inf if kind == EXTREME else 0.0
            work[LEAST][1] = smaller(work[LEAST][1], nothing)
            work[MOST][1] = larger(work[MOST][1], nothing)
            bound_inside(work, 1, work, kind, (0, parts[MANY][bucket]), found, w)
        if sampling:
            keep_result(parts, due.hi[w], work, kind, found, w)


def suffix_length(parts, bucket, left, slices, counting):
    """How many rows the suffix has at the least and at the most. Positions of rows tell it, if every row counts."""
    span = slices.stamp[slices.newer[bucket]] - slices.stamp[bucket]
    if counting and parts[N][bucket] == span:
        return left, left
    return parts[FEW][bucket], parts[MANY][bucket]


def bound_inside(parts: Any, bucket: Any, rest: Any, kind: Any, rows: Any, found: Any, w: Any) -> None:
    """The bounds of a window that begins inside a bucket."""
    few, many = rows
    n = rest[N][0]
    found.missing[w] = many
    if n + few < 1 and kind != COUNT:
        found.state[w] = NULL if n + many < 1 else UNKNOWN
    least, most = parts[LEAST][bucket], parts[MOST][bucket]
    low, high = rest[LOW][0], rest[HIGH][0]
    if kind == COUNT:
        found.low[w], found.high[w] = n + few, n + many
    elif low != low or high != high:  # NaN after the bucket: NaN for certain
        found.low[w] = found.high[w] = np.nan
        found.state[w] = SURE
    elif kind == EXTREME:
        found.low[w], found.high[w] = larger(low, least), larger(high, most)
    else:
        smallest, largest = parts[SMALLEST][bucket], parts[LARGEST][bucket]
        if few == many and few > 0:  # rows of values between two bounds
            least = larger(least, np.nextafter(few * smallest, -np.inf))
            most = smaller(most, np.nextafter(few * largest, np.inf))
        low, high = down(low, least), up(high, most)
        if kind == AVERAGE:
            low, high = between_means(low, high, n + few, n + many)
            if low != high:
                low, high = tightened(rest, low, high, rows, smallest, largest)
        found.low[w], found.high[w] = low, high


def between_means(low, high, fewest, most):
    """A sum between two bounds over a count between two."""
    fewest = max(fewest, 1)
    most = max(most, 1)
    if low == high and fewest == most:
        return low / fewest, low / fewest
    least = min(low / fewest, low / most)
    largest = max(high / fewest, high / most)
    return np.nextafter(least, -np.inf), np.nextafter(largest, np.inf)


def tightened(rest, low, high, rows, smallest, largest):
    """Bounds of a mean, with what the values of the missing rows are: it is monotone in how many there are."""
    n = rest[N][0]
    few, many = rows
    if n + few < 1 or not abs(smallest) + abs(largest) < np.inf:
        return low, high
    below = min(
        down(rest[LOW][0], few * smallest) / (n + few), down(rest[LOW][0], many * smallest) / (n + many)
    )
    above = max(up(rest[HIGH][0], few * largest) / (n + few), up(rest[HIGH][0], many * largest) / (n + many))
    wide = 4e-16 * max(abs(below), abs(above))
    return larger(low, below - wide), smaller(high, above + wide)


def keep_result(parts: Any, slot: Any, rest: Any, kind: Any, found: Any, w: Any) -> None:
    """Add the result of a window, and its number of rows, to the sample of the slice that it ends with."""
    if kind == EXTREME:
        return
    result = rest[HIGH][0]
    rows = float(rest[N][0])
    if found.inside[w]:
        bucket_rows = found.missing[w] / 2.0
        rows += bucket_rows
        middle = found.low[w] + (found.high[w] - found.low[w]) / 2.0
        result = middle * rows if kind == AVERAGE else middle
    elif kind == COUNT:
        result = rows
    if result - result != 0.0:
        return
    n, mean, squares = with_result((parts[SAMPLED][slot], parts[MEAN][slot], parts[SQUARES][slot]), result)
    counts = with_result((parts[SAMPLED][slot], parts[ROWS_MEAN][slot], parts[ROWS_SQUARES][slot]), rows)
    parts[SAMPLED][slot], parts[MEAN][slot], parts[SQUARES][slot] = n, mean, squares
    parts[ROWS_MEAN][slot], parts[ROWS_SQUARES][slot] = counts[1], counts[2]
