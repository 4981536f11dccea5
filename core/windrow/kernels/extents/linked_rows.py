# SPDX-License-Identifier: Apache-2.0
"""Exact quantiles of ascending windows whose rows are all there: sorting, then a few pointers a row.

The rows are cut into blocks such that a window has the end of one block and the beginning of the next. Each block is
sorted once, as a doubly linked list. As a window slides on, rows of the first block are unlinked. The rows of the second
were all unlinked before, from the last to the first, so they can be linked again from the first to the last, each between
the neighbours that it remembers (Suomela, *Median Filtering is Equivalent to Sorting*, 2014; the trick is that of Knuth,
*Dancing Links*, 2000). For each quantile, each of the two lists has a cursor: its first row that is not among those below
the quantile. A row that leaves or enters moves the cursors by a row or two.

When a window begins behind the first block, the second becomes the first. The block after it ends where that window
ends, so windows of n rows have blocks of about n rows.

A *place* is where a row's key and links are: word ``2 * place`` and the two halves of the next one. The last place of a
block is no row: it has the largest key, and links to the first and the last of the list. The places of the two blocks
come one after the other; before them are the cursors.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from windrow.kernels.extents.interpolation import between
from windrow.kernels.extents.ordering import MAX, NAN_KEY, key_of, number_of
from windrow.kernels.extents.radix_sort import BYTES, VALUES, sort_rows

TWO: Any = np.uint64(2)
THREE: Any = np.uint64(3)
FOUR: Any = np.uint64(4)
"""Places are unsigned: no compiled access has to ask whether a position counts from the end."""

FLOATS = True
"""May there be NaN? Bound when the kernels are specialised for a type."""


class LinkedRows(NamedTuple):
    """Room for two blocks of ``room`` rows."""

    words: Any  #: per quantile and block: the cursor, and how many rows are before it; then the keys
    halves: Any  #: the same memory as halves of words: the links of place p are 4 p + 2 (before) and 4 p + 3 (after)
    places: Any  #: where the places of each block begin
    room: Any
    sort_keys: Any
    sort_places: Any
    tally: Any


def linked_rows(room: int, quantiles: int) -> LinkedRows:
    """Room for blocks of so many rows, and cursors for so many quantiles."""
    words = np.empty(4 * quantiles + 4 * (room + 1), dtype=np.int64)
    places = np.array([2 * quantiles, 2 * quantiles + room + 1])
    sort = np.empty(2 * room, dtype=np.int64), np.empty(2 * room, dtype=np.uint32)
    return LinkedRows(
        words, words.view(np.uint32), places, room, *sort, np.empty(BYTES * VALUES, dtype=np.int64)
    )


def surveyed(lo: Any, hi: Any) -> Any:
    """Whether both bounds of windows ascend and none ends before it begins; the rows of the largest one, and of all."""
    ascending, most, visits = True, 0, 0
    for w in range(len(lo)):
        rows = hi[w] - lo[w]
        most, visits = max(most, rows), visits + rows
        ascending &= rows >= 0
        if w > 0:
            ascending &= (lo[w] >= lo[w - 1]) & (hi[w] >= hi[w - 1])
    return ascending, most, visits


def largest_block(lo: Any, hi: Any) -> Any:
    """How many rows the largest block of these windows has."""
    pivot = hi[0]
    most = pivot - lo[0]
    for w in range(len(lo)):
        if lo[w] >= pivot:
            most, pivot = max(most, hi[w] - pivot), hi[w]
    return max(most, hi[len(hi) - 1] - pivot)


def quantiles(extents: Any, links: Any, shares: Any, out: Any, ok: Any) -> None:
    """``out[w, q]`` becomes the quantile ``shares[q]`` of window w, ``ok[w]`` whether the window has a value.

    Both bounds of the windows ascend, and none ends before it begins.
    """
    s, h, valid, lo, hi = links.words, links.halves, extents.valid, extents.lo, extents.hi
    everything = len(valid) == 0
    side, first, pivot = 0, lo[0], hi[0]
    last = next_pivot(lo, hi, 0, pivot)
    held = load(extents, links, first, pivot, 0, len(shares))
    load(extents, links, pivot, last, 1, len(shares))
    empty(extents, links, pivot, last, 1, len(shares))
    begin, end = lo[0], hi[0]
    for w in range(len(lo)):
        if lo[w] >= pivot and w > 0:
            for row in range(begin, pivot):
                held -= everything or valid[row]
            for row in range(end, last):
                if everything or valid[row]:
                    enter(s, h, len(shares), 1 - side, np.uint64(links.places[1 - side] + row - pivot))
                    held += 1
            first, pivot, begin, end, side = pivot, last, pivot, last, 1 - side
            last = next_pivot(lo, hi, w, pivot)
            load(extents, links, pivot, last, 1 - side, len(shares))
            empty(extents, links, pivot, last, 1 - side, len(shares))
        for row in range(begin, lo[w]):
            if everything or valid[row]:
                leave(s, h, len(shares), side, np.uint64(links.places[side] + row - first))
                held -= 1
        for row in range(end, hi[w]):
            if everything or valid[row]:
                enter(s, h, len(shares), 1 - side, np.uint64(links.places[1 - side] + row - pivot))
                held += 1
        begin, end = lo[w], hi[w]
        ok[w] = held > 0
        one = np.uint64(links.places[side] + pivot - first)
        other = np.uint64(links.places[1 - side] + last - pivot)
        if (
            held > 0
            and FLOATS
            and (s[TWO * previous(h, one)] == NAN_KEY or s[TWO * previous(h, other)] == NAN_KEY)
        ):
            out[w] = np.nan
        elif held > 0:
            ends = (one, other) if side == 0 else (other, one)
            for q in range(len(shares)):
                out[w, q] = quantile(s, h, 4 * q, shares[q] * (held - 1), ends[0], ends[1])


def next_pivot(lo: Any, hi: Any, w: Any, pivot: Any) -> Any:
    """Where the block after a pivot ends: with the first window, from w on, that begins behind the pivot."""
    while w < len(lo) and lo[w] < pivot:
        w += 1
    return hi[min(w, len(lo) - 1)]


def load(extents: Any, links: Any, begin: Any, end: Any, side: Any, cursors: Any) -> Any:
    """Sort and link rows. Returns how many there are."""
    s, h, keys, places = links.words, links.halves, links.sort_keys, links.sort_places
    count, base = 0, links.places[side]
    for row in range(begin, end):
        key = key_of(extents.words[row])
        s[2 * (base + row - begin)] = key
        if len(extents.valid) == 0 or extents.valid[row]:
            keys[count], places[count] = key, base + row - begin
            count += 1
    stop = base + end - begin
    s[2 * stop] = MAX
    at = sort_rows(keys, places, links.room, count, links.tally)
    before = stop
    for i in range(at, at + count):
        h[4 * before + 3], h[4 * places[i] + 2] = places[i], before
        before = places[i]
    h[4 * before + 3], h[4 * stop + 2] = stop, before
    for q in range(cursors):
        s[4 * q + 2 * side], s[4 * q + 2 * side + 1] = h[4 * stop + 3], 0
    return count


def empty(extents: Any, links: Any, begin: Any, end: Any, side: Any, cursors: Any) -> None:
    """Unlink all rows, the last first."""
    s, h, base = links.words, links.halves, links.places[side]
    for row in range(end - 1, begin - 1, -1):
        if len(extents.valid) == 0 or extents.valid[row]:
            unlink(h, np.uint64(base + row - begin))
    for q in range(cursors):
        s[4 * q + 2 * side] = base + end - begin


def unlink(h: Any, place: Any) -> None:
    before, after = np.uint64(h[FOUR * place + TWO]), np.uint64(h[FOUR * place + THREE])
    h[FOUR * before + THREE], h[FOUR * after + TWO] = after, before


def leave(s: Any, h: Any, cursors: Any, side: Any, place: Any) -> None:
    """A row of a list is unlinked."""
    for cursor in range(2 * side, 4 * cursors + 2 * side, 4):
        at = np.uint64(s[cursor])
        if at == place:
            s[cursor] = h[FOUR * place + THREE]
        else:
            s[cursor + 1] -= precedes(s, place, at)
    unlink(h, place)


def enter(s: Any, h: Any, cursors: Any, side: Any, place: Any) -> None:
    """A row that was unlinked is linked again."""
    h[FOUR * np.uint64(h[FOUR * place + TWO]) + THREE] = place
    h[FOUR * np.uint64(h[FOUR * place + THREE]) + TWO] = place
    for cursor in range(2 * side, 4 * cursors + 2 * side, 4):
        s[cursor + 1] += precedes(s, place, np.uint64(s[cursor]))


def precedes(s: Any, one: Any, other: Any) -> Any:
    """Does a row come before another of the same block?"""
    mine, theirs = s[TWO * one], s[TWO * other]
    return (mine < theirs) | ((mine == theirs) & (one < other))


def previous(h: Any, place: Any) -> Any:
    return np.uint64(h[FOUR * place + TWO])


def following(h: Any, place: Any) -> Any:
    return np.uint64(h[FOUR * place + THREE])


def quantile(s: Any, h: Any, at: Any, position: Any, x_stop: Any, y_stop: Any) -> Any:
    """Move the cursors x and y of a quantile to where as many rows are below it as have to be; its value."""
    x, below_x, y, below_y = np.uint64(s[at]), s[at + 1], np.uint64(s[at + 2]), s[at + 3]
    below = int(position)
    while below_x > 0 and s[TWO * previous(h, x)] > s[TWO * y]:
        x, y, below_x, below_y = previous(h, x), following(h, y), below_x - 1, below_y + 1
    while below_y > 0 and s[TWO * previous(h, y)] > s[TWO * x]:
        x, y, below_x, below_y = following(h, x), previous(h, y), below_x + 1, below_y - 1
    while below_x + below_y < below:
        if y == y_stop or (x != x_stop and s[TWO * x] <= s[TWO * y]):
            x, below_x = following(h, x), below_x + 1
        else:
            y, below_y = following(h, y), below_y + 1
    while below_x + below_y > below:
        if below_y == 0 or (below_x > 0 and s[TWO * previous(h, x)] >= s[TWO * previous(h, y)]):
            x, below_x = previous(h, x), below_x - 1
        else:
            y, below_y = previous(h, y), below_y - 1
    s[at], s[at + 1], s[at + 2], s[at + 3] = x, below_x, y, below_y
    low = number_of(min(s[TWO * x], s[TWO * y]))
    if position == below:
        return low
    if y == y_stop or (x != x_stop and s[TWO * x] <= s[TWO * y]):
        x = following(h, x)
    else:
        y = following(h, y)
    return between(low, number_of(min(s[TWO * x], s[TWO * y])), position - below)
