"""Flink's clock and ours: milliseconds that have passed there, the earliest microsecond that may still come here.

Flink's watermark ``w`` says that no row with a time ≤ ``w`` milliseconds will come. A row of the same
millisecond may still carry any of its microseconds, and the next millisecond is the earliest that a later row
can have.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from windrow.kernels.layout import FOREVER

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
