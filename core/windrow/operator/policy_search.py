"""Where a policy window begins: Algorithms 8 and 9 of the A²MTA thesis, on a forest with nodes at fixed positions.

Let n be the number of rows, and position j be *evictable* if the window without the rows before j is not valid, or if the
rows up to j may be evicted. Both invariants are monotone, so the evictable positions come first. The window is cut into
O(log n) nodes. From the newest to the oldest, the aggregates of the rest are computed once (Algorithm 9). Then whole nodes
are evicted from the oldest on, as long as they can be; the first that cannot is searched from its root to a leaf (Algorithm
8). That is O(log n) combines and calls of the invariants, however many rows are evicted.
"""

from __future__ import annotations

from collections.abc import Iterator
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

Piece = tuple[int, int, list[Any]]
"""A part of the window: its positions, from and to, and a partial for each aggregate."""


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

    def _search(self, key: int, head: int, end: int, before: Any) -> int:
        cover = list(_cover(head, end - 1))
        rest = [self._node(key, 0, end - 1)]
        for level, index in reversed(cover[1:]):
            rest.append(self._joined(self._node(key, level, index), rest[-1]))
        gone: Piece | None = None
        for (level, index), after in zip(cover, reversed(rest), strict=True):
            node = self._node(key, level, index)
            candidate = node if gone is None else self._joined(gone, node)
            if not self._goes(key, candidate, after, before):
                return self._descend(key, (level, index), gone, after, before)
            gone = candidate
        return end - 1

    def _descend(self, key: int, node: tuple[int, int], gone: Piece | None, after: Piece, before: Any) -> int:
        """The first position of a node that stays, or one past its end."""
        level, index = node
        while level > 0:
            level, index = level - 1, 2 * index
            older = self._node(key, level, index)
            candidate = older if gone is None else self._joined(gone, older)
            rest = self._joined(self._node(key, level, index + 1), after)
            if self._goes(key, candidate, rest, before):
                gone, index = candidate, index + 1
            else:
                after = rest
        leaf = self._node(key, 0, index)
        if self.valid is not None and not self.valid(self._lowered(key, self._joined(leaf, after))):
            return self._one(key, index) + 1
        if self.evict is not None:
            self._one(key, index)
            candidate = leaf if gone is None else self._joined(gone, leaf)
            if self.evict(self._lowered(key, candidate), self._lowered(key, after), before):
                return index + 1
        return index

    def _goes(self, key: int, candidate: Piece, after: Piece, before: Any) -> bool:
        """Whether all of a candidate has to be evicted, as far as can be seen without looking into it."""
        rest = self._lowered(key, after)
        if self.valid is not None and not self.valid(rest):
            return True
        return self.evict is not None and bool(self.evict(self._lowered(key, candidate), rest, before))

    # Parts of a window, and their results.

    def _node(self, key: int, level: int, index: int) -> Piece:
        begin, forest = index << level, self.forest
        states = self.states
        partials = [None if isinstance(s, ExtentState) else forest.node(s, key, level, index) for s in states]
        return begin, begin + (1 << level), partials

    def _joined(self, older: Piece, newer: Piece) -> Piece:
        states = self.states
        combined = [
            None if isinstance(s, ExtentState) else s.monoid.combine(a, b)
            for s, a, b in zip(states, older[2], newer[2], strict=True)
        ]
        return older[0], newer[1], combined

    def _lowered(self, key: int, piece: Piece) -> SimpleNamespace:
        results = {}
        for state, partial in zip(self.states, piece[2], strict=True):
            if isinstance(state, ExtentState):
                results[state.name] = self._whole(state, key, piece[0], piece[1])
            else:
                with state.no_overflow():
                    results[state.name] = _value(state.monoid.result(partial))
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


def _cover(begin: int, end: int) -> Iterator[tuple[int, int]]:
    """The largest nodes that make up these positions, oldest first.

    >>> list(_cover(3, 13))
    [(0, 3), (2, 1), (2, 2), (0, 12)]
    """
    while begin < end:
        level = (end - begin).bit_length() - 1
        if begin:
            level = min(level, (begin & -begin).bit_length() - 1)
        yield level, begin >> level
        begin += 1 << level


def _value(result: Any) -> Any:
    return result.item() if isinstance(result, np.generic) else result
