# SPDX-License-Identifier: Apache-2.0
"""FiBA: the finger B-tree aggregator, for partials that come out of order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from windrow.aggregates.algebra import Aggregate, Monoid, Partial
from windrow.algorithms import fiba_kernels
from windrow.algorithms.base import Algorithm, State, place
from windrow.algorithms.finger_tree import FREE, HEIGHT, MU, PARENT, SPARE, USED, WORK, unfold_free
from windrow.errors import WindowError
from windrow.kernels.partials import allocate


class FiBA(Algorithm):
    """A B-tree with a finger on its first and on its last leaf, and aggregates that lie where the fingers
    need them.

    Partials are in the leaves, in the order of their times. A node inside the tree holds the aggregate of
    what is below it. A node of the left spine instead holds what is below it without its first child,
    followed by its parent's aggregate, so that the first leaf holds everything to the left of the root's
    middle; the right spine mirrors it, and the root holds its middle. So a change near a finger touches only
    nodes near it, and ``left ⊕ root ⊕ right`` is the answer.

    ``mu`` is the least arity of a node, 2·mu the greatest. Times are integers; a plain ``insert`` is one
    after the newest.

    - Order: any. Operator: any monoid.
    - Combines per slide, in order: at most 3·mu + 4 amortised; O(log n) worst. Insertion d places away from
      either end: O(log d) amortised. Bulk eviction, range query: O(log n).
    - Space: at most (2·mu + 2) · n / (mu - 1) slots for partials.
    - Paper: Tangwongsan, Hirzel and Schneider, *Optimal and General Out-of-Order Sliding-Window Aggregation*,
      VLDB 2019; bulk operations: *Out-of-Order Sliding-Window Aggregation with Efficient Bulk Evictions and
      Insertions*, VLDB 2023.

    >>> import windrow as wr
    >>> window = FiBA(wr.Max(), compiled=False)
    >>> for time, load in ((20, 7.0), (10, 3.0), (30, 5.0)):
    ...     window.insert_at(time, (load,))
    >>> window.range_query(25, 31)
    (5.0,)
    >>> window.evict_before(30)
    2
    """

    kernels: ClassVar[str] = fiba_kernels.__name__

    def __init__(
        self, aggregate: Aggregate | Monoid, capacity: int = 16, compiled: bool = True, mu: int = 2
    ) -> None:
        if mu < 2:
            raise WindowError(f"mu of FiBA has to be at least 2, not {mu}")
        self.mu = mu
        super().__init__(aggregate, capacity, compiled)

    def insert_at(self, time: int, partial: Partial) -> None:
        """Insert at a time, in any order; if that time is there, the partial is combined into it."""
        self._reserve(1)
        self._kernel.insert_at(self._state, time, self._placed(partial), 0)

    def bulk_insert(self, times: Sequence[int], partials: Sequence[Partial]) -> None:
        """Insert many at once; each node's aggregate is renewed once, however many of them come below it."""
        if len(times) != len(partials):
            raise WindowError(f"bulk_insert got {len(times)} times for {len(partials)} partials")
        parts = allocate(self.monoid, len(times))
        for i, partial in enumerate(partials):
            place(self.monoid, parts, i, partial)
        self._reserve(len(times))
        self._kernel.insert_many(self._state, np.asarray(times, dtype=np.int64), parts)

    def evict_before(self, time: int) -> int:
        """Evict everything whose time is before this one; returns how many."""
        held = len(self)
        self._kernel.evict_before(self._state, time)
        return held - len(self)

    def range_query(self, lo: int, hi: int) -> Partial:
        """The aggregate of the partials whose time is in [lo, hi)."""
        self._kernel.range_query(self._state, lo, hi, self._slot, 0)
        return self._taken()

    @property
    def partials(self) -> int:
        nodes = int(self._state[0][USED] - self._state[0][SPARE])
        return nodes * (2 * self.mu + 2) + 1

    @property
    def capacity(self) -> int:
        return len(self._state[1][0]) * (self.mu - 1)

    def _allocate(self, capacity: int) -> State:
        nodes, width = capacity // (self.mu - 1) + capacity.bit_length() + 4, 2 * self.mu + 1
        meta = np.zeros(7, dtype=np.int64)
        meta[USED], meta[FREE], meta[MU] = 1, -1, self.mu
        spine = np.zeros((3, 64), dtype=np.int64)
        spine[WORK] = -1
        node = np.zeros((nodes, 7), dtype=np.int64)
        node[0, PARENT] = -1
        time, child = np.zeros((nodes, width), dtype=np.int64), np.zeros((nodes, width), dtype=np.int64)
        values, aggs = allocate(self.monoid, nodes * width), allocate(self.monoid, nodes)
        return meta, (node, spine, time, child), values, aggs, allocate(self.monoid, 1)

    def _make_room(self) -> None:
        self._reserve(1)

    def _reserve(self, insertions: int) -> None:
        """Have a node for each of these insertions, and for splits all the way up."""
        while True:
            meta, links = self._state[:2]
            wanted = insertions + int(meta[HEIGHT]) + 3
            if len(links[0]) - meta[USED] + meta[SPARE] >= wanted:
                return
            unfold_free(meta, links, wanted)
            if len(links[0]) - meta[USED] + meta[SPARE] < wanted:
                self._grow()

    def _grow(self) -> None:
        old, self._state = self._state, self._allocate(2 * self.capacity)
        self._state[0][:] = old[0]
        for before, after in zip(old[1:], self._state[1:], strict=True):
            for source, target in zip(before, after, strict=True):
                target[: len(source)] = source
