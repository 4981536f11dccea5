# SPDX-License-Identifier: Apache-2.0
"""PBA over the slice table: the lcs of finished chunks is the work of other threads."""

from __future__ import annotations

import os
from concurrent.futures import Executor, ThreadPoolExecutor
from functools import lru_cache
from itertools import pairwise

import numpy as np

from windrow.kernels.slices.layout import DueWindows, Results
from windrow.operator.partials import AggregateState, FinalAggregation
from windrow.operator.slices import SliceTable

SMALL_TASK = 8192
"""Handing work to another thread costs more than combining this many numbers."""


class ParallelBoundary(FinalAggregation):
    """Slides windows as the boundary aggregator does: ``csa`` in the caller's thread, ``lcs`` in a pool.

    When windows are due, it is known at which of them the boundary moves. The ``lcs`` of each such chunk reads
    nothing but slices. So the chunks are handed to the pool at once, some combines' worth to a task. The
    results follow in order, each waiting for its own chunk only. Compiled combines release the GIL.

    - Paper: Zhang, Akbarinia and Toumani, KDD 2021, sections 4 and 5.
    """

    by_key = False

    def __init__(self, pool: Executor | None = None) -> None:
        self.pool = pool
        self.tasks = 0

    def results(
        self, table: SliceTable, due: DueWindows, count: int, pool: Executor | None
    ) -> dict[str, Results]:
        return {state.name: self._results(table, state, due, count) for state in table.aggregates}

    def _results(self, table: SliceTable, state: AggregateState, due: DueWindows, count: int) -> Results:
        cuts = _cuts(table, state, due, count)
        if len(cuts) < 2:
            return state.results(table, due, count)
        results = state.room(count)
        pool = self.pool or _pool(os.getpid())
        jobs = [pool.submit(state.cover, table, due, begin, end) for begin, end in pairwise(cuts)]
        self.tasks += len(jobs)
        for job, (begin, end) in zip(jobs, pairwise(cuts), strict=True):
            job.result()
            state.slide(table, due, results, begin, end, covered=True)
        return results


def _cuts(table: SliceTable, state: AggregateState, due: DueWindows, count: int) -> list[int]:
    """Where the due windows are cut into tasks; nowhere if they are too little work."""
    moved = np.flatnonzero(due.flip[:count])
    work = np.cumsum(table.slices.held[due.key[moved]]) * _numbers(state)
    if not len(moved) or work[-1] < SMALL_TASK:
        return []
    _, first = np.unique(work // SMALL_TASK, return_index=True)
    return sorted({0, *moved[first].tolist(), count})


def _numbers(state: AggregateState) -> int:
    """How many numbers a partial has."""
    return sum(field.width or 1 for field in state.monoid.fields or ()) or 1


@lru_cache(maxsize=1)
def _pool(process: int) -> ThreadPoolExecutor:
    """The pool of this process, if the caller brought none. Threads do not outlive a fork."""
    return ThreadPoolExecutor(max_workers=os.cpu_count(), thread_name_prefix="windrow-lcs")
