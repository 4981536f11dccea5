# SPDX-License-Identifier: Apache-2.0
"""The slices of policy windows as forests: any piece of a window in O(log n) combines."""

from __future__ import annotations

from concurrent.futures import Executor
from typing import TYPE_CHECKING, Any

import numpy as np

from windrow.kernels.partials import blank
from windrow.kernels.slices import forest as kernels
from windrow.kernels.slices.layout import DueWindows, Forest, Results
from windrow.kernels.specialise import specialise
from windrow.operator.extents import ExtentState
from windrow.operator.partials import AggregateState, FinalAggregation
from windrow.operator.plan import Ints

if TYPE_CHECKING:
    from windrow.operator.slices import SliceTable

LEAST = 16
"""The length of a ring at least."""


class PolicyForest(FinalAggregation):
    """Policy windows from a forest for each key; see :mod:`windrow.kernels.slices.forest`.

    ``named`` computes the results in its place, if the query names an algorithm. The forest is searched all the same.
    """

    by_key = False
    tasks = 0

    def __init__(self, named: FinalAggregation | None = None, *, compiled: bool = True) -> None:
        self.named = named
        self._kernels = specialise(kernels, {}, compiled=compiled)
        nothing = np.zeros(0, dtype=np.int64)
        rings, flags = np.zeros(0, np.int32), np.zeros(0, np.bool_)
        self.forest = Forest(rings, nothing, nothing, nothing, nothing, nothing, flags)
        self._begin = self._end = nothing
        self._used = 0
        """How much of the array of rings was given to keys."""

    def results(
        self, table: SliceTable, due: DueWindows, count: int, pool: Executor | None
    ) -> dict[str, Results]:
        if self.named is not None:
            return self.named.results(table, due, count, pool)
        due = DueWindows(*(column[:count] for column in due))
        return {state.name: self.of(table, state, due) for state in table.aggregates}

    def list(self, begin: Ints, end: Ints) -> None:
        """The positions of the windows that a plan has listed. Their results are asked for next."""
        self._begin, self._end = begin, end

    def of(self, table: SliceTable, state: AggregateState, due: DueWindows) -> Results:
        """The results of one aggregate, of the windows that were listed."""
        if isinstance(state, ExtentState):
            return state.results(table, due, len(due.key))
        return self.between(state, due.key, self._begin, self._end)

    def partials(self, state: AggregateState, due: DueWindows) -> Any:
        """The partials of one aggregate, of the windows that were listed."""
        found = blank(state.monoid, len(due.key))
        state.combine.gather(state.own_scratch(), self.forest, due.key, self._begin, self._end, found)
        return found

    def between(self, state: AggregateState, keys: Ints, begin: Ints, end: Ints) -> Results:
        """The results of one aggregate over positions of keys."""
        results = state.room(len(keys))
        with state.no_overflow():
            state.combine.between(state.own_scratch(), self.forest, keys, begin, end, results)
        return results

    def enter(self, table: SliceTable, keys: Ints, first: Ints, before: Ints | int = 0) -> None:
        """Before new slices of some keys are enrolled: the position of the first slice of every key, as the state has it.

        The window of a key begins there, or after so many slices ``before`` it. If the forest of a key was of other slices,
        it is forgotten.
        """
        self._ensure_keys(table.key_room)
        forest = self.forest
        moved = keys[forest.first[keys] != first[keys]]
        forest.first[keys] = first[keys]
        forest.known[moved] = False
        forest.head[keys] = first[keys] + before

    def enrol(self, table: SliceTable, keys: Ints, counts: Ints, slots: Ints) -> None:
        """Take the new slices of some keys; ``slots`` has them key after key, ``counts`` says how many each has."""
        self._ensure_keys(table.key_room)
        begin, done = np.zeros(len(keys), dtype=np.int64), 0
        while done < len(keys):
            done = int(self._kernels.enrol(table.slices, self.forest, done, keys, counts, slots, begin))
            if done < len(keys) and self._widen(int(keys[done]), int(table.slices.held[keys[done]])):
                done = 0
        for state in table.aggregates:
            if not isinstance(state, ExtentState):
                state.combine.raise_nodes(state.partials.parts, state.partials.lcs, self.forest, keys, begin)

    def renew(self, table: SliceTable, key: int) -> None:
        """The slices of a key are others than they were. The window begins where it did."""
        self.forest.known[key] = False
        one = np.array([key], dtype=np.int64)
        self.enrol(table, one, np.zeros(1, dtype=np.int64), one[:0])

    def slot(self, key: int, position: int) -> int:
        """The slot of the slice at a position."""
        forest = self.forest
        return int(forest.ring[forest.offset[key] + (position & (int(forest.room[key]) - 1))])

    def node(self, state: AggregateState, key: int, level: int, index: int) -> Any:
        """The partial of a node."""
        parts = state.partials.lcs if level else state.partials.parts
        middle = (index << level) + ((1 << level) >> 1) - (level > 0)
        slot = self.slot(key, middle)
        return tuple(part[slot] for part in parts) if state.monoid.typed else parts[0][slot]

    def rearranged(self, table: SliceTable, key: int, gone: Ints, new: Ints) -> None:
        self._forget(key)
        if self.named is not None:
            self.named.rearranged(table, key, gone, new)

    def forget(self, keys: Ints) -> None:
        self._forget(keys[keys < len(self.forest.known)])
        if self.named is not None:
            self.named.forget(keys)

    def _forget(self, keys: Any) -> None:
        if np.size(keys) and len(self.forest.known) > np.max(keys):
            self.forest.known[keys] = False

    def _ensure_keys(self, room: int) -> None:
        forest, old = self.forest, len(self.forest.known)
        if old < room:
            grown = (np.append(array, np.zeros(room - old, array.dtype)) for array in forest[1:])
            self.forest = Forest(forest.ring, *grown)

    def _widen(self, key: int, held: int) -> bool:
        """Give a key a longer ring. If most of the array belongs to no key any more, no key has a ring then but this one."""
        forest, emptied = self.forest, False
        room = max(LEAST, 1 << max(2 * held - 1, 1).bit_length() - 1)
        forest.room[key] = 0
        if self._used > 1024 and 2 * int(forest.room.sum()) < self._used:
            forest.room[:], forest.known[:], self._used = 0, False, 0
            emptied = True
        if self._used + room > len(forest.ring):
            ring = np.zeros(2 * (self._used + room), np.int32)
            ring[: self._used] = forest.ring[: self._used]
            self.forest = forest = forest._replace(ring=ring)
        forest.offset[key], forest.room[key], forest.known[key] = self._used, room, False
        self._used += room
        return emptied
