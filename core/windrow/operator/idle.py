# SPDX-License-Identifier: Apache-2.0
"""``idle=``: when the windows of silent keys are frozen, and how. It changes what an operator costs, never its output.

>>> Idle.of("60s")
Idle(after='60s', codec='zstd', level=None, memory=None, cpu=0.05, cohort=8192)
>>> Idle.of(None) is None
True
>>> Idle.of("soon")
Traceback (most recent call last):
windrow.errors.DurationError: idle: cannot read 'soon' as a duration; \
write numbers with the units w, d, h, m, s, ms, us or their English names, such as '1h30m' or '1 minute'
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from windrow import durations
from windrow.durations import Duration
from windrow.errors import DurationError, QueryError
from windrow.memory import parse_bytes
from windrow.storage.cold_codec import Codec

AUTO = "auto"
__all__ = ["Idle", "IdleFigures"]


@dataclass(frozen=True)
class Idle:
    """Freeze the windows of keys that got no row for ``after`` of event time.

    ``after`` is the parameter D of Gulisano's A_C (2024). ``"0s"`` freezes every key at the next watermark. ``"auto"`` chooses
    D from the silences of the keys; then ``memory``, such as ``"1GB"``, is how large the state may be, and ``cpu`` the share of the
    time that freezing may take, which wins. ``codec`` is
    ``"zstd"``, ``"lz4"``, ``"snappy"``, ``"none"``, or ``"pcodec"`` for floats, an extra to install; ``level`` is that of
    zstd or pcodec. Idle keys wait for each other until they
    have ``cohort`` slices and rows together: many in one block take far fewer bytes.

    >>> import windrow as wr
    >>> wr.Idle("10m", codec="lz4").micros
    600000000
    >>> wr.Idle("-1s")
    Traceback (most recent call last):
    windrow.errors.DurationError: idle has to be zero or longer, not '-1s'
    """

    after: Duration
    codec: str = "zstd"
    level: int | None = None
    memory: str | int | None = None
    cpu: float = 0.05
    cohort: int = 8192

    def __post_init__(self) -> None:
        if self.after != AUTO and durations.parse(self.after, name="idle") < 0:
            raise DurationError(f"idle has to be zero or longer, not {self.after!r}")
        if isinstance(self.cpu, bool) or not isinstance(self.cpu, int | float) or not 0 < self.cpu <= 1:
            raise QueryError(
                f"cpu of idle has to be a share of the time, above 0 and at most 1, not {self.cpu!r}"
            )
        if self.after != AUTO and self.memory is not None:
            raise QueryError("memory of idle works with 'auto' only: a given duration is not changed")
        _bytes(self.memory)
        Codec(self.codec, self.level)
        if type(self.cohort) is not int or self.cohort < 1:
            raise QueryError(f"cohort of idle has to be a whole number of at least 1, not {self.cohort!r}")

    @property
    def micros(self) -> int | None:
        """``after`` in microseconds; none if it is chosen."""
        return None if self.after == AUTO else durations.parse(self.after, name="idle")

    @property
    def memory_bytes(self) -> int | None:
        """``memory`` in bytes."""
        return _bytes(self.memory)

    @classmethod
    def of(cls, value: Any) -> Idle | None:
        """What a user may give for ``idle``: a duration, an :class:`Idle`, or ``None`` for never."""
        return value if value is None or isinstance(value, Idle) else cls(value)


def _bytes(memory: str | int | None) -> int | None:
    return None if memory is None else parse_bytes(str(memory), name="memory of idle")


@dataclass(frozen=True)
class IdleFigures:
    """What is frozen now, and what was done so far. See :attr:`windrow.Operator.idle`."""

    hot_keys: int = 0
    """Keys whose slices are in the slice table."""
    cold_keys: int = 0
    """Keys whose slices are in cold blocks."""
    hot_bytes: int = 0
    """The size of the slice table: arrays, with the room that is unused."""
    cold_bytes: int = 0
    """The size of all cold blocks."""
    blocks: int = 0
    freezes: int = 0
    """How often a key was frozen."""
    thaws: int = 0
    """How often a row thawed a key."""
    after: int | None = None
    """The D in use, in microseconds; ``None`` if keys are never frozen."""
    why: str = ""
    """Why this D, or why keys stay hot."""
