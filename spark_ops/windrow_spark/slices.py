# SPDX-License-Identifier: Apache-2.0
"""Slice push-down: Spark computes the partials of slices in the JVM, and only those go to Python.

All rows of a key in a slice belong to the same windows. So one partial per key and slice is all that the operator
needs, and ``groupBy(keys, slice)`` computes it if every aggregate of the query has an SQL form. The operator merges
partials instead of rows; the result is the same. :mod:`windrow.query.slicing` says where slices are cut, and when
push-down is possible.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from pyspark.sql import functions as F

from windrow.columns.times import PER_UNIT, TimeUnit
from windrow.query.bound import BoundQuery
from windrow.query.slicing import cuts, time_windows
from windrow_spark.batch import column, sorted_through, task, with_code
from windrow_spark.schemas import FittedQuery, arrow_schema

SAMPLE = 1 << 11


def by_slices(frame: Any, fitted: FittedQuery) -> Any:
    """The windows of a batch DataFrame whose slices Spark computes."""
    by = [column(name) for name in fitted.query.by]
    time = fitted.query.time
    start = slice_start(fitted.bound, event_time(fitted))
    slices = frame.groupBy(*by, start.alias(time)).agg(*partials(fitted.bound))
    sent = partials_schema(fitted, slices)
    through = with_code(
        frame, fitted.query, fitted.schema, task(fitted.query, fitted.schema, sent), partials=sent
    )
    return sorted_through(slices, fitted.query.by, time, through, fitted.output)


def sparse(frame: Any, fitted: FittedQuery) -> bool:
    """Whether most slices hold one row, so that to aggregate them first would only cost a shuffle.

    The first rows are looked at, with one task. If they are few, or not in the order of time, they do not tell.
    """
    time = event_time(fitted)
    key = F.hash(*map(column, fitted.query.by)) if fitted.query.by else F.lit(0)
    some = frame.select(key.alias("key"), slice_start(fitted.bound, time).alias("slice")).limit(SAMPLE)
    return _mostly_single([(row.key, row.slice) for row in some.collect() if row.slice is not None])


def _mostly_single(rows: list[tuple[int, int]]) -> bool:
    """Whether rows, given as key and slice, are in order and have slices of their own.

    >>> _mostly_single([(0, second) for second in range(2000)])
    True
    >>> _mostly_single([(0, second // 10) for second in range(2000)])
    False
    >>> _mostly_single([(0, second * 7919 % 2003) for second in range(2000)])
    False
    """
    last: dict[int, int] = {}
    later = earlier = 0
    for key, start in rows:
        later += start > last.get(key, start)
        earlier += start < last.get(key, start)
        last[key] = start
    return len(rows) >= SAMPLE // 2 and earlier * 10 < later and len(rows) < 1.5 * len(set(rows))


def partials(bound: BoundQuery) -> list[Any]:
    """One SQL expression for every field of every aggregate's partial."""
    found = []
    for name, monoid in bound.monoids.items():
        assert monoid.sql is not None and monoid.fields is not None
        expressions = monoid.sql.on("spark")
        assert expressions is not None
        inputs = bound.sql_inputs(name, "spark")
        assert inputs is not None, "obstacle() has looked"
        for field in monoid.fields:
            found.append(F.expr(expressions[field.name].format(*inputs)).alias(f"{name}.{field.name}"))
    return found


def partials_schema(fitted: FittedQuery, slices: Any) -> pa.Schema:
    """The Arrow schema of slices. Their time travels as microseconds, and gets the type of the rows' time back here."""
    schema = arrow_schema(slices.schema)
    time = schema.get_field_index(fitted.query.time)
    if fitted.query.time_unit is not None:
        return schema.set(time, pa.field(fitted.query.time, pa.int64()))
    return schema.set(time, fitted.schema.field(fitted.query.time))


def event_time(fitted: FittedQuery) -> Any:
    """The time of a row as whole microseconds since the epoch, as :mod:`windrow.columns.times` computes it."""
    query = fitted.query
    return microseconds(column(query.time), fitted.schema.field(query.time).type, query.time_unit)


def microseconds(time: Any, type_: pa.DataType, unit: TimeUnit | None = None) -> Any:
    """A time column as whole microseconds since the epoch."""
    times, divided = PER_UNIT[unit or "us"]
    if pa.types.is_floating(type_):
        return F.rint(time.cast("double") * F.lit(float(times)) / F.lit(float(divided))).cast("long")
    if pa.types.is_integer(type_):
        whole = time.cast("long") * F.lit(times)
        return whole if divided == 1 else quotient(whole, divided)
    if type_.tz is not None:
        return F.unix_micros(time)
    epoch = F.expr("TIMESTAMP_NTZ '1970-01-01 00:00:00'")
    return F.timestamp_diff("MICROSECOND", epoch, time)


def quotient(value: Any, width: int) -> Any:
    """Division that rounds down, also below zero.

    Spark divides doubles. The dividend is an exact multiple, so rounding only removes the error of the double.
    """
    return F.round((value - F.pmod(value, F.lit(width))) / F.lit(width)).cast("long")


def slice_start(bound: BoundQuery, time: Any) -> Any:
    """The start of the slice that holds a time, as :func:`windrow.query.slicing.slice_start`, in Spark's expressions."""
    starts = [time - F.pmod(time - F.lit(at), F.lit(every)) for every, at in cuts(time_windows(bound.query))]
    return starts[0] if len(starts) == 1 else F.greatest(*starts)
