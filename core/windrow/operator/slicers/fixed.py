# SPDX-License-Identifier: Apache-2.0
"""Time and count windows: slices are cut wherever a window starts or ends."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from windrow.columns import arrow
from windrow.kernels.slices.layout import FOREVER, NONE, Cells, Cuts, RowOrder
from windrow.operator.plan import Due, Eviction, GroupedRows, Ints, Placing, Plan
from windrow.operator.slicers.base import Slicer
from windrow.query.slicing import cuts
from windrow.windows import CountWindow, TimeWindow
from windrow.windows.grid import Grid

if TYPE_CHECKING:
    from windrow.operator.slices import SliceTable


DENSE = 4
"""Rows are dense if there are at least so many for each slice of each key."""


class FixedSlicer(Slicer):
    """Windows of fixed bounds on an axis."""

    def __init__(self, windows: list[TimeWindow] | list[CountWindow]) -> None:
        super().__init__()
        self.windows = len(windows)
        self.grid = Grid.of(windows)
        every, at = zip(*cuts(windows), strict=True)
        self.cuts = Cuts(np.array(every, dtype=np.int64), np.array(at, dtype=np.int64))
        self.gaps = bool((self.grid.slide > self.grid.range).all())

    def placing_on(self, table: SliceTable, rows: RowOrder) -> Placing:
        """Rows into slices, by where they lie on the axis."""
        return Placing(table.kernels.place_fixed, rows, (self.cuts, self.grid, self.gaps))

    def plan_below(self, table: SliceTable, keys: Ints, limit: Ints) -> Plan:
        """Windows that end at or before the limit of their key."""
        return Plan(table.kernels.plan_fixed, keys, (limit, self.grid), shareable=True)

    def eviction_below(self, table: SliceTable, keys: Ints, limit: Ints) -> Eviction:
        """Slices that no window needs which ends after the limit of its key."""
        return Eviction(table.kernels.evict_fixed, (keys, limit, self.grid))

    def cut(self, stamp: int) -> int:
        """The last place, not after this one, at which slices are cut."""
        return int((stamp - (stamp - self.cuts.at) % self.cuts.every).max())


class TimeSlicer(FixedSlicer):
    """Time windows, one or several over the same slices. Disorder inside open slices costs nothing."""

    ordered = False
    idle_until_wake = True
    alike = True

    def __init__(self, windows: list[TimeWindow]) -> None:
        super().__init__(windows)
        self.calendar = windows[0].calendar
        """Slices lie on its axis, if there is one; all windows of a query share it."""

    def place(self, time: int) -> int:
        """Where a time is on the axis of the slices."""
        return time if self.calendar is None else int(self.calendar.civil(time))

    def time_at(self, stamp: int) -> int:
        return stamp if self.calendar is None else int(self.calendar.time(stamp))

    def on_axis(self, rows: GroupedRows) -> GroupedRows:
        """Rows with their place on the axis of the slices instead of their time."""
        if self.calendar is None:
            return rows
        return rows._replace(by_key=rows.by_key._replace(axis=self.calendar.civil(rows.by_key.axis)))

    def placing(self, table: SliceTable, rows: GroupedRows, slots: Ints) -> Placing:
        rows = self.on_axis(rows)
        cursor, keys = table.slices.cursor, rows.by_key.keys
        cursor[
            keys if len(keys) < len(cursor) else slice(None)
        ] = -1  # new rows most likely belong at the end
        return self.placing_on(table, rows.by_key)

    def cells(self, times: Ints, keys: int) -> Cells | None:
        if self.gaps or len(self.cuts.every) > 1 or self.calendar is not None:
            return None
        begin, every = self.cut(int(times.min())), int(self.cuts.every[0])
        slices = (int(times.max()) - begin) // every + 1
        if DENSE * keys * slices > len(times):
            return None
        slots, rows = np.full(keys * slices, NONE, dtype=np.int32), arrow.blank(len(times), np.int64)
        return Cells(begin, every, slices, slots, rows)

    def plan(self, table: SliceTable, keys: Ints, watermark: int) -> Plan:
        limit = self.place(watermark)
        plan = self.plan_below(table, keys, np.array([limit], dtype=np.int64))
        # One window begins in each of its slices, or in every other one. Of several, one may begin in few pages.
        return plan._replace(last_begin=limit - int(self.grid.range[0])) if self.windows == 1 else plan

    def eviction(self, table: SliceTable, keys: Ints, watermark: int) -> Eviction:
        return self.eviction_below(table, keys, np.array([self.place(watermark)], dtype=np.int64))

    def future(self, table: SliceTable, keys: Ints) -> Plan:
        return self.plan(table, keys, FOREVER)

    def empty_at(self, stops: Ints) -> Ints:
        grid = self.grid
        last = (stops[:, None] - grid.offset) // grid.slide  # the id of the last window that begins by then
        ends: Ints = (last * grid.slide + grid.offset + grid.range).max(axis=1)
        return ends

    def begun(self, due: Due, time: int) -> Due:
        begun = -((due.start - self.place(time)) // self.grid.slide[due.which])
        return due.cut(np.minimum(due.repeat, begun))

    def first_end(self, time: int) -> int:
        if time == FOREVER:
            return FOREVER
        return self.time_at(int(self.grid.end(self.grid.first_window(self.place(time))).min()))

    def stages(self, table: SliceTable, keys: Ints, windows: int) -> list[int]:
        if self.calendar is not None:
            return []  # days and months are few
        last = table.slices.last[keys[table.slices.held[keys] > 0]]
        first_end = table.wake
        last_end = int(table.slices.stop[last].max() + self.grid.range.max()) if len(last) else first_end
        last_end = max(last_end, table.last_end)
        span = last_end - first_end
        count = len(keys) * sum(span // slide for slide in self.grid.slide.tolist())
        stages = min(count // windows, 1 << 10)
        return [first_end + span * stage // (stages + 1) for stage in range(1, stages + 1)]

    def closed(self, key: int, reached: int) -> int:
        return self.cut(self.place(reached))

    def slice_start(self, time: int) -> int:
        """When the slice begins that holds a time."""
        return self.time_at(self.cut(self.place(time)))


class CountSlicer(FixedSlicer):
    """Count windows: time windows on the axis of row positions, whose clock is the number of rows of the key."""

    first_window = 0
    waits_for_rows = True

    def placing(self, table: SliceTable, rows: GroupedRows, slots: Ints) -> Placing:
        if "seen" not in self.counters:
            self.counters["seen"] = np.zeros(self.keys, dtype=np.int64)
        positions = rows.by_key._replace(axis=np.empty_like(slots))
        positions.axis[:1] = NONE  # to be filled in
        arguments = (self.counters["seen"], self.cuts, self.grid, self.gaps)
        return Placing(table.kernels.place_counted, positions, arguments)

    def plan(self, table: SliceTable, keys: Ints, watermark: int) -> Plan:
        return self.plan_below(table, keys, self.counters["seen"])

    def plan_unfinished(self, table: SliceTable, keys: Ints, time: int) -> Plan:
        return self.plan_below(table, keys, np.array([FOREVER], dtype=np.int64))

    def eviction(self, table: SliceTable, keys: Ints, watermark: int) -> Eviction:
        return self.eviction_below(table, keys, self.counters["seen"])

    def closed(self, key: int, reached: int) -> Any:
        return self.cut(int(self.counters["seen"][key]))
