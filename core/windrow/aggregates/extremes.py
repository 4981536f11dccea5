# SPDX-License-Identifier: Apache-2.0
"""Smallest, largest, where they are, and how often they occur.

NaN wins against every number, for the largest as for the smallest, so it propagates. Among equals the first row
wins, so that every grouping gives the same bits.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from windrow.aggregates.algebra import Aggregate, Field, Monoid, SliceSql, dtype_of, highest, link, lowest
from windrow.aggregates.monoid import WindowSql, first_field, wrapped
from windrow.errors import AggregateError


@dataclass(frozen=True)
class Max(Aggregate):
    """The largest value.

    >>> import windrow as wr
    >>> wr.sliding([3.0, 1.0, 4.0, 1.0, 5.0], wr.Max(), range=3)
    array([4., 4., 5.])
    """

    column: str | None = None

    def dense(self, types: Sequence[pa.DataType]) -> Monoid:
        return _extreme(self, types[0], larger, larger_object, lowest, "max({0})")


@dataclass(frozen=True)
class Min(Aggregate):
    """The smallest value.

    >>> import windrow as wr
    >>> wr.sliding([3.0, 1.0, 4.0, 1.0, 5.0], wr.Min(), range=3)
    array([1., 1., 1.])
    """

    column: str | None = None

    def dense(self, types: Sequence[pa.DataType]) -> Monoid:
        return _extreme(self, types[0], smaller, smaller_object, highest, "min({0})")


@dataclass(frozen=True)
class ArgMax(Aggregate):
    """The value of ``column`` in the row where ``by`` is largest; the first such row if there are several.

    >>> import windrow as wr
    >>> hottest = wr.ArgMax("sensor", by="temperature").bind()
    >>> hottest.result(hottest.fold([(7.0, 21.5), (8.0, 23.0), (9.0, 23.0)]))
    8.0
    """

    column: str | None = None
    by: str | None = None
    inputs: ClassVar[tuple[str, ...]] = ("column", "by")

    def dense(self, types: Sequence[pa.DataType]) -> Monoid:
        return _arg_extreme(self, types, _precedes_larger)


@dataclass(frozen=True)
class ArgMin(Aggregate):
    """The value of ``column`` in the row where ``by`` is smallest; the first such row if there are several.

    >>> import windrow as wr
    >>> coldest = wr.ArgMin("sensor", by="temperature").bind()
    >>> coldest.result(coldest.fold([(7.0, 21.5), (8.0, 23.0), (9.0, 19.0)]))
    9.0
    """

    column: str | None = None
    by: str | None = None
    inputs: ClassVar[tuple[str, ...]] = ("column", "by")

    def dense(self, types: Sequence[pa.DataType]) -> Monoid:
        return _arg_extreme(self, types, _precedes_smaller)


@dataclass(frozen=True)
class MaxCount(Aggregate):
    """How often the largest value occurs.

    >>> import windrow as wr
    >>> wr.sliding([4.0, 1.0, 4.0, 3.0, 5.0], wr.MaxCount(), range=3)
    array([2, 1, 1])
    """

    column: str | None = None

    def dense(self, types: Sequence[pa.DataType]) -> Monoid:
        return _extreme_count(self, types[0], _precedes_larger, lowest)


@dataclass(frozen=True)
class MinCount(Aggregate):
    """How often the smallest value occurs.

    >>> import windrow as wr
    >>> wr.sliding([4.0, 1.0, 1.0, 3.0, 5.0], wr.MinCount(), range=3)
    array([2, 2, 1])
    """

    column: str | None = None

    def dense(self, types: Sequence[pa.DataType]) -> Monoid:
        return _extreme_count(self, types[0], _precedes_smaller, highest)


def ordered_dtype(type_: pa.DataType, aggregate: Aggregate) -> np.dtype[Any]:
    """The physical type of a column whose values are compared; an error if they have no order."""
    if pa.types.is_nested(type_):
        raise AggregateError(f"{aggregate.label} needs a column whose values have an order, got {type_}")
    return dtype_of(type_, aggregate, numeric=False)


def larger(a: Any, b: Any) -> Any:
    """The partial with the larger value; NaN beats numbers, the first of equals stays."""
    return b if b[0] > a[0] or b[0] != b[0] else a


def smaller(a: Any, b: Any) -> Any:
    """The partial with the smaller value; NaN beats numbers, the first of equals stays."""
    return b if b[0] < a[0] or b[0] != b[0] else a


def larger_object(a: Any, b: Any) -> Any:
    return b if a is None or (b is not None and b > a) else a


def smaller_object(a: Any, b: Any) -> Any:
    return b if a is None or (b is not None and b < a) else a


def _extreme(
    aggregate: Aggregate,
    type_: pa.DataType,
    combine: Any,
    combine_objects: Any,
    identity: Any,
    sql: str,
) -> Monoid:
    dtype = ordered_dtype(type_, aggregate)
    if dtype.kind == "O":
        return Monoid(
            name=aggregate.label,
            fields=None,
            identity=None,
            lift=_same,
            combine=combine_objects,
            lower=_same,
            output=type_,
            inputs=(type_,),
            selective=True,
        )
    return Monoid(
        name=aggregate.label,
        fields=(Field("extreme", dtype),),
        identity=(identity(dtype),),
        lift=wrapped,
        combine=combine,
        lower=first_field,
        output=type_,
        inputs=(type_,),
        selective=True,
        sql=_propagating(sql)
        if dtype.kind == "f"
        else SliceSql({"extreme": sql}, windows=WindowSql.of_one(sql, sql)),
    )


def _propagating(sql: str) -> SliceSql:
    """SQL for an extreme that NaN wins, whatever place the engine gives NaN among the numbers.

    To Spark NaN is larger than any number, so its maximum needs no more. Flink's planner simplifies ``x <> x`` to false,
    so NaN is found by a ``case`` that it cannot simplify.
    """
    spark = f"case when bool_or(isnan({{0}})) then cast('NaN' as double) else {sql} end"
    extreme = sql if sql.startswith("max(") else spark
    return SliceSql(
        {"extreme": extreme},
        flink={
            "extreme": "case when max(case when {0} is null then -2 when {0} < 0 then -1 when {0} >= 0 "
            "then 0 else 1 end) = 1 "
            f"then cast('NaN' as double) else {sql} end"
        },
        windows=WindowSql.of_one(extreme, extreme),
    )


def _same(x: Any) -> Any:
    return x


# Where the extreme is: (value, by, seen). ``precedes(x, y)`` says that y takes the place of x.


def _arg_extreme(aggregate: Aggregate, types: Sequence[pa.DataType], precedes: Any) -> Monoid:
    value = dtype_of(types[0], aggregate, numeric=False)
    by = ordered_dtype(types[1], aggregate)
    objects = value.kind == "O" or by.kind == "O"
    fields = (Field("value", value), Field("by", by), Field("seen", np.dtype(np.int64)))
    return Monoid(
        name=aggregate.label,
        fields=None if objects else fields,
        identity=(None, None, 0) if objects else (0, 0, 0),
        lift=_seen,
        combine=link(_arg_combine, {"precedes": precedes}),
        lower=first_field,
        defined=_was_seen,
        output=types[0],
        inputs=tuple(types),
        commutative=False,
        selective=True,
    )


def precedes(_: Any, __: Any) -> bool:
    raise NotImplementedError("linked by the aggregates above")


def _precedes_larger(x: Any, y: Any) -> bool:
    return y > x or (y != y and x == x)


def _precedes_smaller(x: Any, y: Any) -> bool:
    return y < x or (y != y and x == x)


def _seen(value: Any, by: Any) -> Any:
    return value, by, 1


def _arg_combine(a: Any, b: Any) -> Any:
    return b if a[2] == 0 or (b[2] == 1 and precedes(a[1], b[1])) else a


def _was_seen(p: Any) -> bool:
    return p[2] == 1


# How often: (extreme, n).


def _extreme_count(aggregate: Aggregate, type_: pa.DataType, precedes: Any, identity: Any) -> Monoid:
    dtype = ordered_dtype(type_, aggregate)
    objects = dtype.kind == "O"
    return Monoid(
        name=aggregate.label,
        fields=None if objects else (Field("extreme", dtype), Field("n", np.dtype(np.int64))),
        identity=(None, 0) if objects else (identity(dtype), 0),
        lift=_once,
        combine=link(_count_combine, {"precedes": precedes}),
        lower=_count,
        defined=_counted,
        output=pa.int64(),
        inputs=(type_,),
    )


def _once(x: Any) -> Any:
    return x, 1


def _count_combine(a: Any, b: Any) -> Any:
    if a[1] == 0 or (b[1] > 0 and precedes(a[0], b[0])):
        return b
    same = b[1] > 0 and not precedes(b[0], a[0])
    return a[0], a[1] + b[1] if same else a[1]


def _count(p: Any) -> int:
    return p[1]


def _counted(p: Any) -> bool:
    return p[1] > 0
