# SPDX-License-Identifier: Apache-2.0
"""Windows that begin and end at rows: every row is a slice of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from windrow.errors import DeltaOrderError
from windrow.kernels.slices.layout import FOREVER, NONE, UNSET, RowOrder, TimeSlides
from windrow.operator.plan import Eviction, GroupedRows, Ints, Placing, Plan
from windrow.operator.slicers.base import Slicer
from windrow.query.bound import BoundQuery
from windrow.windows import DeltaWindow, SlideByTime, SlideByTuple

if TYPE_CHECKING:
    from windrow.operator.slices import SliceTable


class EachRowSlicer(Slicer):
    """Every row is a slice. It remembers the rows of the last placing: they are what triggers windows."""

    def __init__(self) -> None:
        super().__init__()
        nothing = np.empty(0, dtype=np.int64)
        self.rows = RowOrder(nothing, nothing, nothing)
        self.slots = nothing

    def placing(self, table: SliceTable, rows: GroupedRows, slots: Ints) -> Placing:
        self.rows, self.slots = rows.by_key, slots
        return Placing(table.kernels.place_each, self.rows)

    def closed(self, key: int, reached: int) -> Any:
        return np.inf


class TupleSlicer(EachRowSlicer):
    """Slide-by-tuple: every so many rows, the rows of a length of time."""

    evicts_by_time = True

    def __init__(self, window: SlideByTuple) -> None:
        super().__init__()
        self.window = window
        self.position = np.empty(0, dtype=np.int64)

    def placing(self, table: SliceTable, rows: GroupedRows, slots: Ints) -> Placing:
        self.position = np.empty(len(slots), dtype=np.int64)
        table.kernels.number(rows.by_key.keys, self.counter("seen"), self.position)
        return super().placing(table, rows, slots)

    def plan(self, table: SliceTable, keys: Ints, watermark: int) -> Plan:
        arguments = (self.rows, self.position, self.slots, self.window.range, self.window.slide)
        return Plan(table.kernels.plan_tuple_slides, self.rows.order, arguments)

    def eviction(self, table: SliceTable, keys: Ints, watermark: int) -> Eviction:
        bound = np.array([watermark - self.window.range + 1], dtype=np.int64)
        return Eviction(table.kernels.evict_below, (keys, bound))

    def empty_at(self, stops: Ints) -> Ints:
        empty: Ints = stops + self.window.range
        return empty


class TimeSlideSlicer(EachRowSlicer):
    """Slide-by-time: every length of time, so many rows."""

    def __init__(self, window: SlideByTime) -> None:
        super().__init__()
        self.window = window

    def plan(self, table: SliceTable, keys: Ints, watermark: int) -> Plan:
        return self._plan(table, keys, watermark, self.counter("held"))

    def plan_unfinished(self, table: SliceTable, keys: Ints, time: int) -> Plan:
        return self._plan(table, keys, FOREVER, self.counter("held").copy())

    def future(self, table: SliceTable, keys: Ints) -> Plan:
        return self.plan_unfinished(table, keys, FOREVER)

    def _plan(self, table: SliceTable, keys: Ints, watermark: int, held: Ints) -> Plan:
        window = TimeSlides(self.window.range, self.window.slide, self.window.offset, table.fold)
        return Plan(table.kernels.plan_time_slides, keys, (watermark, held, window))

    def eviction(self, table: SliceTable, keys: Ints, watermark: int) -> Eviction:
        return Eviction(table.kernels.evict_before_lo, (keys,))

    def restored(self, table: SliceTable) -> None:
        """State that was written before such rows were folded has no ids of windows: they follow from the last row."""
        slides, window = table.slides, self.window
        back = slides.back[0]
        unknown = (back != NONE) & (slides.following[0] == UNSET)
        last = table.slices.stamp[back[unknown]]
        slides.following[0, unknown] = (last - window.offset) // window.slide + 2


class DeltaSlicer(EachRowSlicer):
    """Delta: whenever an attribute has grown by so much, the rows of a range of the attribute."""

    def __init__(self, window: DeltaWindow, bound: BoundQuery) -> None:
        super().__init__()
        self.window, self.bound = window, bound
        self.stamps = np.float64 if pa.types.is_floating(bound.bound_type) else np.int64

    def placing(self, table: SliceTable, rows: GroupedRows, slots: Ints) -> Placing:
        attribute = self.bound.deltas(rows.data)[rows.by_key.order]
        return super().placing(table, rows._replace(by_key=rows.by_key._replace(axis=attribute)), slots)

    def counter(self, name: str) -> NDArray[Any]:
        return self.counter_of(name, (3,), self.stamps) if name == "trigger" else super().counter(name)

    def plan(self, table: SliceTable, keys: Ints, watermark: int) -> Plan:
        length, slide = self.stamps(self.window.range), self.stamps(self.window.slide)
        arguments = (self.rows, self.slots, length, slide, self.counter("trigger"))
        return Plan(table.kernels.plan_deltas, self.rows.order, arguments, refusal=self._decreased)

    def _decreased(self, position: int) -> DeltaOrderError:
        before = self.counter("trigger")[2, self.rows.keys[position]]
        return DeltaOrderError(
            f"attribute {self.window.attribute!r} of DeltaWindow fell from {before} to {self.rows.axis[position]} "
            "(rows in order of time); it must never decrease"
        )

    def eviction(self, table: SliceTable, keys: Ints, watermark: int) -> Eviction:
        window, trigger = self.window, self.counter("trigger")
        bounds = np.maximum(trigger[2], trigger[1] + window.slide) - window.range
        bounds[trigger[0] == 0] = UNSET
        return Eviction(table.kernels.evict_below, (keys, bounds))
