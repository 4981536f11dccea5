# SPDX-License-Identifier: Apache-2.0
"""Totals and averages: exact for integers and decimals, compensated for floats.

A float total is held as a value and the error of that value (two-sum: Knuth, *TAOCP* 2, 4.2.2), so that it
is correct to the last bit or two however the window was grouped. An integer total is held in two halves
(:mod:`windrow.aggregates.halves`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from windrow.aggregates.algebra import Aggregate, Field, Monoid, SliceSql, dtype_of, link
from windrow.aggregates.decimals import decimal_mean, decimal_sum
from windrow.aggregates.exact_sums import UNROUNDED
from windrow.aggregates.halves import (
    flink_halves,
    halves_combine,
    halves_invert,
    halves_lift,
    ratio,
    spark_halves,
    spark_whole,
    total_int64,
    total_uint64,
)
from windrow.aggregates.monoid import WindowSql
from windrow.aggregates.nulls import counted

FLOAT, INT = np.dtype(np.float64), np.dtype(np.int64)
ROUNDING = 1e-15


@dataclass(frozen=True)
class Sum(Aggregate):
    """The total.

    Integers, booleans and durations: exact, int64 (uint64 for unsigned, the same duration type); a total
    that does not fit raises :class:`~windrow.errors.ArithmeticOverflow`. Decimals: exact. Floats: float64,
    within 1e-15 of the largest magnitude summed; infinities and NaN follow IEEE.

    Float sums subtract only when asked to: ``invertible=True`` lets algorithms evict by subtraction. Subtraction
    undoes NaN and infinities exactly, but not rounding errors.

    >>> import windrow as wr
    >>> wr.sliding([0.1, 0.2, 0.3, 1e16, -1e16], wr.Sum(), range=3)
    array([6.e-01, 1.e+16, 3.e-01])
    """

    column: str | None = None
    invertible: bool = False

    def dense(self, types: Sequence[pa.DataType]) -> Monoid:
        (type_,) = types
        if pa.types.is_decimal(type_):
            return decimal_sum(self, type_)
        dtype = INT if pa.types.is_duration(type_) else dtype_of(type_, self)
        if dtype.kind == "f":
            shape, lower = (
                (_careful, _careful_total) if self.invertible else (_compensated, _compensated_total)
            )
            return _monoid(self, type_, shape, lower, pa.float64())
        if pa.types.is_duration(type_):
            return _monoid(self, type_, _halves, total_int64, type_)
        if pa.types.is_unsigned_integer(type_):
            return _monoid(self, type_, _halves, total_uint64, pa.uint64())
        whole = replace(_halves, sql=replace(_halves.sql, windows=spark_whole("cast({0} as bigint)")))
        return _monoid(self, type_, whole, total_int64, pa.int64())


@dataclass(frozen=True)
class Mean(Aggregate):
    """The arithmetic mean, float64: the exact (integers, decimals) or compensated (floats) total, divided
    once.

    The mean of integers is the double nearest to the true mean.

    >>> import windrow as wr
    >>> wr.sliding([3.0, 1.0, 5.0, 0.0], wr.Mean(), range=3)
    array([3., 2.])
    """

    column: str | None = None
    invertible: bool = False

    def dense(self, types: Sequence[pa.DataType]) -> Monoid:
        (type_,) = types
        if pa.types.is_decimal(type_):
            return decimal_mean(self, type_)
        if dtype_of(type_, self).kind != "f":
            return _mean(self, type_, _halves, ratio)
        if self.invertible:
            return _mean(self, type_, _careful, link(_divided, {"total": _careful_total}))
        shape = replace(_compensated, sql=replace(_compensated.sql, windows=_SPARK_MEAN))
        return _mean(self, type_, shape, link(_divided, {"total": _compensated_total}))


@dataclass(frozen=True)
class Product(Aggregate):
    """The product, float64. Fractions and exponents are kept apart, so nothing overflows before the result
    does.

    >>> import windrow as wr
    >>> wr.sliding([2.0, 1e300, 1e300, 1e-300], wr.Product(), range=3)
    array([     inf, 1.e+300])
    """

    column: str | None = None

    def dense(self, types: Sequence[pa.DataType]) -> Monoid:
        dtype_of(types[0], self)
        return Monoid(
            name=self.label,
            fields=(Field("fraction", FLOAT), Field("exponent", INT)),
            identity=(0.5, 1),
            lift=_scaled,
            combine=_times,
            lower=_unscaled,
            output=pa.float64(),
            inputs=tuple(types),
            tolerance=1e-12,
        )


@dataclass(frozen=True)
class GeometricMean(Aggregate):
    """The n-th root of the product, from a compensated sum of logarithms. Any zero makes it 0, any negative
    value NaN.

    >>> import windrow as wr
    >>> wr.sliding([1.0, 10.0, 100.0, 0.0], wr.GeometricMean(), range=3).round(9)
    array([10.,  0.])
    """

    column: str | None = None

    def dense(self, types: Sequence[pa.DataType]) -> Monoid:
        dtype_of(types[0], self)
        return Monoid(
            name=self.label,
            fields=(Field("logs", FLOAT), Field("error", FLOAT), Field("zeros", INT), Field("n", INT)),
            identity=(0.0, 0.0, 0, 0),
            lift=_log,
            combine=_log_combine,
            lower=_log_lower,
            defined=_some,
            output=pa.float64(),
            inputs=tuple(types),
            tolerance=1e-12,
        )


# Floats: the sum and its error.


def two_sum(a: float, b: float) -> tuple[float, float]:
    """The rounded sum of two floats and its exact error; the error of an infinite or NaN sum is 0."""
    s = a + b
    t = s - a
    e = (a - (s - t)) + (b - t)
    return s, e if e == e else 0.0


def compensated(x: Any) -> Any:
    return float(x), 0.0


def compensated_combine(a: Any, b: Any) -> Any:
    s, e = two_sum(a[0], b[0])
    return s, (a[1] + b[1]) + e


def _compensated_total(p: Any) -> float:
    return p[0] + p[1]


# Floats that can be subtracted again: NaN and infinities are counted, not added.


def _careful_lift(x: Any) -> Any:
    x = float(x)
    if x - x == 0.0:
        return x, 0.0, 0, 0, 0
    return 0.0, 0.0, int(x != x), int(x > 0.0), int(x < 0.0)


def _careful_combine(a: Any, b: Any) -> Any:
    s, e = two_sum(a[0], b[0])
    return s, (a[1] + b[1]) + e, a[2] + b[2], a[3] + b[3], a[4] + b[4]


def _careful_invert(a: Any, b: Any) -> Any:
    s, e = two_sum(a[0], -b[0])
    return s, (a[1] - b[1]) + e, a[2] - b[2], a[3] - b[3], a[4] - b[4]


def _careful_total(p: Any) -> float:
    if p[2] > 0 or (p[3] > 0 and p[4] > 0):
        return math.nan
    if p[3] > 0:
        return math.inf
    if p[4] > 0:
        return -math.inf
    return p[0] + p[1]


# The monoids of these shapes: totals, and means with a count.


@dataclass(frozen=True)
class _Shape:
    fields: tuple[Field, ...]
    lift: Any
    combine: Any
    invert: Any
    sql: SliceSql
    tolerance: float


_SPARK = spark_halves("cast({0} as bigint)")
_FLINK = flink_halves("cast({0} as bigint)")
_SPARK_MEAN = WindowSql(
    {"sum": "sum(cast({0} as double))", "n": "count({0})"},
    {"sum": "sum({0})", "n": "sum({0})"},
    "{sum} / nullif({n}, 0)",
)
_halves = _Shape(
    fields=(Field("hi", INT), Field("lo", INT)),
    lift=halves_lift,
    combine=halves_combine,
    invert=halves_invert,
    sql=SliceSql({"hi": _SPARK[0], "lo": _SPARK[1]}, flink={"hi": _FLINK[0], "lo": _FLINK[1]}),
    tolerance=0.0,
)
_compensated = _Shape(
    fields=(Field("sum", FLOAT), Field("error", FLOAT)),
    lift=compensated,
    combine=compensated_combine,
    invert=None,
    sql=SliceSql(
        {"sum": "sum(cast({0} as double))", "error": "cast(0 as double)"},
        exact=False,
        windows=WindowSql.of_one("sum(cast({0} as double))", "sum({0})"),
        unrounded=UNROUNDED,
    ),
    tolerance=ROUNDING,
)
_careful = _Shape(
    fields=(*_compensated.fields, Field("nans", INT), Field("ups", INT), Field("downs", INT)),
    lift=_careful_lift,
    combine=_careful_combine,
    invert=_careful_invert,
    sql=SliceSql(
        {
            "sum": "sum(case when abs(cast({0} as double)) < double('inf') then cast({0} as double) end)",
            "error": "cast(0 as double)",
            "nans": "count_if(isnan({0}))",
            "ups": "count_if({0} = double('inf'))",
            "downs": "count_if({0} = double('-inf'))",
        },
        engines=("spark",),
        exact=False,
    ),
    tolerance=ROUNDING,
)


def _monoid(
    aggregate: Aggregate, type_: pa.DataType, shape: _Shape, lower: Any, output: pa.DataType
) -> Monoid:
    return Monoid(
        name=aggregate.label,
        fields=shape.fields,
        identity=tuple(f.dtype.type(0).item() for f in shape.fields),
        lift=shape.lift,
        combine=shape.combine,
        lower=lower,
        invert=shape.invert,
        output=output,
        inputs=(type_,),
        sql=shape.sql,
        tolerance=shape.tolerance,
    )


def _mean(aggregate: Aggregate, type_: pa.DataType, shape: _Shape, lower: Any) -> Monoid:
    """With a count of the rows, which ``lower`` finds last."""
    counting = counted(_monoid(aggregate, type_, shape, lower, pa.float64()))
    return replace(counting, lower=lower, lowers_count=True)


def total(_: Any) -> Any:
    raise NotImplementedError("linked by Mean.dense")


def _divided(p: Any) -> float:
    return total(p[:-1]) / p[-1]


# Products: fraction · 2^exponent.


def _scaled(x: Any) -> Any:
    return math.frexp(float(x))


def _times(a: Any, b: Any) -> Any:
    fraction, exponent = math.frexp(a[0] * b[0])
    return fraction, a[1] + b[1] + exponent


def _unscaled(p: Any) -> float:
    if p[1] > 1024:
        return p[0] * math.inf if p[0] != 0.0 else 0.0
    return math.ldexp(p[0], int(max(p[1], -1200)))


# Logarithms.


def _log(x: Any) -> Any:
    x = float(x)
    if x > 0.0:
        return math.log(x), 0.0, 0, 1
    return 0.0 if x == 0.0 else math.nan, 0.0, int(x == 0.0), 1


def _log_combine(a: Any, b: Any) -> Any:
    s, e = two_sum(a[0], b[0])
    return s, (a[1] + b[1]) + e, a[2] + b[2], a[3] + b[3]


def _log_lower(p: Any) -> float:
    if p[2] > 0:
        return 0.0 if p[0] < math.inf else math.nan
    mean = (p[0] + p[1]) / p[3]
    return math.exp(mean) if mean < 709.7827128933841 else mean * math.inf


def _some(p: Any) -> bool:
    return bool(p[-1] > 0)
