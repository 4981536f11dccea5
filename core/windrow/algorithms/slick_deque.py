# SPDX-License-Identifier: Apache-2.0
"""SlickDeque: subtract what can be subtracted; of the rest keep only what can still be an answer."""

from __future__ import annotations

from typing import Any

import numpy as np

from windrow.aggregates.algebra import Monoid
from windrow.algorithms.base import HEAD, TAIL, Algorithm, State, slot
from windrow.errors import PropertyError
from windrow.kernels.partials import allocate, clear, copy, merge, same, unmerge

FORM, FRONT, BACK = 2, 3, 4
INVERTIBLE, SELECTIVE = 0, 1
ANSWER = 0


class SlickDeque(Algorithm):
    """One form for each kind of operator.

    *Invertible*: a running answer, to which insertions add and from which evictions subtract. *Selective*: a
    deque of the partials that no later one beats; its front is the answer, and a partial that arrives first
    pops those it beats.

    - Order: FIFO. Operator: invertible and commutative, or selective.
    - Combines per slide: 2 (invertible); fewer than 2 amortised and n worst (selective).
    - Space: n + 1 partials (invertible); up to n partials and positions, few on most data (selective).
    - Paper: Shein, Chrysanthis and Labrinidis, *SlickDeque: High Throughput and Low Latency Incremental
      Sliding-Window Aggregation*, EDBT 2018.

    >>> import windrow as wr
    >>> window = SlickDeque(wr.Max(), compiled=False)
    >>> for load in (3.0, 7.0, 5.0):
    ...     window.insert((load,))
    >>> window.evict(2)
    >>> window.query()
    (5.0,)
    """

    @classmethod
    def check(cls, monoid: Monoid) -> None:
        if not (monoid.selective or (monoid.invertible and monoid.commutative)):
            raise PropertyError(
                "SlickDeque needs an aggregate that is selective, or invertible and commutative, "
                f"and {monoid.name} is not; TwoStacksLite, DABALite and PBA take any aggregate"
            )

    def _allocate(self, capacity: int) -> State:
        meta = np.zeros(5, dtype=np.int64)
        meta[FORM] = INVERTIBLE if self.monoid.invertible and self.monoid.commutative else SELECTIVE
        positions = np.zeros(capacity, dtype=np.int64)
        return meta, allocate(self.monoid, capacity), (positions,), allocate(self.monoid, 1)

    def _span(self) -> tuple[int, int]:
        meta = self._state[0]
        return int(meta[FRONT]), int(meta[BACK])

    @property
    def partials(self) -> int:
        begin, end = self._span()
        return end - begin + 1


def insert(state: Any, parts: Any, i: int) -> None:
    meta, ring, (positions,), answer = state
    if meta[FORM] == SELECTIVE:
        while meta[BACK] > meta[FRONT] and beaten(ring, slot(ring, meta[BACK] - 1), parts, i, answer):
            meta[BACK] -= 1
    elif meta[HEAD] == meta[TAIL]:
        copy(answer, ANSWER, parts, i)
    else:
        merge(answer, ANSWER, answer, ANSWER, parts, i)
    copy(ring, slot(ring, meta[BACK]), parts, i)
    positions[slot(ring, meta[BACK])] = meta[TAIL]
    meta[BACK] += 1
    meta[TAIL] += 1


def beaten(ring: Any, last: int, parts: Any, i: int, winner: Any) -> bool:
    """Does the operator select the partial that arrives, rather than the last of the deque?

    A partial that is not the same as itself holds a NaN, and is then known by not being the other one.
    """
    merge(winner, 0, ring, last, parts, i)
    if same(winner, 0, ring, last):
        return False
    if same(winner, 0, parts, i):
        return True
    return not same(parts, i, parts, i) and same(ring, last, ring, last)


def evict(state: Any) -> None:
    meta, ring, (positions,), answer = state
    if meta[FORM] == INVERTIBLE:
        unmerge(answer, ANSWER, answer, ANSWER, ring, slot(ring, meta[FRONT]))
    if positions[slot(ring, meta[FRONT])] == meta[HEAD]:
        meta[FRONT] += 1
    meta[HEAD] += 1
    if meta[FORM] == INVERTIBLE and meta[HEAD] == meta[TAIL]:
        clear(answer, ANSWER)


def query(state: Any, out: Any, i: int) -> None:
    meta, ring, _, answer = state
    if meta[FRONT] == meta[BACK]:
        clear(out, i)
    elif meta[FORM] == INVERTIBLE:
        copy(out, i, answer, ANSWER)
    else:
        copy(out, i, ring, slot(ring, meta[FRONT]))
