# SPDX-License-Identifier: Apache-2.0
"""PBA: the parallel boundary aggregator, an SBA whose finished chunks are another thread's work."""

from __future__ import annotations

import os
from concurrent.futures import Future, ThreadPoolExecutor
from functools import lru_cache
from threading import Thread
from types import SimpleNamespace
from typing import Any, ClassVar

import numpy as np

from windrow.aggregates.algebra import Aggregate, Monoid, Partial
from windrow.algorithms import hand_over, sba
from windrow.algorithms.base import HEAD, driven, out_rows, specialised
from windrow.algorithms.sba import FIRST, INLINE, LCS_BEGIN, LCS_END, MIDDLE, SBA
from windrow.kernels.columns.layout import ColumnOutput, Input
from windrow.kernels.partials import Parts, allocate, slots
from windrow.kernels.specialise import specialise

SMALL_CHUNK = 512
"""Handing a chunk to another thread costs more than the lcs of one that is smaller than this."""


class PBA(SBA):
    """Compute ``csa`` here and the ``lcs`` of finished chunks in a worker thread; compiled code releases the
    GIL.

    At a boundary the finished chunk is handed to the worker. Its ``lcs`` is first needed when the window's
    first slice is the second of that chunk; with the optimal chunk size that is late enough not to wait. If
    the entry is not there, the query waits for it. The slices of a chunk are touched by the worker only, from
    the boundary until then, so nothing is locked. A whole column is handed over by compiled code alone
    (:mod:`windrow.algorithms.hand_over`), single slices through a pool of Python's.

    - Order: FIFO. Operator: any monoid.
    - Combines per slide: fewer than 3 amortised, at most 3 worst, in the thread that inserts, evicts and
      queries. (An eviction that leaves less than one chunk, which no window of a fixed range does, pays for
      the ``lcs`` of what is left.)
    - Space: n + 3 partials; the paper allows (3n + 13) / 2.
    - Paper: Zhang, Akbarinia and Toumani, *Efficient Incremental Computation of Aggregations over Sliding
      Windows*, KDD 2021, section 4.

    ``small_chunk`` is the size below which a chunk is not worth a hand-over.

    >>> import windrow as wr
    >>> window = PBA(wr.Max(), range=3, small_chunk=0, compiled=False)
    >>> for load in (3.0, 7.0, 5.0):
    ...     window.insert((load,))
    >>> window.evict(1)
    >>> window.query()
    (7.0,)
    """

    kernels: ClassVar[str] = sba.__name__
    inline: ClassVar[bool] = False

    def __init__(
        self,
        aggregate: Aggregate | Monoid,
        range: int | None = None,
        capacity: int = 16,
        compiled: bool = True,
        chunk: int | None = None,
        small_chunk: int | None = None,
    ) -> None:
        super().__init__(aggregate, range, capacity, compiled, chunk)
        self.small_chunk = SMALL_CHUNK if small_chunk is None else small_chunk
        self._jobs: dict[int, Future[None]] = {}

    def insert(self, partial: Partial) -> None:
        super().insert(partial)
        self._hand_over()

    def query(self) -> Partial:
        meta = self._state[0]
        if self._jobs and meta[FIRST] < meta[HEAD] < meta[MIDDLE]:
            self._wait(int(meta[FIRST]))
        return super().query()

    def _evict(self, n: int) -> None:
        super()._evict(n)
        self._hand_over()
        self._leave_behind()

    def _grow(self) -> None:
        for begin in list(self._jobs):
            self._wait(begin)
        super()._grow()

    def _hand_over(self) -> None:
        """Give the chunk that was just finished, if any, to the worker."""
        meta, saa, _ = self._state
        begin, end = int(meta[LCS_BEGIN]), int(meta[LCS_END])
        if begin == end:
            return
        meta[LCS_BEGIN] = meta[LCS_END]
        if end - begin < self.small_chunk:
            self._kernel.fill_lcs(saa, begin + 1, end)
        else:
            self._jobs[begin] = _worker(os.getpid()).submit(self._kernel.fill_lcs, saa, begin + 1, end)

    def _leave_behind(self) -> None:
        """Make sure that the worker is done with evicted chunks, because their slots are used again."""
        if self._jobs:
            first = int(self._state[0][FIRST])
            for begin in [begin for begin in self._jobs if begin < first]:
                if not self._jobs[begin].cancel():
                    self._wait(begin)
                self._jobs.pop(begin, None)

    def _wait(self, begin: int) -> None:
        job = self._jobs.pop(begin, None)
        if job is not None:
            job.result()

    def run_over(self, rows: Input, range_: int, slide: int, out: ColumnOutput) -> None:
        if not self.compiled or self.chunk < max(self.small_chunk, 2) or range_ // slide <= self.chunk:
            self._state[0][INLINE] = 1
            super().run_over(rows, range_, slide, out)
            return
        kernel, mail = _handing_over(self.monoid), np.zeros(hand_over.WORDS, dtype=np.int64)
        scratch, end = allocate(self.monoid, 2), out_rows(len(out.values), range_, slide)
        worker = MailboxWorker(kernel.serve, self._state[1], mail)
        try:
            kernel.run_with_worker(self._state, mail, scratch, rows, end, range_, slide, out)
        finally:
            worker.dismiss()


class MailboxWorker:
    """A thread that serves one mailbox, until it is dismissed."""

    def __init__(self, serve: Any, saa: Parts, mail: Any) -> None:
        self.serve, self.saa, self.mail = serve, saa, mail
        self.failure: BaseException | None = None
        self.thread = Thread(target=self._work, name="windrow-lcs", daemon=True)
        self.thread.start()

    def _work(self) -> None:
        try:
            self.serve(self.saa, self.mail)
        except BaseException as failure:  # the order counts as done, so that nobody waits for it
            self.failure = failure
            order = int(self.mail[hand_over.TAKEN])
            self.mail[hand_over.DONE + (order & 1)] = order

    def dismiss(self) -> None:
        """Wait for its end, and raise what it raised."""
        self.mail[hand_over.CLOSED] = 1
        self.thread.join()
        if self.failure is not None:
            raise self.failure


@lru_cache(maxsize=256)
def _handing_over(monoid: Monoid) -> SimpleNamespace:
    kernel = specialised(sba, monoid, True)
    seam = {"run": driven(sba, monoid, True).compiled, "fill_lcs": kernel.fill_lcs.compiled}
    return specialise(hand_over, {**slots(monoid), **seam})


@lru_cache(maxsize=1)
def _worker(process: int) -> ThreadPoolExecutor:
    """The one worker of this process; a thread does not outlive a fork."""
    return ThreadPoolExecutor(max_workers=1, thread_name_prefix="windrow-lcs")
