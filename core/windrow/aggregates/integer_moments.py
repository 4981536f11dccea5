# SPDX-License-Identifier: Apache-2.0
"""Variance of integers, from exact sums.

Values are split as x = u · 2³² + v, with -2³¹ ≤ v < 2³¹. The partial has Σu, Σv, Σu², Σuv and Σv², which give
Σx and Σx² exactly. Nothing is rounded before the result, so every grouping gives the same bits, and rows can be
taken back.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pyarrow as pa

from windrow.aggregates.algebra import Aggregate, Field, Monoid, SliceSql, link
from windrow.aggregates.halves import halves_combine, halves_invert, halves_lift, spark_halves

NAMES = ("n", "u", "v", "uu_hi", "uu_lo", "uv_hi", "uv_lo", "vv_hi", "vv_lo")


def integer_moments(aggregate: Aggregate, type_: pa.DataType, ddof: int, deviation: bool) -> Monoid:
    """The variance of integers or, if ``deviation``, its square root."""
    unsigned = type_ == pa.uint64()
    return Monoid(
        name=aggregate.label,
        fields=tuple(Field(name, np.dtype(np.int64)) for name in NAMES),
        identity=(0,) * len(NAMES),
        lift=_lift_uint64 if unsigned else _lift,
        combine=_combine,
        invert=_invert,
        lower=link(_deviation if deviation else _variance, {"DDOF": ddof}),
        defined=link(_enough, {"DDOF": ddof}),
        output=pa.float64(),
        inputs=(type_,),
        sql=None if unsigned else SliceSql(_spark_sums(), engines=("spark",)),
    )


DDOF = 1


def _lift(x: Any) -> Any:
    whole = np.int64(x)
    u = (whole >> 32) + ((whole >> 31) & 1)
    v = ((whole & 0xFFFFFFFF) ^ 0x80000000) - 0x80000000
    products = halves_lift(u * u) + halves_lift(u * v) + halves_lift(v * v)
    return (np.int64(1), u, v) + products  # noqa: RUF005


def _lift_uint64(x: Any) -> Any:
    return _lift(int(x) - 0x8000000000000000)  # a shift does not change the variance


def _combine(a: Any, b: Any) -> Any:
    sums = (a[0] + b[0], a[1] + b[1], a[2] + b[2])
    products = halves_combine(a[3:5], b[3:5]) + halves_combine(a[5:7], b[5:7])
    return sums + products + halves_combine(a[7:9], b[7:9])


def _invert(a: Any, b: Any) -> Any:
    sums = (a[0] - b[0], a[1] - b[1], a[2] - b[2])
    products = halves_invert(a[3:5], b[3:5]) + halves_invert(a[5:7], b[5:7])
    return sums + products + halves_invert(a[7:9], b[7:9])


def _enough(p: Any) -> bool:
    return p[0] > DDOF


def _variance(p: Any) -> float:
    return _spread(p) / (float(p[0]) * float(p[0] - DDOF))


def _deviation(p: Any) -> float:
    return math.sqrt(_spread(p) / (float(p[0]) * float(p[0] - DDOF)))


def _spread(p: Any) -> float:
    """nΣx² - (Σx)², exact until it is made a double."""
    n, u, v, uu_hi, uu_lo, uv_hi, uv_lo, vv_hi, vv_lo = p
    if uu_hi == 0 and uu_lo == 0 and n * (vv_hi * 4294967296.0 + vv_lo) < 4e18:
        return float(n * ((vv_hi << 32) + vv_lo) - v * v)
    u, v = u + (v >> 32), v & 0xFFFFFFFF
    if u < 0:  # the square is that of the positive number
        u, v = -u - int(v > 0), -v & 0xFFFFFFFF
    middle = vv_hi + 2 * uv_lo
    upper = (middle >> 32) + 2 * uv_hi + uu_lo
    top = (upper >> 32) + uu_hi
    count = (n & 0xFFFFFFFF, n >> 32, 0, 0, 0)
    total = (v, u & 0xFFFFFFFF, u >> 32, 0, 0)
    squares = (vv_lo, middle & 0xFFFFFFFF, upper & 0xFFFFFFFF, top & 0xFFFFFFFF, top >> 32)
    # Long multiplication in digits of 16 bits, whose products leave room for a sum.
    spread, place, carry = 0.0, 1.0, 0
    for k in range(13):
        for i in range(min(k + 1, 6)):
            carry += _digit(count, i) * _digit(squares, k - i) - _digit(total, i) * _digit(total, k - i)
        spread += place * (carry & 0xFFFF)
        carry, place = carry >> 16, place * 65536.0
    return spread


def _digit(words: Any, i: int) -> int:
    """The i-th digit of a number in words of 32 bits."""
    return (words[i >> 1] >> (16 * (i & 1))) & 0xFFFF if i < 10 else 0


# The same in Spark's SQL.


def _spark_sums() -> dict[str, str]:
    x = "cast({0} as bigint)"
    u = f"(shiftright({x}, 32) + (shiftright({x}, 31) & 1))"
    v = f"((({x} & 4294967295) ^ 2147483648) - 2147483648)"
    products = [*spark_halves(f"({u} * {u})"), *spark_halves(f"({u} * {v})"), *spark_halves(f"({v} * {v})")]
    return dict(zip(NAMES, ["count({0})", f"sum({u})", f"sum({v})", *products], strict=True))
