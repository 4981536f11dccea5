# SPDX-License-Identifier: Apache-2.0
"""Where a policy window begins: the search of :mod:`windrow.algorithms.policy`, on a forest with nodes at fixed positions.

It takes O(log n) combines and calls of the invariants, however many rows are evicted. Invariants that are not monotone are
asked row by row.
"""

from __future__ import annotations

from functools import partial
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np

from windrow.kernels.slices.layout import DueWindows
from windrow.operator.bucket_state import BucketState
from windrow.operator.extents import ExtentState
from windrow.operator.policy_forest import PolicyForest
from windrow.windows import PolicyWindow

if TYPE_CHECKING:
    from windrow.operator.slices import SliceTable


class Piece:
    """A part of a window: its positions, from and to, and a partial for each aggregate. Its results are computed when asked for."""

    def __init__(
        self,
        search: PolicySearch,
        key: int,
        begin: int,
        end: int,
        partials: list[Any],
        results: SimpleNamespace | None = None,
    ) -> None:
        self.search, self.key, self.begin, self.end, self.partials = search, key, begin, end, partials
        self._results = results

    @property
    def results(self) -> SimpleNamespace:
        if self._results is None:
            self._results = self.search.lowered(self)
        return self._results


class Folded(Exception):
    """The search came to a slice that is folded."""

    def __init__(self, slot: int) -> None:
        super().__init__(slot)
        self.slot = slot


class PolicySearch:
    """The policy of a query, enforced on the windows of all keys."""

    def __init__(self, table: SliceTable, window: PolicyWindow, forest: PolicyForest) -> None:
        self.table, self.forest = table, forest
        self.states = [state for state in table.aggregates if not isinstance(state, BucketState)]
        self.valid, self.evict, self.monotone = window.valid, window.evict, window.monotone

    def enforce(self, key: int, left: int) -> int:
        """The position at which the window of a key begins, with all but its ``left - 1`` newest slices.

        Raises :class:`Folded` if a slice has to be unfolded first. Nothing has changed then.
        """
        arrays = self.forest.forest
        if not arrays.known[key]:
            self.forest.renew(self.table, key)
        head, end = int(arrays.head[key]), int(arrays.tail[key]) - left + 1
        if end - head > 1:
            head = self._beginning(key, head, end)
            arrays.head[key] = head
        return head

    def _beginning(self, key: int, head: int, end: int) -> int:
        before = self._results(key, head, end)
        if self.monotone:
            if (self.valid is None or self.valid(before)) and not self._oldest_goes(key, head, end, before):
                return head
            with np.errstate(all="ignore"):  # as kernels have it
                return self._search(key, head, end, before)
        first = head
        while head < end - 1 and self.valid is not None and not self.valid(self._results(key, head, end)):
            head = self._one(key, head) + 1
        while head < end - 1 and self._oldest_goes(key, first, end, before, head):
            head += 1
        return head

    def _oldest_goes(self, key: int, first: int, end: int, before: Any, head: int | None = None) -> bool:
        """Whether the eviction invariant lets the slices from the first to the head go."""
        if self.evict is None:
            return False
        after = self._one(key, first if head is None else head) + 1
        candidate, rest = self._results(key, first, after), self._results(key, after, end)
        return bool(self.evict(candidate, rest, before))

    def _one(self, key: int, position: int) -> int:
        """This position, if its slice is a single row."""
        slot = self.forest.slot(key, position)
        if self.table.slices.page[slot]:
            raise Folded(slot)
        return position

    def _search(self, key: int, head: int, end: int, before: SimpleNamespace) -> int:
        from windrow.algorithms.policy import Beginning, cover  # only such a query loads all algorithms

        def node(level: int, index: int) -> Piece:
            return self._node(key, level, index)

        search = Beginning(
            self._joined,
            None if self.valid is None else self._is_valid,
            None if self.evict is None else self._may_go,
            alone=partial(self._one, key),
        )
        nodes = list(cover(head, end - 1, highest=lambda begin: end.bit_length()))
        return search.find(nodes, node, node(0, end - 1), Piece(self, key, head, end, [], before))

    def _is_valid(self, piece: Piece) -> bool:
        assert self.valid is not None
        return bool(self.valid(piece.results))

    def _may_go(self, candidate: Piece, after: Piece, before: Piece) -> bool:
        assert self.evict is not None
        return bool(self.evict(candidate.results, after.results, before.results))

    # Parts of a window, and their results.

    def _node(self, key: int, level: int, index: int) -> Piece:
        begin, forest = index << level, self.forest
        partials = [
            None if isinstance(s, ExtentState) else forest.node(s, key, level, index) for s in self.states
        ]
        return Piece(self, key, begin, begin + (1 << level), partials)

    def _joined(self, older: Piece, newer: Piece) -> Piece:
        combined = [
            None if isinstance(s, ExtentState) else s.monoid.combine(a, b)
            for s, a, b in zip(self.states, older.partials, newer.partials, strict=True)
        ]
        return Piece(self, older.key, older.begin, newer.end, combined)

    def lowered(self, piece: Piece) -> SimpleNamespace:
        """The results of a part of a window."""
        results = {}
        for state, partial_ in zip(self.states, piece.partials, strict=True):
            if isinstance(state, ExtentState):
                results[state.name] = self._whole(state, piece.key, piece.begin, piece.end)
            else:
                with state.no_overflow():
                    results[state.name] = _value(state.monoid.result(partial_))
        return SimpleNamespace(**results)

    def _results(self, key: int, begin: int, end: int) -> SimpleNamespace:
        """The results of the slices at some positions."""
        one = [np.array([number], dtype=np.int64) for number in (key, begin, end)]
        results = {}
        for state in self.states:
            if isinstance(state, ExtentState):
                results[state.name] = self._whole(state, key, begin, end)
            else:
                out, ok = self.forest.between(state, *one)
                results[state.name] = _value(out[0]) if ok[0] else None
        return SimpleNamespace(**results)

    def _whole(self, state: ExtentState, key: int, begin: int, end: int) -> Any:
        lo, hi = (np.array([self.forest.slot(key, position)]) for position in (begin, end - 1))
        stamp, none = self.table.slices.stamp, np.zeros(1, dtype=np.int64)
        due = DueWindows(np.array([key]), none, stamp[lo], stamp[hi], lo, hi, none, none, none)
        out, ok = state.results(self.table, due, 1)
        return _value(out[0]) if ok[0] else None


def _value(result: Any) -> Any:
    return result.item() if isinstance(result, np.generic) else result
