# SPDX-License-Identifier: Apache-2.0
"""Microseconds since the epoch: the units that event times come in, and watermarks.

Timestamps carry their unit. Numbers do not, so a query may say it (``time_unit=``). Without it, integers are
microseconds, and numbers that look like another unit are a warning. :func:`windrow.columns.arrow.event_times` reads them.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, tzinfo
from operator import index
from typing import Literal, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from windrow.errors import QueryError

TimeUnit: TypeAlias = Literal["s", "ms", "us", "ns"]

PER_UNIT: dict[str, tuple[int, int]] = {"s": (1_000_000, 1), "ms": (1000, 1), "us": (1, 1), "ns": (1, 1000)}
"""Microseconds are a number times the first, divided by the second and rounded down."""

UNIT_NAMES = {"s": "seconds", "ms": "milliseconds", "us": "microseconds", "ns": "nanoseconds"}

FARTHEST = 1 << 61
"""Microseconds from 1970 that leave room for the ends of windows."""

LIKELY = (631_152_000_000_000, 4_102_444_800_000_000)
"""1990 and 2100: most data is from between them."""


AT_ONCE = 1 << 16
"""So many times are compared at a time: what comes of it stays in the caches."""


def ascending(times: NDArray[np.int64]) -> bool:
    """Is no time before the one that it follows?

    >>> ascending(np.array([1, 4, 4])), ascending(np.array([1, 4, 3])), ascending(np.array([], dtype=np.int64))
    (True, False, True)
    """
    for begin in range(0, len(times) - 1, AT_ONCE):
        some = times[begin : begin + AT_ONCE + 1]
        if not (some[1:] >= some[:-1]).all():
            return False
    return True


def shown_time(bound: pa.Scalar, zone: tzinfo | None = None) -> str:
    """A bound of a window for a message. A timestamp is shown in ``zone``, other bounds as the numbers that they are.

    >>> shown_time(pa.scalar(90_000_000, pa.timestamp("us"))), shown_time(pa.scalar(90))
    ('1970-01-01 00:01:30', '90')
    >>> from datetime import timezone
    >>> shown_time(pa.scalar(90_000_000, pa.timestamp("us", "UTC")), timezone(timedelta(hours=1)))
    '1970-01-01 01:01:30+01:00'
    """
    if not pa.types.is_timestamp(bound.type):
        return str(bound.as_py())
    try:
        time = bound.as_py()
        return str(
            time if zone is None else (time if time.tzinfo else time.replace(tzinfo=UTC)).astimezone(zone)
        )
    except (ValueError, OverflowError):  # no year between 1 and 9999
        return f"{bound.value} microseconds"


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
