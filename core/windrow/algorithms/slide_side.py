# SPDX-License-Identifier: Apache-2.0
"""SlideSide: aggregates that run to a boundary on its left side, and away from it on its right side."""

from __future__ import annotations

from typing import Any

import numpy as np

from windrow.aggregates.algebra import Partial
from windrow.algorithms.base import HEAD, TAIL, Algorithm, State, slot
from windrow.errors import WindowError
from windrow.kernels.partials import allocate, clear, copy, merge

MIDDLE = 2


class SlideSide(Algorithm):
    """Like TwoStacks, but the stacks share values, and one structure answers windows of several ranges.

    ::

        HEAD         MIDDLE        TAIL
          | vᵢ ⊕ … ⊕ last | values     |       left: values become aggregates when the middle moves
          |               | first…⊕ vᵢ |       right

    A window of the newest ``last`` partials that begins on the left side is one combine away; one that begins
    on the right side, which only ranges shorter than the longest can, is folded from its values.

    - Order: FIFO. Operator: any monoid (the non-invertible form).
    - Combines per slide: at most 3 amortised; n worst, when the middle moves.
    - Space: 2n partials.
    - Paper: Theodorakis, Pietzuch and Pirk, *SlideSide: A fast Incremental Stream Processing Algorithm for
      Multiple Queries*, EDBT 2020.

    >>> import windrow as wr
    >>> window = SlideSide(wr.Max(), compiled=False)
    >>> for load in (3.0, 7.0, 5.0, 1.0):
    ...     window.insert((load,))
    >>> window.query(), window.query(last=2)
    ((7.0,), (5.0,))
    """

    def query(self, last: int | None = None) -> Partial:
        """The aggregate of the window, or of its newest ``last`` partials only."""
        if last is None or last == len(self):
            return super().query()
        if not 0 <= last <= len(self):
            raise WindowError(f"SlideSide holds {len(self)} partials; asked for the newest {last}")
        self._kernel.query_last(self._state, last, self._slot, 0)
        return self._taken()

    def _allocate(self, capacity: int) -> State:
        return np.zeros(3, dtype=np.int64), allocate(self.monoid, capacity), allocate(self.monoid, capacity)


def insert(state: Any, parts: Any, i: int) -> None:
    meta, left, right = state
    tail = meta[TAIL]
    copy(left, slot(left, tail), parts, i)
    if tail == meta[MIDDLE]:
        copy(right, slot(right, tail), parts, i)
    else:
        merge(right, slot(right, tail), right, slot(right, tail - 1), parts, i)
    meta[TAIL] = tail + 1


def evict(state: Any) -> None:
    evict_many(state, 1)


def evict_many(state: Any, n: int) -> None:
    meta, left, _ = state
    head, tail = meta[HEAD] + n, meta[TAIL]
    if head > meta[MIDDLE] or meta[HEAD] == meta[MIDDLE]:
        for position in range(tail - 2, head - 1, -1):
            merge(left, slot(left, position), left, slot(left, position), left, slot(left, position + 1))
        meta[MIDDLE] = tail
    meta[HEAD] = head


def query(state: Any, out: Any, i: int) -> None:
    meta = state[0]
    query_last(state, meta[TAIL] - meta[HEAD], out, i)


def query_last(state: Any, last: int, out: Any, i: int) -> None:
    meta, left, right = state
    middle, tail = meta[MIDDLE], meta[TAIL]
    begin = tail - last
    if begin == tail:
        clear(out, i)
    elif begin == middle:
        copy(out, i, right, slot(right, tail - 1))
    elif middle == tail:
        copy(out, i, left, slot(left, begin))
    elif begin < middle:
        merge(out, i, left, slot(left, begin), right, slot(right, tail - 1))
    else:
        copy(out, i, left, slot(left, begin))
        for position in range(begin + 1, tail):
            merge(out, i, out, i, left, slot(left, position))
