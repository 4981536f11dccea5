# SPDX-License-Identifier: Apache-2.0
"""Arrays that shrink when most keys have left the slice table, and memory that the process gives back."""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from windrow.kernels.slices.layout import NONE
from windrow.operator.room import SPARE

if TYPE_CHECKING:
    from windrow.operator.slices import SliceTable

LEAST = 1 << 12
"""Fewer slots are not worth shrinking."""
KEYS = 8
"""Nor are fewer slots than one for so many keys: every key is looked at."""
MUCH = 1 << 16
"""Room for fewer slices is left to the allocators."""
PART = 4
"""Memory is given back when the slices that were frozen are one in so many."""
BURST, PATIENCE = 16, 16
"""If one in so many slices leaves at a watermark, more may at the next. Arrays wait for that, so many watermarks at most."""


class SpareRoom:
    """Gives back the memory of slices that have left, no more often than it is worth: whatever moves is written again, and
    memory that was given back comes again page by page."""

    def __init__(self) -> None:
        self._updates = self._left = self._room = 0
        """Updates of keys since arrays shrank, or the first key was frozen; slices frozen since memory was given back, and
        the room there was then."""
        self._leaving = self._waited = 0
        """Slices frozen since the last watermark, and for how many watermarks arrays have waited."""

    def updated(self, keys: int) -> None:
        """So many keys get rows."""
        self._updates += keys

    def left(self, slices: int) -> None:
        """So many slices were frozen."""
        self._left += slices
        self._leaving += slices

    def after_sweep(self, table: SliceTable) -> None:
        """Called at every watermark, once a key was frozen."""
        leaving, self._leaving = self._leaving, 0
        used = table.slot_room - int(table.slices.unused[0])
        if used // BURST < leaving < used and self._waited < PATIENCE:
            self._waited += 1
            return
        self._waited = 0
        shrunk = shrink(table, self._updates)
        if shrunk:
            self._updates = 0
        if shrunk or self._left > max(table.slot_room // PART, MUCH):
            for state in table.aggregates:
                state.shrink(table.slices)
            self._give_back(table)
        elif table.slot_room > max(2 * self._room, MUCH):  # allocators may still have the arrays that grew
            self._give_back(table)

    def _give_back(self, table: SliceTable) -> None:
        self._left, self._room = 0, table.slot_room
        give_back()


def shrink(table: SliceTable, updates: int) -> bool:
    """Give up the room of slices that have left, if it is half of the room there is. Slots get new numbers.

    A quarter is enough if there were more ``updates`` of keys since than slots have to move. So a burst of keys that leave
    moves a slot once or twice, and later the room follows what is in use.
    """
    room = table.slot_room
    used = room - int(table.slices.unused[0])
    enough = 3 if updates > used else 2
    if room <= max(LEAST, table.key_room // KEYS) or 4 * used > enough * room:
        return False
    keys = np.flatnonzero(table.slices.held)
    lengths, slots = np.zeros(len(keys), np.int64), np.empty(used, np.int64)
    table.kernels.walk(table.slices, keys, lengths, slots)
    fresh = max(used + used // SPARE, LEAST // 4)
    number = np.full(room + 1, NONE, np.int32)  # the last entry is that of no slot
    number[slots] = np.arange(used)
    slices, slides = table.slices, table.slides
    for pointers in (slides.lo, slides.front, slides.back):
        pointers[:] = number[pointers]
    free = np.empty(fresh, np.int32)
    free[: fresh - used] = np.arange(fresh - 1, used - 1, -1)
    renumbered = slices._replace(
        stamp=_put(slices.stamp[slots], fresh), stop=_put(slices.stop[slots], fresh),
        newer=_put(number[slices.newer[slots]], fresh), older=_put(number[slices.older[slots]], fresh),
        page=_put(slices.page[slots], fresh), free=free, unused=np.array([fresh - used]),
        first=number[slices.first], last=number[slices.last], cursor=number[slices.cursor],
    )  # fmt: skip
    for state in table.aggregates:
        state.renumber(slots, room, fresh)
    table.renumber(renumbered, fresh)
    table.final.renumbered(table)
    if table.paging is not None:
        table.paging.renumber(number)
    return True


def give_back() -> None:
    """Give memory that is not in use back to the system. Arrays that grew and shrank leave much of it to the allocators,
    which keep it otherwise."""
    pa.default_memory_pool().release_unused()
    if _TRIM is not None:
        _TRIM(0)


def _put(entries: Any, room: int) -> Any:
    fresh = np.zeros(room, entries.dtype)
    fresh[: len(entries)] = entries
    return fresh


def _trim() -> Any:
    """``malloc_trim`` of the C library; none if it has none."""
    try:
        return getattr(ctypes.CDLL(None), "malloc_trim", None)
    except (OSError, TypeError):
        return None


_TRIM = _trim()
