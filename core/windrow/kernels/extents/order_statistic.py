# SPDX-License-Identifier: Apache-2.0
"""Exact quantiles, and the k largest values, of many windows over the rows of one key.

Windows that overlap share their sorted rows (:mod:`windrow.kernels.extents.sorted_rows`): rows leave and enter as the
window slides, O(log n) each. Windows that do not are each searched by itself (:mod:`windrow.kernels.extents.selection`),
O(n). Extents may be in any order; those that go back are those that do not overlap.

Both kernels carry the sorted rows on from call to call. A caller whose rows have moved says so by ``clear``.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from windrow.kernels.extents.interpolation import between
from windrow.kernels.extents.layout import BLOCK, COUNTS, HELD, HI, KEYS, LO, ORDER, SORTED, USED
from windrow.kernels.extents.ordering import NAN_KEY, key_of, number_of, word_of
from windrow.kernels.extents.selection import heapsort, select
from windrow.kernels.extents.sorted_rows import at_rank, clear, highest, insert, remove

FLOATS = True
"""May there be NaN? Bound when the kernels are specialised for a type."""

CHANGE = 6
"""A row that leaves or enters the sorted rows costs about as much as so many rows that are searched."""


def quantiles(extents: Any, rows: Any, shares: Any, out: Any, ok: Any) -> None:
    """``out[w, q]`` becomes the quantile ``shares[q]`` of window w, ``ok[w]`` whether the window has a value."""
    state, scratch = rows.state, rows.scratch
    for w in range(len(extents.lo)):
        slid = moved(extents, state, scratch, w)
        count = state[HELD]
        ok[w] = count > 0
        if count == 0:
            continue
        if FLOATS and (highest(state) == NAN_KEY if slid else has_nan(scratch, count)):
            out[w] = np.nan
        elif slid:
            for q in range(len(shares)):
                out[w, q] = sorted_quantile(state, count, q, shares[q])
        else:
            for q in range(len(shares)):
                out[w, q] = selected_quantile(scratch, count, shares[q])


def top_k(extents: Any, rows: Any, out: Any, counts: Any) -> None:
    """``out[w]`` begins with the largest values of window w as words, largest first; ``counts[w]`` is how many."""
    state, scratch = rows.state, rows.scratch
    for w in range(len(extents.lo)):
        slid = moved(extents, state, scratch, w)
        total = state[HELD]
        count = min(total, out.shape[1])
        counts[w] = count
        if slid:
            last_keys(state, out, w, count)
        elif count > 0:
            select(scratch, total, total - count)
            heapsort(scratch, total - count, total)
            for i in range(count):
                out[w, i] = word_of(scratch[total - 1 - i])


def moved(extents: Any, state: Any, scratch: Any, w: Any) -> Any:
    """Move on to window w, whose number of keys is then HELD. Returns whether they are sorted, or in the scratch in any
    order.

    They are sorted if the window slid on by few rows, or the next one will.
    """
    words, valid, lo, hi = extents.words, extents.valid, extents.lo[w], max(extents.lo[w], extents.hi[w])
    follows = slides(state[LO], state[HI], lo, hi)
    carried = follows and state[SORTED] == 1
    if not carried:
        clear(state)
        state[LO] = state[HI] = lo
    if (
        carried
        or follows
        or (w + 1 < len(extents.lo) and slides(lo, hi, extents.lo[w + 1], extents.hi[w + 1]))
    ):
        for row in range(state[LO], lo):
            if len(valid) == 0 or valid[row]:
                remove(state, key_of(words[row]))
        for row in range(state[HI], hi):
            if len(valid) == 0 or valid[row]:
                insert(state, key_of(words[row]))
        state[SORTED] = 1
    else:
        for row in range(lo, hi):
            if len(valid) == 0 or valid[row]:
                scratch[state[HELD]] = key_of(words[row])
                state[HELD] += 1
    state[LO], state[HI] = lo, hi
    return state[SORTED] == 1


def slides(lo: Any, hi: Any, next_lo: Any, next_hi: Any) -> bool:
    """Does a window follow from the one before it with less work than from its rows?"""
    changes = (next_lo - lo) + (next_hi - hi)
    return lo <= next_lo <= hi <= next_hi and CHANGE * changes <= next_hi - next_lo


def has_nan(scratch: Any, count: Any) -> Any:
    """Is one of the keys that of NaN?"""
    found = False
    for i in range(count):
        found |= scratch[i] == NAN_KEY
    return found


def sorted_quantile(state: Any, count: Any, q: Any, share: Any) -> Any:
    """The quantile of sorted keys, linear between the two nearest."""
    position = share * (count - 1)
    below = int(position)
    low = number_of(at_rank(state, q, below))
    if position == below:
        return low
    return between(low, number_of(at_rank(state, q, below + 1)), position - below)


def selected_quantile(scratch: Any, count: Any, share: Any) -> Any:
    """The quantile of keys in any order."""
    position = share * (count - 1)
    below = int(position)
    low = number_of(select(scratch, count, below))
    if position == below:
        return low
    least = scratch[below + 1]  # after the selection, none that follows is smaller
    for i in range(below + 2, count):
        least = min(least, scratch[i])
    return between(low, number_of(least), position - below)


def last_keys(state: Any, out: Any, w: Any, count: Any) -> None:
    """The largest keys as words, largest first."""
    place = state[USED] - 1
    block = state[state[ORDER] + place]
    at = state[state[COUNTS] + block] - 1
    for i in range(count):
        while at < 0:
            place -= 1
            block = state[state[ORDER] + place]
            at = state[state[COUNTS] + block] - 1
        out[w, i] = word_of(state[state[KEYS] + block * BLOCK + at])
        at -= 1
