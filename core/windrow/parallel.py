"""PBA over the operator's runs: the lcs of finished chunks is the work of other threads."""

from __future__ import annotations

import os
from concurrent.futures import Executor, ThreadPoolExecutor
from functools import lru_cache, partial
from itertools import pairwise
from typing import Any

import numpy as np

from windrow.kernels.layout import Windows
from windrow.runs import Results, State, Tower

SMALL_TASK = 8192
"""Handing work to another thread costs more than combining this many numbers."""


class Parallel:
    """Slides windows as the boundary aggregator does: ``csa`` in the caller's thread, ``lcs`` in a pool.

    When windows are due, it is known at which of them a boundary moves. The ``lcs`` of each such chunk reads
    nothing but slices, so the chunks are handed to the pool at once, some combines' worth to a task, and the
    results follow in order, each waiting for its own chunk only. Compiled combines release the GIL.

    - Paper: Zhang, Akbarinia and Toumani, KDD 2021, sections 4 and 5.
    """

    def __init__(self, pool: Executor | None = None) -> None:
        self.pool = pool
        self.tasks = 0
        """How many tasks were handed to the pool."""

    def slide(self, state: State, windows: Windows, count: int) -> Results:
        """The results of planned windows."""
        return {tower.name: self._results(state, tower, windows, count) for tower in state.towers}

    def _results(self, state: State, tower: Tower, windows: Windows, count: int) -> tuple[Any, Any]:
        cuts = _cuts(state, tower, windows, count)
        if len(cuts) < 2:
            return tower.slide(state, windows, count)
        out, ok = tower.room(count)
        pool = self.pool or _pool(os.getpid())
        what: Any = (tower.parts, tower.lcs, state.runs.leader, windows, state.slots)
        cover: Any = partial(tower.kernels.cover, *what)
        jobs = [pool.submit(cover, begin, end) for begin, end in pairwise(cuts)]
        self.tasks += len(jobs)
        for job, (begin, end) in zip(jobs, pairwise(cuts), strict=True):
            job.result()
            tower.slide_some(state, windows, out, ok, begin, end, False)
        return out, ok


def _cuts(state: State, tower: Tower, windows: Windows, count: int) -> list[int]:
    """Where the due windows are cut into tasks; nowhere if they are too little work."""
    moved = np.flatnonzero(windows.flip[:count])
    work = np.cumsum(state.runs.held[windows.key[moved]]) * _numbers(tower)
    if not len(moved) or work[-1] < SMALL_TASK:
        return []
    _, first = np.unique(work // SMALL_TASK, return_index=True)
    return sorted({0, *moved[first].tolist(), count})


def _numbers(tower: Tower) -> int:
    """How many numbers a partial of an aggregate has."""
    return sum(field.width or 1 for field in tower.monoid.fields or ()) or 1


@lru_cache(maxsize=1)
def _pool(process: int) -> ThreadPoolExecutor:
    """The pool of this process, if nobody brought one; threads do not outlive a fork."""
    return ThreadPoolExecutor(max_workers=os.cpu_count(), thread_name_prefix="windrow-lcs")
