# SPDX-License-Identifier: Apache-2.0
"""Merge neighbouring slices into buckets, as far as a query's promise allows.

The rows that follow a bucket are in every window that begins inside it, now and later: windows that are not due end
after all slices that are closed. So the *rest* of the window only grows. A bucket is allowed if its suffixes differ
by little against this rest. For sums of values of one sign this is the smooth histogram of Braverman and Ostrovsky
(*Smooth Histograms for Sliding Windows*, FOCS 2007); for maxima the buckets are steps of a staircase.

The newest closed slice stays alone, so that every window that begins in a bucket has a slice after it.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from windrow.approximate.prediction import (
    combined,
    extreme_interval,
    result_interval,
    smallest_magnitude,
)
from windrow.kernels.rounding import down, larger, smaller, up
from windrow.kernels.slices.bucket_layout import (
    AVERAGE,
    BLOCKS,
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
    ROWS,
    ROWS_MEAN,
    ROWS_SQUARES,
    SAMPLED,
    SMALLEST,
    SQUARES,
    N,
)
from windrow.kernels.slices.layout import NONE
from windrow.kernels.slices.slide import evict_before, evict_key, next_begin


def thin(slices, slides, keys, closed, dims, promise, rest, most, into, gone):
    """Merge the closed slices of some keys; fewer than ``most`` slices are left of each, if that is not 0.

    ``dims`` has the partials of the buckets, for each aggregate. Slice ``gone[n]`` was merged into ``into[n]``, in this
    order. Returns how many were. The caller merges their partials and frees their slots.
    """
    count = 0
    for position in range(len(keys)):
        key = keys[position]
        until = closed[key] if len(closed) > 1 else closed[0]
        newest = slices.last[key]
        while newest != NONE and slices.stamp[newest] >= until:
            newest = slices.older[newest]
        if newest == NONE:
            continue
        before = count
        expect(slices, newest, dims, promise, rest)
        count = merge_allowed(slices, slides, key, newest, dims, promise, rest, into, gone, count)
        if most > 0:
            count = merge_few(slices, slides, key, newest, dims, promise, most, into, gone, count)
        if count > before:
            slices.cursor[key] = NONE
            for which in range(slides.lo.shape[0]):
                slides.front[which, key] = NONE  # lcs is computed anew: a restored operator does the same
    return count


def merge_allowed(slices, slides, key, newest, dims, promise, rest, into, gone, count):
    """Merge where every aggregate allows it, from the newest slice to the oldest."""
    for d in range(len(dims)):
        part = dims[d]
        rest.low[d], rest.high[d] = part[LOW][newest], part[HIGH][newest]
        rest.smallest[d], rest.largest[d] = part[SMALLEST][newest], part[LARGEST][newest]
        rest.n[d] = part[N][newest]
    b = slices.older[newest]
    while mergeable(slices, slides, key, b, promise):
        a = slices.older[b]
        span = slices.stamp[slices.newer[b]] - slices.stamp[a]
        allowed = True
        for d in range(len(dims)):
            allowed = allowed and fits(dims[d], a, b, promise, d, rest, span)
        if allowed:
            join(slices, slides, key, a, b, dims, promise)
            into[count], gone[count] = a, b
            count += 1
        else:
            for d in range(len(dims)):
                add_to_rest(rest, d, dims[d], b, promise.kind[d])
        b = a
    return count


def merge_few(slices, slides, key, newest, dims, promise, most, into, gone, count):
    """Merge neighbours of few rows, if there is hardly room for a slice more: then half of ``most`` becomes free.

    Open slices count too, but half of ``most`` is left to the closed ones, however many are open.
    """
    leaves = 0
    rows = 0
    b = newest
    while b != NONE:
        leaves += 1
        rows += dims[0][N][b]
        b = slices.older[b]
    free = most - slices.held[key]
    if free > 0 and free >= most // 32:
        return count
    left = most // 2
    target = 4 * rows // (3 * most) + 1  # the first pass makes no larger buckets than are needed
    while leaves > left and target < 4 * (rows + 1):
        b = slices.older[newest]
        while leaves > left and mergeable(slices, slides, key, b, promise):
            a = slices.older[b]
            if dims[0][N][a] + dims[0][N][b] <= target:
                join(slices, slides, key, a, b, dims, promise)
                into[count], gone[count] = a, b
                count += 1
                leaves -= 1
            b = a
        target += target // 4 + 1
    return count


def mergeable(slices, slides, key, b, promise):
    """Whether there is a slice before b that b may join. The first slice of a window does not join the one that was cut."""
    if b == NONE or slices.older[b] == NONE:
        return False
    return not (promise.searched and slides.lo[0, key] == b)


def add_to_rest(rest, d, part, slot, kind):
    """A slice that is not merged with older ones is part of what follows them."""
    rest.smallest[d] = smaller(rest.smallest[d], part[SMALLEST][slot])
    rest.largest[d] = larger(rest.largest[d], part[LARGEST][slot])
    rest.n[d] += part[N][slot]
    if kind == EXTREME:
        rest.low[d] = larger(rest.low[d], part[LOW][slot])
        rest.high[d] = larger(rest.high[d], part[HIGH][slot])
    else:
        rest.low[d] = down(rest.low[d], part[LOW][slot])
        rest.high[d] = up(rest.high[d], part[HIGH][slot])


def suffixes(part, a, b, kind):
    """The bounds of the suffixes of slice a with slice b: those of a with all of b, all of b, and those of b."""
    if kind == EXTREME:
        least = smaller(part[LOW][b], part[LEAST][b])
        most = larger(larger(part[HIGH][b], part[MOST][b]), part[MOST][a])
        return least, most
    least = smaller(part[LOW][b], part[LEAST][b])
    most = larger(part[HIGH][b], part[MOST][b])
    if part[MANY][a] >= 0:
        least = smaller(least, down(part[LEAST][a], part[LOW][b]))
        most = larger(most, up(part[MOST][a], part[HIGH][b]))
    return least, most


def with_all_or_nothing(part, a, b, kind, least, most):
    """The bounds of suffixes, of the whole bucket of a and b, and of no row."""
    if kind == EXTREME:
        return -np.inf, larger(most, larger(part[HIGH][a], part[HIGH][b]))
    least = smaller(smaller(least, down(part[LOW][a], part[LOW][b])), 0.0)
    most = larger(larger(most, up(part[HIGH][a], part[HIGH][b])), 0.0)
    return least, most


def suffix_rows(part, a, b):
    """How many rows these suffixes have at the least and at the most."""
    few = min(part[N][b], part[FEW][b])
    many = part[N][b]
    if part[MANY][a] >= 0:
        many += part[MANY][a]
    return few, many


def unite(part: Any, a: Any, b: Any, kind: Any) -> None:
    """What is known of slot a, which is the next older one, becomes what is known of the bucket of a and b."""
    least, most = suffixes(part, a, b, kind)
    few, many = suffix_rows(part, a, b)
    if kind == EXTREME:
        low, high = larger(part[LOW][a], part[LOW][b]), larger(part[HIGH][a], part[HIGH][b])
    else:
        low, high = down(part[LOW][a], part[LOW][b]), up(part[HIGH][a], part[HIGH][b])
    part[LOW][a], part[HIGH][a], part[LEAST][a], part[MOST][a] = low, high, least, most
    part[SMALLEST][a] = smaller(part[SMALLEST][a], part[SMALLEST][b])
    part[LARGEST][a] = larger(part[LARGEST][a], part[LARGEST][b])
    part[N][a] += part[N][b]
    part[FEW][a], part[MANY][a] = few, many
    if part[SAMPLED][b] > 0:
        unite_samples(part, a, b)


def unite_samples(part, a, b):
    """The windows that ended in slot b ended in the bucket of a and b."""
    sample = combined(
        (part[SAMPLED][a], part[MEAN][a], part[SQUARES][a]),
        (part[SAMPLED][b], part[MEAN][b], part[SQUARES][b]),
    )
    counts = combined(
        (part[SAMPLED][a], part[ROWS_MEAN][a], part[ROWS_SQUARES][a]),
        (part[SAMPLED][b], part[ROWS_MEAN][b], part[ROWS_SQUARES][b]),
    )
    part[SAMPLED][a], part[MEAN][a], part[SQUARES][a] = sample
    part[ROWS_MEAN][a], part[ROWS_SQUARES][a] = counts[1], counts[2]


def join(slices, slides, key, a, b, dims, promise):
    """Slice a, which is the next older one, becomes the bucket of a and b. Slot b is not linked any more."""
    for d in range(len(dims)):
        unite(dims[d], a, b, promise.kind[d])
    newer = slices.newer[b]
    slices.stop[a] = slices.stop[b]
    slices.newer[a] = newer
    slices.older[newer] = a  # there is one: the newest slice is never merged
    slices.held[key] -= 1
    for which in range(slides.lo.shape[0]):
        if slides.lo[which, key] == b:
            slides.lo[which, key] = a
        if slides.back[which, key] == b:
            slides.back[which, key] = a


def fits(part: Any, a: Any, b: Any, promise: Any, d: Any, rest: Any, span: Any) -> Any:
    """Whether one aggregate keeps its promise, for all windows to come, if a and b are one bucket."""
    kind = promise.kind[d]
    few, many = suffix_rows(part, a, b)
    n = part[N][a] + part[N][b]
    if promise.searched:
        few, many = 0, n
    known = promise.counting and n == span
    rows = rest.n[d] + few
    if promise.rows[d] > 0.0:
        share = promise.rows[d]
        return many <= share if share >= 1.0 else many <= share * rows
    if kind == ROWS or (rows < 1 and n > 0 and kind != COUNT):
        return False  # whether the result is null would not be known
    if kind == COUNT:
        half = 0.0 if known else (many - few + 1) // 2
        return promised(half, rows, rest.expected[d], promise, d)
    if rest.high[d] != rest.high[d]:
        return True  # the result is NaN, whatever the bucket holds
    least, most = suffixes(part, a, b, kind)
    if promise.searched:
        least, most = with_all_or_nothing(part, a, b, kind, least, most)
    one_sign = smaller(smaller(part[SMALLEST][a], part[SMALLEST][b]), rest.smallest[d]) >= 0.0
    one_sign = one_sign or larger(larger(part[LARGEST][a], part[LARGEST][b]), rest.largest[d]) <= 0.0
    if kind == AVERAGE:
        uncertain = 0 if known else many - few
        return fits_average(least, most, uncertain, rows, one_sign, promise, d, rest)
    if kind == EXTREME:
        low, high = larger(rest.low[d], least), larger(rest.high[d], most)
        if most < rest.expected[d] and n <= rest.expected_rows[d]:
            return True
    else:
        low, high = down(rest.low[d], least), up(rest.high[d], most)
    half = (high - low) / 2.0
    if promise.whole[d]:
        half = np.ceil(half)
    nearest = smallest_magnitude(low, high) if one_sign or kind == EXTREME else 0.0
    return low == high or promised(
        half, nearest, math.nan if kind == EXTREME else expected_from(rest, d), promise, d
    )


def promised(half, nearest, expected, promise, d):
    """Whether an error is small enough: against a number, or against the smallest result, certain or predicted."""
    if promise.absolute[d] >= 0.0:
        return half <= promise.absolute[d]
    share = promise.relative[d] * (1.0 - 1e-9)
    return half <= share * nearest or half <= share * expected


def fits_average(least, most, uncertain, rows, one_sign, promise, d, rest):
    """A mean is a sum over a count; where both are uncertain, their shares multiply."""
    if promise.absolute[d] >= 0.0:
        return uncertain == 0 and (most - least) / 2.0 <= promise.absolute[d] * rows
    allowed = 1.0 + 2.0 * promise.relative[d] * (1.0 - 1e-9)
    low, high = down(rest.low[d], least), up(rest.high[d], most)
    if low == high and uncertain == 0:
        return True
    nearest = smallest_magnitude(low, high) if one_sign else 0.0
    counts = 1.0 + uncertain / rows
    if one_sign and (low == high or high - low <= (allowed / counts - 1.0) * nearest):
        return counts <= allowed
    counts = 1.0 + uncertain / rest.expected_rows[d]
    return counts <= allowed and high - low <= (allowed / counts - 1.0) * expected_from(rest, d)


def expected_from(rest, d):
    """The smallest sum that is predicted: from earlier results, or from the rows since, as if a window had only such rows.

    The sample of results remembers an earlier level for as long as a window lasts. The rows that follow a bucket do not.
    """
    since = smallest_magnitude(rest.low[d], rest.high[d]) * (rest.expected_rows[d] / max(rest.n[d], 1))
    return smaller(rest.expected[d], since)


def expect(slices, newest, dims, promise, rest):
    """What is predicted of later results, from those of the windows that ended in slices that are still there."""
    for d in range(len(dims)):
        rest.expected[d] = math.nan
        rest.expected_rows[d] = math.nan
        if promise.confidence == 0.0 or promise.kind[d] == ROWS:
            continue
        if promise.kind[d] == EXTREME:
            expect_extreme(slices, newest, dims[d], promise, rest, d)
            continue
        part = dims[d]
        sample = (0, 0.0, 0.0)
        counts = (0, 0.0, 0.0)
        slot = newest
        while slot != NONE:
            sample = combined(sample, (part[SAMPLED][slot], part[MEAN][slot], part[SQUARES][slot]))
            counts = combined(counts, (part[SAMPLED][slot], part[ROWS_MEAN][slot], part[ROWS_SQUARES][slot]))
            slot = slices.older[slot]
        if sample[0] >= 30:
            low, high = result_interval(sample, promise.z)
            rest.expected[d] = smallest_magnitude(low, high)
            low, high = result_interval(counts, promise.z)
            rest.expected_rows[d] = max(low, 1.0)


def expect_extreme(slices, newest, part, promise, rest, d):
    """The smallest maximum of a window that is predicted, from the maxima of blocks of rows that are there."""
    rows = 0
    slot = newest
    while slot != NONE:
        rows += part[N][slot]
        slot = slices.older[slot]
    maxima = rest.maxima
    maxima[:] = -np.inf
    seen = 0
    slot = newest
    while slot != NONE:
        block = int(min(seen * BLOCKS // max(rows, 1), BLOCKS - 1))
        maxima[block] = larger(maxima[block], part[LOW][slot])
        seen += part[N][slot]
        slot = slices.older[slot]
    for n in range(1, BLOCKS):  # sorted in place: a kernel does not allocate
        for m in range(n, 0, -1):
            if maxima[m] < maxima[m - 1]:
                maxima[m], maxima[m - 1] = maxima[m - 1], maxima[m]
    if maxima[0] > -np.inf and maxima[BLOCKS - 1] < np.inf:
        rest.expected[d] = extreme_interval(maxima, float(BLOCKS), promise.confidence)[0]
        rest.expected_rows[d] = rows // BLOCKS


def evict_before_cut(slices, slides, keys, many):
    """As ``evict_before_lo``; a bucket before the first slice stays, because the window may begin inside it."""
    for key in keys:
        lo = slides.lo[0, key]
        if lo != NONE and is_bucket(slices.older[lo], many):
            lo = slices.older[lo]
        evict_before(slices, key, lo)


def is_bucket(slot, many):
    """Whether there is a slice in a slot, and it has more than a row."""
    return slot != NONE and many[slot] >= 0


def evict_buckets(slices, slides, keys, limit, grid):
    """As ``evict_fixed``; a bucket stays while a window to come begins inside it."""
    for key in keys:
        if slices.first[key] == NONE:
            continue
        bound = next_begin(slices, slides, key, limit, grid)
        p = slices.first[key]
        while p != NONE and slices.stop[p] < bound:
            p = slices.newer[p]
        evict_key(slices, slides, key, bound if p == NONE else min(bound, slices.stamp[p]))
