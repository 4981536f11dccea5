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


def shrink(table: SliceTable) -> bool:
    """Give up the room of slices that have left, if it is a quarter of the room there is. Slots get new numbers.

    So a slot moves at most a few times for each slice that leaves.
    """
    room = table.slot_room
    used = room - int(table.slices.unused[0])
    if room <= max(LEAST, table.key_room // KEYS) or 4 * used > 3 * room:
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
