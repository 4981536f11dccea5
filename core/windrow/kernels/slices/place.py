# SPDX-License-Identifier: Apache-2.0
"""Rows into slices: which slot a row belongs to, and the row's value into the partial of that slot.

``place_*`` find or make the slice of every row. They take a position to begin at. If the slots run out, they
return the position that they have reached; the caller makes room and calls again. ``absorb`` then combines
the rows with the partials of their slices; it is specialised for one aggregate.
"""

from __future__ import annotations

from windrow.kernels.partials import add, merge
from windrow.kernels.slices.layout import NONE


def append(slices, key, after, stamp):
    """A new slice of a key after the given one; before all others if that is NONE."""
    slices.unused[0] -= 1
    slot = slices.free[slices.unused[0]]
    slices.stamp[slot] = stamp
    slices.stop[slot] = stamp
    slices.page[slot] = 0
    slices.held[key] += 1
    slices.older[slot] = after
    if after == NONE:
        newer = slices.first[key]
        slices.first[key] = slot
    else:
        newer = slices.newer[after]
        slices.newer[after] = slot
    slices.newer[slot] = newer
    if newer == NONE:
        slices.last[key] = slot
    else:
        slices.older[newer] = slot
    return slot


def in_a_window(stamp, grid):
    """Whether any window holds this stamp; windows whose slide is longer than their range leave gaps."""
    inside = False
    for which in range(len(grid.range)):
        inside = inside or (stamp - grid.offset[which]) % grid.slide[which] < grid.range[which]
    return inside


def seek(slices, key, start):
    """The slice of a key that begins at ``start``, or else the last one before it; from the cursor on."""
    slot = slices.cursor[key]
    if slot == NONE:
        slot = slices.last[key]
    if slot != NONE and slices.stamp[slot] < start:
        while slices.newer[slot] != NONE and slices.stamp[slices.newer[slot]] <= start:
            slot = slices.newer[slot]
    else:
        while slot != NONE and slices.stamp[slot] > start:
            slot = slices.older[slot]
    return slot


def place_fixed(slices, begin, rows, slots, cuts, grid, gaps):
    """Rows into slices that are cut wherever a window starts or ends (Cutty).

    With ``gaps``, a row that no window holds gets no slot.
    """
    start = 0
    end = 0
    current = NONE
    here = NONE
    regular = len(cuts.every) == 1 and not gaps
    for n in range(begin, len(rows.order)):
        row = rows.order[n]
        key = rows.keys[n]
        stamp = rows.axis[n]
        if key == current and start <= stamp < end and here != NONE:
            slots[row] = here
            continue
        if slices.unused[0] == 0:
            return n
        follows = regular and key == current and stamp == end
        current = key
        if gaps and not in_a_window(stamp, grid):
            slots[row] = NONE
            here = NONE
            continue
        start = end if follows else stamp - (stamp - cuts.at[0]) % cuts.every[0]
        end = start + cuts.every[0]
        for c in range(1, len(cuts.every)):
            cut = stamp - (stamp - cuts.at[c]) % cuts.every[c]
            start = max(start, cut)
            end = min(end, cut + cuts.every[c])
        here = seek(slices, key, start)
        if here == NONE or slices.stamp[here] != start:
            here = append(slices, key, here, start)
        slices.cursor[key] = here
        slots[row] = here
    return len(rows.order)


def place_counted(slices, begin, rows, slots, seen, cuts, grid, gaps):
    """Rows into slices by their position among the rows of their key. The first of several calls fills the positions in."""
    if len(rows.axis) > 0 and rows.axis[0] == NONE:
        number(rows.keys, seen, rows.axis)
    return place_fixed(slices, begin, rows, slots, cuts, grid, gaps)


def mark_cells(cells, keys, times):
    """The cell of every row. The slot of a cell with rows becomes 0. Returns how many these are."""
    used = 0
    line = 0
    start = cells.begin
    for row in range(len(times)):
        if not start <= times[row] < start + cells.every:
            line = (times[row] - cells.begin) // cells.every
            start = cells.begin + line * cells.every
        cell = keys[row] * cells.slices + line
        cells.rows[row] = cell
        if cells.slots[cell] == NONE:
            cells.slots[cell] = 0
            used += 1
    return used


def place_dense(slices, cells):
    """Find or make the slice of each cell with rows, key after key, and give its slot to the rows."""
    for cell in range(len(cells.slots)):
        if cells.slots[cell] == NONE:
            continue
        key = cell // cells.slices
        start = cells.begin + cell % cells.slices * cells.every
        slot = seek(slices, key, start)
        if slot == NONE or slices.stamp[slot] != start:
            slot = append(slices, key, slot, start)
        slices.cursor[key] = slot
        cells.slots[cell] = slot
    for row in range(len(cells.rows)):
        cells.rows[row] = cells.slots[cells.rows[row]]


def place_each(slices, begin, rows, slots):
    """Every row is a slice of its own."""
    for n in range(begin, len(rows.order)):
        if slices.unused[0] == 0:
            return n
        key = rows.keys[n]
        slots[rows.order[n]] = append(slices, key, slices.last[key], rows.axis[n])
    return len(rows.order)


def place_in_sessions(slices, begin, rows, slots, gap):
    """Rows that are no further apart than the gap share a slice."""
    for n in range(begin, len(rows.order)):
        key = rows.keys[n]
        time = rows.axis[n]
        slot = slices.last[key]
        if slot == NONE or time - slices.stop[slot] > gap:
            if slices.unused[0] == 0:
                return n
            slot = append(slices, key, slot, time)
        slices.stop[slot] = time
        slots[rows.order[n]] = slot
    return len(rows.order)


def number(keys, seen, position):
    """The position of each row among the rows of its key; ``seen`` counts the rows of every key."""
    for n in range(len(keys)):
        position[n] = seen[keys[n]]
        seen[keys[n]] += 1


def group_by_key(keys, times, starts, order, rows):
    """Sort ``order`` by key into ``rows``, stably. ``starts`` (keys + 1 zeros) is used up."""
    for n in range(len(order)):
        starts[keys[n] + 1] += 1
    for key in range(1, len(starts)):
        starts[key] += starts[key - 1]
    for n in range(len(order)):
        row = order[n]
        rows.order[starts[keys[row]]] = row
        starts[keys[row]] += 1
    n = 0
    for key in range(len(starts) - 1):
        while n < starts[key]:
            rows.keys[n] = key
            rows.axis[n] = times[rows.order[n]]
            n += 1


def walk(slices, keys, lengths, slots):
    """The slots of all slices, key after key, oldest first, and how many each key has."""
    n = 0
    for position in range(len(keys)):
        slot = slices.first[keys[position]]
        while slot != NONE:
            slots[n] = slot
            n += 1
            lengths[position] += 1
            slot = slices.newer[slot]


def absorb(parts, slots, columns, valid, rows):
    """Combine rows with the partials of their slices, in the order of arrival.

    A row with a null input or without a slot is left out.
    """
    if len(valid) == 0:
        for row in range(rows):
            if slots[row] != NONE:
                add(parts, slots[row], row, columns)
    else:
        for row in range(rows):
            if slots[row] != NONE and valid[row]:
                add(parts, slots[row], row, columns)


def absorb_partials(parts, slots, incoming):
    """Combine ready-made partials with the partials of their slices."""
    for row in range(len(slots)):
        if slots[row] != NONE:
            merge(parts, slots[row], parts, slots[row], incoming, row)
