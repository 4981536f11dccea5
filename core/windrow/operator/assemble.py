# SPDX-License-Identifier: Apache-2.0
"""An operator put together for one query and one schema, step by step."""

from __future__ import annotations

from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from windrow.aggregates.holistic import concatenated
from windrow.operator.bucket_state import BucketAggregation, BucketState
from windrow.operator.bucket_table import (
    ApproximateCountSlicer,
    ApproximatePolicySlicer,
    ApproximateTimeSlicer,
    BucketTable,
)
from windrow.operator.buffer import Buffer
from windrow.operator.cold import ColdKeys
from windrow.operator.extents import ExtentState
from windrow.operator.gathered import GatheredState
from windrow.operator.idle import Idle
from windrow.operator.keys import Keys
from windrow.operator.late import LateRows
from windrow.operator.late_correct import CorrectedTimeSlicer, CorrectInPlace, TreapAggregation
from windrow.operator.late_rebuild import Rebuild
from windrow.operator.output import Output
from windrow.operator.parallel import ParallelBoundary
from windrow.operator.partials import AggregateState, BoundaryAggregation, FinalAggregation
from windrow.operator.parts import Parts
from windrow.operator.slicers import Slicer, TimeSlicer, slicer_of
from windrow.operator.slicers.policy import PolicySlicer
from windrow.operator.slices import SliceTable
from windrow.operator.stored_rows import StoredRows
from windrow.operator.workers import ComputesWindows, Workers
from windrow.query import BoundQuery, Query
from windrow.query.explain import why_hot
from windrow.storage.pages import Pages
from windrow.storage.paging import Paging
from windrow.windows import CountWindow, PolicyWindow, TimeWindow


@dataclass(frozen=True)
class How:
    """How an operator runs. Nothing here changes its output."""

    compiled: bool = True
    pool: Executor | None = None
    pages: Pages | None = None
    """The store that holds the state; in memory if there is none."""
    workers: ComputesWindows = field(default_factory=Workers)
    """Who computes functions of whole windows."""
    idle: Idle | None = None
    """When silent keys are frozen; never if there is none."""

    @classmethod
    def of(
        cls,
        compiled: bool,
        threads: int | Executor,
        pages: Pages | None,
        workers: int | ComputesWindows,
        idle: Any,
    ) -> How:
        """``threads`` is a pool, or how many threads share the work."""
        pool = threads if isinstance(threads, Executor) else _pool(threads)
        return cls(compiled, pool, pages, Workers.of(workers), Idle.of(idle))


def _pool(threads: int) -> Executor | None:
    return ThreadPoolExecutor(threads) if threads > 1 else None


def assemble(bound: BoundQuery, how: How) -> tuple[Parts, LateRows | None]:
    """The parts of an operator, and its way to apply late rows; none if its windows wait for them."""
    windows = [window for _, window in bound.query.windows]
    in_time = [window for window in windows if isinstance(window, TimeWindow)]
    if bound.query.within is not None:
        slicer = _approximate_slicer(bound)
        forest = slicer.aggregation(None, compiled=how.compiled) if isinstance(slicer, PolicySlicer) else None
        counting = isinstance(windows[0], CountWindow)
        return _parts(bound, slicer, BucketAggregation(bound, counting=counting, forest=forest), how), None
    if bound.query.late != "update":
        slicer = slicer_of(bound)
        return _parts(bound, slicer, _aggregation(bound.query, slicer, how), how), None
    if in_time:
        return _corrected_in_place(bound, in_time, how)
    settled, newest = slicer_of(bound), slicer_of(bound)
    parts = _parts(bound, settled, _boundary(settled, how), how)
    current = _table(bound, parts.keys, newest, _boundary(newest, how), how, None, None)
    return parts, Rebuild(parts, current)


def _aggregation(query: Query, slicer: Slicer, how: How) -> FinalAggregation:
    """How the windows of a slicer are computed. Those of policies are searched in a forest, which computes them too."""
    if not isinstance(slicer, PolicySlicer):
        return final_aggregation(query, how)
    named = None if query.algorithm in ("auto", "PBA") else final_aggregation(query, how)
    return slicer.aggregation(named, compiled=how.compiled)


def _boundary(slicer: Slicer, how: How) -> FinalAggregation:
    if isinstance(slicer, PolicySlicer):
        return slicer.aggregation(None, compiled=how.compiled)
    return BoundaryAggregation()


def _approximate_slicer(bound: BoundQuery) -> Slicer:
    windows = [window for _, window in bound.query.windows]
    if isinstance(windows[0], CountWindow):
        return ApproximateCountSlicer([windows[0]])
    if isinstance(windows[0], PolicyWindow):
        return ApproximatePolicySlicer(windows[0])
    return ApproximateTimeSlicer([window for window in windows if isinstance(window, TimeWindow)])


def _corrected_in_place(bound: BoundQuery, windows: list[TimeWindow], how: How) -> tuple[Parts, LateRows]:
    treaps = TreapAggregation(compiled=how.compiled)
    whole_slices = all(monoid.commutative for monoid in bound.monoids.values())
    slicer = CorrectedTimeSlicer(windows, treaps, lateness=bound.query.lateness, whole_slices=whole_slices)
    parts = _parts(bound, slicer, treaps, how)
    return parts, CorrectInPlace(parts, slicer, treaps)


def _parts(bound: BoundQuery, slicer: Slicer, final: FinalAggregation, how: How) -> Parts:
    query, schema = bound.query, bound.schema
    keys = Keys([schema.field(name) for name in query.by], compiled=how.compiled)
    paging = None if how.pages is None else Paging(how.pages, query.fingerprint)
    hot = "idle is not given" if how.idle is None else why_hot(query)
    # what another D has frozen in a store is read whatever the D is now
    needs = not hot or (paging is not None and how.idle is None and not why_hot(query))
    cold = _cold(query, slicer, how.idle, how.compiled) if needs else None
    inputs, table = bound.columns_read, _table(bound, keys, slicer, final, how, paging, cold)
    return Parts(
        bound=bound,
        keys=keys,
        table=table,
        buffer=Buffer(
            pa.schema([(name, bound.column_type(name)) for name in inputs]), query.time, query.time_unit
        ),
        output=Output(bound, keys, compiled=how.compiled, pool=how.pool),
        paging=paging,
        rows=StoredRows(table, keys),
        inputs=inputs,
        why_hot=hot,
    )


def _cold(query: Query, slicer: Slicer, idle: Idle | None, compiled: bool) -> ColdKeys:
    windows = [window for _, window in query.windows]
    slides = np.array([getattr(window, "slide", 0) if slicer.alike else 0 for window in windows])
    lengths = slicer.grid.range if isinstance(slicer, TimeSlicer) else None
    return ColdKeys(idle, slides, lengths, slicer.stamps, slicer.due_after, compiled=compiled)


def _table(
    bound: BoundQuery,
    keys: Keys,
    slicer: Slicer,
    final: FinalAggregation,
    how: How,
    paging: Paging | None,
    cold: ColdKeys | None,
) -> SliceTable:
    sliding = isinstance(final, BoundaryAggregation)
    states = [_state(bound, name, slicer, how, sliding=sliding) for name in bound.outputs]
    table_of = SliceTable if bound.query.within is None else partial(BucketTable, bound)
    table = table_of(
        keys, slicer, states, final, compiled=how.compiled, paging=paging, cold=cold, pool=how.pool
    )
    table.ensure_keys()
    return table


def _state(bound: BoundQuery, name: str, slicer: Slicer, how: How, *, sliding: bool) -> AggregateState:
    """One aggregate's state: rows and extents for a function of whole windows, otherwise partials.

    ``sliding`` says that each aggregate computes its windows by itself.
    """
    columns = bound.inputs(name)
    if name not in bound.monoids:
        bucket = bound.buckets[name.removesuffix("_error")]
        return BucketState(name, bucket, columns, slicer.windows, how.compiled)
    monoid = bound.monoids[name]
    whole = bound.whole(name, compiled=how.compiled)
    if whole is None and sliding and monoid.combine is concatenated:
        return GatheredState(name, monoid, columns, how.compiled)
    if whole is None:
        return AggregateState(name, monoid, columns, slicer.windows, how.compiled)
    return ExtentState(
        name,
        whole,
        columns,
        monoid,
        windows=slicer.windows,
        compiled=how.compiled,
        workers=how.workers,
        shown=bound.shown_bounds,
    )


def final_aggregation(query: Query, how: How) -> FinalAggregation:
    """The algorithm that the query names, or the boundary aggregator."""
    if query.algorithm == "auto":
        return BoundaryAggregation()
    if query.algorithm == "PBA":
        return ParallelBoundary(how.pool)
    from windrow.operator.named_algorithm import NamedAlgorithm  # only such a query loads all algorithms

    return NamedAlgorithm(query.algorithm)
