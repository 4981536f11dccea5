"""What trees can do beside FIFO windows: address partials by time, and find out how many to evict.

A tree's kernels also have ``query_range(state, begin, end, out, i)``, the aggregate of some positions of the
window, and ``update(state, position, parts, i)``, which combines a partial into one that is there.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from windrow.aggregates.algebra import Aggregate, Monoid, Partial
from windrow.algorithms.base import HEAD, TAIL, Algorithm
from windrow.errors import WindowError
from windrow.kernels.slots import allocate


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
        calls, two when nothing is to be evicted.

        Section 5.2.2 and Algorithms 8 and 9 of Villalba's thesis (2019), as a search over prefixes.
        """
        if valid is None and evict is None:
            raise WindowError(
                "a window slide policy needs a window invariant (valid) or an eviction invariant (evict)"
            )
        if len(self) < 2:
            return 0
        head, tail, count = int(self._state[0][HEAD]), int(self._state[0][TAIL]), 0
        before = self.query()

        def invalid(n: int) -> bool:
            return valid is not None and not valid(self._between(head + n, tail))

        def evictable(n: int) -> bool:
            return evict is not None and bool(
                evict(self._between(head, head + n), self._between(head + n, tail), before)
            )

        most = len(self) - 1
        count = leading(invalid, 0, most)
        count = leading(evictable, count + 1, most + 1) - 1
        self.evict(count)
        return count

    @property
    def capacity(self) -> int:
        raise NotImplementedError

    def _leaves(self, positions: Any) -> Any:
        """The slots of these positions in the first parts of the state."""
        raise NotImplementedError

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


def leading(holds: Callable[[int], bool], begin: int, end: int) -> int:
    """The first number of [begin, end) for which a property that fades does not hold, or the end: by
    doubling, then halving.

    >>> leading(lambda n: n < 37, 0, 1000), leading(lambda n: True, 0, 9), leading(lambda n: True, 5, 5)
    (37, 9, 5)
    """
    step = 1
    while begin < end and holds(min(begin + step, end) - 1):
        begin = min(begin + step, end)
        step *= 2
    end = min(begin + step - 1, end)
    while begin < end:
        middle = (begin + end) // 2
        if holds(middle):
            begin = middle + 1
        else:
            end = middle
    return begin
