# SPDX-License-Identifier: Apache-2.0
"""Durations: from text and other forms to integer microseconds, and back to text.

>>> parse("1h30m"), parse("250ms"), parse(10)
(5400000000, 250000, 10)
>>> format(5_400_000_000), format(3_601_000_000), format(-250_000), format(0)
('90m', '1h1s', '-250ms', '0s')
"""

from __future__ import annotations

import math
import operator
import re
from datetime import timedelta
from fractions import Fraction
from functools import cache
from itertools import combinations
from typing import TypeAlias

import numpy as np

from windrow.errors import DurationError

__all__ = ["LONGEST", "Duration", "format", "parse"]

Duration: TypeAlias = int | str | timedelta | np.timedelta64
"""Everything that :func:`parse` takes."""

UNITS = {
    "w": 604_800_000_000,
    "d": 86_400_000_000,
    "h": 3_600_000_000,
    "m": 60_000_000,
    "s": 1_000_000,
    "ms": 1_000,
    "us": 1,
}

SPELLINGS = {
    **{unit: unit for unit in UNITS},
    **{"µs": "us", "μs": "us", "microsecond": "us", "microseconds": "us"},
    **{"millisecond": "ms", "milliseconds": "ms"},
    **{"sec": "s", "second": "s", "seconds": "s"},
    **{"min": "m", "minute": "m", "minutes": "m"},
    **{"hour": "h", "hours": "h", "day": "d", "days": "d", "week": "w", "weeks": "w"},
}

PART = re.compile(r"\s*([0-9]+(?:\.[0-9]+)?)\s*([^\W\d_]+)\s*")

LONGEST = 1 << 60
"""Microseconds: the longest duration, about 36,500 years.

Times are less than 2**61 from 1970. With ranges, slides, offsets, delays and lateness of at most 2**60 each, no window
end and no watermark leaves 64 bits, and none reaches the values that kernels use for "no window" and "for ever", -2**62
and 2**62.
"""


def parse(value: Duration, name: str = "duration") -> int:
    """A duration in any accepted form, as integer microseconds.

    Text is numbers with units, ``w d h m s ms us`` or their English names. Each unit occurs at most once. A sign
    may come first. An integer is microseconds. The longest duration is :data:`LONGEST`. ``name`` is used in errors;
    it says what the duration is for.

    >>> parse("1d") == parse(timedelta(days=1)) == parse("24 hours") == 86_400_000_000
    True
    >>> parse("1.5s"), parse("-1m")
    (1500000, -60000000)
    >>> parse("ten minutes", name="slide of TimeWindow")
    Traceback (most recent call last):
    windrow.errors.DurationError: slide of TimeWindow: cannot read 'ten minutes' as a duration; \
write numbers with the units w, d, h, m, s, ms, us or their English names, such as '1h30m' or '1 minute'
    """
    micros = _micros(value, name)
    if abs(micros) > LONGEST:
        raise DurationError(
            f"{name}: {value!r} is longer than {LONGEST} microseconds (about 36,500 years), the longest duration "
            "allowed; give a shorter one"
        )
    return micros


@cache
def format(micros: int) -> str:
    """The shortest text that :func:`parse` reads as ``micros``. Of equally short texts, the one with the fewest
    and largest units.

    >>> format(86_400_000_000), format(90_000_000), format(1_500_000), format(1_000_001)
    ('1d', '90s', '1500ms', '1s1us')
    """
    if micros == 0:
        return "0s"
    sign = "-" if micros < 0 else ""
    choices = [units for count in range(1, len(UNITS) + 1) for units in combinations(UNITS, count)]
    texts = [text for units in choices if (text := _written(abs(micros), units))]
    return sign + min(texts, key=len)


def _written(micros: int, units: tuple[str, ...]) -> str | None:
    """As many of each unit as fit, from large to small; ``None`` if there is a remainder."""
    text = ""
    for unit in units:
        count, micros = divmod(micros, UNITS[unit])
        text += f"{count}{unit}" if count else ""
    return None if micros else text


def _micros(value: object, name: str) -> int:
    if isinstance(value, str):
        return _from_text(value, name)
    if isinstance(value, timedelta):
        return _whole(value, timedelta(microseconds=1), name)
    if isinstance(value, np.timedelta64) and not np.isnat(value):
        return _whole(value, np.timedelta64(1, "us"), name)
    if isinstance(value, float | np.floating):
        if not math.isfinite(value):
            raise DurationError(f"{name}: {value!r} is not finite; a duration has to end")
        raise DurationError(
            f"{name}: {value!r} is a float, which has no unit; "
            f"write text such as '1.5s', a timedelta, or integer microseconds"
        )
    if not isinstance(value, bool | np.bool_ | np.timedelta64):
        try:
            return operator.index(value)  # type: ignore[arg-type]  # raising is the question
        except TypeError:
            pass
    raise DurationError(
        f"{name}: {value!r} ({type(value).__name__}) is not a duration; "
        f"write text such as '1h30m', a timedelta, or integer microseconds"
    )


def _whole(value: timedelta | np.timedelta64, microsecond: timedelta | np.timedelta64, name: str) -> int:
    """Whole microseconds. Also works for pandas' timedelta, which is a subclass with nanoseconds."""
    count, rest = divmod(value, microsecond)  # type: ignore[operator]  # both are of one type
    if rest != rest * 0:
        raise DurationError(f"{name}: {value!r} is finer than a microsecond, the smallest unit")
    return int(count)


def _from_text(text: str, name: str) -> int:
    unsigned = text.strip()
    sign = 1
    if unsigned[:1] in ("+", "-"):
        sign = -1 if unsigned[0] == "-" else 1
        unsigned = unsigned[1:]
    total = Fraction(0)
    seen: set[str] = set()
    position = 0
    while position < len(unsigned):
        part = PART.match(unsigned, position)
        unit = SPELLINGS.get(part[2]) if part else None
        if part is None or unit is None or unit in seen:
            break
        seen.add(unit)
        total += Fraction(part[1]) * UNITS[unit]
        position = part.end()
    if not seen or position < len(unsigned):
        raise DurationError(
            f"{name}: cannot read {text!r} as a duration; "
            f"write numbers with the units {', '.join(UNITS)} or their English names, such as '1h30m' or '1 minute'"
        )
    if total.denominator != 1:
        raise DurationError(f"{name}: {text!r} is finer than a microsecond, the smallest unit")
    return sign * total.numerator
