"""``windowed(df, query)``: a DataFrame of rows in, a DataFrame of finished windows out."""

from __future__ import annotations

from typing import Any, Literal

from windrow import Query
from windrow.errors import QueryError
from windrow.windows import TimeWindow
from windrow_spark import batch, ranges, slices
from windrow_spark.schemas import Plan, plan
from windrow_spark.streaming import BUCKETS, check_stream, stream


def windowed(
    frame: Any,
    query: Query,
    *,
    pushdown: bool | Literal["auto"] = "auto",
    parallel: bool | int | Literal["auto"] = "auto",
    buckets: int = BUCKETS,
    output_mode: str = "append",
) -> Any:
    """The windows of a batch or streaming DataFrame, as a DataFrame: keys…, window_start, window_end, aggregates….

    ``pushdown``: let Spark compute slices in the JVM, so that only their partials go to Python. "auto" does so for time windows if every
    aggregate has a SQL form that is as exact as ours; ``True`` also accepts Spark's rounding of floating-point sums.
    A stream pushes down with ``True`` only: Spark then drops late rows by its own rule, when their slice is finished.

    ``parallel`` (batch, time windows): cut the time of each key into ranges that different tasks compute. "auto" does so if the
    query has no key, or if rows go to Python and one key has more of them than a core's share (a small job looks at some rows,
    and only if it finds such a key, another one counts them all); a number is how many ranges.

    ``buckets`` (streaming): into how many groups keys are hashed; a checkpoint is bound to it.

    ``output_mode`` (streaming): the mode that ``writeStream`` will have, to be told here already that only "append" works.

    >>> windowed(spark.table("loads"), query)                                       # doctest: +SKIP
    """
    side = frame.isStreaming and isinstance(query, Query) and query.late == "side"
    planned = plan(query, frame, all_columns=side)
    _check_options(pushdown, parallel)
    if frame.isStreaming:
        check_stream(frame, query, buckets, output_mode)
        pushed = pushdown is True and _push_down(planned, pushdown, parallel)
        if pushed and (query.late != "drop" or query.lateness or query.early):
            raise QueryError(
                "pushdown=True in a stream lets Spark decide what is late, so it needs late='drop', no lateness and no early results; "
                "leave pushdown out, and rows go to Python"
            )
        return stream(frame, planned, buckets, pushdown=pushed)
    if _push_down(planned, pushdown, parallel):
        return slices.by_slices(frame, planned)
    if _cut_time(frame, planned, parallel):
        return ranges.by_ranges(frame, planned, parallel if type(parallel) is int else None)
    return batch.by_rows(frame, planned)


def _check_options(pushdown: object, parallel: object) -> None:
    if pushdown not in (True, False, "auto"):
        raise QueryError(f"pushdown has to be True, False or 'auto', not {pushdown!r}")
    if parallel not in (True, False, "auto") and not (isinstance(parallel, int) and parallel > 0):
        raise QueryError(f"parallel has to be True, False, 'auto' or a number of ranges, not {parallel!r}")


def _push_down(planned: Plan, pushdown: bool | str, parallel: bool | int | str) -> bool:
    if pushdown is False:
        return False
    obstacle = slices.obstacle(planned.bound)
    if pushdown is True:
        if obstacle:
            raise QueryError(f"pushdown=True: {obstacle}; leave pushdown out, and rows go to Python")
        return True
    return not obstacle and slices.exact(planned.bound) and parallel in ("auto", False)


def _cut_time(frame: Any, planned: Plan, parallel: bool | int | str) -> bool:
    query = planned.query
    if parallel is False:
        return False
    if parallel == "auto":
        sliceable = all(isinstance(window, TimeWindow) for _, window in query.windows)
        return sliceable and (not query.by or ranges.has_hot_key(frame, query))
    ranges.longest(query)
    return True
