"""Windows that late rows correct: ``late="update"``.

A late row changes a slice in the middle of windows that have been emitted. The running ``lcs`` and ``csa``
of the other disciplines know only the newest window, so here every run is also kept in a finger B-tree
(:class:`~windrow.algorithms.fiba.FiBA`): a late row costs O(log n) combines, and so does each window that it
corrects. Slices stay until no row that is still accepted can fall into their windows. If the order of rows
matters to an aggregate, every time that occurs is a slice of its own, so that a late row finds its place.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from windrow.aggregates import arrow
from windrow.algorithms.fiba import FiBA
from windrow.bound import BoundQuery
from windrow.disciplines import InTime, Rows
from windrow.kernels.layout import FOREVER, NONE, Runs, Windows
from windrow.runs import Due, Ints, Results, State, Tower


class Revised(InTime):
    """Time windows over slices that may still change after they were emitted."""

    def __init__(self, bound: BoundQuery, windows: list[Any]) -> None:
        super().__init__(bound, windows)
        if not all(monoid.commutative for monoid in bound.monoids.values()):
            self.cut_every, self.cut_at = np.array([1], dtype=np.int64), np.array([0], dtype=np.int64)
        self.trees: dict[tuple[int, str], FiBA] = {}

    def attach(self, state: State) -> None:
        super().attach(state)
        state.slide = self.slide

    def revise(self, rows: Rows, watermark: int) -> list[Due]:
        """Take rows, and give the windows that had been emitted (they end by the watermark) with their new
        results."""
        state = self.state
        self.pass_over(watermark)
        fresh = State(
            [Tower(t.name, t.monoid, t.columns, state.compiled) for t in state.towers],
            self.windows,
            compiled=state.compiled,
        )
        fresh.ensure_keys(state.keys)
        self.state = fresh
        try:
            slot = self.take(rows)
        finally:
            self.state = state
        for tower in fresh.towers:
            tower.absorb(rows.data, slot)
        corrected: set[tuple[int, int, int]] = set()
        for key in np.unique(rows.keys).tolist():
            slots = fresh.run(key)
            stamps = fresh.runs.stamp[slots]
            self._join(fresh, key, slots, stamps)
            for which in range(self.windows):
                last_due = (watermark - self.offsets[which] - self.ranges[which]) // self.every[which]
                first = (stamps - self.offsets[which] - self.ranges[which]) // self.every[which] + 1
                last = np.minimum((stamps - self.offsets[which]) // self.every[which], last_due)
                for begin, end in zip(first.tolist(), last.tolist(), strict=True):
                    corrected.update((key, which, k) for k in range(begin, end + 1))
        return [self._corrected(sorted(corrected))] if corrected else []

    def _join(self, fresh: State, key: int, slots: Ints, stamps: Ints) -> None:
        """Slices of new rows into the run of a key and into its trees."""
        keys = np.full(len(slots), key)
        own = super().take(Rows(None, stamps, keys, np.arange(len(slots)), keys, stamps))
        for tower, new in zip(self.state.towers, fresh.towers, strict=True):
            incoming = tuple(part[slots] for part in new.parts)
            tower.kernels.absorb_partials(tower.parts, own, incoming)
            self._tree(key, tower).bulk_insert(stamps.tolist(), [new.partial(slot) for slot in slots])

    def _tree(self, key: int, tower: Tower) -> FiBA:
        tree = self.trees.get((key, tower.name))
        if tree is None:
            tree = self.trees[key, tower.name] = FiBA(tower.monoid, compiled=self.state.compiled)
        return tree

    def slide(self, state: State, windows: Windows, count: int) -> Results:
        """The results of windows, each by a range query."""
        bounds = list(
            zip(
                windows.key[:count].tolist(),
                windows.start[:count].tolist(),
                windows.end[:count].tolist(),
                strict=True,
            )
        )
        results = {}
        for tower in state.towers:
            out = np.zeros(count, dtype=arrow.physical_dtype(tower.monoid.output))
            ok = np.zeros(count, dtype=np.bool_)
            for position, (key, start, end) in enumerate(bounds):
                partial = self._tree(key, tower).range_query(start, end)
                ok[position] = tower.monoid.defined is None or tower.monoid.defined(partial)
                if ok[position]:
                    out[position] = tower.lowered(partial)
            results[tower.name] = out, ok
        return results

    def _corrected(self, windows: list[tuple[int, int, int]]) -> Due:
        key, which, k = (np.array(column, dtype=np.int64) for column in zip(*windows, strict=True))
        start = k * self.every[which] + self.offsets[which]
        end = start + self.ranges[which]
        listed = Windows(key, which, start, end, None, None, None, None, None)
        results = self.slide(self.state, listed, len(key))
        return Due(key, which, start, end, np.ones(len(key), dtype=np.int64), results)

    def pass_over(self, watermark: int) -> None:
        """Windows that end by the watermark have been emitted, or are corrections from now on: none of them
        is new."""
        if watermark > -FOREVER:
            passed = (watermark - self.offsets - self.ranges) // self.every + 1
            np.maximum(self.state.slides.following, passed[:, None], out=self.state.slides.following)

    def evict(self, keys: Ints, watermark: int) -> None:
        """Let slices go that only windows hold which no accepted row can reach."""
        self.pass_over(watermark)
        reached = watermark - self.bound.query.lateness if watermark < FOREVER else FOREVER
        first = (reached - self.offsets - self.ranges) // self.every + 1
        bound = int((first * self.every + self.offsets).min())
        evict = self.state.kernels.evict_below

        def evicted(runs: Runs, slides: Any) -> None:
            evict(runs, slides, keys, np.array([bound], dtype=np.int64))

        self.state.evict(evicted)
        for tree in self.trees.values():
            tree.evict_before(bound)

    def closed(self, key: int, reached: int) -> int:
        """No slice: a late row may change any of them."""
        return -FOREVER

    def forget(self, numbers: Ints) -> None:
        super().forget(numbers)
        for key in numbers.tolist():
            for tower in self.state.towers:
                self.trees.pop((key, tower.name), None)

    def restored(self) -> None:
        """Make the trees again from the runs."""
        for key in np.flatnonzero(self.state.runs.first != NONE).tolist():
            slots = self.state.run(key)
            for tower in self.state.towers:
                self._tree(key, tower).bulk_insert(
                    self.state.runs.stamp[slots].tolist(), [tower.partial(slot) for slot in slots]
                )
