# SPDX-License-Identifier: Apache-2.0
"""Flink's watermarks and ours.

Flink's watermark ``w`` says that no row of millisecond ``w``, or of an earlier one, will come. Ours is the earliest
microsecond that a row may still have, so it is the first one of the next millisecond.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import windrow  # noqa: F401  # whole, before its parts: see the package
from windrow.columns.times import FARTHEST, PER_UNIT, TimeUnit
from windrow.errors import TimeColumnError
from windrow.kernels.slices.layout import FOREVER

END = (1 << 63) - 1
"""The watermark after the last row."""
_EPOCH, _EPOCH_UTC = datetime(1970, 1, 1), datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


def from_flink(watermark: int) -> int:
    """Our watermark, in microseconds.

    >>> from_flink(9)
    10000
    """
    return max(-FOREVER, min(FOREVER, (watermark + 1) * 1000))


def to_flink(watermark: int) -> int:
    """The earliest of Flink's watermarks at which ours is reached.

    >>> to_flink(10000), to_flink(10001)
    (9, 10)
    """
    return -(-watermark // 1000) - 1


def microseconds(value: Any) -> int:
    """A time as a row of a stream carries it, in microseconds since the epoch."""
    if isinstance(value, datetime):
        return (value - (_EPOCH if value.tzinfo is None else _EPOCH_UTC)) // _MICROSECOND
    if hasattr(value, "nanos"):  # an Instant of PyFlink
        return int(value.seconds) * 1_000_000 + int(value.nanos) // 1000
    if hasattr(value, "getEpochSecond"):  # Java's own, as thread mode hands it over
        return int(value.getEpochSecond()) * 1_000_000 + int(value.getNano()) // 1000
    return int(value)


def moment(value: Any, unit: TimeUnit | None) -> int:
    """As :func:`microseconds`, of a number in this unit, as :mod:`windrow.columns.times` computes it.

    >>> moment(1.5, "s"), moment(1999, "ns"), moment(7, None)
    (1500000, 1, 7)
    """
    if unit is None:
        return microseconds(value)
    times, divided = PER_UNIT[unit]
    if not isinstance(value, float):
        return int(value) * times // divided
    if not abs(value) < FARTHEST:
        raise TimeColumnError(f"a row has the time {value}, which is not a valid time; drop such rows")
    return round(value * times / divided)
