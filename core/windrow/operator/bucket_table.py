# SPDX-License-Identifier: Apache-2.0
"""A slice table whose closed slices are merged into buckets, and the slicers that leave buckets whole."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from windrow.approximate.promise import no_rest, promise_of
from windrow.approximate.within import AtMost
from windrow.kernels.slices import buckets
from windrow.kernels.slices.bucket_layout import MANY
from windrow.kernels.slices.layout import FOREVER, NONE
from windrow.kernels.specialise import specialise
from windrow.operator.bucket_state import BucketAggregation, BucketState
from windrow.operator.folding import give_back
from windrow.operator.plan import Due, Eviction, Ints
from windrow.operator.slicers.fixed import CountSlicer, FixedSlicer, TimeSlicer
from windrow.operator.slicers.policy import PolicySlicer
from windrow.operator.slices import SliceTable
from windrow.query.bound import BoundQuery
from windrow.windows import CountWindow, TimeWindow

PIECE = 1 << 12
"""So many rows of a count window become slices at a time, before slices are merged again."""
FEW = 16
"""So many slices more than after the last time are not worth merging."""
LEAVES = "leaves"
"""The counter of how many slices a key had when they were merged last."""


class BucketTable(SliceTable):
    """Merges closed slices into buckets, whenever a key has a quarter more of them than after the last time."""

    def __init__(self, bound: BoundQuery, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        within = bound.query.within
        assert within is not None
        self.within = within
        self.buckets = specialise(buckets, {}, compiled=self.compiled)
        self.states = [state for state in self.aggregates if isinstance(state, BucketState)]
        self.promise = promise_of(
            within,
            list(bound.buckets.values()),
            counting=isinstance(self.slicer, CountSlicer),
            searched=isinstance(self.slicer, PolicySlicer),
        )
        self.most = within.leaves or 0
        self.rest = no_rest(len(self.states))
        self.found: list[Due] = []

    def settle(self, data: pa.Table, times: Ints, keys: Ints) -> Ints:
        """Take rows in small pieces: windows are made, and slices merged, after each. The last one is left to ``slide``."""
        if not isinstance(self.slicer, ApproximateCountSlicer | ApproximatePolicySlicer):
            return super().settle(data, times, keys)
        begin, end = 0, self._end_of_piece(keys, 0, self.slicer)
        while end < len(keys):
            piece = slice(begin, end)
            super().settle(data[piece], times[piece], keys[piece])
            self.found += self._slide_and_merge(self._present(keys[piece]), FOREVER)
            begin, end = end, self._end_of_piece(keys, end, self.slicer)
        piece = slice(begin, end) if begin else slice(None)
        return super().settle(data[piece], times[piece], keys[piece])

    def _end_of_piece(
        self, keys: Ints, begin: int, slicer: ApproximateCountSlicer | ApproximatePolicySlicer
    ) -> int:
        """How far rows can be taken so that no key has more leaves than it may have, before slices are merged again."""
        end = min(begin + PIECE, len(keys))
        if not self.most or begin == end:
            return end
        self.ensure_keys()
        some = keys[begin:end]
        present = self._present(some)
        held = self.slices.held[present]
        if held.max() >= self.most:
            self._thin(present, FOREVER)
            held = self.slices.held[present]
        room = [slicer.rows_into(free) for free in (self.most - held).tolist()]
        if len(room) == 1:
            return min(end, begin + room[0])
        order = np.argsort(some, kind="stable")
        first = np.searchsorted(some[order], present)
        counts = np.diff(np.append(first, len(some)))
        over = np.arange(len(some)) - np.repeat(first, counts) >= np.repeat(room, counts)
        return begin + int(order[over].min(initial=len(some)))

    def slide(self, keys: Ints, watermark: int) -> list[Due]:
        found, self.found = self.found, []
        due = found + self._slide_and_merge(keys, watermark)
        if self.paging is not None:  # what merging does to windows does not follow from the watermark
            for each in due:
                self.paging.touch(np.unique(each.key).tolist())
        return due

    def catch_up(self, reached: int) -> None:
        self.slid = reached

    def unfinished(self, keys: Ints, time: int) -> list[Due]:
        assert isinstance(self.final, BucketAggregation)
        self.final.peek(self, begin=True)
        due = super().unfinished(keys, time)
        self.final.peek(self, begin=False)
        return due

    def _present(self, keys: Ints) -> Ints:
        """The keys that some rows have."""
        return keys[:1] if self.keys.count == 1 else np.unique(keys)

    @property
    def leaves(self) -> Ints:
        """How many leaves each key has."""
        held: Ints = self.slices.held[self.keys.order]
        return held

    def _slide_and_merge(self, keys: Ints, watermark: int) -> list[Due]:
        due = super().slide(keys, watermark)
        self._thin(keys, watermark)
        return due

    def _thin(self, keys: Ints, watermark: int) -> None:
        """Merge the slices of keys that have many more than after the last time."""
        leaves, held = self.slicer.counter(LEAVES), self.slices.held[keys]
        leaves[keys[held == 0]] = 0
        many = held > leaves[keys] + np.maximum(FEW, leaves[keys] // 4)
        if self.most:
            full = held >= self.most
            many = full if isinstance(self.within, AtMost) else many | full
        grown = keys[many]
        if not len(grown):
            return
        room = int(self.slices.held[grown].sum())
        into, gone = np.empty(room, dtype=np.int64), np.empty(room, dtype=np.int64)
        dims = tuple(state.partials.parts for state in self.states)
        assert isinstance(
            self.slicer, ApproximateTimeSlicer | ApproximateCountSlicer | ApproximatePolicySlicer
        )
        closed = self.slicer.closing(self, watermark)
        count = self.buckets.thin(
            self.slices, self.slides, grown, closed, dims, self.promise, self.rest, self.most, into, gone
        )
        leaves[grown] = self.slices.held[grown]
        if count:
            for state in self.aggregates:
                if not isinstance(state, BucketState):
                    state.merge_slices(into[:count], gone[:count])
            give_back(self, gone[:count])
            self.final.forget(grown)  # a forest has its slices at other positions
        if self.paging is not None:
            self.paging.touch(grown.tolist())


class ApproximateTimeSlicer(TimeSlicer):
    """Time windows over buckets. Slices that the watermark has passed may be merged."""

    merges = True

    def __init__(self, windows: list[TimeWindow]) -> None:
        super().__init__(windows)

    def eviction_below(self, table: SliceTable, keys: Ints, limit: Ints) -> Eviction:
        return _eviction(self, table, keys, limit)

    def closing(self, table: SliceTable, watermark: int) -> Ints:
        """Slices before here take no more rows, for each key or for all."""
        return np.array([watermark if watermark >= FOREVER else self.cut(watermark)], dtype=np.int64)

    def closed(self, key: int, reached: int) -> int:
        return -FOREVER  # buckets are few, so they are not folded


class ApproximateCountSlicer(CountSlicer):
    """Count windows over buckets. Slices whose rows are all there may be merged."""

    merges = True

    def __init__(self, windows: list[CountWindow]) -> None:
        super().__init__(windows)

    def eviction_below(self, table: SliceTable, keys: Ints, limit: Ints) -> Eviction:
        return _eviction(self, table, keys, limit)

    def closing(self, table: SliceTable, watermark: int) -> Ints:
        """Slices before here take no more rows, for each key or for all."""
        seen = self.counters["seen"]
        cuts = seen[None, :] - (seen[None, :] - self.cuts.at[:, None]) % self.cuts.every[:, None]
        closed: Ints = cuts.max(axis=0)
        return closed

    def closed(self, key: int, reached: int) -> int:
        return -FOREVER

    def rows_into(self, slices: int) -> int:
        """So many rows of a key make at most so many slices more, and at least one row does."""
        every: Ints = self.cuts.every
        if every.max() == 1:
            return max(slices, 1)
        return max(int((slices - 1 - len(every)) / (1.0 / every).sum()), 1)


class ApproximatePolicySlicer(PolicySlicer):
    """Policy windows over buckets. A window that begins after a bucket may begin inside it, so that one bucket stays."""

    merges = True

    def before(self, table: SliceTable, keys: Ints) -> Ints | int:
        lo = table.slides.lo[0, keys]
        return ((lo != NONE) & (table.slices.first[keys] != lo)).astype(np.int64)

    def eviction(self, table: SliceTable, keys: Ints, watermark: int) -> Eviction:
        assert isinstance(table, BucketTable)
        many = table.states[0].partials.parts[MANY]
        older = table.slices.older[table.slides.lo[0, self.groups]]
        cut = (older != NONE) & (many[older] >= 0)
        self.counter("evicted")[self.groups] = self.forest.forest.head[self.groups] - cut
        return Eviction(table.buckets.evict_before_cut, (keys, many))

    def closing(self, table: SliceTable, watermark: int) -> Ints:
        """All slices are there, and none takes another row."""
        return np.array([FOREVER], dtype=np.int64)

    def closed(self, key: int, reached: int) -> int:
        return -FOREVER

    def rows_into(self, slices: int) -> int:
        """So many rows of a key make at most so many slices more, and at least one row does."""
        return max(slices, 1)


def _eviction(slicer: FixedSlicer, table: SliceTable, keys: Ints, limit: Ints) -> Eviction:
    assert isinstance(table, BucketTable)
    return Eviction(table.buckets.evict_buckets, (keys, limit, slicer.grid))
