# SPDX-License-Identifier: Apache-2.0
"""Recal: recalculate every window from its partials."""

from __future__ import annotations

from typing import Any

import numpy as np

from windrow.algorithms.base import HEAD, TAIL, Algorithm, State, slot
from windrow.kernels.partials import allocate, clear, copy, merge


class Recal(Algorithm):
    """Keep the partials; fold them all for every query. The yardstick for the others, and the best for a few
    partials.

    - Order: FIFO. Operator: any monoid.
    - Combines per slide: n - 1, amortised and worst.
    - Space: n partials.
    - Paper: the naive algorithm of Zhang, Akbarinia and Toumani, *Efficient Incremental Computation of
      Aggregations over Sliding Windows*, KDD 2021, section 5.1.

    >>> import windrow as wr
    >>> window = Recal(wr.Max(), compiled=False)
    >>> for load in (3.0, 7.0, 5.0):
    ...     window.insert((load,))
    >>> window.evict(2)
    >>> window.query()
    (5.0,)
    """

    def _allocate(self, capacity: int) -> State:
        return np.zeros(2, dtype=np.int64), allocate(self.monoid, capacity)


def insert(state: Any, parts: Any, i: int) -> None:
    meta, ring = state
    copy(ring, slot(ring, meta[TAIL]), parts, i)
    meta[TAIL] += 1


def evict(state: Any) -> None:
    meta, _ = state
    meta[HEAD] += 1


def evict_many(state: Any, n: int) -> None:
    meta, _ = state
    meta[HEAD] += n


def query(state: Any, out: Any, i: int) -> None:
    meta, ring = state
    if meta[HEAD] == meta[TAIL]:
        clear(out, i)
        return
    copy(out, i, ring, slot(ring, meta[HEAD]))
    for position in range(meta[HEAD] + 1, meta[TAIL]):
        merge(out, i, out, i, ring, slot(ring, position))
