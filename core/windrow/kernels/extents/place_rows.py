"""Rows on their way into a row store: where each goes, and the extents of the slices that they are in.

The rows of a key have consecutive *positions*. Position p of a key is at index ``shift[key] + p`` of the store's
columns. A slice's extent is ``lo`` to ``hi``, without ``hi``: the positions of its rows.
"""

NONE = -1


def place_rows(rows, slots, valid, shift, end, lo, hi, target):
    """The index of each row in the store, or NONE; extents grow by the rows of their slices.

    ``rows`` is grouped by key, each key's rows in their order. A row that is not valid is not stored, but its slice
    has an extent, if only an empty one.
    """
    for n in range(len(rows.order)):
        row, key = rows.order[n], rows.keys[n]
        slot = slots[row]
        target[n] = NONE
        if slot == NONE:
            continue
        lo[slot] = min(lo[slot], end[key])
        if len(valid) == 0 or valid[row]:
            target[n] = shift[key] + end[key]
            end[key] += 1
        hi[slot] = max(hi[slot], end[key])


def move_rows(old, new, begins, lengths, places):
    """Copy spans of a column, each to its place in another."""
    for n in range(len(begins)):
        begin, place = begins[n], places[n]
        for row in range(lengths[n]):
            new[place + row] = old[begin + row]
