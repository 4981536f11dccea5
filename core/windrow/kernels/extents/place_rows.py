# SPDX-License-Identifier: Apache-2.0
"""Rows on their way into a row store: where each goes, and the extents of the slices that they are in.

The rows of a key have consecutive *positions*. Position p of a key is at index ``shift[key] + p`` of the store's
columns. A slice's extent is ``lo`` to ``hi``, without ``hi``: the positions of its rows.
"""

NONE = -1


def place_rows(rows, slots, valid, shift, end, lo, hi, target):
    """The index of each row in the store, or NONE; extents grow by the rows of their slices. Returns the largest end.

    ``rows`` is grouped by key, each key's rows in their order. A row that is not valid is not stored, but its slice
    has an extent, if only an empty one.
    """
    last = 0
    of = here = NONE
    position = 0
    for n in range(len(rows.order)):
        row = rows.order[n]
        if rows.keys[n] != of:
            if of != NONE:
                end[of] = position
            of, here = rows.keys[n], NONE
            position = end[of]
        slot = slots[row]
        target[n] = NONE
        if slot == NONE:
            continue
        if slot != here:
            here = slot
            lo[slot] = min(lo[slot], position)
        if len(valid) == 0 or valid[row]:
            target[n] = shift[of] + position
            position += 1
        hi[slot] = max(hi[slot], position)
        last = max(last, position)
    if of != NONE:
        end[of] = position
    return last


def put_rows(values, order, target, column):
    """Write the values of rows, taken in an order, to their places in a column; not those without a place."""
    for n in range(len(target)):
        if target[n] != NONE:
            column[target[n]] = values[order[n]]


def find_extents(keys, first, last, lo, hi, begin, end, shift, from_, until):
    """Where the rows of windows are in the store: those of the slots ``first`` to ``last`` of a key.

    Returns false if a window reaches over rows that are not there.
    """
    there = True
    for w in range(len(keys)):
        key, low, high = keys[w], lo[first[w]], hi[last[w]]
        there &= (begin[key] <= low) & (low <= high) & (high <= end[key])
        from_[w], until[w] = low + shift[key], high + shift[key]
    return there


def move_rows(old, new, begins, lengths, places):
    """Copy spans of a column, each to its place in another."""
    for n in range(len(begins)):
        begin, place = begins[n], places[n]
        for row in range(lengths[n]):
            new[place + row] = old[begin + row]
