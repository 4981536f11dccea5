# SPDX-License-Identifier: Apache-2.0
"""The steps of A²MTA: an update that joins a bucket or starts one, an eviction that may end inside one, a result and its error.

``leaves`` is AMTA's state for the aggregate, a leaf per bucket. ``slots`` has the partial that comes or is asked for, and
the newest update, which is outside of the tree. ``known`` is what is known of the buckets:
:mod:`windrow.algorithms.a2mta_layout`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from windrow.algorithms.a2mta_layout import (
    BEGIN,
    BLANK,
    CERTAIN,
    CLOSED,
    CONSTRAINED,
    CUT,
    CUT_LENGTH,
    END,
    ERROR,
    FIRST,
    FOLLOWING,
    FOUND,
    HOP,
    HOPS,
    INSIDE,
    KEPT,
    KIND,
    LOST,
    MAXIMA,
    MERGES,
    MOST,
    NEGATED,
    NOTHING,
    OF_BOUNDS,
    OF_SLOT,
    ROOM,
    ROUNDED,
    SAMPLING,
    SEEN,
    SINCE,
    THINNED,
    VALUE,
    WHOLE,
    Z,
    bounds_of,
    closed,
    promise_of,
    rest_of,
)
from windrow.algorithms.amta import LEAVES
from windrow.algorithms.base import HEAD, TAIL
from windrow.approximate.estimate import ROUNDING
from windrow.approximate.hops import evicted, share
from windrow.kernels.partials import copy, defined, load, lower, merge
from windrow.kernels.rounding import larger
from windrow.kernels.slices.bounds import bound_inside, keep_result
from windrow.kernels.slices.bucket_layout import (
    FEW,
    HIGH,
    LARGEST,
    LOW,
    MANY,
    NULL,
    NUMBER,
    ROWS,
    SMALLEST,
    SURE,
    UNKNOWN,
    N,
)
from windrow.kernels.slices.buckets import fits, unite

SOME = 16
"""So many leaves more than after the last time are not worth merging."""
DONE, FULL, DUE, CROWDED = 0, 1, 2, 3
"""What a step says: it is done; or, before it has changed anything, that there is no slot left, that buckets may be merged,
or that there is no leaf left.
"""


def insert(leaves: Any, slots: Any, known: Any) -> int:
    """The update in the first slot becomes the newest. The one before it joins the last bucket, or becomes a bucket."""
    meta, part, tree = known[0], known[1], leaves[0]
    if meta[END] + 2 >= meta[ROOM] or tree[TAIL] - tree[HEAD] == tree[LEAVES]:
        return FULL
    if may_merge(meta):
        return DUE
    coming = meta[END] + 1
    bucket_clear(part, coming)
    describe(part, coming, slots)
    joined = joins(known)
    if not joined and meta[MOST] > 0 and meta[END] - meta[BEGIN] + 2 >= meta[MOST]:
        return CROWDED
    if joined:
        leaf_extend(leaves, slots, 1)
    elif meta[SEEN] > meta[FIRST]:
        leaf_insert(leaves, slots, 1)
    settle(known, joined)
    copy(slots, 1, slots, 0)
    return DONE


def joins(known: Any) -> bool:
    """Whether the newest update joins the last bucket, now that there is another one after it."""
    meta, part, starts, settings = known
    end = meta[END]
    if end == meta[BEGIN]:
        return False
    start = starts[end - 1]
    span, held = meta[SEEN] - start, meta[SEEN] - meta[FIRST]
    if meta[CONSTRAINED] > 0 and span <= -(-held // (meta[MOST] - 2)):
        return True
    if meta[HOP] > 0 and share(settings[HOPS:MAXIMA], settings[Z], start - meta[FIRST], held - 1):
        return True
    rest, after = rest_of(known), end + 1
    rest.low[0], rest.high[0] = part[LOW][after], part[HIGH][after]
    rest.smallest[0], rest.largest[0] = part[SMALLEST][after], part[LARGEST][after]
    rest.n[0] = part[N][after]
    return fits(part, end - 1, end, promise_of(known), 0, rest, span)


def settle(known: Any, joined: bool) -> None:
    """The update that has come is in its place."""
    meta, part, starts, _ = known
    end = meta[END]
    if joined:
        unite(part, end - 1, end, meta[KIND])
    if joined or meta[SEEN] == meta[FIRST]:
        bucket_copy(part, end, part, end + 1)
    else:
        if end > meta[BEGIN]:
            closed_insert(closed(known), part, end - 1)
        meta[END] = end + 1
    starts[meta[END]] = meta[SEEN]
    meta[SEEN] += 1
    meta[SINCE] += 1
    meta[KEPT] = 0


def may_merge(meta: Any) -> bool:
    """Whether there are a quarter more buckets than after the last merge, or predictions are to be renewed."""
    held = meta[END] - meta[BEGIN]
    due = held > meta[THINNED] + max(SOME, meta[THINNED] // 4)
    stale = meta[SAMPLING] > 0 and meta[SINCE] > held + SOME
    return meta[MERGES] > 0 and (due or stale)


def evict(leaves: Any, slots: Any, known: Any, n: int) -> None:
    """The window begins n updates later. It is known where it begins, or all are evicted."""
    meta, _, starts, settings = known
    first, begin, end = meta[FIRST] + n, meta[BEGIN], meta[END]
    if first == meta[SEEN]:
        evict_all(leaves, known)
        return
    position, after = begin, end
    while position < after:  # the first bucket that begins there, or later
        middle = (position + after) // 2
        if starts[middle] < first:
            position = middle + 1
        else:
            after = middle
    if starts[position] == first:
        begin_at(known, position)
    elif position > begin:
        cut(known, position - 1)
    meta[FIRST] = first
    if meta[HOP] > 0:
        evicted(settings[HOPS:MAXIMA], n, meta[SEEN] - first)
    if position > begin:
        leaf_evict(leaves, position - begin)


def evict_all(leaves: Any, known: Any) -> None:
    """No update is left."""
    meta, settings = known[0], known[3]
    if meta[HOP] > 0:
        evicted(settings[HOPS:MAXIMA], meta[SEEN] - meta[FIRST], 0)
    held = leaves[0][TAIL] - leaves[0][HEAD]
    if held > 0:
        leaf_evict(leaves, held)
    meta[BEGIN] = meta[END] = meta[INSIDE] = meta[LOST] = meta[THINNED] = 0
    meta[CERTAIN], meta[FIRST] = 1, meta[SEEN]
    meta[CLOSED : CLOSED + LEAVES] = 0


def begin_at(known: Any, position: int) -> None:
    """The buckets before a slot are gone, and the window begins there."""
    meta = known[0]
    gone = min(position - meta[BEGIN], meta[CLOSED + TAIL] - meta[CLOSED + HEAD])
    if gone > 0:
        closed_evict(closed(known), gone)
    meta[BEGIN], meta[INSIDE], meta[CERTAIN] = position, 0, 1


def cut(known: Any, position: int) -> None:
    """The buckets before a slot are gone, and the window begins inside the bucket there."""
    meta, part, starts, _ = known
    bucket_copy(part, meta[ROOM] + CUT, part, position)
    meta[CUT_LENGTH] = starts[position + 1] - starts[position]
    begin_at(known, position + 1)
    meta[INSIDE] = 1


def query(leaves: Any, slots: Any, known: Any) -> None:
    """The aggregate of the leaves and the newest update into the first slot, and the result and its error. There is an update."""
    if leaves[0][HEAD] == leaves[0][TAIL]:
        copy(slots, 0, slots, 1)
    else:
        leaf_query(leaves, slots, 0)
        merge(slots, 0, slots, 0, slots, 1)
    estimate(known)


def estimate(known: Any) -> None:
    """Where the result is that ``query`` has put into the slot, and its error; or the middle of its bounds."""
    meta, part, starts, settings = known
    found, kind, cut_, after = bounds_of(known), meta[KIND], meta[ROOM] + CUT, meta[ROOM] + FOLLOWING
    found.inside[0] = meta[INSIDE]
    if meta[INSIDE] > 0 or meta[SAMPLING] > 0:
        follow(known, after)
        following = part[:, after : after + 1]
        if meta[INSIDE] > 0:
            few, many = part[FEW][cut_], part[MANY][cut_]
            if meta[CERTAIN] > 0 and part[N][cut_] == meta[CUT_LENGTH]:  # an update is a row
                few = many = float(starts[meta[BEGIN]] - meta[FIRST])
            found.state[0] = NUMBER
            bound_inside(part, cut_, following, kind, (few, many), found, 0)
        if meta[SAMPLING] > 0 and meta[KEPT] == 0 and kind != ROWS:
            keep_result(part, meta[END], following, kind, found, 0)
            meta[KEPT] = 1
    meta[FOUND], settings[ERROR] = OF_SLOT, 0.0
    if meta[LOST] > 0:
        settings[ERROR] = np.inf
    elif meta[INSIDE] > 0 and kind == ROWS:
        settings[ERROR] = float(found.missing[0])
    elif meta[INSIDE] > 0:
        meta[FOUND] = NOTHING if found.state[0] == NULL else OF_BOUNDS
        low, high = found.low[0], found.high[0]
        if meta[NEGATED] > 0:
            low, high = -high, -low
        tell(known, low, high, found.state[0])


def tell(known: Any, low: float, high: float, state: int) -> None:
    """The result in the middle of its bounds, and how far the true one may be away, as in :mod:`windrow.approximate.estimate`."""
    meta, settings = known[0], known[3]
    value = low if low == high else low + (high - low) / 2.0
    if meta[WHOLE] > 0:
        value = np.rint(value)
    over, under = high - value, value - low
    off = larger(np.nextafter(over, np.inf), np.nextafter(under, np.inf))
    if over == under and over == np.rint(over) and max(abs(low), abs(high)) < 2.0**52:
        off = over
    if low == high and value == low:
        off = 0.0
    if meta[ROUNDED] > 0 and off != 0.0:
        off += ROUNDING * max(abs(low), abs(high))
    if state == UNKNOWN or off != off:
        off = np.inf
    if state in (SURE, NULL):
        off = 0.0
    settings[VALUE], settings[ERROR] = value, off


def follow(known: Any, at: int) -> None:
    """What is known of all that follows the cut, into a column."""
    meta, part, _, _ = known
    closed_query(closed(known), part, at)
    for slot in range(max(meta[END] - 1, meta[BEGIN]), meta[END] + 1):
        bucket_merge(part, at, part, at, part, slot)


def close_again(known: Any) -> None:
    """The AMTA of closed buckets is made anew."""
    meta = known[0]
    meta[CLOSED : CLOSED + LEAVES] = 0
    meta[CLOSED + LEAVES] = meta[ROOM]
    for slot in range(meta[BEGIN], meta[END] - 1):
        closed_insert(closed(known), known[1], slot)


def unite_pairs(known: Any, first: int) -> None:
    """Buckets that are neighbours become one, from a slot on: those in every second slot stay."""
    meta, part, _, _ = known
    for slot in range(first, meta[END] - 1, 2):
        unite(part, slot, slot + 1, meta[KIND])


def widen(known: Any, whole: bool) -> None:
    """Where in the cut the window begins is not known: all of the cut may be in it, or else, nothing."""
    meta, part, _, _ = known
    blank, cut_ = meta[ROOM] + BLANK, meta[ROOM] + CUT
    bucket_clear(part, blank)
    if whole:
        unite(part, blank, cut_, meta[KIND])
        bucket_copy(part, cut_, part, blank)
    else:
        unite(part, cut_, blank, meta[KIND])
    meta[CERTAIN] = 0


def regroup(leaves: Any, into: Any, gone: Any, stay: Any, fresh: Any) -> None:
    """Leaves, counted from the oldest, have become part of others, in this order. Those that stay go to an empty window."""
    meta, forest = leaves[0], leaves[1]
    for n in range(len(gone)):
        a, b = place_of(meta, meta[HEAD] + into[n]), place_of(meta, meta[HEAD] + gone[n])
        merge(forest, a, forest, a, forest, b)
    for leaf in range(meta[TAIL] - meta[HEAD]):
        if stay[leaf]:
            leaf_insert(fresh, forest, place_of(meta, meta[HEAD] + leaf))


def place_of(meta: Any, position: int) -> int:
    """The slot of a leaf in AMTA's forest."""
    return int(position & (meta[LEAVES] - 1))


def describe_row(part: Any, at: int, slots: Any) -> None:
    """What is known of an update of any aggregate: it is one row."""
    part[N][at] = 1


def describe_count(part: Any, at: int, slots: Any) -> None:
    """An update of a count has so many rows."""
    part[N][at] = lower(slots, 0)


def describe_value(part: Any, at: int, slots: Any) -> None:
    """An update of a sum or of an extreme has this value."""
    if defined(slots, 0):
        add_value(part, at, lower(slots, 0))


def describe_mean(part: Any, at: int, slots: Any) -> None:
    """An update of a mean has this value; if it is several rows, their sum is rounded."""
    if not defined(slots, 0):
        return
    value, rows = float(lower(slots, 0)), load(slots, 0)[-1]
    add_value(part, at, value)
    if rows != 1:
        off = 8e-16 * abs(value * rows)
        part[LOW][at], part[HIGH][at] = value * rows - off, value * rows + off
        part[SMALLEST][at], part[LARGEST][at] = np.nextafter(value, -np.inf), np.nextafter(value, np.inf)
        part[N][at] = rows


def _bound_later(*_: Any) -> Any:
    raise NotImplementedError("bound to the functions of an aggregate by windrow.algorithms.histogram")


leaf_insert = leaf_extend = leaf_evict = leaf_query = _bound_later
closed_insert = closed_evict = closed_query = bucket_clear = bucket_copy = bucket_merge = _bound_later
describe = add_value = _bound_later
