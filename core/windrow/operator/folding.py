# SPDX-License-Identifier: Apache-2.0
"""Slices that are folded into one, and unfolded again: what happens in the slice table.

:mod:`windrow.storage.paging` says which slices are folded, and keeps the pages.
"""

from __future__ import annotations

import numpy as np

from windrow.kernels.slices.layout import NONE
from windrow.operator.plan import Ints
from windrow.operator.slices import SliceTable


def fold(table: SliceTable, key: int, slots: Ints, page: int) -> None:
    """Let the first of some neighbouring slices stand for all of them. No window may begin inside."""
    slices, slides = table.slices, table.slides
    first, rest, last = int(slots[0]), slots[1:], int(slots[-1])
    for which in range(table.slicer.windows):
        if slides.back[which, key] in slots[:-1]:
            slides.back[which, key] = NONE
        if slides.front[which, key] in slots[:-1] or slides.back[which, key] == NONE:
            slides.front[which, key] = NONE  # lcs is computed anew at the next window
        for pointer in (slides.front, slides.back):
            if pointer[which, key] == last:
                pointer[which, key] = first
    for state in table.aggregates:
        state.fold(slots)
    newer = int(slices.newer[last])
    slices.stop[first], slices.page[first] = slices.stop[last], page
    _connect(table, key, first, newer)
    slices.held[key] -= len(rest)
    slices.cursor[key] = NONE
    table.final.rearranged(table, key, gone=rest, new=slots[:1])
    give_back(table, rest)


def unfold(table: SliceTable, key: int, slot: int, slots: Ints) -> Ints:
    """Let slices, which are connected to nothing yet, take the place of the folded one. Returns their slots.

    The first of them gets the slot of the folded one, so what points to the beginning stays right.
    """
    slices, slides = table.slices, table.slides
    windows = range(table.slicer.windows)
    covered = [
        slides.front[w, key] != NONE and slices.stamp[slot] <= slices.stamp[slides.front[w, key]]
        for w in windows
    ]
    newer = int(slices.newer[slot])
    beyond = [newer if covered[w] and slides.front[w, key] != slot else NONE for w in windows]
    placed: Ints = np.append(slot, slots[1:])
    partials = (part for state in table.aggregates for part in state.partials.parts)
    for array in (slices.stamp, slices.stop, slices.page, *partials):
        array[slot] = array[slots[0]]
    give_back(table, slots[:1])
    slices.newer[placed[:-1]], slices.older[placed[1:]] = placed[1:], placed[:-1]
    _connect(table, key, int(placed[-1]), newer)
    slices.held[key] += len(placed) - 1
    for which in windows:
        for pointer in (slides.front, slides.back):
            if pointer[which, key] == slot:
                pointer[which, key] = placed[-1]
        if covered[which]:
            for state in table.aggregates:
                state.unfold(placed, beyond[which], which * table.slot_room)
    table.final.rearranged(table, key, gone=placed[:0], new=placed)
    return placed


def take_slots(table: SliceTable, count: int) -> Ints:
    """So many unused slots."""
    while table.slices.unused[0] < count:
        table.grow_slots()
    slices = table.slices
    top = int(slices.unused[0])
    slots: Ints = slices.free[top - count : top][::-1].astype(np.int64)
    slices.unused[0] = top - count
    return slots


def give_back(table: SliceTable, slots: Ints) -> None:
    """Slots that are in use by no slice any more."""
    slices = table.slices
    top = int(slices.unused[0])
    slices.page[slots] = 0
    slices.free[top : top + len(slots)] = slots
    slices.unused[0] = top + len(slots)
    for state in table.aggregates:
        state.wipe(slices, top, top + len(slots))


def _connect(table: SliceTable, key: int, slot: int, newer: int) -> None:
    """Let one slice follow another, or be the newest of its key."""
    table.slices.newer[slot] = newer
    if newer == NONE:
        table.slices.last[key] = slot
    else:
        table.slices.older[newer] = slot
