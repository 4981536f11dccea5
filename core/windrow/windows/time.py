# SPDX-License-Identifier: Apache-2.0
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
from windrow.errors import WindowError
from windrow.windows import calendar, grid
from windrow.windows.base import Context, Interval, Window
from windrow.windows.calendar import DAY, ROOM, Calendar, Length

__all__ = ["TimeWindow", "pane"]

Times = TypeVar("Times", int, NDArray[np.int64])


@dataclass(frozen=True, init=False, repr=False)
class TimeWindow(Window):
    """Window k covers the times [k·slide + offset, k·slide + offset + range), for every integer k.

    range
        The length of a window.
    slide
        The distance between the starts of two windows; by default the range, which makes windows tumble. A slide longer
        than the range leaves gaps, and rows in a gap belong to no window. The range need not be a multiple of the slide.
    offset
        Windows are aligned to the epoch plus this. k is negative before it.
    zone
        A time zone, such as ``"Europe/Stockholm"``. Windows are then days, weeks, months, quarters or years of its
        calendar, with summer time: ``"1d"``, ``"2w"``, ``"1mo"``, ``"1q"``, ``"1y"``.

    A day of a zone begins at midnight there plus ``offset``, and a week on Monday. If clocks skip midnight, the day
    begins when they skip it; if they show it twice, the first time. Times without a zone are in UTC. Months, quarters and
    years without a ``zone`` are those of UTC. Equation (2), and equations (5) and (6) for times instead of positions.

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
    >>> TimeWindow("1d", zone="Europe/Stockholm").label, TimeWindow("1y", "1mo").label
    ('1d Europe/Stockholm', '1y/1mo UTC')
    """

    range: int
    slide: int
    offset: int
    """Range, slide and offset are microseconds, or lengths on the axis of a calendar."""
    calendar: Calendar | None
    """The days or months of a zone, if it has one."""

    kind: ClassVar[str] = "time"
    context: ClassVar[Context] = "FCF"
    trigger: ClassVar[str] = "the watermark reaches window_end"

    def __init__(
        self, range: Duration, slide: Duration | None = None, offset: Duration = 0, zone: str | None = None
    ) -> None:
        on_calendar = self._length("range", range), self._length("slide", range if slide is None else slide)
        shift = self._length("offset", offset)
        if zone is not None or any(each.months for each in (*on_calendar, shift)):
            self._assign(**_on_calendar(*on_calendar, shift, "UTC" if zone is None else zone))
            return
        length = self._positive_duration("range", range)
        self._assign(
            range=length,
            slide=length if slide is None else self._positive_duration("slide", slide),
            offset=self._duration("offset", offset),
            calendar=None,
        )

    def _length(self, name: str, value: Duration) -> Length:
        return calendar.read_length(value, f"{name} of TimeWindow")

    @property
    def zone(self) -> str | None:
        """The time zone whose days or months these windows are; none if they are lengths of time."""
        return None if self.calendar is None else self.calendar.zone

    @property
    def longest(self) -> int:
        """No window is longer, in microseconds."""
        if self.calendar is None:
            return self.range
        units = self.range // ROOM[self.calendar.unit]
        return (units + 2 if self.calendar.unit == "d" else 31 * units + 2) * DAY

    def extent(self, k: int) -> Interval:
        """The microseconds of window ``k``, as an interval. Needs no rows."""
        start, end = self.bounds(k)
        return Interval(start, end)

    def mapping(self, time: int) -> Interval:
        """The ids of the windows that contain ``time``. Needs no rows. Empty in a gap."""
        return Interval(self.first_window(time), self.last_window(time) + 1)

    def first_window(self, time: Times) -> Times:
        """The id of the first window that contains ``time``. In a gap, one more than the last. Takes arrays.

        >>> import numpy as np
        >>> TimeWindow("4us", "2us").first_window(np.array([-1, 0, 1, 2]))
        array([-2, -1, -1,  0])
        """
        place = time if self.calendar is None else self.calendar.civil(time)
        return grid.first_window(place, self.range, self.slide, self.offset)

    def last_window(self, time: Times) -> Times:
        """The id of the last window that contains ``time``. In a gap, one less than the first. Takes arrays."""
        place = time if self.calendar is None else self.calendar.civil(time)
        return grid.last_window(place, self.slide, self.offset)

    def bounds(self, k: Times) -> tuple[Times, Times]:
        """The start and the end of window ``k``, which covers [start, end). Takes arrays."""
        start = grid.window_start(k, self.slide, self.offset)
        if self.calendar is None:
            return start, start + self.range
        return self.calendar.time(start), self.calendar.time(start + self.range)

    @property
    def label(self) -> str:
        values = self.parameters()
        text: str = values["range"]
        if self.slide != self.range:
            text += f"/{values['slide']}"
        if offset := values.get("offset"):
            text += offset if offset.startswith("-") else f"+{offset}"
        return text if self.calendar is None else f"{text} {self.zone}"

    def parameters(self) -> dict[str, Any]:
        if self.calendar is not None:
            return _written(self.calendar, self.range, self.slide, self.offset)
        values = {"range": durations.format(self.range), "slide": durations.format(self.slide)}
        if self.offset:
            values["offset"] = durations.format(self.offset)
        return values


def _on_calendar(range: Length, slide: Length, offset: Length, zone: str) -> dict[str, Any]:
    """The fields of a window of days or of months."""
    calendar.zone_named(zone)
    unit: calendar.Unit = "mo" if range.months else "d"
    if slide.months and unit == "d":
        raise WindowError(
            f"range of TimeWindow is {range.text()!r}; with a slide in months, as {slide.text()!r} is, range has to be "
            f"months, quarters or years too"
        )
    if offset.months and unit == "d":
        raise WindowError(
            f"offset of TimeWindow is {offset.text()!r}, but its range, {range.text()!r}, is not in months; give days and hours"
        )
    for name, length in (("range", range), ("slide", slide)):
        if unit == "mo" and (length.micros or not length.months):
            raise WindowError(
                f"range and slide of TimeWindow have to be both in months, quarters and years, or both in days and weeks; "
                f"{name} is {length.text()!r}"
            )
        if unit == "d" and length.micros % DAY:
            raise WindowError(
                f"{name} of TimeWindow is {length.text()!r}; with a zone it has to be whole days or weeks, or months, quarters "
                f"or years. Shorter windows have no calendar: leave zone out, and shift windows of hours with offset="
            )
        if length.micros < 0 or length.months < 0 or length == (0, 0):
            raise WindowError(f"{name} of TimeWindow has to be longer than zero, not {length.text()!r}")
        if length.months > 12 * MOST_YEARS or length.micros > 365 * MOST_YEARS * DAY:
            raise WindowError(f"{name} of TimeWindow on a calendar has to be at most {MOST_YEARS} years")
    units = [length.months if unit == "mo" else length.micros // DAY for length in (range, slide)]
    aligned = calendar.alignment(unit, units[1]) + offset.months
    room = ROOM[unit]
    return {
        "range": units[0] * room,
        "slide": units[1] * room,
        "offset": aligned * room,
        "calendar": Calendar(zone, unit, offset.micros),
    }


MOST_YEARS = 5000


def _written(of: Calendar, range: int, slide: int, offset: int) -> dict[str, Any]:
    """The parameters of a window on a calendar."""
    room = ROOM[of.unit]
    lengths = [
        Length(each // room, 0) if of.unit == "mo" else Length(0, each // room * DAY)
        for each in (range, slide)
    ]
    values = {"range": lengths[0].text(), "slide": lengths[1].text()}
    aligned = offset // room - calendar.alignment(of.unit, slide // room)
    if aligned or of.shift:
        values["offset"] = Length(aligned, of.shift).text()
    return {**values, "zone": of.zone}


def pane(windows: Sequence[TimeWindow]) -> int:
    """The greatest length of equal slices such that no window starts or ends inside a slice, in microseconds.

    Called when slices of a query are aggregated by an engine, and by ``explain``. There is at least one window.

    >>> pane([TimeWindow("1m", "7s"), TimeWindow("1m", "1m", offset="500ms")])
    500000
    """
    if any(window.calendar is not None for window in windows):
        raise WindowError("the slices of a calendar are not of equal length")
    lengths = [length for window in windows for length in (window.range, window.slide)]
    return gcd(*lengths, *(window.offset - windows[0].offset for window in windows))
