# SPDX-License-Identifier: Apache-2.0
"""TwoStacks: a queue out of two stacks, each of which knows its aggregate at every height."""

from __future__ import annotations

from typing import Any

import numpy as np

from windrow.algorithms.base import HEAD, TAIL, Algorithm, State, slot
from windrow.kernels.partials import allocate, clear, copy, merge

MIDDLE = 2


class TwoStacks(Algorithm):
    """Push onto the back stack, pop off the front stack, flip back to front when the front is empty.

    ::

        HEAD        MIDDLE        TAIL
          | front stack | back stack |
          vᵢ ⊕ … ⊕ last   first ⊕ … ⊕ vᵢ      aggs, beside the values

    - Order: FIFO. Operator: any monoid.
    - Combines per slide: at most 3 amortised; n worst, when the stacks flip.
    - Space: 2n partials.
    - Paper: adamax (2011), after Hood and Melville (1981); Tangwongsan, Hirzel and Schneider, DEBS 2017.

    >>> import windrow as wr
    >>> window = TwoStacks(wr.Max(), compiled=False)
    >>> for load in (3.0, 7.0, 5.0):
    ...     window.insert((load,))
    >>> window.evict(2)
    >>> window.query()
    (5.0,)
    """

    def _allocate(self, capacity: int) -> State:
        return np.zeros(3, dtype=np.int64), allocate(self.monoid, capacity), allocate(self.monoid, capacity)


def insert(state: Any, parts: Any, i: int) -> None:
    meta, values, aggs = state
    tail = meta[TAIL]
    copy(values, slot(values, tail), parts, i)
    if tail == meta[MIDDLE]:
        copy(aggs, slot(aggs, tail), parts, i)
    else:
        merge(aggs, slot(aggs, tail), aggs, slot(aggs, tail - 1), parts, i)
    meta[TAIL] = tail + 1


def evict(state: Any) -> None:
    evict_many(state, 1)


def evict_many(state: Any, n: int) -> None:
    meta, values, aggs = state
    head, tail = meta[HEAD] + n, meta[TAIL]
    if head > meta[MIDDLE] or meta[HEAD] == meta[MIDDLE]:
        # What leaves is not aggregated.
        flip(values, aggs, head, tail)
        meta[MIDDLE] = tail
    meta[HEAD] = head


def flip(values: Any, aggs: Any, begin: int, end: int) -> None:
    """Aggregate from each position to the end."""
    if begin < end:
        copy(aggs, slot(aggs, end - 1), values, slot(values, end - 1))
    for position in range(end - 2, begin - 1, -1):
        merge(aggs, slot(aggs, position), values, slot(values, position), aggs, slot(aggs, position + 1))


def query(state: Any, out: Any, i: int) -> None:
    meta, _, aggs = state
    head, tail = meta[HEAD], meta[TAIL]
    if head == tail:
        clear(out, i)
    elif head == meta[MIDDLE]:
        copy(out, i, aggs, slot(aggs, tail - 1))
    elif meta[MIDDLE] == tail:
        copy(out, i, aggs, slot(aggs, head))
    else:
        merge(out, i, aggs, slot(aggs, head), aggs, slot(aggs, tail - 1))
