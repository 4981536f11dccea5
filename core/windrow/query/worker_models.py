# SPDX-License-Identifier: Apache-2.0
"""Who computes which window, if several workers share the windows of a key: the two models of the literature.

*Active* workers own windows: window ``k`` of a time window belongs to worker ``k mod N``, and a row is sent to every worker
that owns a window with it. *Agnostic* workers own nothing: an emitter keeps all rows, and sends the windows that are
due to whoever is free. That is for functions of whole windows, over windows of any kind.
(De Matteis and Mencagli, *Parallel Patterns for Window-based Stateful Operators on Data Streams*, 2017.)

>>> import windrow as wr
>>> query = wr.Query(window=wr.TimeWindow("6us", "2us"), aggregates={"n": wr.Count()})
>>> active = ActiveWorkers(query, 4)
>>> active.owners(5)                # the windows from 0, 2 and 4
[0, 1, 2]
>>> active.queries[1].window
TimeWindow(range='6us', slide='8us', offset='2us')
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal, TypeAlias

import pyarrow as pa

from windrow import durations
from windrow.aggregates.extent import Extent
from windrow.errors import QueryError
from windrow.query.query import Named, Query
from windrow.windows import TimeWindow

__all__ = ["ActiveWorkers", "WorkerModel", "extents_of", "model_of"]

WorkerModel: TypeAlias = Literal["active", "agnostic"]


def model_of(query: Query, asked: Any = "auto") -> WorkerModel:
    """The model for a query: what was asked for, or else active workers for one time window, agnostic ones for others."""
    if asked not in ("auto", "active", "agnostic"):
        raise QueryError(f"model has to be 'auto', 'active' or 'agnostic', not {asked!r}")
    if query.late != "drop" or query.early is not None:
        raise QueryError("windowed_by_workers() needs late='drop' and no early results; use windowed()")
    in_time = isinstance(query.window, TimeWindow)
    if asked == "active" and not in_time:
        raise QueryError("model='active' needs a single TimeWindow; for other windows leave model out")
    return "active" if asked == "active" or (asked == "auto" and in_time) else "agnostic"


class ActiveWorkers:
    """Which windows, and so which rows, belong to each of some workers. For a query with one time window."""

    def __init__(self, query: Query, workers: int) -> None:
        window = query.window
        assert isinstance(window, TimeWindow)
        self._window, self._workers = window, workers
        self.queries = [self._share(query, window, number) for number in range(workers)]
        """The query of each worker: every ``workers``-th window, from its own number on."""

    def owners(self, time: int) -> list[int]:
        """The workers that own a window with a row of this time."""
        ids = self._window.mapping(time)
        if len(ids) >= self._workers:
            return list(range(self._workers))
        return sorted({number % self._workers for number in ids})

    def _share(self, query: Query, window: TimeWindow, number: int) -> Query:
        slide, offset = window.slide * self._workers, window.offset + number * window.slide
        lengths = [durations.format(length) for length in (window.range, slide, offset)]
        return replace(query, window=TimeWindow(*lengths))


def extents_of(query: Query, schema: pa.Schema) -> Query:
    """The query of an emitter: it gives the extents of windows in place of functions of their rows."""
    bound = query.bind(schema)
    whole = {name for name in query.aggregates if bound.whole(name, compiled=False) is not None}
    if query.emits:
        raise QueryError("workers= computes each window once: leave out late='update' and early, or workers")
    if not whole:
        raise QueryError(
            "workers= is for functions of whole windows, such as Apply or Median, and this query has none: leave "
            "workers out"
        )
    aggregates = (
        (name, Extent(name, of, where=of.where) if name in whole else of)
        for name, of in query.aggregates.items()
    )
    return query.with_the_same_state(aggregates=Named(aggregates))
