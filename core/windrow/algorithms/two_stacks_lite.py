# SPDX-License-Identifier: Apache-2.0
"""TwoStacksLite: TwoStacks in one array."""

from __future__ import annotations

from typing import Any

import numpy as np

from windrow.algorithms.base import HEAD, TAIL, Algorithm, State, slot
from windrow.kernels.partials import allocate, clear, copy, merge

MIDDLE = 2


class TwoStacksLite(Algorithm):
    """The front stack needs only aggregates, the back stack only values and one aggregate: one array holds
    both.

    ::

        HEAD        MIDDLE        TAIL
          | vᵢ ⊕ … ⊕ last |  values  |        and the aggregate of the values

    - Order: FIFO. Operator: any monoid.
    - Combines per slide: at most 3 amortised; n worst, when the stacks flip.
    - Space: n + 1 partials.
    - Paper: Tangwongsan, Hirzel and Schneider, *In-order sliding-window aggregation in worst-case constant
      time*, VLDB Journal 2021.

    >>> import windrow as wr
    >>> window = TwoStacksLite(wr.Max(), compiled=False)
    >>> for load in (3.0, 7.0, 5.0):
    ...     window.insert((load,))
    >>> window.evict(2)
    >>> window.query()
    (5.0,)
    """

    def _allocate(self, capacity: int) -> State:
        return np.zeros(3, dtype=np.int64), allocate(self.monoid, capacity), allocate(self.monoid, 1)


def insert(state: Any, parts: Any, i: int) -> None:
    meta, ring, back = state
    tail = meta[TAIL]
    copy(ring, slot(ring, tail), parts, i)
    if tail == meta[MIDDLE]:
        copy(back, 0, parts, i)
    else:
        merge(back, 0, back, 0, parts, i)
    meta[TAIL] = tail + 1


def evict(state: Any) -> None:
    evict_many(state, 1)


def evict_many(state: Any, n: int) -> None:
    meta, ring, _ = state
    head, tail = meta[HEAD] + n, meta[TAIL]
    if head > meta[MIDDLE] or meta[HEAD] == meta[MIDDLE]:
        for position in range(tail - 2, head - 1, -1):
            merge(ring, slot(ring, position), ring, slot(ring, position), ring, slot(ring, position + 1))
        meta[MIDDLE] = tail
    meta[HEAD] = head


def query(state: Any, out: Any, i: int) -> None:
    meta, ring, back = state
    head, tail = meta[HEAD], meta[TAIL]
    if head == tail:
        clear(out, i)
    elif head == meta[MIDDLE]:
        copy(out, i, back, 0)
    elif meta[MIDDLE] == tail:
        copy(out, i, ring, slot(ring, head))
    else:
        merge(out, i, ring, slot(ring, head), back, 0)
