# SPDX-License-Identifier: Apache-2.0
"""Structured Streaming: pack by bucket, one stateful operator, unpack.

::

    rows ─ select + bucket ─ mapInArrow(pack) ─ groupBy(bucket).transformWithState ─ mapInArrow(unpack) ─ windows

With ``workers``, the stateful operator is an emitter, which gives batches of windows, and stateless tasks compute them::

    … ─ groupBy(bucket).transformWithState ─ mapInArrow(scatter) ─ repartition(workers) ─ mapInArrow(computed) ─ windows

The watermark is that of ``df.withWatermark``. Spark tracks it where the rows enter. Which rows are late is decided by windrow's
operator, not by Spark's filter, so that late rows can be counted, applied, or handed back.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from pyspark.sql import functions as F
from pyspark.sql.types import StructField, StructType, TimestampNTZType, TimestampType

from windrow import Idle, Query
from windrow.errors import ColumnError, QueryError, TimeColumnError
from windrow.query.slicing import panes, time_windows
from windrow_spark.batch import column
from windrow_spark.bucket_operators import BucketOperators
from windrow_spark.buckets import FINISHED, BucketProcessor
from windrow_spark.packing import LATE, PACKED, pack, scatter, unpack
from windrow_spark.rehearsal import stream_rehearsal
from windrow_spark.schemas import FittedQuery, spark_schema
from windrow_spark.sent_code import after, send
from windrow_spark.slices import partials, partials_schema
from windrow_spark.starts import figures_of
from windrow_spark.workers import computed

BUCKETS, MOST_BUCKETS = 16, 1 << 16
BUCKET = "__windrow_bucket"
_SLICE = "__windrow_slice"
_WATERMARK = "spark.watermarkDelayMs"


def stream(
    frame: Any,
    fitted: FittedQuery,
    buckets: int,
    *,
    push_down: bool = False,
    workers: int | None = None,
    idle: Idle | None = None,
) -> Any:
    """The windows of a streaming DataFrame. With ``late="side"``, late rows come too, in the column ``late``.

    If a number of ``workers`` is given, the stateful operator only finds windows, and so many tasks compute them.
    """
    query = fitted.query
    if push_down:
        sent, sent_schema = _slices(frame, fitted)
    else:
        sent, sent_schema = frame.select(*map(column, fitted.schema.names)), fitted.schema
    names = [f"c{number}" for number in range(len(sent_schema))]
    bucket = F.pmod(F.xxhash64(*map(column, query.by)), F.lit(buckets)) if query.by else F.lit(0)
    emits = workers is not None
    partials_sent = sent_schema if push_down else None
    rehearsal = stream_rehearsal(query, fitted.schema, partials=partials_sent, emits=emits, idle=idle)
    code = send(frame.sparkSession, ("stream", query, sent_schema, emits, idle), rehearsal)
    operators = BucketOperators(
        query, fitted.schema, buckets, partials=push_down, emits=emits, idle=idle, code=code
    )
    rows = sent.withColumn(BUCKET, bucket.cast("int")).toDF(*names, BUCKET)
    finished = (
        rows.mapInArrow(pack(sent_schema), PACKED)
        .groupBy("bucket")
        .transformWithState(
            BucketProcessor(operators),
            outputStructType=FINISHED,
            outputMode="Append",
            timeMode="EventTime",
        )
        .observe(
            figures_of(fitted, buckets),
            F.sum("emitted").alias("windows"),
            F.sum("late_rows").alias("late_rows"),
            F.sum("pages").alias("pages_written"),
            F.sum("written").alias("bytes_written"),
            F.sum("compile_seconds").alias("compile_seconds"),
            F.sum("cold_keys").alias("cold_keys"),
            F.sum("freezes").alias("freezes"),
            F.sum("thaws").alias("thaws"),
            F.count("*").alias("buckets"),
        )
    )
    late = fitted.schema if query.late == "side" else None
    extra = [] if late is None else [StructField(LATE, spark_schema(late))]
    output = StructType([*fitted.output.fields, *extra])
    if workers is None and late is None:  # a select would make the plan of every micro-batch longer
        return finished.mapInArrow(unpack(fitted.bound.output_schema, late), output)
    packed = finished.select("windows") if late is None else finished.select("windows", "late")
    if workers is None:
        return packed.mapInArrow(unpack(fitted.bound.output_schema, late), output)
    sent = packed.mapInArrow(scatter, packed.schema).repartition(workers)
    return sent.mapInArrow(after(code, computed(query, fitted.schema, late)), output)


def _slices(frame: Any, fitted: FittedQuery) -> tuple[Any, pa.Schema]:
    """Finished slices. Spark computes them in a stateful operator of its own, which comes before ours in the same query."""
    query = fitted.query
    length, offset = panes(time_windows(query))
    cut = F.window(column(query.time), _text(length), _text(length), _text(offset)).alias(_SLICE)
    by = [column(name) for name in query.by]
    slices = frame.groupBy(*by, cut).agg(*partials(fitted.bound))
    start = F.unix_micros(F.col(f"{_SLICE}.start")).alias(query.time)
    rest = [column(name) for name in slices.columns[len(by) + 1 :]]
    sent = slices.select(*by, start, *rest)
    return sent, partials_schema(fitted, sent)


def _text(microseconds: int) -> str:
    return f"{microseconds} microseconds"


def split_late(frame: Any) -> tuple[Any, Any]:
    """The result of a streaming query with ``late="side"`` as two DataFrames: its windows, and its late rows.

    One query has one state, so both come out of one sink. Use this in ``foreachBatch``, or on what the sink has written.

    >>> def write(frame, batch):                                                    # doctest: +SKIP
    ...     windows, late = split_late(frame)
    """
    if LATE not in frame.columns:
        raise QueryError(
            "split_late() needs the result of a streaming query with late=\"side\"; this has no column 'late'"
        )
    windows = frame.filter(F.col(LATE).isNull()).drop(LATE)
    return windows, frame.filter(F.col(LATE).isNotNull()).select(f"{LATE}.*")


def check_stream(frame: Any, query: Query, buckets: int, output_mode: str = "append") -> None:
    """Refuse what Spark would accept, or would refuse only when the job runs."""
    if str(output_mode).lower() != "append":
        raise QueryError(
            f"output_mode is {output_mode!r}; windows of a stream come in mode 'append', each when it is final. "
            "For corrections of windows that late rows change, use late='update' in the query"
        )
    if not isinstance(buckets, int) or not 0 < buckets <= MOST_BUCKETS:
        raise QueryError(f"buckets has to be a whole number from 1 to {MOST_BUCKETS}, not {buckets!r}")
    if query.late == "side" and LATE in (*query.by, *query.aggregates):
        raise QueryError(
            f'output name {LATE!r} is reserved by windrow in a stream with late="side"; choose another'
        )
    fields = {field.name: field for field in frame.schema}
    time = fields.get(query.time)
    if time is None:
        raise ColumnError.unknown(query.time, "time", fields)
    if not isinstance(time.dataType, TimestampType | TimestampNTZType):
        raise TimeColumnError(
            f"time column {query.time!r} is a {time.dataType.simpleString()}; a stream needs a timestamp, because Spark's "
            "watermarks do: make it one (F.timestamp_seconds, F.timestamp_millis or F.timestamp_micros) before withWatermark, "
            "and leave time_unit out"
        )
    if _WATERMARK not in (time.metadata or {}):
        others = [name for name, field in fields.items() if _WATERMARK in (field.metadata or {})]
        where = f"; its watermark is on {others[0]!r}" if others else ""
        raise TimeColumnError(
            f"the streaming DataFrame has no watermark on its time column {query.time!r}{where}, so no window would ever be "
            f'final: call df.withWatermark("{query.time}", "10 seconds") before windowed()'
        )
