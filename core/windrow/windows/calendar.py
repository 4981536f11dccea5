# SPDX-License-Identifier: Apache-2.0
"""Calendars: days and months of a time zone, some of which are longer than others.

A day has 23, 24 or 25 hours where clocks change, and a month 28 to 31 days. Windows of a calendar are kept as even as
others by a *civil axis*, on which every day (or month) takes the same room. A time goes there by a table of the
instants at which days (or months) begin. On the axis windows repeat at a fixed distance, so the kernels know
nothing of calendars.

::

    time          …  24 h  │  23 h  │  24 h  …          clocks go forward on the second day
    civil axis    …  room  │  room  │  room  …

>>> stockholm = Calendar("Europe/Stockholm", "d")
>>> day = stockholm.position(1_711_839_600_000_000)                 # 2024-03-31 00:00 in Stockholm
>>> (stockholm.instant(day + 1) - stockholm.instant(day)) / 3_600_000_000
23.0
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cache, cached_property
from typing import Any, Literal, NamedTuple, TypeAlias
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import numpy as np
from numpy.typing import NDArray

from windrow import durations
from windrow.durations import Duration
from windrow.errors import TimeColumnError, WindowError

__all__ = ["Calendar", "Length", "Unit", "alignment", "read_length", "zone_named"]

Ints: TypeAlias = NDArray[np.int64]
Unit: TypeAlias = Literal["d", "mo"]

DAY = 86_400_000_000
ROOM = {"d": 1 << 38, "mo": 1 << 42}
"""What a unit takes on the civil axis, in microseconds: 76 hours and 50 days, more than any day or month has had."""
FIRST, LAST = datetime(1, 1, 3), datetime(9999, 12, 29)
"""Between these, Python knows the clocks of a zone."""
FARTHEST = (-62_135_000_000_000_000, 253_402_000_000_000_000)
"""Times that have a place in a calendar: from the year 1 to the year 9999."""
ENDLESS = 1 << 61
"""Watermarks beyond this are before or after everything, in any calendar."""
MONTHS = {
    "mo": 1,
    "month": 1,
    "months": 1,
    "q": 3,
    "quarter": 3,
    "quarters": 3,
    "y": 12,
    "year": 12,
    "years": 12,
}
_MICROSECOND, _EPOCH = timedelta(microseconds=1), datetime(1970, 1, 1)


class Length(NamedTuple):
    """A length of time on a calendar."""

    months: int
    micros: int

    def text(self) -> str:
        """As :func:`read_length` reads it.

        >>> Length(12, 0).text(), Length(3, 0).text(), Length(5, 21_600_000_000).text()
        ('1y', '1q', '5mo6h')
        """
        if not self.months:
            return durations.format(self.micros)
        size, unit = next((n, u) for n, u in ((12, "y"), (3, "q"), (1, "mo")) if self.months % n == 0)
        rest = durations.format(self.micros) if self.micros else ""
        return f"{self.months // size}{unit}{rest}"


def read_length(value: Duration, name: str) -> Length:
    """A duration in any form, whose text may also have the units ``mo``, ``q`` and ``y`` or their English names.

    >>> read_length("1y 2mo", "range"), read_length("1d", "range").micros
    (Length(months=14, micros=0), 86400000000)
    """
    if not isinstance(value, str):
        return Length(0, durations.parse(value, name=name))
    months, rest = 0, value
    for part in re.finditer(r"(\d+)\s*([A-Za-z]+)", value):
        if part[2] in MONTHS:
            months += int(part[1]) * MONTHS[part[2]]
            rest = rest.replace(part[0], "", 1)
    if not months:
        return Length(0, durations.parse(value, name=name))
    sign = -1 if value.strip().startswith("-") else 1
    left = rest.strip().lstrip("+-").strip()
    return Length(sign * months, sign * durations.parse(left, name=name) if left else 0)


def alignment(unit: Unit, slide: int) -> int:
    """Where window 0 begins, in days or months after January 1970: weeks begin on Monday, which the fifth was."""
    return 4 if unit == "d" and slide % 7 == 0 else 0


@cache
def zone_named(name: str) -> ZoneInfo:
    """The time zone of this name in the IANA database."""
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError, TypeError):
        raise WindowError(
            f"zone of TimeWindow: there is no time zone {name!r}; give a name such as 'Europe/Stockholm' or 'UTC' "
            f"(if the machine has no time zones at all, install the package tzdata)"
        ) from None


@dataclass(frozen=True)
class Calendar:
    """The days or months of a zone. Each begins when its clocks first show midnight of its first day plus ``shift``.

    If clocks skip that moment, it begins when they skip it. If they show it twice, it begins the first time.
    """

    zone: str
    unit: Unit
    shift: int = 0

    def civil(self, times: Any) -> Any:
        """Times on the civil axis: a number or an array. Their order stays."""
        if isinstance(times, int):
            if not FARTHEST[0] <= times <= FARTHEST[1]:
                return times if abs(times) >= ENDLESS else (ENDLESS if times > 0 else -ENDLESS)
            return int(self.civil(np.array([times], dtype=np.int64))[0])
        if not len(times):
            return times
        first, last = self.position(int(times.min())), self.position(int(times.max()))
        begins = self._instants(first, last + 1)
        at = np.searchsorted(begins, times, side="right") - 1
        return (at + first) * ROOM[self.unit] + (times - begins[at])

    def check(self, times: Ints) -> None:
        """Refuse times that no calendar knows."""
        earliest, latest = (int(times.min()), int(times.max())) if len(times) else (0, 0)
        if not FARTHEST[0] <= earliest <= latest <= FARTHEST[1]:
            wrong = earliest if earliest < FARTHEST[0] else latest
            raise TimeColumnError(
                f"a time of {wrong} microseconds is not between the years 1 and 9999, in which zone {self.zone!r} has a "
                f"calendar; is it in another unit? Set it with Query(time_unit=)"
            )

    def instants(self, civil: Ints) -> Ints:
        """The times of places on the civil axis at which a day or month begins, or inside one."""
        if not len(civil):
            return civil
        at, rest = np.divmod(civil, ROOM[self.unit])
        first = int(at.min())
        begins = self._instants(first, int(at.max()) + 1)
        found: Ints = np.minimum(begins[at - first] + rest, begins[at - first + 1])
        return found

    def time(self, civil: Any) -> Any:
        """As :meth:`instants`, also of one number."""
        if isinstance(civil, int):
            if abs(civil) >= ENDLESS:
                return civil
            return int(self.instants(np.array([civil], dtype=np.int64))[0])
        return self.instants(civil)

    def instant(self, unit: int) -> int:
        """When a day or month begins, given its number since January 1970."""
        begins, which = divmod(unit, TABLE)
        return int(self._table(begins)[which])

    def position(self, time: int) -> int:
        """The number of the day or month, since January 1970, that a time is in."""
        local = np.datetime64(time - self.shift, "us")
        guess = int(local.astype(f"datetime64[{'D' if self.unit == 'd' else 'M'}]").astype(np.int64)) - 2
        while self.instant(guess + 1) <= time:
            guess += 1
        return guess

    def _instants(self, first: int, last: int) -> Ints:
        """When the days or months from the first to the last begin."""
        tables = range(first // TABLE, last // TABLE + 1)
        found: Ints = np.concatenate([self._table(which) for which in tables])
        return found[first - tables.start * TABLE : last + 1 - tables.start * TABLE]

    @cached_property
    def _tables(self) -> dict[int, Ints]:
        return {}

    def _table(self, which: int) -> Ints:
        """When some days or months begin that follow each other."""
        if which not in self._tables:
            units = np.arange(which * TABLE, (which + 1) * TABLE)
            local = units.astype(f"datetime64[{'D' if self.unit == 'd' else 'M'}]").astype("datetime64[us]")
            civil = (local.astype(np.int64) + self.shift).tolist()
            zone = zone_named(self.zone)
            self._tables[which] = np.array([_first_shown(each, zone) for each in civil], dtype=np.int64)
        return self._tables[which]

    def __reduce__(self) -> tuple[Any, ...]:
        return Calendar, (self.zone, self.unit, self.shift)


TABLE = 256
"""How many days or months a table has."""


def _first_shown(civil: int, zone: ZoneInfo) -> int:
    """The first instant at which the clocks of a zone show this civil time, or have skipped it."""
    local = (
        min(max(_EPOCH + civil * _MICROSECOND, FIRST), LAST)
        if _in_reach(civil)
        else (FIRST if civil < 0 else LAST)
    )
    offset = _micros(local.replace(tzinfo=zone))
    later = _micros(local.replace(tzinfo=zone, fold=1))
    if later <= offset:  # shown once, or twice: then before clocks go back
        return civil - offset
    before, after = civil - later, civil - offset  # skipped: clocks change between these instants
    while after - before > 1:
        middle = (before + after) // 2
        if _micros((_EPOCH + middle * _MICROSECOND).replace(tzinfo=UTC).astimezone(zone)) == offset:
            before = middle
        else:
            after = middle
    return after


def _in_reach(civil: int) -> bool:
    return FARTHEST[0] <= civil <= FARTHEST[1]


def _micros(local: datetime) -> int:
    offset = local.utcoffset()
    assert offset is not None
    return offset // _MICROSECOND
