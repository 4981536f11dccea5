# SPDX-License-Identifier: Apache-2.0
"""What a slicer promises to the slice table that it serves."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from windrow.kernels.slices.layout import FOREVER, UNSET, Cells
from windrow.operator.plan import Due, Eviction, GroupedRows, Ints, Placing, Plan

if TYPE_CHECKING:
    from windrow.operator.slices import SliceTable


class Slicer(Protocol):
    """One kind of window over the slices of all keys: how rows become slices, and which windows are due.

    The table calls :meth:`placing` with new rows; then :meth:`plan` with a watermark that never goes back; then
    :meth:`eviction` with the same watermark. A slicer holds counters per key and nothing else about keys.
    """

    ordered: bool = True
    """Rows must come in their final order, time, then arrival. They wait in a buffer until the watermark has passed."""
    waits_for_rows: bool = False
    """Rows end windows, not the watermark: a window that has begun may stay unfinished for ever."""
    late_slices: bool = False
    """Rows may make slices in the middle of windows that were emitted."""
    idle_until_wake: bool = False
    """Before the first end of a window that is not due, there is nothing to plan and nothing to evict."""
    merges: bool = False
    """Neighbouring slices may have been merged into one that is longer than a point."""
    first_window: int = UNSET
    """The id of every key's first window; UNSET if its first row decides."""
    alike: bool = False
    """Windows are of fixed bounds in time, so that several over the same slices follow each other by the slide."""
    evicts_by_time: bool = False
    """The watermark alone evicts slices, though only rows make windows due."""
    due_after: int = 0
    """How far beyond the end of a window the watermark has to be for it to be due."""
    windows: int = 1
    """How many windows of the query share the slices."""
    stamps: Any = np.int64
    """The numpy type of the axis on which slices lie."""
    keys: int
    """For how many keys there is room."""
    counters: dict[str, NDArray[Any]]
    """Whole numbers, or values of a delta attribute, for every key. State: snapshots hold them."""

    def __init__(self) -> None:
        self.keys, self.counters = 0, {}

    def grow(self, keys: int) -> None:
        """Make room for so many keys, 64 at least. Called before any plan is made for them."""
        self.keys = keys
        self.counters = {
            name: np.append(
                counter, np.zeros((*counter.shape[:-1], keys - counter.shape[-1]), counter.dtype), -1
            )
            for name, counter in self.counters.items()
        }

    def placing(self, table: SliceTable, rows: GroupedRows, slots: Ints) -> Placing:
        """The slices that rows belong to. Called once for each batch; the table runs what is returned at once.

        ``slots`` is filled with the slot of each row, in the order of arrival, when the table has run it.
        """
        ...

    def cells(self, times: Ints, keys: int) -> Cells | None:
        """Cells for rows of so many keys, if the rows are dense and need no order. Called before rows are grouped, perhaps
        by another thread, while the table is at work."""
        return None

    def plan(self, table: SliceTable, keys: Ints, watermark: int) -> Plan:
        """The windows of these keys that are due. Called after :meth:`placing`, at every watermark."""
        ...

    def plan_unfinished(self, table: SliceTable, keys: Ints, time: int) -> Plan:
        """Windows that are not due and begin before a time. It may change the table's slides, which the table puts
        back, but no counter. Called only if the query asks for early results."""
        return self.plan(table, keys, FOREVER)

    def begun(self, due: Due, time: int) -> Due:
        """Those of the unfinished windows that begin before a time. Called after :meth:`plan_unfinished`."""
        return due

    def eviction(self, table: SliceTable, keys: Ints, watermark: int) -> Eviction:
        """The slices that no window at or after this watermark needs. Called after the plan has run."""
        ...

    def first_end(self, time: int) -> int:
        """The end of the first window that a row at this time is in, if time alone decides it."""
        return FOREVER

    def place(self, time: int) -> int:
        """Where a time is on the axis of the slices, if that is one of time."""
        return time

    def time_at(self, stamp: int) -> int:
        """The time of a place on the axis of the slices, if that is one of time. Called with the end of a window."""
        return stamp

    def stages(self, table: SliceTable, keys: Ints, windows: int) -> list[int]:
        """Watermarks on the way to the end of a stream, so that about so many windows are due at each."""
        return []

    def future(self, table: SliceTable, keys: Ints) -> Plan | None:
        """All windows of these keys that the watermark alone will make due; none if only rows do that.

        It may change the table's slides, which the caller puts back, but no counter. Called when keys are frozen.
        """
        return None

    def empty_at(self, stops: Ints) -> Ints:
        """The watermark at which a key without further rows loses its last slice, which ends at this stop; FOREVER if
        it keeps it. Called when keys are frozen."""
        return np.full(len(stops), FOREVER)

    def closed(self, key: int, reached: int) -> Any:
        """Slices of this key before here take no more rows, and no window will end inside them. They may be folded."""
        return -FOREVER

    def restored(self, table: SliceTable) -> None:
        """Called once, after the state was loaded from a snapshot or a store."""
        return

    def counter(self, name: str) -> NDArray[Any]:
        """The counter of this name, with an entry for every key. It begins with zeros."""
        return self.counter_of(name, (), np.int64)

    def counter_of(self, name: str, shape: tuple[int, ...], dtype: Any) -> NDArray[Any]:
        """A counter with an array of this shape for every key; keys are the last axis."""
        if name not in self.counters:
            self.counters[name] = np.zeros((*shape, self.keys), dtype=dtype)
        return self.counters[name]
