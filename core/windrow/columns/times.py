"""Microseconds since the epoch: the units that event times come in, and watermarks.

Timestamps carry their unit. Numbers do not, so a query may say it (``time_unit=``). Without it, integers are
microseconds, and numbers that look like another unit are a warning. :func:`windrow.columns.arrow.event_times` reads them.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from operator import index
from typing import Literal, TypeAlias

import numpy as np

from windrow.errors import QueryError

TimeUnit: TypeAlias = Literal["s", "ms", "us", "ns"]

PER_UNIT: dict[str, tuple[int, int]] = {"s": (1_000_000, 1), "ms": (1000, 1), "us": (1, 1), "ns": (1, 1000)}
"""Microseconds are a number times the first, divided by the second and rounded down."""

UNIT_NAMES = {"s": "seconds", "ms": "milliseconds", "us": "microseconds", "ns": "nanoseconds"}

FARTHEST = 1 << 61
"""Microseconds from 1970 that leave room for the ends of windows."""

LIKELY = (631_152_000_000_000, 4_102_444_800_000_000)
"""1990 and 2100: most data is from between them."""


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
