"""Time windows that late rows correct: ``late="update"``.

A late row changes a slice in the middle of windows that have been emitted. The running ``lcs`` and ``csa``
of the other disciplines know only the newest window, so here the slices of a key are also a search tree
(:mod:`windrow.kernels.trees`) whose aggregates take the place of ``lcs``: a late row costs O(log n) combines,
and so does each window. Slices stay until no row that is still accepted can fall into their windows. If the
order of rows matters to an aggregate, every time that occurs is a slice of its own, so that a late row finds
its place.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from windrow.bound import BoundQuery
from windrow.disciplines import InTime, Rows
from windrow.kernels import trees as tree_kernels
from windrow.kernels.layout import FOREVER, NONE, Trees, Windows
from windrow.kernels.slots import allocate
from windrow.kernels.specialise import specialise
from windrow.runs import Due, Ints, Results, State, Tower, longer

DEEPEST = 1 << 12
"""No tree of the slots that there can be gets anywhere near as deep."""


class Revised(InTime):
    """Time windows over slices that may still change after they were emitted."""

    def __init__(self, bound: BoundQuery, windows: list[Any]) -> None:
        super().__init__(bound, windows)
        self.whole_slices = all(monoid.commutative for monoid in bound.monoids.values())
        """If not, a slice is a time, and no ready-made partial of more than that has its place."""
        if not self.whole_slices:
            self.cut_every, self.cut_at = np.array([1], dtype=np.int64), np.array([0], dtype=np.int64)
        nothing = np.empty(0, dtype=np.int32)
        self.trees = Trees(nothing, nothing, np.empty(0, dtype=np.uint8), nothing)
        self.stack = np.empty(DEEPEST, dtype=np.int32)

    def attach(self, state: State) -> None:
        super().attach(state)
        state.slide = self.slide
        self.kernels = specialise(tree_kernels, {}, compiled=state.compiled)

    def revise(self, rows: Rows, watermark: int, absorb: Callable[[Tower, Ints], None]) -> list[Due]:
        """Take rows, and give the windows that had been emitted (they end by the watermark) with their new
        results. ``absorb(tower, slot)`` lets the rows into their slices."""
        self.pass_over(watermark)
        slot = self.take(rows)
        for tower in self.state.towers:
            absorb(tower, slot)
        grouped = slot[rows.order]  # rows of one slice lie side by side
        changed = np.flatnonzero((grouped != NONE) & (np.append(NONE, grouped[:-1]) != grouped))
        keys, slots = rows.grouped_keys[changed], grouped[changed]
        self._plant(keys, slots)
        return self._corrected(keys, self.state.runs.stamp[slots], watermark)

    def slide(self, state: State, windows: Windows, count: int) -> Results:
        """The results of windows, each from its key's tree."""
        key, start, end = windows.key[:count], windows.start[:count], windows.end[:count]
        return {tower.name: self._found(tower, key, start, end) for tower in state.towers}

    def seek(self, rows: Rows) -> None:
        """Rows may belong anywhere."""
        self.kernels.seek(self.state.runs, self._trees(), rows.grouped_keys, rows.grouped_times)

    def evict(self, keys: Ints, watermark: int) -> None:
        """Let slices go that only windows hold which no accepted row can reach."""
        self.pass_over(watermark)
        reached = watermark - self.bound.query.lateness if watermark < FOREVER else FOREVER
        first = (reached - self.offsets - self.ranges) // self.every + 1
        bound = np.array([(first * self.every + self.offsets).min()], dtype=np.int64)
        self.kernels.cut(self.state.runs, self._trees(), keys, bound[0])
        evict = self.state.kernels.evict_below
        self.state.evict(lambda runs, slides: evict(runs, slides, keys, bound))

    def rearranged(self, key: int, gone: Ints, new: Ints) -> None:
        marked = self.kernels.uproot(self.state.runs, self._trees(), key, gone)
        self._plant(np.full(len(new), key), new, marked)

    def restored(self) -> None:
        """Make the trees from the runs."""
        state = self.state
        keys = np.flatnonzero(state.runs.first != NONE)
        lengths, slots = np.zeros(len(keys), np.int64), np.empty(int(state.runs.held.sum()), np.int64)
        state.kernels.walk(state.runs, keys, lengths, slots)
        self._plant(np.repeat(keys, lengths), slots)

    def forget(self, numbers: Ints) -> None:
        super().forget(numbers)
        self._trees().root[numbers] = NONE

    def pass_over(self, watermark: int) -> None:
        """Windows that end by the watermark have been emitted, or are corrections from now on: none of them
        is new."""
        if watermark > -FOREVER:
            passed = (watermark - self.offsets - self.ranges) // self.every + 1
            np.maximum(self.state.slides.following, passed[:, None], out=self.state.slides.following)

    def _corrected(self, keys: Ints, stamps: Ints, watermark: int) -> list[Due]:
        """The windows over changed slices (of each key in the order of time) that had been emitted."""
        found = []
        same_key = np.append(False, keys[1:] == keys[:-1])
        specifications = zip(self.ranges, self.every, self.offsets, strict=True)
        for number, (length, every, offset) in enumerate(specifications):
            last = np.minimum(stamps - offset, watermark - offset - length) // every
            first = (stamps - offset - length) // every + 1
            first = np.where(same_key, np.maximum(first, np.append(0, last[:-1]) + 1), first)
            count = np.maximum(last - first + 1, 0)
            nth = np.arange(count.sum()) - np.repeat(np.cumsum(count) - count, count)
            start = (np.repeat(first, count) + nth) * every + offset
            found.append((np.repeat(keys, count), np.full(len(start), number), start, start + length))
        key, which, start, end = (np.concatenate(column) for column in zip(*found, strict=True))
        if not len(key):
            return []
        if self.state.unfold is not None:
            while (slot := self.kernels.page_at(self.state.runs, self.trees, key, start)) != NONE:
                self.state.unfold(slot)
        results = {tower.name: self._found(tower, key, start, end) for tower in self.state.towers}
        return [Due(key, which, start, end, np.ones(len(key), dtype=np.int64), results)]

    def _found(self, tower: Tower, key: Ints, start: Ints, end: Ints) -> tuple[Any, Any]:
        out, ok = tower.room(len(key))
        with tower.no_overflow():
            tower.kernels.search(
                tower.parts, tower.lcs, allocate(tower.monoid, 1), self.trees, self.state.runs.stamp,
                key, start, end, out, ok,
            )  # fmt: skip
        return out, ok

    def _plant(self, keys: Ints, slots: Ints, marked: int = 0) -> None:
        """Slices of keys, side by side for each key, that are new or have changed; the aggregates above them."""
        trees = self._trees()
        marked += self.kernels.plant(self.state.runs, trees, keys, slots)
        stale = np.empty(marked, dtype=np.int32)
        some = keys[np.append(True, keys[1:] != keys[:-1])[: len(keys)]]
        count = self.kernels.stale_below(trees, some, stale, self.stack)
        for tower in self.state.towers:
            tower.kernels.renew(tower.parts, tower.lcs, trees, stale, count)

    def _trees(self) -> Trees:
        """The trees, with room for all slots and keys."""
        trees, slots, keys = self.trees, self.state.slots, self.state.keys
        if len(trees.left) < slots or len(trees.root) < keys:
            left, right, stale = (longer(array, slots, 0) for array in trees[:3])
            self.trees = Trees(left, right, stale, longer(trees.root, keys))
        return self.trees
