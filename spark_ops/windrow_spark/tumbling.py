# SPDX-License-Identifier: Apache-2.0
"""Windows that do not overlap: Spark computes them alone, and no row goes to Python.

A tumbling window is one slice. If an aggregate's result is a field of its partial, as for counts and extremes, Spark's
``groupBy`` gives the result itself, to the last bit.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from pyspark.sql import functions as F

from windrow.query.bound import BoundQuery
from windrow.query.slicing import time_windows, windows_are_slices
from windrow_spark.batch import column
from windrow_spark.null_times import no_time
from windrow_spark.schemas import FittedQuery
from windrow_spark.slices import event_time, partials, slice_start

TIME_TYPES = (pa.timestamp("us", "UTC"), pa.int64())
_START = "__windrow_start"


def spark_alone(bound: BoundQuery) -> bool:
    """Whether Spark can compute the windows of a query alone. Called for queries that can be pushed down."""
    return windows_are_slices(bound) and bound.schema.field(bound.query.time).type in TIME_TYPES


def by_groups(frame: Any, fitted: FittedQuery) -> Any:
    """The windows of a batch DataFrame, by Spark's ``groupBy`` alone."""
    query, bound = fitted.query, fitted.bound
    (window,) = time_windows(query)
    time = F.coalesce(event_time(fitted), F.raise_error(_no_time(query.time)).cast("long"))
    groups = frame.groupBy(*map(column, query.by), slice_start(bound, time).alias(_START))
    found = groups.agg(*partials(bound))
    bounds = [F.col(_START), F.col(_START) + F.lit(window.range)]
    results = [
        column(f"{name}.{monoid.fields[0].name}") for name, monoid in bound.monoids.items() if monoid.fields
    ]
    values = [*map(column, query.by), *(_instant(each, bound.bound_type) for each in bounds), *results]
    fields = fitted.output.fields
    return found.select(
        *(value.cast(field.dataType).alias(field.name) for value, field in zip(values, fields, strict=True))
    )


def _instant(micros: Any, kind: pa.DataType) -> Any:
    return F.timestamp_micros(micros) if pa.types.is_timestamp(kind) else micros


def _no_time(name: str) -> Any:
    return F.lit(f"windrow.errors.TimeColumnError: {no_time(name)}")
