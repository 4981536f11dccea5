# SPDX-License-Identifier: Apache-2.0
"""SubtractOnEvict: one running aggregate, from which evicted partials are taken away."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from windrow.algorithms.base import HEAD, TAIL, Algorithm, State, slot
from windrow.kernels.partials import allocate, clear, copy, merge, unmerge


class SubtractOnEvict(Algorithm):
    """Add what comes, subtract what goes.

    Exact for integers. With floats, rounding errors stay in the running aggregate until the window is empty.

    - Order: FIFO. Operator: invertible, and commutative (the inverse takes the oldest from the front).
    - Combines per slide: 2 (one of them inverse), amortised and worst.
    - Space: n + 1 partials.
    - Paper: the baseline of Tangwongsan et al., *General Incremental Sliding-Window Aggregation*, VLDB 2015.

    >>> import windrow as wr
    >>> window = SubtractOnEvict(wr.Count(), compiled=False)
    >>> for load in (3, 7, 5):
    ...     window.insert((load,))
    >>> window.evict(2)
    >>> window.query()
    (5,)
    """

    requires: ClassVar[frozenset[str]] = frozenset({"invertible", "commutative"})

    def _allocate(self, capacity: int) -> State:
        return np.zeros(2, dtype=np.int64), allocate(self.monoid, capacity), allocate(self.monoid, 1)


def insert(state: Any, parts: Any, i: int) -> None:
    meta, ring, total = state
    copy(ring, slot(ring, meta[TAIL]), parts, i)
    if meta[HEAD] == meta[TAIL]:
        copy(total, 0, parts, i)
    else:
        merge(total, 0, total, 0, parts, i)
    meta[TAIL] += 1


def evict(state: Any) -> None:
    meta, ring, total = state
    unmerge(total, 0, total, 0, ring, slot(ring, meta[HEAD]))
    meta[HEAD] += 1
    if meta[HEAD] == meta[TAIL]:
        clear(total, 0)


def query(state: Any, out: Any, i: int) -> None:
    _, _, total = state
    copy(out, i, total, 0)
