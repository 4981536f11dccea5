# SPDX-License-Identifier: Apache-2.0
"""The rows of all keys that windows still need, for functions of whole windows.

All keys share one array per column. The rows of a key lie side by side in it, in their order, so the rows of any
window are one contiguous piece: a view, not a copy. A key has room for more rows than it holds. When that is full, its
rows are moved to a place with twice the room; what no window needs is left behind. So a row is moved about once.

A row's *position* counts the rows of its key. A key that is forgotten and comes back goes on after every position
that was ever used, so that pages in a store never mix two lives of a key.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np

from windrow.columns import arrow
from windrow.columns.arrow import Array
from windrow.errors import CorruptSnapshot
from windrow.kernels.extents import place_rows
from windrow.kernels.slices.layout import RowOrder
from windrow.kernels.specialise import specialise
from windrow.operator.plan import Ints

UNBORN = -1
SLAB = 2
"""Rows of a key that move get room for so many times their number."""
LEAST_ROOM = 16
"""For so many rows of a key there is room at the least."""
MUCH = 1 << 16
"""Columns shrink if they have room for more rows than this, and a third of it is not needed."""
MANY_KEYS = 64
"""With more keys than this, some room is left for keys that move."""


class RowStore:
    """Columns of rows, grouped by key."""

    def __init__(self, dtypes: Sequence[np.dtype[Any]], *, compiled: bool) -> None:
        self.columns: tuple[Array, ...] = tuple(np.empty(0, dtype) for dtype in dtypes)
        self.begin, self.end = np.zeros(0, np.int64), np.zeros(0, np.int64)
        """For each key: the first position that is stored, and the one after the last; UNBORN if it has had no row."""
        self.shift = np.zeros(0, np.int64)
        """For each key: what to add to a position to get its index in the columns."""
        self.returned = np.zeros(0, np.bool_)
        """For each key: whether its rows were taken out and came back since :meth:`committed`."""
        self._room = np.zeros(0, np.int64)
        self._used = 0
        """The columns are used up to here."""
        self._positions = 0
        """No position is at or beyond this one."""
        self._kernels: SimpleNamespace = specialise(place_rows, {}, compiled=compiled)

    def grow_keys(self, keys: int) -> None:
        """Make room for so many keys."""
        more = (0, keys - len(self.end))
        self.begin = np.pad(self.begin, more, constant_values=UNBORN)
        self.end = np.pad(self.end, more, constant_values=UNBORN)
        self.shift, self._room = np.pad(self.shift, more), np.pad(self._room, more)
        self.returned = np.pad(self.returned, more)

    def make_room(self, of_rows: Ints, needed: Callable[[Ints], Ints]) -> None:
        """Make room for rows of these keys, one entry for each row, grouped by key.

        ``needed(keys)`` says from which position on windows need the rows of each key.
        """
        if not len(of_rows):
            return
        first = np.flatnonzero(np.append(True, of_rows[1:] != of_rows[:-1]))
        keys, counts = of_rows[first], np.diff(np.append(first, len(of_rows)))
        new = keys[self.end[keys] == UNBORN]
        self.begin[new] = self.end[new] = self._positions  # one that was never used
        full = self.end[keys] - self.begin[keys] + counts > self._room[keys]
        if full.any():
            self._make_room(keys, counts, full, needed)

    def append(
        self, rows: RowOrder, slots: Ints, values: Sequence[Array], valid: Array, extents: Any
    ) -> None:
        """Store rows, for which there is room, and let the extents of their slices grow.

        Rows that are not valid, or in no slice, are left out.
        """
        target = arrow.blank(len(rows.order), np.int64)
        last = self._kernels.place_rows(rows, slots, valid, self.shift, self.end, *extents, target)
        self._positions = max(self._positions, int(last))
        for column, new in zip(self.columns, values, strict=True):
            if column.dtype.hasobject:
                stored = target >= 0
                column[target[stored]] = new[rows.order[stored]]
            else:
                self._kernels.put_rows(new, rows.order, target, column)

    def extents(self, keys: Ints, first: Ints, last: Ints, parts: Any, name: str) -> tuple[Ints, Ints]:
        """Where the rows of windows begin and end in the columns. A window has the slots from ``first`` to ``last``.

        State from a store may say anything, so rows that are not there are an error.
        """
        lo, hi = arrow.blank(len(keys), np.int64), arrow.blank(len(keys), np.int64)
        stored = self.begin, self.end, self.shift
        if not self._kernels.find_extents(keys, first, last, *parts, *stored, lo, hi):
            raise CorruptSnapshot(f"a window of {name!r} covers rows that the state does not have")
        return lo, hi

    def expect(self, keys: Ints, positions: Ints) -> None:
        """Rows with these positions are about to be loaded: :meth:`fill` may leave some out."""
        latest = np.full(len(self.end), UNBORN)
        np.maximum.at(latest, keys, positions + 1)
        self.end[:] = self.begin[:] = np.maximum(self.end, latest)
        self._positions = max(self._positions, int(latest.max(initial=0)))

    def fill(self, keys: Ints, positions: Ints, values: Sequence[Array]) -> bool:
        """Store rows that were stored before, grouped by key, by position; false if those of a key do not follow each other."""
        first = np.flatnonzero(np.append(True, keys[1:] != keys[:-1])) if len(keys) else np.zeros(0, np.int64)
        counts = np.diff(np.append(first, len(keys)))
        if (
            positions != np.repeat(positions[first], counts) + np.arange(len(keys)) - np.repeat(first, counts)
        ).any():
            return False
        self.columns = tuple(
            np.array(new, dtype=column.dtype) for column, new in zip(self.columns, values, strict=True)
        )
        held, begin = keys[first], positions[first]
        self.begin[held], self.end[held] = begin, begin + counts
        self._room[held], self.shift[held], self._used = counts, first - begin, len(keys)
        return True

    def resume(self, keys: Ints, positions: Ints) -> None:
        """These keys have no rows, and go on with these positions, or later ones that are known."""
        self.begin[keys] = self.end[keys] = np.maximum(self.end[keys], positions)
        self._room[keys] = 0
        self._positions = max(self._positions, int(positions.max(initial=0)))

    def rows(self, keys: Ints, begins: Ints, ends: Ints) -> tuple[Array, ...]:
        """The rows of some keys between two positions each, one key after the other."""
        index = _spans(self.shift[keys] + begins, ends - begins)
        return tuple(column[index] for column in self.columns)

    def forget(self, keys: Ints) -> None:
        """These keys have no rows that a window needs; their numbers may be given to other keys."""
        self.begin[keys] = self.end[keys] = UNBORN
        self._room[keys] = 0
        self.returned[keys] = False

    def shrink(self, needed: Callable[[Ints], Ints]) -> None:
        """Give back room, if the rows do not need much of it."""
        held = np.flatnonzero(self.end > self.begin)
        begin = np.maximum(self.begin[held], needed(held))
        room = (self.end[held] - begin) * 5 // 4
        total = int(room.sum())
        if len(self.columns[0]) > MUCH and 3 * total < 2 * len(self.columns[0]):
            self._room[:] = 0
            fresh = tuple(_blank(total + total // 8, column.dtype) for column in self.columns)
            self._move(held, begin, room, fresh, 0)

    def take_out(self, keys: Ints) -> None:
        """Leave the rows of these keys behind; they go on with the same positions."""
        self.begin[keys] = self.end[keys]
        self._room[keys] = 0
        self.returned[keys] = False

    def put_back(
        self,
        keys: Ints,
        begins: Ints,
        counts: Ints,
        values: Sequence[Array],
        needed: Callable[[Ints], Ints],
    ) -> None:
        """Store the rows of keys that were taken out, key after key, from these positions on."""
        self.begin[keys] = self.end[keys] = begins
        self.make_room(np.repeat(keys, counts), needed)
        places = _spans(self.shift[keys] + begins, counts)
        for column, new in zip(self.columns, values, strict=True):
            column[places] = new
        self.end[keys] = begins + counts
        self.returned[keys] = True
        self._positions = max(self._positions, int(self.end[keys].max(initial=0)))

    def committed(self) -> None:
        """All rows are in a store."""
        self.returned[:] = False

    @property
    def nbytes(self) -> int:
        """The size of the columns."""
        return sum(column.nbytes for column in self.columns)

    def _make_room(self, keys: Ints, counts: Ints, full: Array, needed: Callable[[Ints], Ints]) -> None:
        """Move the rows of full keys to where there is room for so many more, and as many again."""
        begin = np.maximum(self.begin[keys[full]], needed(keys[full]))
        room = np.maximum(SLAB * (self.end[keys[full]] - begin + counts[full]), LEAST_ROOM)
        if self._used + int(room.sum()) <= len(self.columns[0]):
            self._move(keys[full], begin, room, self.columns, self._used)
            return
        coming = np.zeros(len(self.end), np.int64)
        coming[keys] = counts
        held = np.flatnonzero(self.end - self.begin + coming)
        begin = np.maximum(self.begin[held], needed(held))
        rows = self.end[held] - begin + coming[held]
        room = np.where(coming[held] > 0, np.maximum(SLAB * rows, LEAST_ROOM), rows + rows // 4)
        total = int(room.sum()) + (int(room.sum()) // 4 if len(held) > MANY_KEYS else 0)
        self._room[:] = 0
        self._move(held, begin, room, tuple(_blank(total, column.dtype) for column in self.columns), 0)

    def _move(self, keys: Ints, begin: Ints, room: Ints, columns: tuple[Array, ...], place: int) -> None:
        places = place + np.cumsum(room) - room
        source, lengths = self.shift[keys] + begin, self.end[keys] - begin
        for old, new in zip(self.columns, columns, strict=True):
            if old.dtype.hasobject:
                new[_spans(places, lengths)] = old[_spans(source, lengths)]
            else:
                self._kernels.move_rows(old, new, source, lengths, places)
        self.columns = columns
        self.begin[keys], self._room[keys], self.shift[keys] = begin, room, places - begin
        self._used = place + int(room.sum())


def _blank(count: int, dtype: np.dtype[Any]) -> Array:
    return np.empty(count, dtype) if dtype.hasobject else arrow.blank(count, dtype)


def _spans(begins: Ints, lengths: Ints) -> Ints:
    """The indices of some spans, one after the other."""
    if len(begins) == 1:
        return np.arange(begins[0], begins[0] + lengths[0])
    ends = np.cumsum(lengths)
    return np.repeat(begins - (ends - lengths), lengths) + np.arange(int(ends[-1]) if len(ends) else 0)
