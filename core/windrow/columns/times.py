"""Event times: a column of timestamps or numbers as microseconds since the epoch.

Timestamps carry their unit. Numbers do not, so a query may say it (``time_unit=``). Without it, integers are
microseconds, and numbers that look like another unit are a warning.

>>> import pyarrow as pa
>>> times(pa.table({"ts": [1.5, 2.0]}), "ts", "s").tolist()
[1500000, 2000000]
"""

from __future__ import annotations

import warnings
from datetime import UTC, datetime, timedelta
from operator import index
from typing import Any, Literal, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from windrow.columns.arrow import Column, as_table, field, to_numpy
from windrow.errors import QueryError, TimeColumnError, TimeUnitWarning

__all__ = ["FARTHEST", "PER_UNIT", "TimeUnit", "check_time", "instant", "microseconds", "read_rows", "times"]

Times: TypeAlias = NDArray[np.int64]
TimeUnit: TypeAlias = Literal["s", "ms", "us", "ns"]

PER_UNIT: dict[str, tuple[int, int]] = {"s": (1_000_000, 1), "ms": (1000, 1), "us": (1, 1), "ns": (1, 1000)}
"""Microseconds are a number times the first, divided by the second and rounded down."""

FARTHEST = 1 << 61
"""Microseconds from 1970 that leave room for the ends of windows."""

_NAMES = {"s": "seconds", "ms": "milliseconds", "us": "microseconds", "ns": "nanoseconds"}
_LIKELY = (631_152_000_000_000, 4_102_444_800_000_000)
"""1990 and 2100, in microseconds."""


def read_rows(data: Any, name: str, unit: TimeUnit | None = None) -> tuple[pa.Table, Times]:
    """Rows as a table, and their event times in microseconds."""
    table = as_table(data)
    return table, times(table, name, unit)


def times(data: pa.Table | pa.RecordBatch, name: str, unit: TimeUnit | None = None) -> Times:
    """The event times of the rows, in microseconds.

    Finer times are rounded down, which keeps every row in its windows: their boundaries are whole microseconds.
    Floats are rounded to the nearest microsecond, because a float of seconds has less than that to spare.
    """
    kind = check_time(data.schema, name, unit).type
    column = data.column(name)
    if column.null_count:
        raise TimeColumnError(
            f"time column {name!r} has {column.null_count} null(s); every row needs a time: "
            f"drop such rows first, or give them one"
        )
    if pa.types.is_floating(kind):
        assert unit is not None, "floats without a unit are refused by check_time"
        found = _from_floats(to_numpy(column)[0].astype(np.float64), name, unit)
    else:
        found = _from_integers(column, name, unit)
    earliest, latest = (int(found.min()), int(found.max())) if len(found) else (0, 0)
    if not -FARTHEST < earliest <= latest < FARTHEST:
        wrong = earliest if earliest <= -FARTHEST else latest
        raise TimeColumnError(
            f"time column {name!r} has {wrong} microseconds, more than 70,000 years from 1970; "
            f"is it in another unit? Say it with Query(time_unit=), such as time_unit='ns'"
        )
    if not pa.types.is_timestamp(kind):
        _warn_of_another_unit(name, unit, earliest, latest)
    return found


def check_time(schema: pa.Schema, name: str, unit: TimeUnit | None = None) -> pa.Field:
    """The time column of a schema; an error if there is none, or its type is none of a time."""
    found = field(schema, name, "time")
    if pa.types.is_timestamp(found.type):
        if unit is not None:
            raise TimeColumnError(
                f"time column {name!r} is a {found.type}, which has its unit; leave time_unit={unit!r} out"
            )
    elif pa.types.is_floating(found.type):
        if unit is None:
            raise TimeColumnError(
                f"time column {name!r} is a {found.type}, whose unit would be a guess; say it with "
                f"Query(time_unit=), one of {', '.join(map(repr, PER_UNIT))}, or cast it to a timestamp"
            )
    elif not pa.types.is_integer(found.type):
        raise TimeColumnError(
            f"time column {name!r} is a {found.type}; cast it to a timestamp, or to integer microseconds"
        )
    return found


def microseconds(column: Column) -> Times:
    """A column of timestamps or integers without nulls, as int64 microseconds."""
    if pa.types.is_timestamp(column.type):
        if column.type.unit == "ns":
            return np.floor_divide(to_numpy(column)[0], 1000)
        if column.type.unit != "us":
            column = column.cast(pa.timestamp("us", column.type.tz))
    elif column.type.id != _INT64:
        column = column.cast(pa.int64())
    return to_numpy(column)[0]


_INT64 = pa.int64().id


def instant(time: int | datetime | np.datetime64) -> int:
    """A watermark as microseconds since the epoch.

    >>> instant(datetime(1970, 1, 2)), instant(np.datetime64("1970-01-01T00:00:01"))
    (86400000000, 1000000)
    """
    if isinstance(time, datetime):
        epoch = datetime(1970, 1, 1, tzinfo=UTC if time.tzinfo else None)
        return (time - epoch) // timedelta(microseconds=1)
    if isinstance(time, np.datetime64):
        return int(time.astype("datetime64[us]").astype(np.int64))
    try:
        return index(time)
    except TypeError:
        raise QueryError(
            f"a watermark has to be whole microseconds since the epoch, or a datetime, not {time!r}"
        ) from None


def _from_integers(column: Column, name: str, unit: TimeUnit | None) -> Times:
    try:
        found = microseconds(column)
    except pa.ArrowInvalid as error:
        raise TimeColumnError(f"time column {name!r} does not fit 64 bits of microseconds: {error}") from None
    times, divided = PER_UNIT[unit or "us"]
    if times > 1:
        most = FARTHEST // times
        if len(found) and not -most < found.min() <= found.max() < most:
            raise TimeColumnError(
                f"time column {name!r} has {_farthest(found)} {_NAMES[unit or 'us']}, more than 70,000 years from 1970; "
                f"is it in another unit than time_unit={unit!r}?"
            )
        return found * times
    return np.floor_divide(found, divided) if divided > 1 else found


def _from_floats(values: NDArray[np.float64], name: str, unit: TimeUnit) -> Times:
    times, divided = PER_UNIT[unit]
    found = np.rint(values * times / divided)
    wrong = ~(np.abs(found) < FARTHEST)  # NaN too
    if wrong.any():
        raise TimeColumnError(
            f"time column {name!r} has {values[wrong][0]} {_NAMES[unit]}, which is no time, or more than 70,000 years from "
            f"1970; drop such rows, or say another unit than time_unit={unit!r}"
        )
    return found.astype(np.int64)


def _farthest(found: Times) -> int:
    return int(found.max() if abs(int(found.max())) > abs(int(found.min())) else found.min())


def _warn_of_another_unit(name: str, unit: TimeUnit | None, earliest: int, latest: int) -> None:
    """If times are not between 1990 and 2100, and would be in exactly one other unit, they are most likely in that one."""
    if _LIKELY[0] <= latest and earliest < _LIKELY[1]:
        return
    times, divided = PER_UNIT[unit or "us"]
    for other, (multiplied, over) in PER_UNIT.items():
        one, last = (each * divided * multiplied // (times * over) for each in (earliest, latest))
        if _LIKELY[0] <= one and last < _LIKELY[1]:
            year = 1970 + earliest // 31_556_952_000_000
            told = "integers without a unit are microseconds" if unit is None else f"time_unit={unit!r}"
            warnings.warn(
                f"time column {name!r}: {told}, which gives times in the year {year}; the numbers look like "
                f"{_NAMES[other]}: give the query time_unit={other!r}",
                TimeUnitWarning,
                stacklevel=4,
            )
            return
