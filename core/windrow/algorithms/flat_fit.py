# SPDX-License-Identifier: Apache-2.0
"""FlatFIT: an index traverser that leaves shortcuts behind."""

from __future__ import annotations

from typing import Any

import numpy as np

from windrow.algorithms.base import HEAD, TAIL, Algorithm, State, slot
from windrow.kernels.partials import allocate, clear, copy, merge


class FlatFIT(Algorithm):
    """Every position holds an aggregate that reaches up to its pointer; a query hops along them and pulls
    them tight.

    The partial at position p covers p to ``pointers[p]``. A query hops from the oldest position to the end,
    and on the way back stretches each partial that it has met up to the end, so that the next query meets few
    of them.

    - Order: FIFO. Operator: any monoid.
    - Combines per slide: at most 3 amortised; n worst, once in n + 1 slides.
    - Space: n partials, n pointers and a stack of n positions.
    - Paper: Shein, Chrysanthis and Labrinidis, *FlatFIT: Accelerated Incremental Sliding-Window Aggregation
      for Real-Time Analytics*, SSDBM 2017.

    >>> import windrow as wr
    >>> window = FlatFIT(wr.Max(), compiled=False)
    >>> for load in (3.0, 7.0, 5.0):
    ...     window.insert((load,))
    >>> window.evict(2)
    >>> window.query()
    (5.0,)
    """

    def _allocate(self, capacity: int) -> State:
        pointers, met = np.zeros(capacity, dtype=np.int64), np.zeros(capacity, dtype=np.int64)
        return np.zeros(2, dtype=np.int64), allocate(self.monoid, capacity), (pointers,), (met,)

    @property
    def partials(self) -> int:
        return len(self)


def insert(state: Any, parts: Any, i: int) -> None:
    meta, ring, (pointers,), _ = state
    tail = meta[TAIL]
    copy(ring, slot(ring, tail), parts, i)
    pointers[slot(ring, tail)] = tail + 1
    meta[TAIL] = tail + 1


def evict(state: Any) -> None:
    state[0][HEAD] += 1


def evict_many(state: Any, n: int) -> None:
    state[0][HEAD] += n


def query(state: Any, out: Any, i: int) -> None:
    meta, ring, (pointers,), (met,) = state
    if meta[HEAD] == meta[TAIL]:
        clear(out, i)
        return
    hops, position = 0, meta[HEAD]
    while pointers[slot(ring, position)] != meta[TAIL]:
        met[hops] = position
        hops += 1
        position = pointers[slot(ring, position)]
    while hops > 0:
        hops -= 1
        here = slot(ring, met[hops])
        merge(ring, here, ring, here, ring, slot(ring, position))
        pointers[here] = meta[TAIL]
        position = met[hops]
    copy(out, i, ring, slot(ring, meta[HEAD]))
