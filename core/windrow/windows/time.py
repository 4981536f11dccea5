"""Time windows: a fixed length of time, repeated at a fixed distance."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import gcd
from typing import Any, ClassVar, TypeVar

import numpy as np
from numpy.typing import NDArray

from windrow import durations
from windrow.durations import Duration
from windrow.windows.base import Context, Interval, Window

__all__ = ["TimeWindow", "pane"]

Times = TypeVar("Times", int, NDArray[np.int64])


@dataclass(frozen=True, init=False, repr=False)
class TimeWindow(Window):
    """Window k covers the times [k·slide + offset, k·slide + offset + range), for every integer k.

    Windows are aligned to the epoch plus ``offset``; k is negative before it. ``slide=None`` is a tumbling
    window. A slide longer than the range leaves gaps, whose rows belong to no window; the range need not be
    a multiple of the slide. Equations (2), and (5) and (6) carried over to time.

    ::

        range 4, slide 2     time  -2  -1   0   1   2   3   4   5   6
                             k=-1   ├───────────────┤
                             k=0            ├───────────────┤
                             k=1                    ├───────────────┤

    >>> window = TimeWindow(range="4us", slide="2us")
    >>> window.extent(1), window.mapping(3)
    (range(2, 6), range(0, 2))
    >>> TimeWindow("2us", "5us").mapping(3)         # in a gap
    range(1, 1)
    """

    range: int
    slide: int
    offset: int

    kind: ClassVar[str] = "time"
    context: ClassVar[Context] = "FCF"
    trigger: ClassVar[str] = "the watermark reaches window_end"

    def __init__(self, range: Duration, slide: Duration | None = None, offset: Duration = 0) -> None:
        length = self._positive_duration("range", range)
        self._assign(
            range=length,
            slide=length if slide is None else self._positive_duration("slide", slide),
            offset=self._duration("offset", offset),
        )

    def extent(self, k: int) -> Interval:
        """The microseconds of window ``k``; ``time in window.extent(k)`` is cheap."""
        start, end = self.bounds(k)
        return Interval(start, end)

    def mapping(self, time: int) -> Interval:
        """The ids of the windows that contain ``time``."""
        return Interval(self.first_window(time), self.last_window(time) + 1)

    def first_window(self, time: Times) -> Times:
        """The id of the first window that contains ``time``; in a gap, greater than the last. Takes arrays.

        >>> import numpy as np
        >>> TimeWindow("4us", "2us").first_window(np.array([-1, 0, 1, 2]))
        array([-2, -1, -1,  0])
        """
        return (time - (self.offset + self.range)) // self.slide + 1

    def last_window(self, time: Times) -> Times:
        """Id of the last window that contains ``time``; smaller than the first in a gap. Takes arrays."""
        return (time - self.offset) // self.slide

    def bounds(self, k: Times) -> tuple[Times, Times]:
        """The start and the end of window ``k``: it covers [start, end). Takes arrays."""
        start = k * self.slide + self.offset
        return start, start + self.range

    @property
    def label(self) -> str:
        text = durations.format(self.range)
        if self.slide != self.range:
            text += f"/{durations.format(self.slide)}"
        if self.offset:
            text += f"{'+' if self.offset > 0 else ''}{durations.format(self.offset)}"
        return text

    def parameters(self) -> dict[str, Any]:
        values = {"range": durations.format(self.range), "slide": durations.format(self.slide)}
        if self.offset:
            values["offset"] = durations.format(self.offset)
        return values


def pane(windows: Sequence[TimeWindow]) -> int:
    """The length of the longest equal slices that no boundary of these windows crosses, in microseconds.

    >>> pane([TimeWindow("1m", "7s"), TimeWindow("1m", "1m", offset="500ms")])
    500000
    """
    lengths = [length for window in windows for length in (window.range, window.slide)]
    return gcd(*lengths, *(window.offset - windows[0].offset for window in windows))
