# SPDX-License-Identifier: Apache-2.0
"""The state of a function of whole windows: the rows that windows need, and the extent of every slice in them.

The partial of a slice is its extent, the positions of its rows in the row store. The rows of neighbouring slices lie
side by side. So a window's rows are those from the first position of its first slice to the last one of its last
slice, and nothing is combined. The function then gets views of these rows.

This is the agnostic worker model of De Matteis and Mencagli (*Parallel Patterns for Window-based Stateful Operators on
Data Streams*, 2017): whoever computes a window sees all of its rows, shares them with others, and knows nothing of
windows. The operator is the emitter, which owns the rows and hands out windows that are due.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from windrow.aggregates.algebra import Field, Monoid
from windrow.aggregates.whole import Extents, FunctionFailed, WholeWindow, failure
from windrow.columns import arrow
from windrow.errors import AggregateError
from windrow.kernels.slices.layout import NONE, DueWindows, Results, RowOrder, Slices
from windrow.operator.partials import AggregateState
from windrow.operator.plan import Ints
from windrow.operator.row_store import RowStore
from windrow.operator.workers import ComputesWindows

if TYPE_CHECKING:
    from windrow.operator.slices import SliceTable

FAR = 1 << 62
"""Where the extent of a slice without rows begins, until it has one."""


class ExtentState(AggregateState):
    """The extents of all slices for one function of whole windows, and the rows that they lie in."""

    def __init__(
        self,
        name: str,
        whole: WholeWindow,
        columns: tuple[str, ...],
        monoid: Monoid,
        *,
        windows: int,
        compiled: bool,
        workers: ComputesWindows,
        shown: Callable[[Any, Any], tuple[str, str]],
    ) -> None:
        super().__init__(name, _extent(monoid), columns, windows, compiled)
        self.whole, self.workers, self.shown = whole, workers, shown
        dtypes = [arrow.physical_dtype(type_) for type_ in whole.stored]
        self.rows = RowStore(dtypes, compiled=compiled)

    def grow_slots(self, old: int, room: int) -> None:
        grown = (np.full(room, identity, np.int64) for identity in self.monoid.identity)
        parts = tuple(grown)
        for new, known in zip(parts, self.partials.parts, strict=True):
            new[:old] = known
        self.partials = self.partials._replace(parts=parts)

    def renumber(self, slots: Ints, old: int, room: int) -> None:
        parts = tuple(np.full(room, identity, np.int64) for identity in self.monoid.identity)
        for new, known in zip(parts, self.partials.parts, strict=True):
            new[: len(slots)] = known[slots]
        self.partials = self.partials._replace(parts=parts)

    def shrink(self, slices: Slices) -> None:
        self.rows.shrink(lambda keys: self.needed(slices, keys))

    def grow_keys(self, old: int, room: int) -> None:
        self.rows.grow_keys(room)

    def absorb(
        self, columns: Mapping[str, arrow.Physical], slots: Ints, rows: RowOrder | None, slices: Slices
    ) -> None:
        assert rows is not None, "rows of whole windows are taken in their order"
        values, valid = self.read(columns, self.whole.keeps_nulls)
        self.rows.make_room(rows.keys, lambda keys: self.needed(slices, keys))
        self.rows.append(rows, slots, values, valid, self.partials.parts)

    def results(self, table: SliceTable, due: DueWindows, count: int) -> Results:
        keys, which = due.key[:count], due.which[:count]
        order = np.lexsort((which, keys)) if table.slicer.windows > 1 else slice(None)
        lo, hi = self.rows.extents(keys, due.lo[:count], due.hi[:count], self.partials.parts, self.name)
        windows = Extents(self.rows.columns, lo[order], hi[order])
        results = self.room(count)
        try:
            self.workers.compute(self.whole, windows, results)
        except FunctionFailed as failed:
            window = int(np.arange(count)[order][failed.window])
            raise self._failed(table, due, window, failed.cause) from failed.cause
        if isinstance(order, slice):
            return results
        placed = Results(np.empty_like(results.out), np.empty_like(results.ok))
        placed.out[order], placed.ok[order] = results
        return placed

    def room(self, count: int) -> Results:
        return Results(_room(count, self.whole.dtype), np.zeros(count, np.bool_))

    def written(self, slots: Ints, lengths: Ints | None) -> tuple[Any, ...]:
        lo, hi = super().written(slots, lengths)
        if lengths is None:
            return lo, hi
        first = np.cumsum(lengths) - lengths
        origin = np.repeat(lo[first[lengths > 0]], lengths[lengths > 0])
        return lo - origin, hi - origin

    def rebuild(self, table: SliceTable, numbers: Ints) -> None:
        """Nothing but extents is kept for windows."""

    def unfold(self, slots: Ints, newer: int, base: int) -> None:
        """Nothing but extents is kept for windows."""

    def forget(self, keys: Ints) -> None:
        self.rows.forget(keys)

    def put_back(self, slices: Slices, keys: Ints, begins: Ints, counts: Ints, values: list[Any]) -> None:
        """Store the rows of keys again, whose slices are there, and which were taken out by :meth:`take_out`."""
        self.rows.put_back(keys, begins, counts, values, lambda some: self.needed(slices, some))

    def take_out(self, keys: Ints) -> None:
        self.rows.take_out(keys)

    @property
    def nbytes(self) -> int:
        return super().nbytes + self.rows.nbytes

    def needed(self, slices: Slices, keys: Ints) -> Ints:
        """The position from which on windows need the rows of each key."""
        first, end = slices.first[keys], self.rows.end[keys]
        needed: Ints = np.where(first != NONE, np.minimum(self.partials.parts[0][first], end), end)
        return needed

    def _failed(self, table: SliceTable, due: DueWindows, window: int, cause: Exception) -> AggregateError:
        (key,) = table.keys.plain(due.key[window : window + 1])
        start, end = (table.slicer.time_at(each[window].item()) for each in (due.start, due.end))
        return failure(self.name, self.monoid.name, key, self.shown(start, end), cause)


def _extent(of: Monoid) -> Monoid:
    integer = np.dtype(np.int64)
    return Monoid(
        name=of.name,
        fields=(Field("lo", integer), Field("hi", integer)),
        identity=(FAR, -1),
        lift=_lifted,
        combine=_joined,
        lower=_rows,
        output=pa.int64(),
        commutative=False,
    )


def _lifted(position: Any) -> Any:
    return position, position + 1


def _joined(a: Any, b: Any) -> Any:
    return min(a[0], b[0]), max(a[1], b[1])


def _rows(extent: Any) -> Any:
    return extent[1] - extent[0]


def _room(count: int, dtype: np.dtype[Any]) -> Any:
    return np.empty(count, dtype) if dtype.hasobject else np.zeros(count, dtype)
