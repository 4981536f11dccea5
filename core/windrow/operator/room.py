# SPDX-License-Identifier: Apache-2.0
"""The arrays of a slice table, with room for more slices and keys."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from windrow.columns import arrow
from windrow.kernels.slices.layout import NONE, Slices

SPARE = 8
"""Once idle keys were frozen, arrays get room for one slice in so many more than they need."""


def no_slices(stamps: Any) -> Slices:
    """Without room for any slice or key. ``stamps`` is the type of a place on the axis of the windows."""
    return Slices(
        stamp=np.empty(0, stamps), stop=np.empty(0, stamps), newer=none(0), older=none(0),
        page=np.empty(0, np.int64), free=none(0), unused=np.zeros(1, np.int64),
        first=none(0), last=none(0), cursor=none(0), held=np.empty(0, np.int64),
    )  # fmt: skip


def more_keys(slices: Slices, room: int) -> Slices:
    """The same slices, with room for so many keys."""
    return slices._replace(
        first=longer(slices.first, room), last=longer(slices.last, room),
        cursor=longer(slices.cursor, room), held=longer(slices.held, room, 0),
    )  # fmt: skip


def more_slots(slices: Slices, room: int) -> Slices:
    """The same slices, with room for so many. The new slots are unused."""
    old, top = len(slices.stamp), int(slices.unused[0])
    free = roomier(slices.free, room)
    free[top : top + room - old] = np.arange(room - 1, old - 1, -1)
    slices.unused[0] = top + room - old
    return slices._replace(
        stamp=roomier(slices.stamp, room), stop=roomier(slices.stop, room),
        newer=roomier(slices.newer, room), older=roomier(slices.older, room),
        page=longer(slices.page, room, 0), free=free,
    )  # fmt: skip


def likely(room: int, placed: int, left: int) -> int:
    """The room for slices that a batch needs, if the rows that are left need as much as those that were placed; a slot for
    each at most."""
    return min(int(room * min(1 + 1.1 * left / max(placed, 1), 16)), room + left)


def none(*shape: int) -> NDArray[np.int32]:
    """Slots that are none."""
    return np.full(shape, NONE, dtype=np.int32)


def longer(array: Any, room: int, fill: int = NONE) -> Any:
    """The same entries along the last axis, then the given number up to the room."""
    shape = (*array.shape[:-1], room)  # zeros take memory only where they are written
    longer = np.full(shape, fill, dtype=array.dtype) if fill else np.zeros(shape, array.dtype)
    longer[..., : array.shape[-1]] = array
    return longer


def roomier(array: Any, room: int) -> Any:
    """The same entries, and room for others that are written before they are read."""
    roomier = arrow.blank(room, array.dtype)
    roomier[: len(array)] = array
    return roomier
