# SPDX-License-Identifier: Apache-2.0
"""Durations that are bare numbers are microseconds, whatever the unit of times is. Whoever forgets it is warned.

>>> import warnings
>>> import windrow as wr
>>> with warnings.catch_warnings(record=True) as told:
...     query = wr.Query(window=wr.TimeWindow("10m", 60), aggregates={"n": wr.Count()}, time_unit="s")
>>> print(told[0].message)
slide of TimeWindow is 60 microseconds, less than the times' unit of one second; write '60s' if you mean 60 seconds
"""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

from windrow.columns.times import PER_UNIT, UNIT_NAMES
from windrow.errors import TimeUnitWarning

if TYPE_CHECKING:
    from windrow.query.query import Query

__all__ = ["warn_of_bare_numbers"]


def warn_of_bare_numbers(query: Query) -> None:
    """Warn of windows whose durations are numbers below one unit of the query's times. Called when a query is built."""
    if query.time_unit is None:
        return
    one = PER_UNIT[query.time_unit][0]
    for _, window in query.windows:
        for name, number in window.bare.items():
            if 0 < number < one:
                message = _message(f"{name} of {type(window).__name__}", number, query.time_unit)
                warnings.warn(message, TimeUnitWarning, stacklevel=3)


def _message(name: str, number: int, unit: str) -> str:
    singular = UNIT_NAMES[unit].removesuffix("s")
    ending = "" if number == 1 else "s"
    return (
        f"{name} is {number} microsecond{ending}, less than the times' unit of one {singular}; "
        f"write '{number}{unit}' if you mean {number} {singular}{ending}"
    )
