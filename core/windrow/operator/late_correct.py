# SPDX-License-Identifier: Apache-2.0
"""Time windows that late rows correct in place: ``late="update"``.

A late row changes a slice in the middle of windows that have been emitted. The running ``lcs`` and ``csa`` know
only the newest window. So here the slices of a key are also a search tree (:mod:`windrow.kernels.slices.treap`),
whose aggregates take the place of ``lcs``. A late row costs O(log n) combines, and so does each window. Slices stay
until no row that is still accepted can fall into their windows. If the order of rows matters to an aggregate, every
time that occurs is a slice of its own, so that a late row finds its place.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor

import numpy as np
import pyarrow as pa

from windrow.errors import QueryError
from windrow.kernels.slices import treap
from windrow.kernels.slices.layout import FOREVER, NONE, Cuts, DueWindows, Results, Treaps
from windrow.kernels.specialise import specialise
from windrow.operator.late import LateRows
from windrow.operator.partials import AggregateState, FinalAggregation
from windrow.operator.parts import Parts
from windrow.operator.plan import Due, Eviction, GroupedRows, Ints, Placing
from windrow.operator.room import longer
from windrow.operator.slicers import TimeSlicer
from windrow.operator.slices import SliceTable
from windrow.windows import TimeWindow

DAY = 86_400_000_000
DEEPEST = 1 << 12
"""No tree of the slots that there can be gets anywhere near as deep."""


class TreapAggregation(FinalAggregation):
    """The slices of each key as a search tree, and the results of windows from it."""

    by_key = False
    tasks = 0

    def __init__(self, *, compiled: bool) -> None:
        self.kernels = specialise(treap, {}, compiled=compiled)
        nothing = np.empty(0, dtype=np.int32)
        self.treaps = Treaps(nothing, nothing, np.empty(0, dtype=np.uint8), nothing)
        self.stack = np.empty(DEEPEST, dtype=np.int32)

    def results(
        self, table: SliceTable, due: DueWindows, count: int, pool: Executor | None
    ) -> dict[str, Results]:
        return self.search(table, due.key[:count], due.start[:count], due.end[:count])

    def search(self, table: SliceTable, key: Ints, start: Ints, end: Ints) -> dict[str, Results]:
        """The results of windows, each from its key's tree."""
        return {state.name: self._found(table, state, key, start, end) for state in table.aggregates}

    def rearranged(self, table: SliceTable, key: int, gone: Ints, new: Ints) -> None:
        marked = self.kernels.uproot(table.slices, self._grown(table), key, gone)
        self.plant(table, np.full(len(new), key), new, marked)

    def restored(self, table: SliceTable) -> None:
        self.thawed(table, np.flatnonzero(table.slices.first != NONE))

    def thawed(self, table: SliceTable, keys: Ints) -> None:
        slices = table.slices
        lengths, slots = np.zeros(len(keys), np.int64), np.empty(int(slices.held[keys].sum()), np.int64)
        table.kernels.walk(slices, keys, lengths, slots)
        self.plant(table, np.repeat(keys, lengths), slots)

    def renumbered(self, table: SliceTable) -> None:
        nothing = np.empty(0, dtype=np.int32)
        self.treaps = Treaps(nothing, nothing, np.empty(0, dtype=np.uint8), nothing)
        self.restored(table)

    def forget(self, keys: Ints) -> None:
        root = self.treaps.root
        root[keys[keys < len(root)]] = NONE

    def seek(self, table: SliceTable, rows: GroupedRows) -> None:
        """Set the cursor of each key to where its first row belongs, which may be anywhere."""
        by_key = rows.by_key
        self.kernels.seek(table.slices, self._grown(table), by_key.keys, by_key.axis)

    def cut(self, table: SliceTable, keys: Ints, bound: int) -> None:
        """Take the slices before a bound, which are about to be evicted, out of the trees."""
        self.kernels.cut(table.slices, self._grown(table), keys, bound)

    def folded_at(self, table: SliceTable, key: Ints, start: Ints) -> int:
        """A folded slice inside which one of these windows begins; NONE if there is none."""
        return int(self.kernels.page_at(table.slices, self.treaps, key, start))

    def holds(self, table: SliceTable, key: Ints, start: Ints, end: Ints) -> Ints:
        """For each window 1 if the trees hold a slice of it, else 0. New slices are not in them yet."""
        found = np.empty(len(key), dtype=np.int64)
        self.kernels.holds(table.slices, self._grown(table), key, start, end, found)
        return found

    def plant(self, table: SliceTable, keys: Ints, slots: Ints, marked: int = 0) -> None:
        """Put slices that are new or have changed into the trees and renew the aggregates above them.

        The slices of a key lie side by side. ``marked`` nodes are out of date already.
        """
        treaps = self._grown(table)
        marked += self.kernels.plant(table.slices, treaps, keys, slots)
        stale = np.empty(marked, dtype=np.int32)
        some = keys[np.append(True, keys[1:] != keys[:-1])[: len(keys)]]
        count = self.kernels.stale_below(treaps, some, stale, self.stack)
        for state in table.aggregates:
            state.combine.renew(state.partials.parts, state.partials.lcs, treaps, stale, count)

    def _found(self, table: SliceTable, state: AggregateState, key: Ints, start: Ints, end: Ints) -> Results:
        results = state.room(len(key))
        with state.no_overflow():
            state.combine.search(
                state.own_scratch(), self.treaps, table.slices.stamp, key, start, end, results
            )
        return results

    def _grown(self, table: SliceTable) -> Treaps:
        """The trees, with room for all slots and keys."""
        treaps, slots, keys = self.treaps, table.slot_room, table.key_room
        if len(treaps.left) < slots or len(treaps.root) < keys:
            left, right, stale = (longer(array, slots, 0) for array in treaps[:3])
            self.treaps = Treaps(left, right, stale, longer(treaps.root, keys))
        return self.treaps


class CorrectedTimeSlicer(TimeSlicer):
    """Time windows over slices that may still change after they were emitted."""

    late_slices = True
    idle_until_wake = False

    def __init__(
        self, windows: list[TimeWindow], treaps: TreapAggregation, *, lateness: int, whole_slices: bool
    ) -> None:
        super().__init__(windows)
        self.treaps, self.lateness = treaps, lateness
        if not whole_slices:
            self.cuts = Cuts(np.array([1], dtype=np.int64), np.array([0], dtype=np.int64))

    def placing(self, table: SliceTable, rows: GroupedRows, slots: Ints) -> Placing:
        rows = self.on_axis(rows)
        self.treaps.seek(table, rows)
        return self.placing_on(table, rows.by_key)

    def eviction(self, table: SliceTable, keys: Ints, watermark: int) -> Eviction:
        """Slices go that only windows hold which no accepted row can reach."""
        self.pass_over(table, watermark)
        reached = watermark - self.lateness if watermark < FOREVER else FOREVER
        bound = np.array([self.grid.start(self.grid.first_window(self.place(reached))).min()], dtype=np.int64)
        self.treaps.cut(table, keys, bound[0])
        return Eviction(table.kernels.evict_below, (keys, bound))

    def stages(self, table: SliceTable, keys: Ints, windows: int) -> list[int]:
        return []

    def empty_at(self, stops: Ints) -> Ints:
        changes = 0 if self.calendar is None else DAY  # clocks may be changed in between
        return super().empty_at(stops) + self.lateness + changes

    def pass_over(self, table: SliceTable, watermark: int) -> None:
        """Windows that end by the watermark were emitted. If they change from now on, that is a correction."""
        if watermark > -FOREVER:
            passed = self.grid.first_window(self.place(watermark))
            np.maximum(table.slides.following, passed[:, None], out=table.slides.following)

    def corrected(self, keys: Ints, stamps: Ints, watermark: int) -> tuple[Ints, Ints, Ints, Ints]:
        """Key, window, start and end of the emitted windows over changed slices, of each key in the order of time."""
        found, watermark = [], self.place(watermark)
        same_key = np.append(False, keys[1:] == keys[:-1])
        for number, (length, slide, offset) in enumerate(zip(*self.grid, strict=True)):
            last = np.minimum(stamps - offset, watermark - offset - length) // slide
            first = (stamps - offset - length) // slide + 1
            first = np.where(same_key, np.maximum(first, np.append(0, last[:-1]) + 1), first)
            count = np.maximum(last - first + 1, 0)
            nth = np.arange(count.sum()) - np.repeat(np.cumsum(count) - count, count)
            start = (np.repeat(first, count) + nth) * slide + offset
            found.append((np.repeat(keys, count), np.full(len(start), number), start, start + length))
        key, which, start, end = (np.concatenate(column) for column in zip(*found, strict=True))
        return key, which, start, end


class CorrectInPlace(LateRows):
    """Windows are emitted as soon as the watermark reaches their end, and again when a late row changes them.

    A window that a late row makes first is final; one that had come out before is an update.
    """

    behind = 0

    def __init__(self, parts: Parts, slicer: CorrectedTimeSlicer, treaps: TreapAggregation) -> None:
        self.parts, self.slicer, self.treaps = parts, slicer, treaps
        self.watermark = -FOREVER

    def accept(self, rows: pa.Table, times: Ints) -> pa.Table:
        return self._accept(rows, times, self.parts.table.take)

    def accept_partials(self, partials: pa.Table, times: Ints) -> pa.Table:
        if self.parts.order_matters:
            raise QueryError(
                "process_partials() with late='update' needs commutative aggregates: call process() with rows instead"
            )
        return self._accept(partials, times, self.parts.table.take_partials)

    def _accept(self, data: pa.Table, times: Ints, take: Callable[[GroupedRows], Ints]) -> pa.Table:
        table = self.parts.table
        grouped = table.read(data, times)
        table.ensure_keys()
        self.slicer.pass_over(table, self.watermark)
        return self._corrected(grouped, take(grouped))

    def advance(self, watermark: int) -> pa.Table:
        self.watermark = watermark
        return self.parts.output.table(self.parts.table.slide(self.parts.keys.order, watermark), "final")

    def unfinished(self, watermark: int) -> pa.Table:
        return self.parts.unfinished(watermark)

    def restored(self, watermark: int) -> None:
        self.watermark = watermark

    def _corrected(self, rows: GroupedRows, slots: Ints) -> pa.Table:
        """The windows that had been emitted and have changed, with their new results."""
        table = self.parts.table
        grouped = slots[rows.by_key.order]  # rows of one slice lie side by side
        changed = np.flatnonzero((grouped != NONE) & (np.append(NONE, grouped[:-1]) != grouped))
        keys, some = rows.by_key.keys[changed], grouped[changed]
        key, which, start, end = self.slicer.corrected(keys, table.slices.stamp[some], self.watermark)
        known = self.treaps.holds(table, key, start, end)
        self.treaps.plant(table, keys, some)
        if not len(key):
            return self.parts.output.empty
        while (slot := self.treaps.folded_at(table, key, start)) != NONE:
            table.unfold(slot)
        results = self.treaps.search(table, key, start, end)
        due = Due(key, which, start, end, np.ones(len(key), dtype=np.int64), results)
        updated = self.parts.output.table([due.cut(known)], "update")
        if known.all():
            return updated
        made = self.parts.output.table([due.cut(1 - known)], "final")
        return self.parts.bound.sort(pa.concat_tables([updated, made]))
