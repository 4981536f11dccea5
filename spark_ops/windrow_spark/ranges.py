"""One hot key, or none: its time is cut into ranges, and each range is a task's.

A window belongs to the range in which it ends. A row goes to every range in which a window that holds it may end: with
ranges several windows long, that is its own range and, near the end, the next one too (the halo). Tasks share
nothing, every window is computed once, and the answer is that of one task.

::

    range 0                 │ range 1                 │ range 2
    ───────────────windows──┤                         │
                    ├─halo──┼───────────────windows───┤
                            │                 ├─halo──┼──────────
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import functions as F

from windrow import Query
from windrow.errors import QueryError
from windrow.windows import TimeWindow
from windrow_spark.batch import OUTPUT_ROWS, column, sorted_through
from windrow_spark.cluster import cores
from windrow_spark.schemas import Plan, as_spark_has
from windrow_spark.slices import microseconds
from windrow_spark.sorted_rows import SortedRows

RANGE = "__windrow_range"
SAMPLE = 1 << 14
WINDOWS_A_RANGE = 8
"""A range is this many windows long unless a number of ranges is asked for, so a ninth of the rows are halo."""


def longest(query: Query) -> int:
    """The range of the longest window."""
    windows = [window for _, window in query.windows]
    if not all(isinstance(window, TimeWindow) for window in windows):
        raise QueryError(
            f"parallel= cuts the time of a key, which needs a TimeWindow, not {type(query.window).__name__}; "
            "leave parallel out, and keys are computed in parallel"
        )
    return max(window.range for window in windows if isinstance(window, TimeWindow))


def by_ranges(frame: Any, plan: Plan, ranges: int | None) -> Any:
    """Windows of a batch DataFrame, the time of every key cut into ranges.

    With a number of ranges, a first job finds the earliest and the latest time.
    """
    query, length = plan.query, longest(plan.query)
    time = microseconds(column(query.time), plan.schema.field(query.time).type)
    origin, width = 0, WINDOWS_A_RANGE * length
    if ranges is not None:
        earliest, latest = frame.agg(F.min(time), F.max(time)).first()
        if earliest is not None:
            origin, width = earliest, max(-(-(latest - earliest + length + 1) // ranges), 1)
    first, last = (_quotient(time + F.lit(reach - origin), width) for reach in (1, length))
    nowhere = F.array(F.lit(0).cast("long"))  # a row without a time goes on, to be refused by name
    reached = (
        F.when(time.isNull(), nowhere).when(first == last, F.array(first)).otherwise(F.sequence(first, last))
    )
    rows = frame.select(*map(column, plan.schema.names), F.explode(reached).alias(RANGE))
    placed = (ranges, RANGE) if ranges is not None and not query.by else None
    return sorted_through(
        rows, (*query.by, RANGE), query.time, _task(plan, origin, width), plan.output, placed
    )


def has_hot_key(frame: Any, query: Query) -> bool:
    """Whether one key has more rows than one core's share of all, so that the others would wait for its task.

    The first rows tell at once if keys are mixed. Only if one key stands out there are all rows counted.
    """
    keys = frame.select(F.hash(*map(column, query.by)).alias("key"))
    tasks = cores(frame.sparkSession)
    return tasks > 1 and all(_largest_share(rows) > 1 / tasks for rows in (keys.limit(SAMPLE), keys))


def _largest_share(keys: Any) -> float:
    """The share of the most frequent key."""
    most, rows = keys.groupBy("key").count().agg(F.max("count"), F.sum("count")).first()
    return most / rows if rows else 0.0


def _task(plan: Plan, origin: int, width: int) -> Any:
    query = plan.query
    ranged = Query(
        by=(*query.by, RANGE), time=query.time, window=query.window, aggregates=query.aggregates, lateness=query.lateness,
        late=query.late, algorithm=query.algorithm, early=query.early,
    )  # fmt: skip
    schema = plan.schema.append(pa.field(RANGE, pa.int64()))

    def windows(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        filled = (batch for batch in batches if batch.num_rows)
        for table in SortedRows(ranged, schema).windows(filled):
            ends = pc.subtract(table.column("window_end").cast(pa.int64()), origin)
            begin = pc.multiply(table.column(RANGE), width)
            mine = pc.and_(pc.greater_equal(ends, begin), pc.less(ends, pc.add(begin, width)))
            answer = as_spark_has(table.filter(mine).drop_columns([RANGE]))
            yield from answer.combine_chunks().to_batches(max_chunksize=OUTPUT_ROWS)

    return windows


def _quotient(value: Any, width: int) -> Any:
    """Division that rounds down, also below zero. What is divided is a multiple, so that rounding only mends the double."""
    return F.round((value - F.pmod(value, F.lit(width))) / F.lit(width)).cast("long")
