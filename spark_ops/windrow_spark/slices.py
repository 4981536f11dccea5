"""Slice push-down: Spark computes the partials of slices in the JVM, and only those go to Python.

A slice is the time between two neighbouring boundaries of windows. All rows of a key in a slice are in the same windows,
so what the operator needs of them is one partial, which ``groupBy(keys, slice)`` computes if every aggregate of the
query has a SQL form. The operator merges partials instead of rows; the answer is the same.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from pyspark.sql import functions as F

from windrow.bound import BoundQuery
from windrow.disciplines import InTime, discipline
from windrow.windows import TimeWindow
from windrow_spark.batch import column, sorted_through, task
from windrow_spark.schemas import Plan, arrow_schema


def obstacle(bound: BoundQuery) -> str:
    """Why the slices of a query cannot be computed by Spark; empty if they can."""
    if bound.query.late == "update":
        return "push-down gives partials of slices, and late='update' corrects windows by rows"
    for _, window in bound.query.windows:
        if not isinstance(window, TimeWindow):
            return f"push-down needs time windows, and the query has a {type(window).__name__}"
    for name, monoid in bound.monoids.items():
        if monoid.sql is None or monoid.sql.on("spark") is None:
            return f"aggregate {name!r} ({monoid.name}) has no form in Spark's SQL"
    return ""


def exact(bound: BoundQuery) -> bool:
    """Whether Spark's arithmetic is as exact as ours for all aggregates of the query."""
    return all(monoid.sql is not None and monoid.sql.exact for monoid in bound.monoids.values())


def by_slices(frame: Any, plan: Plan) -> Any:
    """Windows of a batch DataFrame, slices computed by Spark."""
    by = [column(name) for name in plan.query.by]
    time = plan.query.time
    start = slice_start(plan.bound, microseconds(column(time), plan.schema.field(time).type))
    slices = frame.groupBy(*by, start.alias(time)).agg(*partials(plan.bound))
    through = task(plan.query, plan.schema, partials_schema(plan, slices))
    return sorted_through(slices, plan.query.by, time, through, plan.output)


def partials(bound: BoundQuery) -> list[Any]:
    """One SQL expression for every field of every aggregate's partial."""
    found = []
    for name, monoid in bound.monoids.items():
        assert monoid.sql is not None and monoid.fields is not None
        expressions = monoid.sql.on("spark")
        assert expressions is not None
        inputs = ["`" + each.replace("`", "``") + "`" for each in bound.inputs(name)]
        for field in monoid.fields:
            found.append(F.expr(expressions[field.name].format(*inputs)).alias(f"{name}.{field.name}"))
    return found


def partials_schema(plan: Plan, slices: Any) -> pa.Schema:
    """The Arrow schema of slices: their time, which travels as microseconds, has the type of the rows' time again."""
    schema = arrow_schema(slices.schema)
    time = schema.get_field_index(plan.query.time)
    return schema.set(time, plan.schema.field(plan.query.time))


def microseconds(time: Any, type_: pa.DataType) -> Any:
    """A time column as whole microseconds since the epoch."""
    if not pa.types.is_timestamp(type_):
        return time.cast("long")
    if type_.tz is not None:
        return F.unix_micros(time)
    epoch = F.expr("TIMESTAMP_NTZ '1970-01-01 00:00:00'")
    return F.timestamp_diff("MICROSECOND", epoch, time)


def slice_start(bound: BoundQuery, time: Any) -> Any:
    """Where the slice begins that a time is in: the latest boundary of any window not after it."""
    cuts = discipline(bound)
    assert isinstance(cuts, InTime)
    starts = [
        time - F.pmod(time - F.lit(at), F.lit(every))
        for every, at in zip(cuts.cut_every.tolist(), cuts.cut_at.tolist(), strict=True)
    ]
    return starts[0] if len(starts) == 1 else F.greatest(*starts)
