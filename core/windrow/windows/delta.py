# SPDX-License-Identifier: Apache-2.0
"""Delta windows: range and slide are measured on an attribute of the rows instead of their time."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, ClassVar

import numpy as np

from windrow import durations
from windrow.durations import Duration
from windrow.errors import WindowError
from windrow.windows.base import Context, Interval, Window

__all__ = ["DeltaWindow"]


@dataclass(frozen=True, init=False, repr=False)
class DeltaWindow(Window):
    """Whenever ``attribute`` has grown by more than ``slide``, a window of the rows within ``range`` before it.

    The attribute δ is a number or a timestamp, and does not decrease from row to row. Row 0 triggers a window,
    and so does each row with δ - δ(last trigger) > slide. The window of trigger r covers δ(r) - range ≤ δ < δ(r).
    The trigger itself is outside, and so are all rows with the same δ. ``range`` and ``slide`` have the unit of
    the attribute, or are durations if it is a timestamp. Equation (4).

    >>> window = DeltaWindow("odometer", range=10, slide=4)
    >>> odometer = [0, 3, 5, 9, 10, 17]
    >>> window.triggers(odometer)
    [0, 2, 4, 5]
    >>> [list(window.extent(w, odometer)) for w in range(4)]
    [[], [0, 1], [0, 1, 2, 3], [3, 4]]
    >>> window.mapping(3, odometer)
    range(2, 4)
    """

    attribute: str
    range: int | float
    slide: int | float
    temporal: bool
    """Whether range or slide was given as a duration. The attribute then has to be a timestamp."""

    kind: ClassVar[str] = "delta"
    context: ClassVar[Context] = "FCA"
    trigger: ClassVar[str] = "a row whose attribute exceeds that of the last trigger by more than slide"

    def __init__(
        self, attribute: str, range: float | Duration, slide: float | Duration | None = None
    ) -> None:
        if not isinstance(attribute, str) or not attribute:
            raise WindowError(f"attribute of DeltaWindow has to be the name of a column, not {attribute!r}")
        length = self._positive("range", range)
        self._assign(
            attribute=attribute,
            range=length,
            slide=length if slide is None else self._positive("slide", slide),
            temporal=_is_duration(range) or _is_duration(slide),
        )
        if self.temporal and not (isinstance(self.range, int) and isinstance(self.slide, int)):
            raise WindowError("range and slide of DeltaWindow have to be two durations or two numbers")

    def triggers(self, deltas: Sequence[Any]) -> list[int]:
        """The positions of the rows that trigger a window, given the attribute of all rows in order."""
        found: list[int] = []
        for i, delta in enumerate(deltas):
            if not found or delta - deltas[found[-1]] > self.slide:
                found.append(i)
        return found

    def extent(self, w: int, deltas: Sequence[Any]) -> Interval:
        """The positions of the rows of window ``w``, given the attribute of all rows in order."""
        triggers = self.triggers(deltas)
        if not 0 <= w < len(triggers):
            raise WindowError(f"these rows trigger {len(triggers)} windows; there is no window {w}")
        delta = deltas[triggers[w]]
        return Interval(bisect_left(deltas, delta - self.range), bisect_left(deltas, delta))

    def mapping(self, i: int, deltas: Sequence[Any]) -> Interval:
        """The ids of the windows that contain the row at position ``i``, given the attribute of all rows.

        Needs later rows, because a window is triggered by a row after those that it contains.
        """
        if not 0 <= i < len(deltas):
            raise WindowError(f"there is no row {i} among these {len(deltas)} rows")
        thresholds = [deltas[r] for r in self.triggers(deltas)]
        held = [w for w, delta in enumerate(thresholds) if delta - self.range <= deltas[i] < delta]
        return Interval(held[0], held[-1] + 1) if held else Interval(0)

    @property
    def label(self) -> str:
        values = self.parameters()
        slide = "" if self.slide == self.range else f"/{values['slide']}"
        return f"{self.attribute} {values['range']}{slide}"

    def parameters(self) -> dict[str, Any]:
        if self.temporal:
            # The constructor has made sure that both are whole microseconds.
            values = {"range": durations.format(int(self.range)), "slide": durations.format(int(self.slide))}
            return {"attribute": self.attribute, **values}
        return {"attribute": self.attribute, "range": self.range, "slide": self.slide}

    def _positive(self, name: str, value: float | Duration) -> int | float:
        if isinstance(value, str | timedelta | np.timedelta64):
            return self._positive_duration(name, value)
        return self._positive_number(name, value)


def _is_duration(value: object) -> bool:
    return isinstance(value, str | timedelta | np.timedelta64)
