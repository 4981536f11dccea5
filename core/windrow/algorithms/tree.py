# SPDX-License-Identifier: Apache-2.0
"""What trees can do beyond FIFO windows: address partials by time, and find out how many to evict.

A tree's kernels also have ``query_range(state, begin, end, out, i)``, the aggregate of some positions of the
window, and ``update(state, position, parts, i)``, which combines a partial into one that is there.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import Any

import numpy as np

from windrow.aggregates.algebra import Aggregate, Monoid, Partial
from windrow.algorithms.base import HEAD, TAIL, Algorithm
from windrow.algorithms.policy import Beginning, cover
from windrow.kernels.partials import allocate


class Tree(Algorithm):
    """An algorithm that keeps every partial addressable. Times are integers; a plain ``insert`` is one after
    the newest.
    """

    def __init__(self, aggregate: Aggregate | Monoid, capacity: int = 16, compiled: bool = True) -> None:
        super().__init__(aggregate, capacity, compiled)
        self._times = np.zeros(self.capacity, dtype=np.int64)

    def insert(self, partial: Partial) -> None:
        newest = int(self._state[0][TAIL]) - 1
        self._append(self._time(newest) + 1 if len(self) else 0, partial)

    def insert_at(self, time: int, partial: Partial) -> None:
        """Insert at a time. If that time is there, the partial is combined into it, O(log n); a new time that
        is not the newest moves all later ones, O(n).
        """
        position, tail = self._find(time), int(self._state[0][TAIL])
        if position == tail:
            self._append(time, partial)
        elif self._time(position) == time:
            self._kernel.update(self._state, position, self._placed(partial), 0)
        else:
            self._rebuild(position, time, partial)

    def range_query(self, lo: int, hi: int) -> Partial:
        """The aggregate of the partials whose time is in [lo, hi), in O(log n)."""
        return self._between(self._find(lo), self._find(hi))

    def enforce(
        self,
        valid: Callable[[Partial], bool] | None = None,
        evict: Callable[[Partial, Partial, Partial], bool] | None = None,
    ) -> int:
        """Evict what a window slide policy wants to be evicted; returns how many. The newest partial always
        stays.

        First the fewest partials are chosen for which ``valid(rest)`` holds: the window invariant. Then more,
        while ``evict(evicted, rest, before)`` holds: the eviction invariant. Both must be monotone: what is
        valid stays valid when it is shortened, and what may be evicted includes each shorter run. O(log n)
        calls and combines, two calls when nothing is to be evicted: see :mod:`windrow.algorithms.policy`.
        """
        search = Beginning(self.monoid.combine, valid, evict)
        if len(self) < 2:
            return 0
        head, tail = int(self._state[0][HEAD]), int(self._state[0][TAIL])
        before = self.query()
        if (valid is None or valid(before)) and not (
            evict is not None and evict(self._node(0, head), self._between(head + 1, tail), before)
        ):
            return 0
        nodes = list(cover(head, tail - 1, self._highest))
        count = search.find(nodes, self._node, self._node(0, tail - 1), before) - head
        self.evict(count)
        return count

    @property
    @abstractmethod
    def capacity(self) -> int:
        """How many partials fit before the arrays grow."""

    @abstractmethod
    def _leaves(self, positions: Any) -> Any:
        """The slots of these positions in the first parts of the state. Called before the tree is rebuilt,
        with positions that are in the window.
        """

    @abstractmethod
    def _node(self, level: int, index: int) -> Partial:
        """The partial of a node that lies in the window, with all that it covers."""

    @abstractmethod
    def _highest(self, begin: int) -> int:
        """The highest level at which there is a node that begins at a position."""

    def _append(self, time: int, partial: Partial) -> None:
        super().insert(partial)
        self._times[(int(self._state[0][TAIL]) - 1) & (self.capacity - 1)] = time

    def _make_room(self) -> None:
        old = self.capacity
        super()._make_room()
        if self.capacity > old:
            positions = np.arange(*self._span())
            times = np.zeros(self.capacity, dtype=np.int64)
            times[positions & (self.capacity - 1)] = self._times[positions & (old - 1)]
            self._times = times

    def _between(self, begin: int, end: int) -> Partial:
        self._kernel.query_range(self._state, begin, end, self._slot, 0)
        return self._taken()

    def _time(self, position: int) -> int:
        return int(self._times[position & (self.capacity - 1)])

    def _find(self, time: int) -> int:
        """The first position whose time is not before this one."""
        low, high = self._span()
        while low < high:
            middle = (low + high) // 2
            if self._time(middle) < time:
                low = middle + 1
            else:
                high = middle
        return low

    def _rebuild(self, position: int, time: int, partial: Partial) -> None:
        begin, end = self._span()
        positions, at = np.arange(begin, end), position - begin
        times = self._times[positions & (self.capacity - 1)]
        held = allocate(self.monoid, end - begin)
        for source, target in zip(self._state[1], held, strict=True):
            target[:] = source[self._leaves(positions)]
        self._state = self._allocate(self.capacity)
        for ordinal in range(end - begin + 1):
            if ordinal == at:
                self._append(time, partial)
            if ordinal < end - begin:
                self._make_room()
                self._kernel.insert(self._state, held, ordinal)
                self._times[(int(self._state[0][TAIL]) - 1) & (self.capacity - 1)] = times[ordinal]
