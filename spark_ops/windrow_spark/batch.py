# SPDX-License-Identifier: Apache-2.0
"""Batch: Spark shuffles and sorts, the operator computes the windows.

There are three ways, and all give the same rows. *Rows*: every row goes to Python, sorted by key and time. *Slices*:
Spark computes the partials of slices first (:mod:`windrow_spark.slices`). *Ranges*: the time of a key is cut into
ranges that different tasks compute (:mod:`windrow_spark.ranges`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql import functions as F

from windrow import Query
from windrow.expressions.sql import quoted
from windrow_spark.arrow_types import as_spark_has
from windrow_spark.rehearsal import batch_rehearsal
from windrow_spark.schemas import FittedQuery
from windrow_spark.sent_code import after, send
from windrow_spark.sorted_rows import SortedRowWindows

Batches = Iterator[pa.RecordBatch]
OUTPUT_ROWS = 1 << 16


def by_rows(frame: Any, fitted: FittedQuery) -> Any:
    """The windows of a batch DataFrame; every row goes to Python."""
    query = fitted.query
    rows = frame.select(*map(column, fitted.schema.names))
    through = with_code(frame, query, fitted.schema, task(query, fitted.schema))
    return sorted_through(rows, query.by, query.time, through, fitted.output)


def sorted_through(
    frame: Any, by: Sequence[str], time: str, task: Any, output: Any, partitions: Any = None
) -> Any:
    """What a task makes of a DataFrame sorted by keys and time, with all rows of a key in one partition.

    Columns travel under numbers, because PySpark cannot send a column whose name has a dot.
    """
    names = list(frame.columns)
    rows = frame.toDF(*(f"c{number}" for number in range(len(names))))
    keys = [f"c{names.index(name)}" for name in by]
    if partitions is not None:
        number, key = partitions
        rows = rows.repartitionById(number, F.pmod(F.col(f"c{names.index(key)}"), F.lit(number)).cast("int"))
    else:
        rows = rows.repartition(*keys) if keys else rows.repartition(1)
    return rows.sortWithinPartitions(*keys, f"c{names.index(time)}").mapInArrow(task, output)


def task(query: Query, schema: pa.Schema, partials: pa.Schema | None = None) -> Callable[[Batches], Batches]:
    """What each task does with its sorted rows, or partials."""

    def windows(batches: Iterable[pa.RecordBatch]) -> Batches:
        filled = (batch for batch in batches if batch.num_rows)
        for table in SortedRowWindows(query, schema, partials).windows(filled):
            yield from as_spark_has(table).combine_chunks().to_batches(max_chunksize=OUTPUT_ROWS)

    return windows


def with_code(
    frame: Any,
    query: Query,
    schema: pa.Schema,
    task: Callable[[Any], Batches],
    partials: pa.Schema | None = None,
) -> Callable[[Any], Batches]:
    """The task, with the driver's compiled code of the query."""
    rehearsal = batch_rehearsal(query, schema, partials)
    return after(send(frame.sparkSession, ("batch", query, schema, partials), rehearsal), task)


def column(name: str) -> Any:
    """The column of exactly this name, which may hold dots and backticks."""
    return F.col(quoted(name))
