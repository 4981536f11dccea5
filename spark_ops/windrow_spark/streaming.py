"""Structured Streaming: pack by bucket, one stateful operator, unpack.

::

    rows ─ select + bucket ─ mapInArrow(pack) ─ groupBy(bucket).transformWithState ─ mapInArrow(unpack) ─ windows

The watermark is that of ``df.withWatermark``. Spark tracks it where the rows enter; what is late is decided by windrow's operator,
not by Spark's filter, so that late rows can be counted, applied, or handed back.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from pyspark.sql import functions as F
from pyspark.sql.types import StructField, StructType

from windrow import Query
from windrow.errors import ColumnError, QueryError, TimeColumnError
from windrow.windows import TimeWindow, pane
from windrow_spark.batch import column
from windrow_spark.buckets import FINISHED, Buckets
from windrow_spark.packing import LATE, PACKED, pack, unpack
from windrow_spark.schemas import Plan, spark_schema
from windrow_spark.slices import partials, partials_schema

BUCKETS, MOST_BUCKETS = 16, 1 << 16
METRICS = "windrow"
BUCKET = "__windrow_bucket"
_SLICE = "__windrow_slice"
_WATERMARK = "spark.watermarkDelayMs"


def stream(frame: Any, plan: Plan, buckets: int, *, pushdown: bool = False) -> Any:
    """Windows of a streaming DataFrame. With ``late="side"``, late rows come too, in the column ``late``."""
    query = plan.query
    if pushdown:
        sent, sent_schema = _slices(frame, plan)
    else:
        sent, sent_schema = frame.select(*map(column, plan.schema.names)), plan.schema
    names = [f"c{number}" for number in range(len(sent_schema))]
    bucket = F.pmod(F.xxhash64(*map(column, query.by)), F.lit(buckets)) if query.by else F.lit(0)
    rows = sent.withColumn(BUCKET, bucket.cast("int")).toDF(*names, BUCKET)
    finished = (
        rows.mapInArrow(pack(sent_schema), PACKED)
        .groupBy("bucket")
        .transformWithState(
            Buckets(query, plan.schema, buckets, partials=pushdown),
            outputStructType=FINISHED,
            outputMode="Append",
            timeMode="EventTime",
        )
        .observe(
            f"{METRICS} {query.fingerprint[:12]}",
            F.sum("emitted").alias("windows"),
            F.sum("late_rows").alias("late_rows"),
            F.sum("pages").alias("pages_written"),
            F.sum("written").alias("bytes_written"),
            F.sum("compile_seconds").alias("compile_seconds"),
            F.count("*").alias("buckets"),
        )
    )
    if query.late != "side":
        return finished.select("windows").mapInArrow(unpack(plan.bound.output_schema), plan.output)
    with_late = StructType([*plan.output.fields, StructField(LATE, spark_schema(plan.schema))])
    return finished.select("windows", "late").mapInArrow(
        unpack(plan.bound.output_schema, plan.schema), with_late
    )


def _slices(frame: Any, plan: Plan) -> tuple[Any, pa.Schema]:
    """Finished slices, which Spark computes in a stateful operator of its own, before ours in the same query."""
    query = plan.query
    windows = [window for _, window in query.windows if isinstance(window, TimeWindow)]
    length = pane(windows)
    offset = windows[0].offset % length
    cut = F.window(column(query.time), _text(length), _text(length), _text(offset)).alias(_SLICE)
    by = [column(name) for name in query.by]
    slices = frame.groupBy(*by, cut).agg(*partials(plan.bound))
    start = F.unix_micros(F.col(f"{_SLICE}.start")).alias(query.time)
    rest = [column(name) for name in slices.columns[len(by) + 1 :]]
    sent = slices.select(*by, start, *rest)
    return sent, partials_schema(plan, sent)


def _text(microseconds: int) -> str:
    return f"{microseconds} microseconds"


def split_late(frame: Any) -> tuple[Any, Any]:
    """The answer of a streaming query with ``late="side"`` as two DataFrames: its windows, and its late rows.

    One query has one state, so both have to come out of one sink: use this in ``foreachBatch``, or on what the sink has written.

    >>> def write(frame, batch):                                                    # doctest: +SKIP
    ...     windows, late = split_late(frame)
    """
    if LATE not in frame.columns:
        raise QueryError(
            "split_late() needs the answer of a streaming query with late=\"side\"; this has no column 'late'"
        )
    windows = frame.filter(F.col(LATE).isNull()).drop(LATE)
    return windows, frame.filter(F.col(LATE).isNotNull()).select(f"{LATE}.*")


def check_stream(frame: Any, query: Query, buckets: int, output_mode: str = "append") -> None:
    """Refuse what Spark would run without complaint, or fail on only when the job runs."""
    if str(output_mode).lower() != "append":
        raise QueryError(
            f"output_mode is {output_mode!r}; windows of a stream come in mode 'append', each when it is final. "
            "For corrections of windows that late rows change, use late='update' in the query"
        )
    if not isinstance(buckets, int) or not 0 < buckets <= MOST_BUCKETS:
        raise QueryError(f"buckets has to be a whole number from 1 to {MOST_BUCKETS}, not {buckets!r}")
    if query.late == "side" and LATE in (*query.by, *query.aggregates):
        raise QueryError(
            f'output name {LATE!r} is taken by windrow in a stream with late="side"; choose another'
        )
    fields = {field.name: field for field in frame.schema}
    time = fields.get(query.time)
    if time is None:
        raise ColumnError.unknown(query.time, "time", fields)
    if _WATERMARK not in (time.metadata or {}):
        others = [name for name, field in fields.items() if _WATERMARK in (field.metadata or {})]
        where = f"; its watermark is on {others[0]!r}" if others else ""
        raise TimeColumnError(
            f"the streaming DataFrame has no watermark on its time column {query.time!r}{where}, so no window would ever be "
            f'final: call df.withWatermark("{query.time}", "10 seconds") before windowed()'
        )
