# SPDX-License-Identifier: Apache-2.0
"""What a checkpoint holds: the windows that are still open, and figures about the state.

Both are read from the last finished micro-batch with Spark's state reader. Nothing is changed, and the stream may go on.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pyarrow as pa
from pyspark.errors import IllegalArgumentException, PySparkException
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from windrow import Operator, Query
from windrow.errors import FingerprintMismatch, QueryError, StoreError, WindrowError
from windrow.storage import snapshot
from windrow.storage.codec import decompress
from windrow.storage.pages import HEADER, MemoryPages
from windrow.storage.segments import Segments, header_in
from windrow_spark.arrow_types import as_spark_has
from windrow_spark.batch import OUTPUT_ROWS
from windrow_spark.buckets import HEADER_STATE, MARK, PAGES_STATE
from windrow_spark.rehearsal import stream_rehearsal
from windrow_spark.schemas import FittedQuery, check_order, fit, spark_schema
from windrow_spark.sent_code import after, send

INSPECTED = (
    "bucket int, keys long, open_windows long, pages long, bytes long, watermark timestamp, late_rows long"
)


def remaining(frame: Any, query: Query, checkpoint: str | os.PathLike[str]) -> Any:
    """The windows that were not final when a stream stopped, as a batch DataFrame. With them the result is complete.

    ``frame`` is the DataFrame that the stream read, or a batch DataFrame: only its columns matter. ``checkpoint`` is the
    stream's checkpoint. The stream may be running: then these are the windows after its last finished micro-batch. Another
    query than the one that wrote the checkpoint is refused.

    >>> rest = remaining(rows, query, "/checkpoints/plugs")                        # doctest: +SKIP
    """
    check_order(frame, query, "remaining")
    fitted = fit(query, frame, all_columns=query.late == "side")
    spark, place = frame.sparkSession, os.fspath(checkpoint)
    pages = _pages(place, spark)
    check_checkpoint(spark, fitted, place)
    flushed = _per_bucket(lambda operator, _, __: operator.flush(), query, fitted.schema)
    return pages.mapInArrow(_with_code(spark, fitted, flushed), fitted.output)


def inspect_state(checkpoint: str | os.PathLike[str], query: Query | None = None, frame: Any = None) -> Any:
    """The state in a checkpoint, bucket by bucket: pages and bytes.

    Given the query and the rows' DataFrame, also keys, open windows, watermark and late rows.
    """
    spark, place = SparkSession.active() if frame is None else frame.sparkSession, os.fspath(checkpoint)
    pages = _pages(place, spark)
    if query is None or frame is None:
        return pages.groupBy("bucket").agg(
            F.count("*").alias("pages"), F.sum(F.length("page")).cast("long").alias("bytes")
        )
    fitted = fit(query, frame, all_columns=query.late == "side")
    check_checkpoint(spark, fitted, place)
    facts = _per_bucket(_facts, query, fitted.schema)
    return pages.mapInArrow(_with_code(spark, fitted, facts), INSPECTED)


def check_checkpoint(spark: Any, fitted: FittedQuery, checkpoint: str, buckets: int | None = None) -> None:
    """Refuse a query, types of columns, or a number of buckets, that the state in a checkpoint was not written with.

    A checkpoint without state, or that is not there, fits every query. If several operators in it are windrow's, one of them
    has to fit.
    """
    refused: WindrowError | None = None
    for operator in _operators(spark, checkpoint):
        try:
            _check_operator(spark, fitted, checkpoint, buckets, operator)
        except WindrowError as error:
            refused = refused or error
        else:
            return
    if refused is not None:
        raise refused.with_traceback(None)


def _operators(spark: Any, checkpoint: str) -> list[int]:
    """The stateful operators of a stream that are windrow's, by their variables; the first one of the stream if none is.

    It also has the session set up what its streams share. Spark's readers of state look for that, and would warn that it is
    not there if the process has not started a stream yet.
    """
    list(spark.streams.active)
    own = {MARK, HEADER_STATE, PAGES_STATE}
    found = []
    with suppress(PySparkException):
        for operator in spark.read.format("state-metadata").load(checkpoint).collect():
            variables = json.loads(operator.operatorProperties or "{}").get("stateVariables", [])
            if own <= {variable["stateName"] for variable in variables}:
                found.append(operator.operatorId)
    return sorted(set(found)) or [0]


def _check_operator(
    spark: Any, fitted: FittedQuery, checkpoint: str, buckets: int | None, operator: int
) -> None:
    """Reads the header of one bucket with a small job, and its number of buckets, if that matters, with another one."""
    try:
        header = _state(HEADER_STATE, checkpoint, spark, operator).limit(1).collect()
        mark = [] if buckets is None else _state(MARK, checkpoint, spark, operator).limit(1).collect()
    except PySparkException as cause:
        if _of_another_stream(cause):
            raise StoreError(
                f"checkpoint {checkpoint!r} was written by another streaming query, not by windrow; use a new checkpointLocation"
            ) from None
        return
    if buckets is not None and mark and mark[0].value.buckets != buckets:
        raise FingerprintMismatch.of_buckets(mark[0].value.buckets, buckets)
    if header:
        check_header(bytes(header[0].value.page), fitted)


def _of_another_stream(cause: PySparkException) -> bool:
    """Whether the state reader finds micro-batches, but none of our state variables, or no state at all."""
    condition = cause.getCondition() or ""
    return isinstance(cause, IllegalArgumentException) or condition.startswith("STDS_INVALID_OPTION_VALUE")


def check_header(page: bytes, fitted: FittedQuery) -> None:
    """Refuse the header of a bucket that another query wrote, or that had other types of columns."""
    query, found = fitted.query, decompress(header_in(page))
    header = snapshot.read(found, query.fingerprint, query.described, holder="checkpoint")
    if "schema" not in header:
        return
    known = pa.ipc.read_schema(pa.py_buffer(header["schema"]))
    for name in (*query.by, *fitted.bound.columns_needed):
        before, now = (spark_schema(pa.schema([each.field(name)])) for each in (known, fitted.schema))
        if before != now:
            was, is_ = (each[name].dataType.simpleString() for each in (before, now))
            raise QueryError(
                f"column {name!r} was a {was} when the checkpoint was written, and is a {is_} now; cast it to {was}, "
                "or use a new checkpointLocation"
            )


def _state(name: str, checkpoint: str, spark: SparkSession, operator: int) -> Any:
    reader = spark.read.format("statestore").option("stateVarName", name).option("operatorId", operator)
    return reader.load(checkpoint)


def _facts(operator: Operator, bucket: int, pages: MemoryPages) -> pa.Table:
    watermark = operator.watermark if abs(operator.watermark) < 1 << 61 else None
    late_rows = operator.late_rows
    windows = operator.flush()
    by = list(operator.query.by)
    keys = windows.group_by(by).aggregate([]).num_rows if by else min(windows.num_rows, 1)
    return pa.table(
        {
            "bucket": pa.array([bucket], pa.int32()),
            "keys": [keys],
            "open_windows": [windows.num_rows],
            "pages": [len(pages.held)],
            "bytes": [sum(map(len, pages.held.values()))],
            "watermark": pa.array([watermark], pa.timestamp("us", "UTC")),
            "late_rows": [late_rows],
        }
    )


def _pages(checkpoint: str, spark: SparkSession) -> Any:
    """All pages of all buckets, those of a bucket next to each other."""
    try:
        operator = _operators(spark, checkpoint)[0]
        header, pages = (_state(name, checkpoint, spark, operator) for name in (HEADER_STATE, PAGES_STATE))
    except PySparkException as cause:
        raise StoreError(
            f"{checkpoint!r} has no state of a windrow stream ({str(cause).splitlines()[0]}); "
            "give the checkpointLocation of a query that has finished a micro-batch"
        ) from None
    bucket = F.col("key.bucket").alias("bucket")
    headers = header.select(bucket, F.lit(HEADER).alias("name"), F.col("value.page").alias("page"))
    others = pages.select(
        bucket, F.col("user_map_key.name").alias("name"), F.col("user_map_value.page").alias("page")
    )
    return headers.unionByName(others).repartition("bucket").sortWithinPartitions("bucket")


def _with_code(spark: Any, fitted: FittedQuery, task: Any) -> Any:
    """The task, with the driver's compiled code of the stream's query."""
    query, schema = fitted.query, fitted.schema
    return after(send(spark, ("stream", query, schema, False, None), stream_rehearsal(query, schema)), task)


def _per_bucket(
    result_of: Callable[[Operator, int, MemoryPages], pa.Table], query: Query, schema: pa.Schema
) -> Any:
    def results(batches: Any) -> Any:
        bucket, pages = None, MemoryPages()

        def finished() -> Any:
            if bucket is not None:
                table = result_of(Operator.open(query, schema, Segments(pages)), bucket, pages)
                yield from as_spark_has(table).combine_chunks().to_batches(max_chunksize=OUTPUT_ROWS)

        for batch in batches:
            for number, name, page in zip(*(column.to_pylist() for column in batch.columns), strict=True):
                if number != bucket:
                    yield from finished()
                    bucket, pages = number, MemoryPages()
                pages.commit({name: page}, [])
        yield from finished()

    return results
