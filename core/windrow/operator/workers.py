# SPDX-License-Identifier: Apache-2.0
"""Who computes functions of whole windows: this thread, several threads, or several processes.

Windows that are due are shared out in pieces of consecutive windows. A worker takes the next piece when it is done
with one, so uneven windows keep nobody waiting. Results go to places that are theirs from the start, so they are in
order whoever computes them. All windows that are due at a watermark are done before the operator goes on: no window is
in flight when state is written.

Compiled functions run in threads. A Python function holds the interpreter, so it runs in processes, which see the
rows through shared memory.
"""

from __future__ import annotations

import os
import time
from concurrent.futures import Executor, ThreadPoolExecutor
from itertools import pairwise
from typing import Any, Protocol, cast

import numpy as np

from windrow.aggregates.whole import Extents, FunctionFailed, WholeWindow
from windrow.errors import QueryError
from windrow.kernels.slices.layout import Results
from windrow.operator.forked import Forked

PIECES = 16
"""Pieces for each worker: enough that uneven windows even out."""
FEW = 1
"""So many windows are computed to see how long they take, then twice as many, and so on."""
LOOK = 0.01
"""Seconds after which that is known well enough."""
WORTH, START = 0.02, 0.25
"""Seconds of work that are worth handing out to processes, and starting them."""
TRIAL, AGAIN = 8, 50
"""One window of so many goes to processes first. If they are slower, the others do not follow, for so many calls."""


class ComputesWindows(Protocol):
    """Who computes functions of whole windows."""

    def compute(self, whole: WholeWindow, windows: Extents, results: Results) -> None:
        """Write the results of windows. Called once for each function and all windows that are due; the rows may move
        after it has returned. Raises :class:`~windrow.aggregates.whole.FunctionFailed` if the function raises."""


class Workers:
    """Computes windows with a number of workers. One worker is the caller itself."""

    def __init__(self, count: int = 1, pool: Executor | None = None) -> None:
        self.count = count
        self._pool = pool if pool is not None or count == 1 else ThreadPoolExecutor(count)
        self._forked: dict[int, Forked] = {}
        self._slower: dict[int, int] = {}
        """For functions for which processes took longer than this one: for how many calls they are not tried again."""

    @classmethod
    def of(cls, workers: Any) -> ComputesWindows:
        """From the option ``workers=``, a number, or who else computes windows."""
        if hasattr(workers, "compute"):
            return cast(ComputesWindows, workers)
        if isinstance(workers, bool) or not isinstance(workers, int) or workers < 1:
            raise QueryError(f"workers has to be a whole number of at least 1, not {workers!r}")
        return cls(workers)

    def compute(self, whole: WholeWindow, windows: Extents, results: Results) -> None:
        """The results of windows."""
        count = len(windows.lo)
        if self.count == 1 or count < 2:
            whole.compute(windows, *results)
        elif whole.compiled:
            self._in_threads(whole, windows, results)
        else:
            self._in_processes(whole, windows, results)

    def _in_threads(self, whole: WholeWindow, windows: Extents, results: Results) -> None:
        assert self._pool is not None
        pieces = _pieces(windows, self.count, carries=whole.carries)
        done = [self._pool.submit(_compute, whole, windows, results, piece) for piece in pieces]
        for future in done:
            future.result()

    def _in_processes(self, whole: WholeWindow, windows: Extents, results: Results) -> None:
        """The first windows are computed here, and processes take the others as long as that pays."""
        count = len(windows.lo)
        done, each = _looked(whole, windows, results)
        for end in (done + (count - done) // TRIAL, count):
            if done < end and self._pays(whole, windows, (count - done) * each):
                forked = self._processes(whole)
                before = time.perf_counter()
                _hand_out(forked, windows, results, (done, end))
                if time.perf_counter() - before > (end - done) * each:
                    self._slower[id(whole)] = AGAIN
                done = end
        self._slower[id(whole)] = self._slower.get(id(whole), 0) - 1
        _compute(whole, windows, results, (done, count))

    def _pays(self, whole: WholeWindow, windows: Extents, seconds: float) -> bool:
        """Are processes worth while for so much work?"""
        least = WORTH if id(whole) in self._forked else START
        able = hasattr(os, "fork") and not any(column.dtype.hasobject for column in windows.columns)
        return able and seconds >= least and self._slower.get(id(whole), 0) <= 0

    def _processes(self, whole: WholeWindow) -> Forked:
        if id(whole) not in self._forked:
            self._forked[id(whole)] = Forked(whole, self.count)
        return self._forked[id(whole)]


def _looked(whole: WholeWindow, windows: Extents, results: Results) -> tuple[int, float]:
    """Compute the first windows, ever more, until their time is known: how many, and the seconds of one of the last."""
    done, batch, count, begin = 0, FEW, len(windows.lo), time.perf_counter()
    while True:
        before, end = time.perf_counter(), min(done + batch, count)
        _compute(whole, windows, results, (done, end))
        now = time.perf_counter()
        if end == count or now - begin >= LOOK:
            return end, (now - before) / (end - done)
        done, batch = end, 2 * batch


def _compute(whole: WholeWindow, windows: Extents, results: Results, piece: tuple[int, int]) -> None:
    begin, end = piece
    try:
        whole.compute(windows.some(begin, end), results.out[begin:end], results.ok[begin:end])
    except FunctionFailed as failed:
        raise FunctionFailed(failed.window + begin, failed.cause) from failed


def _hand_out(forked: Forked, windows: Extents, results: Results, piece: tuple[int, int]) -> None:
    begin, end = piece
    some, places = windows.some(begin, end), Results(results.out[begin:end], results.ok[begin:end])
    try:
        forked.compute(some, places, _pieces(some, len(forked)))
    except FunctionFailed as failed:
        raise FunctionFailed(failed.window + begin, failed.cause) from failed


def _pieces(windows: Extents, workers: int, carries: bool = False) -> list[tuple[int, int]]:
    """Consecutive windows in pieces with ever fewer rows to visit, so that workers end at the same time.

    If each piece reads its first window anew, there is one of about the same size for each worker.
    """
    count = len(windows.lo)
    pieces = min(workers if carries else PIECES * workers, count)
    if pieces == count:
        return [(window, window + 1) for window in range(count)]
    visits = np.cumsum(windows.hi - windows.lo + 1)
    sizes = np.ones(pieces) if carries else np.arange(pieces, 0, -1)
    cuts = np.searchsorted(visits, np.cumsum(sizes[:-1]) * (int(visits[-1]) / sizes.sum())).tolist()
    return [(begin, end) for begin, end in pairwise([0, *cuts, count]) if begin < end]
