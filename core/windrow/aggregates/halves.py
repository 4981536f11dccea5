# SPDX-License-Identifier: Apache-2.0
"""Exact totals of integers: hi · 2³² + lo, with 0 ≤ lo < 2³².

Neither half can wrap around before 2³¹ rows of the largest value, so sums of 64-bit integers, and of products
of two 32-bit ones, are exact in compiled code.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from windrow.aggregates.monoid import WindowSql


def halves_lift(x: Any) -> Any:
    whole = int(x)
    return np.int64(whole >> 32), np.int64(whole & 0xFFFFFFFF)


def halves_combine(a: Any, b: Any) -> Any:
    lo = a[1] + b[1]
    return a[0] + b[0] + (lo >> 32), lo & 0xFFFFFFFF


def halves_invert(a: Any, b: Any) -> Any:
    lo = a[1] - b[1]
    return a[0] - b[0] + (lo >> 32), lo & 0xFFFFFFFF


def total_int64(p: Any) -> int:
    if p[0] < -0x80000000 or p[0] > 0x7FFFFFFF:
        raise OverflowError("the exact sum does not fit int64")
    return (p[0] << 32) | p[1]


def total_uint64(p: Any) -> Any:
    if p[0] < 0 or p[0] > 0xFFFFFFFF:
        raise OverflowError("the exact sum does not fit uint64")
    return (np.uint64(p[0]) << np.uint64(32)) | np.uint64(p[1])


def ratio(p: Any) -> float:
    """(hi · 2³² + lo) / n, rounded once.

    >>> ratio((2**30, 1025, 3)) == (2**62 + 1025) / 3
    True
    """
    hi, lo, n = int(p[0]), int(p[1]), int(p[2])
    if -0x200000 <= hi < 0x200000:  # a double holds the total
        return (hi * 4294967296.0 + lo) / n
    negative = hi < 0
    if negative:
        hi, lo = -hi - int(lo > 0), -lo & 0xFFFFFFFF
    # Long division, bit by bit, until two bits more are known than a double has.
    quotient, rest, at = hi // n, hi % n, 32
    while quotient < 0x40000000000000 and (at > 0 or rest > 0):
        at -= 1
        rest = 2 * rest + (((lo >> at) & 1) if at >= 0 else 0)
        bit = int(rest >= n)
        quotient, rest = 2 * quotient + bit, rest - bit * n
    if rest > 0 or (at > 0 and lo & ((1 << at) - 1) > 0):
        quotient |= 1  # not halfway, but beyond
    mean = math.ldexp(float(quotient), at)
    return -mean if negative else mean


# The same in SQL, where x is a bigint.


def spark_halves(x: str) -> tuple[str, str]:
    """Spark's expressions for the two halves of a sum."""
    lo = f"({x} & 4294967295)"
    return f"sum(shiftright({x}, 32)) + shiftright(sum({lo}), 32)", f"sum({lo}) & 4294967295"


def flink_halves(x: str) -> tuple[str, str]:
    """Flink's expressions for the two halves of a sum; its SQL has no bits."""
    lo = f"mod(mod({x}, 4294967296) + 4294967296, 4294967296)"
    return (
        f"sum(({x} - {lo}) / 4294967296) + sum({lo}) / 4294967296",
        f"mod(sum({lo}), 4294967296)",
    )


def spark_whole(x: str) -> WindowSql:
    """Spark's expressions for the sum itself, an error if it does not fit into 64 bits."""
    lo = f"({x} & 4294967295)"
    hi, total = (
        "({hi} + shiftright({lo}, 32))",
        "shiftleft({hi} + shiftright({lo}, 32), 32) | ({lo} & 4294967295)",
    )
    overflow = "raise_error('windrow.errors.ArithmeticOverflow: the exact sum does not fit int64')"
    return WindowSql(
        {"hi": f"sum(shiftright({x}, 32))", "lo": f"sum({lo})"},
        {"hi": "sum({0})", "lo": "sum({0})"},
        f"case when {hi} between -2147483648 and 2147483647 then {total} "
        f"when {hi} is not null then cast({overflow} as bigint) end",
    )
