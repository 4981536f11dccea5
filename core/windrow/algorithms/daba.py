# SPDX-License-Identifier: Apache-2.0
"""DABA: the de-amortised bankers' aggregator, a TwoStacks that flips a little at a time."""

from __future__ import annotations

from typing import Any

import numpy as np

from windrow.algorithms.base import HEAD, TAIL, Algorithm, State, slot
from windrow.kernels.partials import allocate, clear, copy, merge

L, R, A, B = 2, 3, 4, 5


class DABA(Algorithm):
    """Five sublists in one queue; each insertion and each eviction moves the flip of the stacks one step on.

    ::

        F        L        R        A        B        E
        |  l_F   |  l_L   |  l_R   |  l_A   |  l_B   |
         …to B    …to R    R to…    …to B    B to…          aggs, beside the values

    F is ``HEAD`` and E is ``TAIL``. A flip turns l_F into l_L and l_B into l_R; then l_L shrinks from its
    left and l_R from its right, at the same pace, until both are gone and l_A, whose aggregates are already
    those of a front stack, is shifted into l_F. The sublists keep |l_L| = |l_R| and |l_L| + |l_R| + |l_A| + 1
    = |l_F| - |l_B|, so the front is never empty too early.

    - Order: FIFO. Operator: any monoid.
    - Combines per slide: at most 5 amortised, at most 8 worst.
    - Space: 2n partials.
    - Paper: Tangwongsan, Hirzel and Schneider, *Low-Latency Sliding-Window Aggregation in Worst-Case Constant
      Time*, DEBS 2017.

    >>> import windrow as wr
    >>> window = DABA(wr.Max(), compiled=False)
    >>> for load in (3.0, 7.0, 5.0):
    ...     window.insert((load,))
    >>> window.evict(2)
    >>> window.query()
    (5.0,)
    """

    def _allocate(self, capacity: int) -> State:
        return np.zeros(6, dtype=np.int64), allocate(self.monoid, capacity), allocate(self.monoid, capacity)


def insert(state: Any, parts: Any, i: int) -> None:
    meta, values, aggs = state
    end = meta[TAIL]
    copy(values, slot(values, end), parts, i)
    if end == meta[B]:
        copy(aggs, slot(aggs, end), parts, i)
    else:
        merge(aggs, slot(aggs, end), aggs, slot(aggs, end - 1), parts, i)
    meta[TAIL] = end + 1
    fix(meta, values, aggs)


def evict(state: Any) -> None:
    meta, values, aggs = state
    meta[HEAD] += 1
    fix(meta, values, aggs)


def query(state: Any, out: Any, i: int) -> None:
    meta, _, aggs = state
    if meta[HEAD] == meta[TAIL]:
        clear(out, i)
    elif meta[B] == meta[TAIL]:
        copy(out, i, aggs, slot(aggs, meta[HEAD]))
    else:  # the size invariant keeps l_F non-empty
        merge(out, i, aggs, slot(aggs, meta[HEAD]), aggs, slot(aggs, meta[TAIL] - 1))


def fix(meta: Any, values: Any, aggs: Any) -> None:
    """Restore the size invariant, which one insertion or eviction has put out by one."""
    front, end = meta[HEAD], meta[TAIL]
    if front == meta[B]:  # at most one value is left, and it is its own aggregate
        meta[L] = meta[R] = meta[A] = meta[B] = end
        return
    if meta[L] == meta[B]:  # flip
        meta[L] = front
        meta[A] = meta[B] = end
    if meta[L] == meta[R]:  # shift
        meta[L] += 1
        meta[R] += 1
        meta[A] += 1
        return
    left, right = slot(aggs, meta[L]), slot(aggs, meta[A] - 1)  # shrink
    merge(aggs, left, aggs, left, aggs, right)
    if meta[A] == meta[B]:
        copy(aggs, right, values, right)
    else:
        first = slot(aggs, meta[A])
        merge(aggs, left, aggs, left, aggs, first)
        merge(aggs, right, values, right, aggs, first)
    meta[L] += 1
    meta[A] -= 1
