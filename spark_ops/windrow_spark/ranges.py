# SPDX-License-Identifier: Apache-2.0
"""One hot key, or no key, and time windows: time is cut into ranges, and each range is the work of one task.

A window belongs to the range in which it ends. A row goes to every range in which a window that holds it may end. A range
is several windows long, so that is the row's own range and, near its end, also the next one (the halo). Tasks share
nothing, every window is computed once, and the result is that of a single task.

::

    range 0                 │ range 1                 │ range 2
    ───────────────windows──┤                         │
                    ├─halo──┼───────────────windows───┤
                            │                 ├─halo──┼──────────
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import functions as F

from windrow import Query
from windrow.query.slicing import time_windows
from windrow_spark.arrow_types import as_spark_has
from windrow_spark.batch import OUTPUT_ROWS, column, sorted_through, with_code
from windrow_spark.cluster import cores
from windrow_spark.schemas import FittedQuery
from windrow_spark.slices import event_time, quotient
from windrow_spark.sorted_rows import SortedRowWindows

RANGE = "__windrow_range"
SAMPLE = 1 << 14
WINDOWS_A_RANGE = 8
"""How many windows long a range is, unless a number of ranges is asked for. A ninth of all rows sent are then halo."""


def by_ranges(frame: Any, fitted: FittedQuery, ranges: int | None) -> Any:
    """The windows of a batch DataFrame, with the time of every key cut into ranges.

    If a number of ranges is given, a first job finds the earliest and the latest time.
    """
    query = fitted.query
    length = max(window.longest for window in time_windows(query))
    time = event_time(fitted)
    origin, width = 0, WINDOWS_A_RANGE * length
    if ranges is not None:
        earliest, latest = frame.agg(F.min(time), F.max(time)).first()
        if earliest is not None:
            origin, width = earliest, max(-(-(latest - earliest + length + 1) // ranges), 1)
    first, last = (quotient(time + F.lit(reach - origin), width) for reach in (1, length))
    nowhere = F.array(
        F.lit(0).cast("long")
    )  # a row without a time is sent on; the operator refuses it by name
    reached = (
        F.when(time.isNull(), nowhere).when(first == last, F.array(first)).otherwise(F.sequence(first, last))
    )
    rows = frame.select(*map(column, fitted.schema.names), F.explode(reached).alias(RANGE))
    placed = (ranges, RANGE) if ranges is not None and not query.by else None
    ranged = replace(query, by=(*query.by, RANGE))
    schema = fitted.schema.append(pa.field(RANGE, pa.int64()))
    through = with_code(frame, ranged, schema, _task(ranged, schema, origin, width))
    return sorted_through(rows, ranged.by, query.time, through, fitted.output, placed)


def has_hot_key(frame: Any, query: Query) -> bool:
    """Whether one key has more rows than one core's share, so that other cores would wait for its task.

    A sample of the first rows is looked at. Only if one key stands out there, all rows are counted.
    """
    tasks = cores(frame.sparkSession)
    if tasks == 1 or not stands_out(frame, query, tasks):
        return False
    keys = frame.select(F.hash(*map(column, query.by)).alias("key"))
    most, rows = keys.groupBy("key").count().agg(F.max("count"), F.sum("count")).first()
    return bool(most > rows / tasks)


def stands_out(frame: Any, query: Query, tasks: int, least: int = 1) -> bool:
    """Whether one key has more than its share of the first rows, and there are at least so many of them."""
    key = F.hash(*map(column, query.by)) if query.by else F.lit(0)
    first = [
        row.key for row in frame.select(key.alias("key")).limit(SAMPLE).collect()
    ]  # one task, unlike a groupBy
    return len(first) >= max(least, 1) and Counter(first).most_common(1)[0][1] > len(first) / tasks


def _task(ranged: Query, schema: pa.Schema, origin: int, width: int) -> Any:
    def windows(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        filled = (batch for batch in batches if batch.num_rows)
        for table in SortedRowWindows(ranged, schema).windows(filled):
            ends = pc.subtract(table.column("window_end").cast(pa.int64()), origin)
            begin = pc.multiply(table.column(RANGE), width)
            mine = pc.and_(pc.greater_equal(ends, begin), pc.less(ends, pc.add(begin, width)))
            found = as_spark_has(table.filter(mine).drop_columns([RANGE]))
            yield from found.combine_chunks().to_batches(max_chunksize=OUTPUT_ROWS)

    return windows
