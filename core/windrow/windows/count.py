# SPDX-License-Identifier: Apache-2.0
"""Count windows: a fixed number of rows, repeated every fixed number of rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from windrow.errors import WindowError
from windrow.windows import grid
from windrow.windows.base import Context, Interval, Window

__all__ = ["CountWindow"]


@dataclass(frozen=True, init=False, repr=False)
class CountWindow(Window):
    """Window w ≥ 0 covers the rows at the positions [w·slide, w·slide + range).

    Positions count the rows of one key in the order (time, arrival), from 0. A window is emitted when it is
    complete. An incomplete window is never emitted, not even when the stream ends. ``window_start`` and
    ``window_end`` are positions. Equation (1), and equations (5) and (6) for the mapping.

    >>> window = CountWindow(range=10, slide=2)
    >>> window.extent(1), window.mapping(11)
    (range(2, 12), range(1, 6))
    >>> CountWindow(10, 0)
    Traceback (most recent call last):
    windrow.errors.WindowError: slide of CountWindow has to be a whole number of rows, at least 1, not 0
    """

    range: int
    slide: int

    kind: ClassVar[str] = "count"
    context: ClassVar[Context] = "FCF"
    trigger: ClassVar[str] = "the row that completes the window"
    offset: ClassVar[int] = 0
    """Window 0 starts at position 0."""

    def __init__(self, range: int, slide: int | None = None) -> None:
        length = self._positive_count("range", range)
        self._assign(range=length, slide=length if slide is None else self._positive_count("slide", slide))

    def extent(self, w: int) -> Interval:
        """The positions of the rows of window ``w``, which is at least 0. Needs no rows."""
        if w < 0:
            raise WindowError(f"windows of CountWindow are numbered from 0; there is no window {w}")
        start = grid.window_start(w, self.slide, self.offset)
        return Interval(start, start + self.range)

    def mapping(self, i: int) -> Interval:
        """The ids of the windows that contain the row at position ``i``. Needs no rows. Empty in a gap."""
        if i < 0:
            raise WindowError(f"positions of rows are numbered from 0; there is no row {i}")
        first = max(0, grid.first_window(i, self.range, self.slide, self.offset))
        last = grid.last_window(i, self.slide, self.offset)
        return Interval(first, last + 1)

    @property
    def label(self) -> str:
        return f"{self.range}" if self.slide == self.range else f"{self.range}/{self.slide}"

    def parameters(self) -> dict[str, Any]:
        return {"range": self.range, "slide": self.slide}
