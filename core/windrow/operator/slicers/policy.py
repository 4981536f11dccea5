# SPDX-License-Identifier: Apache-2.0
"""Windows whose beginning the user's own invariants decide."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from windrow.kernels.slices.layout import FOREVER, NONE, UNFOLD, DueWindows, Slices, Slides
from windrow.operator.plan import Eviction, Ints, Plan
from windrow.operator.policy_compiled import CompiledPolicy
from windrow.operator.policy_forest import PolicyForest
from windrow.operator.policy_search import Folded, PolicySearch
from windrow.operator.slicers.each_row import EachRowSlicer
from windrow.windows import PolicyWindow

if TYPE_CHECKING:
    from windrow.operator.partials import FinalAggregation
    from windrow.operator.slices import SliceTable


MANY = 1 << 16
"""After so many rows it is worth to compile the policy: that takes some seconds, once for each machine."""


class PolicySlicer(EachRowSlicer):
    """After each row, evict as the user's invariants say, then emit (section 5.2 of the A²MTA thesis).

    The functions are called from Python at first. When there are many rows, they are compiled, if they can be.

    The counter ``evicted`` is the position of each key's first slice in its forest.
    """

    def __init__(self, window: PolicyWindow) -> None:
        super().__init__()
        self.window = window
        self.forest = PolicyForest(compiled=False)
        self.groups = self.left = np.empty(0, dtype=np.int64)
        self._seen, self._tried = 0, False
        self._compiled: CompiledPolicy | None = None

    def aggregation(self, named: FinalAggregation | None, *, compiled: bool) -> PolicyForest:
        """What computes the results of these windows. Called once, before the first row."""
        self.forest = PolicyForest(named, compiled=compiled)
        return self.forest

    def plan(self, table: SliceTable, keys: Ints, watermark: int) -> Plan:
        order, rows = self.rows.order, self.rows.keys
        starts = np.flatnonzero(np.append(True, rows[1:] != rows[:-1])) if len(rows) else order[:0]
        self.groups, counts = rows[starts], np.diff(np.append(starts, len(rows)))
        self.forest.enter(table, self.groups, self.counter("evicted"), self.before(table, self.groups))
        self.forest.enrol(table, self.groups, counts, self.slots[order])
        self.left = np.repeat(starts + counts, counts) - np.arange(len(rows))
        self._seen += len(order)
        if self._seen >= MANY and not self._tried:
            self._tried, self._compiled = True, CompiledPolicy.of(table, self.window, self.forest)
        search = PolicySearch(table, self.window, self.forest)
        return Plan(self._list, order, (search,), room=max(len(order), 1))

    def before(self, table: SliceTable, keys: Ints) -> Ints | int:
        """How many slices the state has before the windows of some keys."""
        return 0

    def _list(
        self, slices: Slices, slides: Slides, due: DueWindows, begin: int, through: Ints, search: PolicySearch
    ) -> tuple[int, int, int]:
        """The windows of the rows from ``begin`` on. At a folded slice it stops, and is called again when that is unfolded."""
        heads = np.empty(len(through), dtype=np.int64)
        reached = begin
        try:
            while reached < len(through):
                if self._compiled is not None:
                    reached = self._compiled.enforce(reached, self.rows.keys, self.left, heads)
                if reached < len(through):
                    heads[reached] = search.enforce(int(self.rows.keys[reached]), int(self.left[reached]))
                    reached += 1
        except Folded as folded:
            if reached == begin:
                return UNFOLD, folded.slot, FOREVER
        count = reached - begin
        self._fill(slices, slides, due, begin, heads[begin:reached])
        return reached, count, FOREVER

    def _fill(self, slices: Slices, slides: Slides, due: DueWindows, begin: int, heads: Ints) -> None:
        some = slice(begin, begin + len(heads))
        keys, forest = self.rows.keys[some], self.forest.forest
        ends = forest.tail[keys] - self.left[some] + 1
        count = slice(len(heads))
        due.key[count], due.which[count], due.repeat[count] = keys, 0, 1
        due.lo[count] = forest.ring[forest.offset[keys] + (heads & (forest.room[keys] - 1))]
        due.hi[count] = self.slots[self.rows.order[some]]
        due.back[count], due.flip[count] = NONE, False
        due.start[count], due.end[count] = slices.stamp[due.lo[count]], slices.stamp[due.hi[count]]
        slides.lo[0, keys] = due.lo[count]  # of a key's rows, the last counts
        slides.front[0, keys] = slides.back[0, keys] = NONE
        self.forest.list(heads, ends)

    def eviction(self, table: SliceTable, keys: Ints, watermark: int) -> Eviction:
        self.counter("evicted")[self.groups] = self.forest.forest.head[self.groups]
        return Eviction(table.kernels.evict_before_lo, (keys,))
