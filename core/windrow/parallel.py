"""PBA over the operator's runs: the lcs of finished chunks is the work of other threads."""

from __future__ import annotations

import os
from concurrent.futures import Executor, ThreadPoolExecutor
from functools import lru_cache, partial
from itertools import pairwise
from typing import Any

import numpy as np

from windrow.kernels.layout import Windows
from windrow.runs import State, Tower

SMALL_TASK = 8192
"""Handing work to another thread costs more than this many combines."""


class Parallel:
    """Slides windows as the boundary aggregator does: ``csa`` in the caller's thread, ``lcs`` in a pool.

    When windows are due, it is known at which of them a boundary moves. The ``lcs`` of each such chunk reads
    nothing but slices, so the chunks are handed to the pool at once, some combines' worth to a task, and the
    results follow in order, each waiting for its own chunk only. Compiled combines release the GIL.

    - Paper: Zhang, Akbarinia and Toumani, KDD 2021, sections 4 and 5.
    """

    def __init__(self, state: State, pool: Executor | None = None) -> None:
        self.state, self.pool = state, pool
        self.tasks = 0
        """How many tasks were handed to the pool."""

    def slide(self, windows: Windows, count: int) -> dict[str, tuple[Any, Any]]:
        """The results of planned windows."""
        cuts = self._cuts(windows, count)
        return {tower.name: self._results(tower, windows, count, cuts) for tower in self.state.towers}

    def _results(self, tower: Tower, windows: Windows, count: int, cuts: list[int]) -> tuple[Any, Any]:
        state = self.state
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

    def _cuts(self, windows: Windows, count: int) -> list[int]:
        """Where the due windows are cut into tasks; nowhere if they are too few."""
        moved = np.flatnonzero(windows.flip[:count])
        combines = np.cumsum(self.state.runs.held[windows.key[moved]])
        if not len(moved) or combines[-1] < SMALL_TASK:
            return []
        _, first = np.unique(combines // SMALL_TASK, return_index=True)
        return sorted({0, *moved[first].tolist(), count})


@lru_cache(maxsize=1)
def _pool(process: int) -> ThreadPoolExecutor:
    """The pool of this process, if nobody brought one; threads do not outlive a fork."""
    return ThreadPoolExecutor(max_workers=os.cpu_count(), thread_name_prefix="windrow-lcs")
