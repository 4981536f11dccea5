# SPDX-License-Identifier: Apache-2.0
"""``windowed(df, query)``: a DataFrame of rows in, a DataFrame of finished windows out."""

from __future__ import annotations

import os
from typing import Any, Literal

from windrow import Idle, Query
from windrow.durations import Duration
from windrow.errors import QueryError
from windrow.query.key_ranges import cuttable
from windrow.query.slicing import (
    PushDown,
    obstacle,
    push_down_option,
    sql_forms,
    time_windows,
)
from windrow.query.worker_models import extents_of
from windrow_spark import batch, key_ranges, ranges, slices
from windrow_spark.checkpoints import check_checkpoint
from windrow_spark.cluster import check_state_store, cores
from windrow_spark.plans import BatchPlan, plan_of
from windrow_spark.schemas import FittedQuery, check_order, fit
from windrow_spark.spark_alone import by_spark
from windrow_spark.starts import check_at_start
from windrow_spark.streaming import BUCKETS, check_stream, stream


def windowed(
    frame: Any,
    query: Query,
    *,
    push_down: PushDown = "auto",
    pushdown: PushDown | None = None,
    parallel: bool | int | Literal["auto"] = "auto",
    buckets: int = BUCKETS,
    workers: int | None = None,
    output_mode: str = "append",
    checkpoint: str | os.PathLike[str] | None = None,
    idle: Idle | Duration | None = None,
) -> Any:
    """The windows of a batch or streaming DataFrame, as a DataFrame: keys…, window_start, window_end, aggregates….

    frame
        A batch or streaming DataFrame. A stream needs ``withWatermark`` on the time column.
    push_down
        Let Spark compute slices in the JVM, so that only their partials go to Python, or whole windows, so that nothing
        does. ``"auto"`` does so in a batch, for time windows, if every aggregate has an SQL form that is as exact as ours,
        and if that is likely to be faster. A small job looks at the first rows, and :func:`explain` tells what was chosen.
        ``True`` also accepts Spark's rounding of floating-point sums. A stream pushes down only with ``True``: Spark then
        drops late rows by its own rule, when their slice is finished.
    pushdown
        Another spelling of ``push_down``.
    parallel
        Batch, not for delta and policy windows: cut keys into ranges that different tasks compute. A number is how many
        ranges. ``"auto"`` does so if rows go to Python and there is no key, or one key has more of them than a core's share;
        on fewer than four cores only for functions of whole windows, because a task keeps two cores busy otherwise.
    buckets
        Streaming: into how many groups keys are hashed. A checkpoint is bound to this number.
    workers
        Streaming, functions of whole windows such as ``Apply``: the stateful tasks only find the windows, and this many
        other tasks compute them, also those of a single key. It may change when a stream is started again.
    output_mode
        Streaming: the mode that ``writeStream`` will have. Any other than ``"append"`` is refused here.
    checkpoint
        Streaming: the ``checkpointLocation`` that ``writeStream`` will have. If its state was written by another query, from
        columns of other types, or with another number of buckets, that is an error here. Without this argument, it is an
        error when the stream starts: ``writeStream`` looks into its ``checkpointLocation`` then.
    idle
        Streaming: how long a key has to be silent until its windows are frozen; see :class:`windrow.Idle`.

    With ``parallel``, the time of each key is cut for time windows. For others, keys with more than a range's share of all
    rows are cut. To find such a key, a small job looks at some rows. Only if one stands out there, another job counts all
    rows. Windows other than time windows need a further job, which counts the rows of that key by time.

    >>> windowed(spark.table("loads"), query)                                       # doctest: +SKIP
    """
    check_order(frame, query, "windowed")
    fitted = fit(query, frame, all_columns=frame.isStreaming and query.late == "side")
    asked = push_down_option(push_down, pushdown)
    if parallel not in (True, False, "auto") and not (isinstance(parallel, int) and parallel > 0):
        raise QueryError(f"parallel has to be True, False, 'auto' or a number of ranges, not {parallel!r}")
    _check_workers(fitted, workers, streaming=frame.isStreaming)
    if frame.isStreaming:
        check_stream(frame, query, buckets, output_mode)
        check_state_store(frame.sparkSession)
        if checkpoint is not None:
            check_checkpoint(frame.sparkSession, fitted, os.fspath(checkpoint), buckets)
        pushed = asked is True and not _obstacle(frame, fitted, True, stream=True)
        check_at_start(frame, fitted, buckets)
        return stream(frame, fitted, buckets, push_down=pushed, workers=workers, idle=Idle.of(idle))
    Idle.of(idle)  # a batch has one watermark, at its end
    plan = _plan(frame, fitted, asked, parallel)
    if plan.name in ("groups", "copies", "two steps"):
        return by_spark(frame, fitted, plan.forms, two_steps=plan.name == "two steps")
    if plan.name == "slices":
        return slices.by_slices(frame, fitted, plan.forms)
    ranged = _in_ranges(frame, fitted, parallel)
    return batch.by_rows(frame, fitted) if ranged is None else ranged


def explain(
    frame: Any,
    query: Query,
    *,
    push_down: PushDown = "auto",
    parallel: bool | int | Literal["auto"] = "auto",
) -> BatchPlan:
    """The plan that ``windowed`` chooses for a batch DataFrame, with the reason. Small jobs look at the first rows, as there.

    >>> print(explain(spark.table("loads"), query))                                 # doctest: +SKIP
    slices: several rows share a slice
    """
    check_order(frame, query, "explain")
    if frame.isStreaming:
        raise QueryError("explain() shows the plan of a batch; a stream has only one plan, see push_down=")
    return _plan(frame, fit(query, frame), push_down_option(push_down, None), parallel)


def _plan(
    frame: Any, fitted: FittedQuery, asked: PushDown, parallel: bool | int | Literal["auto"]
) -> BatchPlan:
    """How a batch is computed."""
    reason = _obstacle(frame, fitted, asked)
    if reason:
        return BatchPlan("rows", reason, {})
    forms = sql_forms(fitted.bound, rounded=asked is True)
    if forms is None:
        why = "Spark's SQL rounds an aggregate more than windrow does; push_down=True accepts that"
        return BatchPlan("rows", why, {})
    if asked is not True and parallel not in ("auto", False):
        return BatchPlan("rows", "parallel= cuts keys, and for that rows go to Python", {})
    return plan_of(frame, fitted, forms)


def _check_workers(fitted: FittedQuery, workers: int | None, *, streaming: bool) -> None:
    """Refuse workers that would have nothing to do."""
    if workers is None:
        return
    if isinstance(workers, bool) or not isinstance(workers, int) or workers < 1:
        raise QueryError(f"workers has to be a whole number of at least 1, not {workers!r}")
    if not streaming:
        raise QueryError("workers= is for streams; in a batch, parallel= distributes the windows of a key")
    extents_of(fitted.query, fitted.schema)


def _obstacle(frame: Any, fitted: FittedQuery, asked: PushDown, *, stream: bool = False) -> str:
    """Why Spark does not compute slices; empty if it does. An error if that was asked for and cannot be."""
    if asked is False:
        return "push_down=False"
    reason = obstacle(fitted.bound, "spark", stream=stream)
    if (
        not reason
        and fitted.bound.computed
        and frame.sparkSession.conf.get("spark.sql.ansi.enabled") != "true"
    ):
        reason = (
            "expressions and where= have the same values in Spark's SQL only with spark.sql.ansi.enabled=true"
        )
    if asked is True and reason:
        raise QueryError(f"push_down=True: {reason}; leave push_down out, and rows go to Python")
    return reason


def _cores_a_task(fitted: FittedQuery) -> int:
    """How many cores one task keeps busy: Spark sorts its rows while Python computes, unless Python takes much longer."""
    bound = fitted.bound
    slow = any(
        monoid.fields is None or bound.whole(name, compiled=False) is not None
        for name, monoid in bound.monoids.items()
    )
    return 1 if slow else 2


def _in_ranges(frame: Any, fitted: FittedQuery, parallel: bool | int | Literal["auto"]) -> Any:
    """The windows, with keys cut into ranges; None if none is to be cut."""
    query, number = fitted.query, parallel if type(parallel) is int else None
    if parallel is False or (parallel == "auto" and cores(frame.sparkSession) < 2 * _cores_a_task(fitted)):
        return None
    if time_windows(query):
        if parallel == "auto" and query.by and not ranges.has_hot_key(frame, query):
            return None
        return ranges.by_ranges(frame, fitted, number)
    if cuttable(query):
        cut = key_ranges.cut_of(frame, fitted, number, look=parallel == "auto")
        return None if cut is None else key_ranges.by_key_ranges(frame, fitted, cut)
    if parallel == "auto":
        return None
    raise QueryError(
        f"parallel= cuts the rows of a key, and a {type(query.window).__name__} depends on all rows before it; "
        "leave parallel out, and keys are computed in parallel"
    )
