# SPDX-License-Identifier: Apache-2.0
"""Slice push-down: Spark computes the partials of slices in the JVM, and only those go to Python.

All rows of a key in a slice belong to the same windows. So one partial per key and slice is all that the operator
needs, and ``groupBy(keys, slice)`` computes it if every aggregate of the query has an SQL form. The operator merges
partials instead of rows; the result is the same. :mod:`windrow.query.slicing` says where slices are cut, and when
push-down is possible.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa
from pyspark.sql import functions as F

from windrow.aggregates import SliceSql
from windrow.columns.times import PER_UNIT, TimeUnit
from windrow.query.bound import BoundQuery
from windrow.query.slicing import cuts, time_windows
from windrow_spark.batch import column, sorted_through, task, with_code
from windrow_spark.schemas import FittedQuery, arrow_schema


def by_slices(frame: Any, fitted: FittedQuery, forms: Mapping[str, SliceSql] | None = None) -> Any:
    """The windows of a batch DataFrame whose slices Spark computes. ``forms`` is the SQL to use instead of each aggregate's own."""
    by = [column(name) for name in fitted.query.by]
    time = fitted.query.time
    start = slice_start(fitted.bound, event_time(fitted))
    rows, groups = _with_columns(frame, fitted.bound, forms)
    slices = rows.groupBy(*by, start.alias(time), *groups).agg(*partials(fitted.bound, forms))
    slices = slices.drop(*groups) if groups else slices
    sent = partials_schema(fitted, slices)
    through = with_code(
        frame, fitted.query, fitted.schema, task(fitted.query, fitted.schema, sent), partials=sent
    )
    return sorted_through(slices, fitted.query.by, time, through, fitted.output)


def _with_columns(
    frame: Any, bound: BoundQuery, forms: Mapping[str, SliceSql] | None
) -> tuple[Any, list[str]]:
    """The rows with the columns that the SQL of some aggregates names, and those of them by which rows are grouped."""
    added: dict[str, Any] = {}
    groups: dict[str, None] = {}
    for name, sql in (forms or {}).items():
        inputs, places = bound.sql_inputs(name, "spark") or (), _places(bound, name, sql)
        for each, text in sql.columns.items():
            added[places[each]] = F.expr(text.format(*inputs, **places)).alias(places[each])
        if sql.group is not None:
            groups[places[sql.group]] = None
    # In one select, though later columns are over earlier ones: every call of Spark's planner takes milliseconds.
    return frame.select("*", *added.values()) if added else frame, list(groups)


def _places(bound: BoundQuery, name: str, sql: SliceSql) -> dict[str, str]:
    """The names of an aggregate's columns. Aggregates of the same kind and input share them."""
    first = next(
        other
        for other, monoid in bound.monoids.items()
        if bound.sql_inputs(other, "spark") == bound.sql_inputs(name, "spark")
    )
    number = list(bound.monoids).index(first)
    return {each: f"__windrow_{number}_{each}" for each in sql.columns}


def partials(bound: BoundQuery, forms: Mapping[str, SliceSql] | None = None) -> list[Any]:
    """One SQL expression for every field of every aggregate's partial."""
    found = []
    for name, monoid in bound.monoids.items():
        sql = monoid.sql if forms is None else forms[name]
        assert sql is not None and monoid.fields is not None
        expressions = sql.on("spark")
        assert expressions is not None
        inputs = bound.sql_inputs(name, "spark")
        assert inputs is not None, "obstacle() has looked"
        for field in monoid.fields:
            text = expressions[field.name].format(*inputs, **_places(bound, name, sql))
            found.append(F.expr(text).alias(f"{name}.{field.name}"))
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
