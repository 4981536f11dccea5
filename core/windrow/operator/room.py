"""Arrays with room for more entries."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from windrow.columns import arrow
from windrow.kernels.slices.layout import NONE


def none(*shape: int) -> NDArray[np.int32]:
    """Slots that are none."""
    return np.full(shape, NONE, dtype=np.int32)


def longer(array: Any, room: int, fill: int = NONE) -> Any:
    """The same entries along the last axis, then the given number up to the room."""
    longer = np.full((*array.shape[:-1], room), fill, dtype=array.dtype)
    longer[..., : array.shape[-1]] = array
    return longer


def roomier(array: Any, room: int) -> Any:
    """The same entries, and room for others that are written before they are read."""
    roomier = arrow.blank(room, array.dtype)
    roomier[: len(array)] = array
    return roomier
