# SPDX-License-Identifier: Apache-2.0
"""Windows that Spark computes alone: few copies of few rows cost less than the way to Python and back.

*Groups*: a tumbling window is one ``groupBy``. *Copies*: each row is given to each of its windows. *Two steps*: the rows of each slide
are aggregated first, and these slices are given to their windows. :mod:`windrow_spark.plans` says when.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa
from pyspark.sql import functions as F

from windrow.aggregates import SliceSql
from windrow.aggregates.monoid import WindowSql
from windrow.expressions.sql import quoted
from windrow.query.bound import BoundQuery
from windrow.query.slicing import time_windows
from windrow_spark.batch import column
from windrow_spark.null_times import no_time
from windrow_spark.schemas import FittedQuery
from windrow_spark.slices import event_time

TIME_TYPES = (pa.timestamp("us", "UTC"), pa.int64())
_START = "__windrow_start"


def by_spark(frame: Any, fitted: FittedQuery, forms: Mapping[str, SliceSql], *, two_steps: bool) -> Any:
    """The windows of a batch DataFrame, by Spark's ``groupBy`` alone."""
    query, bound = fitted.query, fitted.bound
    (window,) = time_windows(query)
    sql = _whole(forms)
    time = F.coalesce(event_time(fitted), F.raise_error(_no_time(query.time)).cast("long"))
    latest = time - F.pmod(time - F.lit(window.offset), F.lit(window.slide))
    by = [column(name) for name in query.by]
    if window.range == window.slide:
        found = frame.groupBy(*by, latest.alias(_START)).agg(*_parts(bound, sql))
    elif two_steps:
        slices = frame.groupBy(*by, latest.alias(_START)).agg(*_parts(bound, sql))
        parts = [column(name) for name in slices.columns[len(by) + 1 :]]
        copies = slices.select(*by, _starts(F.col(_START), window).alias(_START), *parts)
        found = copies.groupBy(*by, _START).agg(*_merged(sql))
    else:
        copies = frame.select("*", _starts(latest, window).alias(_START))
        found = copies.groupBy(*by, _START).agg(*_parts(bound, sql))
    bounds = [F.col(_START), F.col(_START) + F.lit(window.range)]
    results = [F.expr(each.lower.format(**_places(name, each))) for name, each in sql.items()]
    values = [*by, *(_instant(each, bound.bound_type) for each in bounds), *results]
    return found.select(
        *(
            _nullable(value.cast(field.dataType)).alias(field.name)
            for value, field in zip(values, fitted.output.fields, strict=True)
        )
    )


def _nullable(value: Any) -> Any:
    """A column that may be null, as those from Python may: the schema is the same for every plan."""
    return F.nullif(value, F.lit(None))


def _whole(forms: Mapping[str, SliceSql]) -> dict[str, WindowSql]:
    found = {name: form.windows for name, form in forms.items()}
    sql = {name: each for name, each in found.items() if each is not None}
    assert len(sql) == len(found), "copies_in_sql() has looked"
    return sql


def _starts(latest: Any, window: Any) -> Any:
    """A row for each window, from the start of the latest one back."""
    earliest = latest - F.lit(window.range - window.slide)
    return F.explode(F.sequence(earliest, latest, F.lit(window.slide).cast("long")))


def _parts(bound: BoundQuery, sql: Mapping[str, WindowSql]) -> list[Any]:
    found = []
    for name, each in sql.items():
        inputs = bound.sql_inputs(name, "spark")
        assert inputs is not None, "obstacle() has looked"
        found += [F.expr(text.format(*inputs)).alias(f"{name}.{part}") for part, text in each.parts.items()]
    return found


def _merged(sql: Mapping[str, WindowSql]) -> list[Any]:
    return [
        F.expr(text.format(quoted(f"{name}.{part}"))).alias(f"{name}.{part}")
        for name, each in sql.items()
        for part, text in each.merge.items()
    ]


def _places(name: str, sql: WindowSql) -> dict[str, str]:
    return {part: quoted(f"{name}.{part}") for part in sql.parts}


def _instant(micros: Any, kind: pa.DataType) -> Any:
    return F.timestamp_micros(micros) if pa.types.is_timestamp(kind) else micros


def _no_time(name: str) -> Any:
    return F.lit(f"windrow.errors.TimeColumnError: {no_time(name)}")
