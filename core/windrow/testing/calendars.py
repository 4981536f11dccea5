# SPDX-License-Identifier: Apache-2.0
"""The windows of a calendar, from what clocks show: the part of the oracle that knows time zones. Slow, and simple.

It asks a zone what its clocks show at an instant, and nothing else. :mod:`windrow.windows.calendar` computes the same
from tables.

>>> clocks_reach("Europe/Stockholm", datetime(2024, 3, 31, 2, 30)).isoformat()     # skipped: clocks go from 2 to 3
'2024-03-31T01:00:00+00:00'
>>> clocks_reach("Europe/Stockholm", datetime(2024, 10, 27, 2, 30)).isoformat()    # shown twice
'2024-10-27T00:30:00+00:00'
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any
from zoneinfo import ZoneInfo

from windrow import durations

__all__ = ["calendar_windows", "clocks_reach"]

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND = timedelta(microseconds=1)
MONTHS = {"y": 12, "q": 3, "mo": 1}


def calendar_windows(parameters: Mapping[str, Any], times: list[int]) -> Iterator[tuple[int, int]]:
    """Start and end, in microseconds, of every window that could hold one of the times."""
    zone = parameters["zone"]
    range_, monthly = _units(parameters["range"])
    slide, _ = _units(parameters["slide"])
    months, shift = _offset(parameters.get("offset", "0s"))
    monday = 4 if not monthly and slide % 7 == 0 else 0
    first = months if monthly else monday
    starts: set[int] = set()
    for time in times:
        local = _shown(EPOCH + time * MICROSECOND, zone) - shift
        here = (local.year - 1970) * 12 + local.month - 1 if monthly else (local - datetime(1970, 1, 1)).days
        starts.update(unit for unit in range(here - range_ - 3, here + 4) if (unit - first) % slide == 0)
    for unit in sorted(starts):
        bounds = [clocks_reach(zone, _beginning(each, monthly) + shift) for each in (unit, unit + range_)]
        start, end = ((bound - EPOCH) // MICROSECOND for bound in bounds)
        yield start, end


@lru_cache(maxsize=10_000)
def clocks_reach(zone: str, civil: datetime) -> datetime:
    """The first instant at which the clocks of a zone show this time or a later one."""
    before = civil.replace(tzinfo=UTC) - timedelta(hours=26)
    while _shown(before + timedelta(minutes=15), zone) < civil:
        before += timedelta(minutes=15)
    after = before + timedelta(minutes=15)
    while after - before > MICROSECOND:
        middle = before + (after - before) // 2
        before, after = (before, middle) if _shown(middle, zone) >= civil else (middle, after)
    return after


def _shown(instant: datetime, zone: str) -> datetime:
    return instant.astimezone(ZoneInfo(zone)).replace(tzinfo=None)


def _beginning(unit: int, monthly: bool) -> datetime:
    if monthly:
        return datetime(1970 + unit // 12, unit % 12 + 1, 1)
    return datetime(1970, 1, 1) + timedelta(days=unit)


def _units(text: str) -> tuple[int, bool]:
    """How many months, quarters and years are months, or else days; and which of the two."""
    found = re.fullmatch(r"(\d+)(mo|q|y)", text)
    if found:
        return int(found[1]) * MONTHS[found[2]], True
    return durations.parse(text) // durations.parse("1d"), False


def _offset(text: str) -> tuple[int, timedelta]:
    found = re.fullmatch(r"(-?\d+)(mo|q|y)(.*)", text)
    months = int(found[1]) * MONTHS[found[2]] if found else 0
    rest = found[3] if found else text
    return months, timedelta(microseconds=durations.parse(rest) if rest else 0)
