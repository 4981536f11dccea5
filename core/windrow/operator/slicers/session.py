# SPDX-License-Identifier: Apache-2.0
"""Session windows: each session is one slice, which grows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from windrow.kernels.slices.layout import FOREVER
from windrow.operator.plan import Eviction, GroupedRows, Ints, Placing, Plan
from windrow.operator.slicers.base import Slicer
from windrow.windows import SessionWindow

if TYPE_CHECKING:
    from windrow.operator.slices import SliceTable


class SessionSlicer(Slicer):
    """Rows of a key that are no further apart than the gap."""

    due_after = 1

    def __init__(self, window: SessionWindow) -> None:
        super().__init__()
        self.gap = window.gap

    def placing(self, table: SliceTable, rows: GroupedRows, slots: Ints) -> Placing:
        return Placing(table.kernels.place_in_sessions, rows.by_key, (self.gap,))

    def plan(self, table: SliceTable, keys: Ints, watermark: int) -> Plan:
        return Plan(table.kernels.plan_sessions, keys, (watermark, self.gap))

    def eviction(self, table: SliceTable, keys: Ints, watermark: int) -> Eviction:
        return Eviction(table.kernels.evict_below, (keys, table.slides.following[0]))

    def future(self, table: SliceTable, keys: Ints) -> Plan:
        return self.plan(table, keys, FOREVER)

    def empty_at(self, stops: Ints) -> Ints:
        empty: Ints = stops + self.gap + self.due_after
        return empty
