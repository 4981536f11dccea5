# SPDX-License-Identifier: Apache-2.0
"""Windows whose range and slide have different units: one is a time, the other a number of rows."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from windrow import durations
from windrow.durations import Duration
from windrow.errors import WindowError
from windrow.windows import grid
from windrow.windows.base import Context, Interval, Window

__all__ = ["SlideByTime", "SlideByTuple"]


@dataclass(frozen=True, init=False, repr=False)
class SlideByTuple(Window):
    """After every ``slide`` rows, a window of the rows of the last ``range`` of time.

    Window w is triggered by row r = (w+1)·slide - 1 and covers the times (τ(r) - range, τ(r)]. The interval is
    left-open and right-closed, so later rows with the same time as r belong to it. Equations (3), (7) and (8).

    >>> window = SlideByTuple(range="5us", slide=3)
    >>> times = [0, 7, 10, 11, 12, 13]              # rows 2 and 5 trigger
    >>> window.extent(0, times), window.extent(1, times)
    (range(1, 3), range(2, 6))
    >>> window.mapping(0, times), window.mapping(2, times)      # row 0 is too old for any window
    (range(0, 0), range(0, 2))
    """

    range: int
    slide: int

    kind: ClassVar[str] = "slide_by_tuple"
    context: ClassVar[Context] = "FCA"
    trigger: ClassVar[str] = "every slide-th row; due when the watermark passes its time"

    def __init__(self, range: Duration, slide: int) -> None:
        self._assign(
            range=self._positive_duration("range", range),
            slide=self._positive_count("slide", slide),
        )

    def extent(self, w: int, times: Sequence[int]) -> Interval:
        """The positions of the rows of window ``w``, given the times of all rows in order."""
        r = (w + 1) * self.slide - 1
        if w < 0 or r >= len(times):
            raise WindowError(f"window {w} is triggered by row {r}; there are only {len(times)} rows")
        return Interval(bisect_right(times, times[r] - self.range), bisect_right(times, times[r]))

    def mapping(self, i: int, times: Sequence[int]) -> Interval:
        """The ids of the windows that contain the row at position ``i``; empty (⊥) if none does.

        ``times`` are the times of all rows in order, because the mapping depends on the triggers after ``i``.
        If an earlier row triggers a window and has the same time as row ``i``, that window contains row ``i``
        too, by equation (3).
        """
        if not 0 <= i < len(times):
            raise WindowError(f"there is no row {i} among these {len(times)} rows")
        candidates = Interval(bisect_left(times, times[i]), bisect_left(times, times[i] + self.range))
        first = -(-(candidates.start + 1) // self.slide) - 1  # the first trigger that is no older than row i
        stop = candidates.stop // self.slide  # the first for which row i is too old
        return Interval(first, max(first, stop))

    @property
    def label(self) -> str:
        return f"{durations.format(self.range)}/{self.slide} rows"

    def parameters(self) -> dict[str, Any]:
        return {"range": durations.format(self.range), "slide": self.slide}


@dataclass(frozen=True, init=False, repr=False)
class SlideByTime(Window):
    """After every ``slide`` of time, a window of the last ``range`` rows.

    Boundaries are at e = k·slide + offset. A boundary has a window if at least one row lies between the boundary
    before it and e. The window is the last ``range`` rows with τ < e, or all of them if there are fewer.
    ``window_start`` is the time of the oldest of these rows, and ``window_end`` is e. The id of the window is k.

    >>> window = SlideByTime(range=2, slide="10us")
    >>> times = [1, 2, 3, 25]                       # boundaries 10 and 30; no row came in [10, 20)
    >>> window.extent(1, times), window.extent(2, times), window.extent(3, times)
    (range(1, 3), range(0, 0), range(2, 4))
    >>> window.mapping(2, times)
    (1, 3)
    """

    range: int
    slide: int
    offset: int

    kind: ClassVar[str] = "slide_by_time"
    context: ClassVar[Context] = "FCA"
    trigger: ClassVar[str] = "the watermark reaches a boundary before which new rows came"

    def __init__(self, range: int, slide: Duration, offset: Duration = 0) -> None:
        self._assign(
            range=self._positive_count("range", range),
            slide=self._positive_duration("slide", slide),
            offset=self._duration("offset", offset),
        )

    def extent(self, k: int, times: Sequence[int]) -> Interval:
        """The positions of the rows of window ``k``, given the times of all rows in order; empty if there is no
        window at this boundary."""
        end = grid.window_start(k, self.slide, self.offset)
        stop = bisect_left(times, end)
        if bisect_left(times, end - self.slide) == stop:
            return Interval(0)
        return Interval(max(0, stop - self.range), stop)

    def mapping(self, i: int, times: Sequence[int]) -> tuple[int, ...]:
        """The ids of the windows that contain the row at position ``i``, given the times of all rows in order.

        Needs later rows, because a boundary has a window only if there are new rows before it.
        """
        if not 0 <= i < len(times):
            raise WindowError(f"there is no row {i} among these {len(times)} rows")
        boundaries = sorted({grid.last_window(time, self.slide, self.offset) + 1 for time in times})
        return tuple(k for k in boundaries if i in self.extent(k, times))

    @property
    def label(self) -> str:
        text = f"{self.range} rows/{durations.format(self.slide)}"
        if self.offset:
            text += f"{'+' if self.offset > 0 else ''}{durations.format(self.offset)}"
        return text

    def parameters(self) -> dict[str, Any]:
        values: dict[str, Any] = {"range": self.range, "slide": durations.format(self.slide)}
        if self.offset:
            values["offset"] = durations.format(self.offset)
        return values
