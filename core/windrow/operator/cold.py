# SPDX-License-Identifier: Apache-2.0
"""Keys that fell silent: their slices leave the table and become cold blocks.

This is A_C (Gulisano, *An Algorithm for Tunable Memory Compression of Time-Based Windows for Stream Aggregates*, Euro-Par
2023 Workshops, LNCS 14351, 2024), with three changes. Keys that fell idle together are frozen together, as columns.
Windows of cold keys come out without a block being opened: see :mod:`windrow.operator.cards`. And keys are frozen when
the watermark moves, not with a row, so that it does not matter how rows are cut into batches.

A key is thawed by a row of its own. What windows have done meanwhile follows from the watermark, so the thawed key is
as it would be if it had never been frozen, bit by bit.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from windrow.columns.arrow import Array
from windrow.errors import CorruptSnapshot, WindrowError
from windrow.kernels.slices.layout import FOREVER, NONE
from windrow.operator.cards import Cards, Futures
from windrow.operator.cold_pages import ReadPage, foresees, listed, page_name, page_of, still_cold
from windrow.operator.freezing import catch_up, folded, future, nbytes, put_slides, rebuild, take_out, weight
from windrow.operator.frozen import columns_of, load_columns
from windrow.operator.idle import Idle, IdleFigures
from windrow.operator.plan import Due, Ints
from windrow.operator.room import longer
from windrow.operator.shrinking import SpareRoom
from windrow.operator.silences import Silences
from windrow.storage.cold_block import Codec, pack, unpack

if TYPE_CHECKING:
    from windrow.operator.slices import SliceTable

MOST_KEYS = 1 << 12
"""How many keys share a block at most."""
LARGE = 4
"""A block has at most so many times the slices of the smallest cohort."""


class Block:
    """Keys that were frozen together. Those that thawed or ended stay in its bytes, until it is written anew."""

    def __init__(self, keys: Ints, slices: bytes) -> None:
        self.keys, self.slices = keys, slices
        self.futures: Futures | None = None
        """The windows to come; made when the first key needs more than its card."""
        self.left = len(keys)
        """How many of its keys are still cold."""

    @property
    def nbytes(self) -> int:
        return len(self.slices) + (0 if self.futures is None else self.futures.nbytes)

    def foresee(self, futures: Futures) -> None:
        self.futures = futures

    def lose(self, keys: int) -> None:
        self.left -= keys


class ColdKeys:
    """Which keys of a slice table are cold, and the blocks that they are in.

    The table calls :meth:`heed` for new rows before it places them, :meth:`slide` for every watermark before it plans, and
    :meth:`sweep` after it has evicted.
    """

    def __init__(
        self,
        idle: Idle | None,
        slides: Ints,
        lengths: Ints | None,
        stamps: Any,
        due_after: int,
        *,
        compiled: bool,
    ) -> None:
        self.compiled = compiled
        self.idle = Idle(0) if idle is None else idle
        self.silences = Silences(idle, compiled=compiled)
        self.codec = Codec(self.idle.codec, self.idle.level)
        self.cards = Cards(slides, lengths, stamps, due_after)
        self.blocks: dict[int, Block] = {}
        self._sparse: set[int] = set()  # blocks that have lost most of their keys
        self.next_block = self.freezes = self.thaws = self.count = 0  # count is that of cold keys
        self._is_melted = False
        self.spare = SpareRoom()
        self._leaving = 0
        """How many keys left blocks since it was seen what is due."""
        self.wake = self._ends = FOREVER
        """The earliest watermarks at which a window of a cold key is due, and one has no slice left."""
        self.of = np.empty(0, np.int32)
        """For each key its block; NONE if it is hot."""
        self.empty = np.empty(0, np.int64)
        """For each key the watermark at which it will have no slice."""

    # Rows and watermarks.

    def heed(self, table: SliceTable, keys: Ints, times: Ints) -> None:
        """Rows of these keys are about to be placed; the latest time of each. Cold keys thaw."""
        if self.silences.after is None and not self.blocks:
            return
        self._grow(table.key_room)
        self.silences.hear(keys, times)
        self.spare.updated(len(keys) if self.has_frozen else 0)
        cold = keys[self.of[keys] != NONE]
        if len(cold):
            self.thaw(table, cold)
            self.thaws += len(cold)

    def slide(self, table: SliceTable, keys: Ints, watermark: int) -> list[Due]:
        """The windows of cold keys that are due, of keys in the order of ``keys``. Keys without a slice left are gone."""
        if not self.blocks:
            self.wake = self._ends = FOREVER
            return []
        if watermark < min(self.wake, self._ends):
            return []
        self._grow(table.key_room)
        cold, reached = keys[self.of[keys] != NONE], table.slicer.place(watermark)
        windows = range(table.slicer.windows)
        for which in windows:
            needy = cold[self.cards.exhausted(which, cold, reached, self.empty[cold])]
            for number in np.unique(self.of[needy]).tolist():
                self._foresee(table, number)
        cold = cold[self.of[cold] != NONE]
        found = []
        for which in windows:
            taken = self.cards.take(which, cold, reached)
            found.append(taken.due)
            for number in np.unique(self.of[taken.used_up]).tolist():
                futures = self.blocks[number].futures
                if futures is not None:
                    some = self.of[taken.used_up] == number
                    used_up, through = taken.used_up[some], taken.through[some]
                    found.append(self.cards.turn(which, used_up, through, futures.due(), reached))
        gone = cold[(self.empty[cold] <= reached) & (self.empty[cold] < FOREVER)]
        self._drop(table, gone)
        if table.paging is not None:
            table.paging.touch(gone.tolist())  # counters may be left
        self._look_ahead(table)
        return found

    def sweep(self, table: SliceTable, watermark: int) -> None:
        """Freeze the keys that got no row for long, if they are enough for a block. Called at every watermark."""
        if self.silences.after is None or watermark >= FOREVER:
            return
        self._grow(table.key_room)
        idle = self.silences.idle_keys(table, self.of, watermark, lambda: self._size(table))
        if table.paging is not None and len(idle):
            idle = idle[~folded(table, idle)]
            idle = idle if int(weight(table, idle).sum()) >= self.idle.cohort else idle[:0]
        if len(idle):
            self.freezes += self.freeze(table, idle)
            self._gather(table)
            self._look_ahead(table, None if self._leaving else idle)
        if self.has_frozen:
            self.spare.after_sweep(table)

    # Freeze and thaw.

    def freeze(self, table: SliceTable, keys: Ints) -> int:
        """Put hot keys into blocks, those together that fell silent together; returns how many were frozen."""
        keys = keys[np.lexsort((keys, self.silences.last[keys]))]
        total = np.cumsum(weight(table, keys))
        self.spare.left(int(total[-1]))
        of = np.maximum(total // (LARGE * self.idle.cohort), np.arange(len(keys)) // MOST_KEYS)
        cuts = np.flatnonzero(of[1:] != of[:-1]) + 1
        return sum(self._freeze(table, some) for some in np.split(keys, cuts))

    def _freeze(self, table: SliceTable, keys: Ints) -> int:
        """Put keys into one block. If a window to come raises an error, its key stays hot."""
        slides = [array[:, keys] for array in table.slides]
        try:
            block = pack(columns_of(table, keys), self.codec, compiled=self.compiled)
            due = future(table, keys, first=True)
            empty = table.slicer.empty_at(table.slices.stop[table.slices.last[keys]])
            if table.paging is not None:
                page = page_of(table, keys, block, due, empty)
        except WindrowError:
            put_slides(table, keys, slides)
            rebuild(table, keys)
            if len(keys) > 1:
                return sum(self._freeze(table, some) for some in np.split(keys, [len(keys) // 2]))
            self.silences.refuse(keys)
            return 0
        if table.paging is not None:
            table.paging.keep(page_name(self.next_block), page)
        self._enter(table, keys, self.next_block, Block(keys, block))
        self._put(table, keys, empty, due)
        take_out(table, keys)  # the ids of the windows to come stay, as they will be in the end
        return len(keys)

    def _enter(self, table: SliceTable, keys: Ints, number: int, block: Block) -> None:
        """A block whose keys, at least these, are cold from now on."""
        self.of[keys] = number
        self.blocks[number] = block
        self.count += len(keys)
        self._note(number)
        self.next_block = max(self.next_block, number + 1)

    def _note(self, number: int) -> None:
        """A block is new, or has lost keys."""
        if 2 * self.blocks[number].left < len(self.blocks[number].keys):
            self._sparse.add(number)

    def _put(self, table: SliceTable, keys: Ints, empty: Ints, due: Due | None) -> None:
        """When these keys have no slice left, and the windows of them that come next."""
        self.empty[keys] = empty
        self.cards.clear(keys, table.key_room)
        if due is not None:
            self.cards.put(due.key, table.key_room, due.which, due, due.results)

    def thaw(self, table: SliceTable, keys: Ints) -> None:
        """Put cold keys back into the table, as if they had never left."""
        if table.paging is not None:
            table.paging.touch(keys.tolist())
        self._load(table, keys)
        table.wake_by(catch_up(table, keys))
        rebuild(table, keys)
        self._drop(table, keys)

    def _load(self, table: SliceTable, keys: Ints) -> None:
        """The slices of cold keys as they were when they were frozen."""
        wanted = np.zeros(len(self.of), np.bool_)
        wanted[keys] = True
        for number in np.unique(self.of[keys]).tolist():
            block = self.blocks[number]
            some = np.flatnonzero(wanted[block.keys] & (self.of[block.keys] == number))
            columns = unpack(block.slices, f"cold block {number}", compiled=self.compiled)
            load_columns(columns, some, table, block.keys[some], f"cold block {number}")

    def _foresee(self, table: SliceTable, number: int) -> None:
        """Compute all windows to come of a block's keys; if one raises an error, thaw them: they raise it when it is due."""
        block = self.blocks[number]
        if block.futures is not None:
            return
        keys = block.keys[self.of[block.keys] == number]
        slides = [array[:, keys] for array in table.slides]
        self._load(table, keys)
        rebuild(table, keys)
        try:
            due = future(table, keys)
        except WindrowError:
            due = None
        take_out(table, keys)
        put_slides(table, keys, slides)
        if due is None:
            self.thaw(table, keys)
            self.silences.refuse(keys)
        else:
            block.foresee(Futures(due, self.codec, compiled=self.compiled))

    def _gather(self, table: SliceTable) -> None:
        """Write blocks anew that have lost most of their keys, together."""
        if self._sparse:
            keys = np.flatnonzero(np.isin(self.of, list(self._sparse)))
            self.thaw(table, keys)
            self.freeze(table, keys)

    def drop(self, table: SliceTable, keys: Ints) -> None:
        """The state of these keys is gone."""
        known = keys[keys < len(self.of)]
        self._drop(table, known[self.of[known] != NONE])

    def _drop(self, table: SliceTable, keys: Ints) -> None:
        numbers, counts = np.unique(self.of[keys], return_counts=True)
        for number, count in zip(numbers.tolist(), counts.tolist(), strict=True):
            self.blocks[number].lose(count)
            self._note(number)
            if not self.blocks[number].left:
                del self.blocks[number]
                self._sparse.remove(number)
                if table.paging is not None:
                    table.paging.drop(page_name(number))
        self.of[keys] = NONE
        self.count -= len(keys)
        self._leaving += len(keys)
        self.cards.clear(keys, 0)

    @contextmanager
    def melted(self, table: SliceTable) -> Iterator[None]:
        """All slices in the table, for as long as the context lasts. Blocks stay as they are."""
        keys = np.flatnonzero(self.of != NONE)
        slides = [array[:, keys] for array in table.slides]
        counters = {name: counter[..., keys] for name, counter in table.slicer.counters.items()}
        self._load(table, keys)
        catch_up(table, keys)
        self._is_melted = True
        try:
            yield
        finally:
            self._is_melted = False
            take_out(table, keys)
            put_slides(table, keys, slides)
            for name, counter in counters.items():
                table.slicer.counters[name][..., keys] = counter

    # Stores.

    def header(self) -> dict[str, Any]:
        """What the header of a store says of cold blocks."""
        return {"cold": listed(self.blocks, self.of)} if self.blocks else {}

    def load(
        self, table: SliceTable, blocks: list[tuple[int, bytes]], pages: Iterator[dict[str, Any]]
    ) -> None:
        """Load the blocks that a header names. Their slices are not read before a row thaws them. The rows of
        whole windows of other keys may still be missing."""
        for (number, left), image in zip(blocks, pages, strict=True):
            name = page_name(number)
            page = ReadPage(image, table, name)
            self._grow(table.key_room)
            cold = still_cold(left, len(page.keys), name)
            keys = page.keys[cold]
            if table.slices.held[keys].any() or (self.of[keys] != NONE).any():
                raise CorruptSnapshot(f"{name}: a key is in the state twice")
            block = Block(page.keys, page.block)
            block.lose(int((~cold).sum()))
            due = (
                None
                if page.due is None
                else page.due.cut(np.where(np.isin(page.due.key, keys), page.due.repeat, 0))
            )
            self._enter(table, keys, number, block)
            self._put(table, keys, page.empty[cold], due)
            table.slides.following[:, keys] = page.following[:, cold]
            for each, values in page.counters.items():
                table.slicer.counter(each)[..., keys] = values[..., cold]
        self._look_ahead(table)

    # Figures.

    @property
    def last_end(self) -> int:
        """When the last window of a cold key ends, at the latest; -FOREVER if that is not known."""
        empty = self.empty[self.of != NONE]
        return int(empty[empty < FOREVER].max(initial=-FOREVER))

    def hot(self, table: SliceTable, keys: Ints) -> Ints:
        """Those of these keys that are not cold. The others have no slice in the table."""
        self._grow(table.key_room)
        return keys if not self.blocks or self._is_melted else keys[self.of[keys] == NONE]

    def is_cold(self, room: int) -> Array:
        """For every key, whether it is cold; none is while all are melted."""
        self._grow(room)
        return np.zeros(len(self.of), np.bool_) if self._is_melted else self.of != NONE

    def forget(self, keys: Ints) -> None:
        """The numbers of these keys, which have no state, may be given to other keys."""
        self.silences.forget(keys)

    def started(self, table: SliceTable, watermark: int) -> None:
        """State was loaded: when its keys had their last row is not known, so they count as just seen."""
        self._grow(table.key_room)
        if self.blocks and not foresees(table):
            self.thaw(table, np.flatnonzero(self.of != NONE))
        self.slide(table, table.keys.order, table.slid)  # those windows have come out before
        self.silences.start(np.flatnonzero((table.slices.held > 0) | (self.of != NONE)), watermark)

    @property
    def has_frozen(self) -> bool:
        """Whether any key was ever frozen. Until then, nothing is done to save memory."""
        return self.next_block > 0

    def figures(self, table: SliceTable) -> IdleFigures:
        return IdleFigures(
            hot_keys=int((table.slices.held > 0).sum()),
            cold_keys=self.count,
            hot_bytes=nbytes(table),
            cold_bytes=self._cold_size(),
            blocks=len(self.blocks),
            freezes=self.freezes,
            thaws=self.thaws,
            after=self.silences.after,
            why=self.silences.why,
        )

    def _cold_size(self) -> int:
        return sum(block.nbytes for block in list(self.blocks.values()))

    def _size(self, table: SliceTable) -> int:
        return nbytes(table) + self._cold_size()

    def _look_ahead(self, table: SliceTable, fresh: Ints | None = None) -> None:
        """When cold keys have something to do next. ``fresh`` are those of which it is not known, if it is not all."""
        time_at = table.slicer.time_at
        cold = np.flatnonzero(self.of != NONE) if fresh is None else fresh[self.of[fresh] != NONE]
        wake, ends = time_at(self.cards.wake(cold)), time_at(int(self.empty[cold].min(initial=FOREVER)))
        if fresh is not None:
            wake, ends = min(wake, self.wake), min(ends, self._ends)
        self.wake, self._ends, self._leaving = wake, ends, 0

    def _grow(self, room: int) -> None:
        self.silences.grow(room)
        if room > len(self.of):
            self.of, self.empty = longer(self.of, room), longer(self.empty, room, FOREVER)
