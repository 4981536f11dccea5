# SPDX-License-Identifier: Apache-2.0
"""DABALite: DABA in one array."""

from __future__ import annotations

from typing import Any

import numpy as np

from windrow.algorithms.base import HEAD, TAIL, Algorithm, State, slot
from windrow.kernels.partials import allocate, clear, copy, merge

L, R, A, B = 2, 3, 4, 5
RIGHT, BACK = 0, 1


class DABALite(Algorithm):
    """DABA's sublists, holding either values or aggregates but never both; two aggregates beside them make up
    for it.

    ::

        F        L        R        A        B        E
        |  l_F   |  l_L   |  l_R   |  l_A   |  l_B   |
         …to B    …to R    values   …to B    values
                          '––––– RIGHT ––––''– BACK –'

    - Order: FIFO. Operator: any monoid.
    - Combines per slide: at most 5 amortised, at most 6 worst.
    - Space: n + 2 partials.
    - Paper: Tangwongsan, Hirzel and Schneider, *In-order sliding-window aggregation in worst-case constant
      time*, VLDB Journal 2021.

    >>> import windrow as wr
    >>> window = DABALite(wr.Max(), compiled=False)
    >>> for load in (3.0, 7.0, 5.0):
    ...     window.insert((load,))
    >>> window.evict(2)
    >>> window.query()
    (5.0,)
    """

    def _allocate(self, capacity: int) -> State:
        return np.zeros(6, dtype=np.int64), allocate(self.monoid, capacity), allocate(self.monoid, 2)


def insert(state: Any, parts: Any, i: int) -> None:
    meta, ring, aggs = state
    end = meta[TAIL]
    copy(ring, slot(ring, end), parts, i)
    if end == meta[B]:
        copy(aggs, BACK, parts, i)
    else:
        merge(aggs, BACK, aggs, BACK, parts, i)
    meta[TAIL] = end + 1
    fix(meta, ring, aggs)


def evict(state: Any) -> None:
    meta, ring, aggs = state
    meta[HEAD] += 1
    fix(meta, ring, aggs)


def query(state: Any, out: Any, i: int) -> None:
    meta, ring, aggs = state
    if meta[HEAD] == meta[TAIL]:
        clear(out, i)
    elif meta[B] == meta[TAIL]:
        copy(out, i, ring, slot(ring, meta[HEAD]))
    else:  # the size invariant keeps l_F non-empty
        merge(out, i, ring, slot(ring, meta[HEAD]), aggs, BACK)


def fix(meta: Any, ring: Any, aggs: Any) -> None:
    """Restore the size invariant, which one insertion or eviction has put out by one."""
    front, end = meta[HEAD], meta[TAIL]
    if front == meta[B]:  # at most one value is left, and it is its own aggregate
        meta[L] = meta[R] = meta[A] = meta[B] = end
        return
    if meta[L] == meta[B]:  # flip
        meta[L] = front
        meta[A] = meta[B] = end
        copy(aggs, RIGHT, aggs, BACK)
    if meta[L] == meta[R]:  # shift
        meta[L] += 1
        meta[R] += 1
        meta[A] += 1
        return
    left, right = slot(ring, meta[L]), slot(ring, meta[A] - 1)  # shrink
    merge(ring, left, ring, left, aggs, RIGHT)
    if meta[A] != meta[B]:
        merge(ring, right, ring, right, ring, slot(ring, meta[A]))
    meta[L] += 1
    meta[A] -= 1
