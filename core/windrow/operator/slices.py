# SPDX-License-Identifier: Apache-2.0
"""The slice table: the slices of all keys, and the windows that slide over them.

The table owns the arrays and lets them grow. A slicer says how rows become slices and which windows are due; a
final aggregation computes their results. Both say it in plans, which the table runs:

    rows       →  placing   →  slots  →  partials
    watermark  →  plan      →  due windows  →  results
               →  eviction  →  free slots
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from windrow.columns import arrow
from windrow.columns.times import ascending
from windrow.kernels.slices import place, slide
from windrow.kernels.slices.layout import FOREVER, NONE, UNFOLD, DueWindows, RowOrder, Slices, Slides
from windrow.kernels.specialise import specialise
from windrow.operator import freezing
from windrow.operator.keys import Keys
from windrow.operator.partials import MANY, AggregateState, FinalAggregation
from windrow.operator.plan import DenseRows, Due, Eviction, GroupedRows, Ints, Placing, Plan, in_key_order
from windrow.operator.room import SPARE, likely, longer, more_keys, more_slots, no_slices, none
from windrow.operator.slicers import Slicer

if TYPE_CHECKING:
    from windrow.operator.buffer import Batch
    from windrow.operator.cold import ColdKeys
    from windrow.storage.paging import Paging

LEAST_ROOM, MOST_ROOM = 1 << 10, 1 << 24
"""How many due windows are planned and computed at a time."""
SPARSE = 4
"""A list of due windows is used again if it has room for more than so many times those in it."""
PIECE = 1 << 20
"""So many rows are worked on at a time: what is in work stays in reach of the caches."""
FEW = 1 << 10
"""Fewer rows are not worth looking whether they are dense."""
SHARES = 4
"""Into how many parts the keys are shared out among threads."""


class SliceTable:
    """The slices of all keys, for a number of windows that share them.

    ``keys`` gives keys their numbers; another table may share it. ``paging`` is where folded slices are, if the
    state is in a store. ``cold`` has the slices of idle keys, if they are frozen. ``pool`` shares the work among threads.
    """

    def __init__(
        self,
        keys: Keys,
        slicer: Slicer,
        aggregates: list[AggregateState],
        final: FinalAggregation,
        *,
        compiled: bool,
        paging: Paging | None = None,
        cold: ColdKeys | None = None,
        pool: Executor | None = None,
    ) -> None:
        self.keys, self.slicer, self.aggregates, self.final = keys, slicer, aggregates, final
        self.columns = sorted({name for state in aggregates for name in state.columns})
        self.paging, self.cold, self.pool, self.compiled = paging, cold, pool, compiled
        kernels = [vars(specialise(module, {}, compiled=compiled)) for module in (place, slide)]
        self.kernels = SimpleNamespace(**(kernels[0] | kernels[1]))
        self.slot_room = self.key_room = 0
        """For how many slices and keys there is room."""
        self._wake = self._earliest = FOREVER
        self.slid = -FOREVER
        """The last watermark that windows slid to."""
        small = {"lo": np.int32, "hi": np.int32, "back": np.int32, "flip": np.bool_}
        self.due_types = {"start": slicer.stamps, "end": slicer.stamps, **small}
        self.slices, windows = no_slices(slicer.stamps), slicer.windows
        self.slides = Slides(np.empty((windows, 0), np.int64), *(none(windows, 0) for _ in range(3)))
        self.grow_slots(1024)

    @property
    def fold(self) -> int:
        """How many slices a folded slice of level 1 stands for."""
        return 1 if self.paging is None else self.paging.fold

    @property
    def wake(self) -> int:
        """The earliest watermark at which a further window is due, as far as is known."""
        cold = FOREVER if self.cold is None else self.cold.wake
        return min(self._wake, cold, self.slicer.first_end(self._earliest))

    @property
    def last_end(self) -> int:
        """When the last window of a key that is not in the table ends."""
        return -FOREVER if self.cold is None else self.cold.last_end

    @property
    def earliest(self) -> int:
        """The earliest row since windows slid last; FOREVER if there is none."""
        return self._earliest

    def accept(self, data: pa.Table, times: Ints) -> None:
        """Take rows in pieces. Another thread reads the next piece while one is taken."""
        pieces = [slice(begin, begin + PIECE) for begin in range(0, len(times), PIECE)]
        if self.pool is None or len(pieces) == 1:
            for piece in pieces:
                self.take(self.arrange(data[piece], times[piece]))
            return
        coming = self.pool.submit(self.arrange, data[pieces[0]], times[pieces[0]])
        for piece in pieces[1:]:
            rows = coming.result()
            coming = self.pool.submit(self.arrange, data[piece], times[piece])
            self.take(rows)
        self.take(coming.result())

    def advance(self, rows: Batch, reached: int) -> list[Due]:
        """Take rows before a time, to which no other will come; the windows that are due at that time."""
        self.settle(rows.data, rows.times, rows.keys)
        return self.slide(self.keys.order, reached)

    def settle(self, data: pa.Table, times: Ints, keys: Ints) -> Ints:
        """Take rows whose keys have numbers; the slot of each row."""
        return self.take(self.grouped(data, times, keys))

    def arrange(self, data: pa.Table, times: Ints) -> GroupedRows | DenseRows:
        """Rows whose order may not matter. Another thread may do this while the table is at work."""
        keys = self.keys.number(data)
        if len(times) < FEW or (cells := self.slicer.cells(times, self.keys.count)) is None:
            return self.grouped(data, times, keys)
        latest = np.full(self.keys.count, -FOREVER)
        if self.cold is not None:
            np.maximum.at(latest, keys, times)
        return DenseRows(data, cells, int(self.kernels.mark_cells(cells, keys, times)), latest)

    def read(self, data: pa.Table, times: Ints) -> GroupedRows:
        """Rows with the numbers of their keys."""
        return self.grouped(data, times, self.keys.number(data))

    def grouped(self, data: pa.Table, times: Ints, keys: Ints) -> GroupedRows:
        """Rows grouped by key, each key's rows by time, then arrival."""
        rows, count = len(times), self.keys.count
        in_order = (times[1:] >= times[:-1]).all() if rows < FEW else ascending(times)
        order = np.arange(rows) if in_order else np.argsort(times, kind="stable")
        if count <= 1:
            return GroupedRows(data, RowOrder(order, keys, times if in_order else times[order]))
        if 16 * rows < count:
            order = order[np.argsort(keys[order], kind="stable")]
            return GroupedRows(data, RowOrder(order, keys[order], times[order]))
        by_key = arrow.blanks(RowOrder, rows, {})
        self.kernels.group_by_key(keys, times, np.zeros(count + 1, dtype=np.int64), order, by_key)
        return GroupedRows(data, by_key)

    def take(self, rows: GroupedRows | DenseRows) -> Ints:
        """Put rows into slices and into the partials of all aggregates; the slot of each row."""
        slots = self._place_dense(rows) if isinstance(rows, DenseRows) else self._place(rows)
        order = None if isinstance(rows, DenseRows) else rows.by_key
        columns = arrow.physical(rows.data, self.columns)
        self._each(lambda state: state.absorb(columns, slots, order, self.slices), len(slots) // 10)
        return slots

    def take_partials(self, rows: GroupedRows) -> Ints:
        """As :meth:`take`, with ready-made partials in place of rows."""
        slots = self._place(rows)
        for state in self.aggregates:
            state.absorb_partials(rows.data, slots)
        return slots

    def _place(self, rows: GroupedRows) -> Ints:
        self.ensure_keys()
        slots = np.full(len(rows.by_key.order), NONE, dtype=np.int64)
        if len(slots):
            self._earliest = min(self._earliest, int(rows.by_key.axis.min()))
            latest = np.flatnonzero(np.append(rows.by_key.keys[1:] != rows.by_key.keys[:-1], True))
            self._heed(rows.by_key.keys[latest], rows.by_key.axis[latest])
        placing: Placing = self.slicer.placing(self, rows, slots)
        begin, end = 0, len(slots)
        while True:
            begin = int(placing.kernel(self.slices, begin, placing.rows, slots, *placing.arguments))
            if begin == end:
                return slots
            self.grow_slots(likely(self.slot_room, begin, end - begin))

    def _place_dense(self, rows: DenseRows) -> Ints:
        self.ensure_keys()
        cells = rows.cells
        in_use = (cells.slots != NONE).reshape(-1, cells.slices).any(axis=1)
        self.slices.cursor[: len(in_use)] = NONE  # new rows most likely belong at the end
        self._earliest = min(self._earliest, cells.begin)
        self._heed(keys := np.flatnonzero(in_use), rows.latest[keys])
        if (missing := rows.used - int(self.slices.unused[0])) > 0:
            self.grow_slots(self.slot_room + missing)
        self.kernels.place_dense(self.slices, cells)
        slots: Ints = cells.rows
        return slots

    def _heed(self, keys: Ints, latest: Ints) -> None:
        """Rows of these keys are about to be placed; the latest time of each key."""
        if self.paging is not None:
            self.paging.touch(keys.tolist())
        if self.cold is not None:
            self.cold.heed(self, keys, latest)

    def _each(self, work: Callable[[AggregateState], None], size: int) -> None:
        """Do something with the state of every aggregate. If it is much, threads do an aggregate each."""
        pool = None if size < MANY or len(self.aggregates) == 1 else self.pool
        list((map if pool is None else pool.map)(work, self.aggregates))

    def slide(self, keys: Ints, watermark: int) -> list[Due]:
        """The windows of these keys that are due at a watermark. Slices that no other window needs go."""
        # of many keys, even to see that nothing is due takes long
        waits = self.keys.count > MANY and self.slicer.idle_until_wake and watermark < self.wake
        due = [] if waits else self._slide(keys, watermark)
        if self.cold is not None:
            self.cold.sweep(self, watermark)
        return due

    def _slide(self, keys: Ints, watermark: int) -> list[Due]:
        cold = [] if self.cold is None else self.cold.slide(self, keys, watermark)
        keys, self._earliest = keys if self.cold is None else self.cold.hot(self, keys), FOREVER
        due, wake = self.run(self.slicer.plan(self, keys, watermark))
        self._wake = FOREVER if self.slicer.waits_for_rows else self.slicer.time_at(wake)
        self.evict(self.slicer.eviction(self, keys, watermark))
        self.slid = watermark
        return in_key_order([*due, *cold], self.keys.ranks()) if cold else due

    def unfinished(self, keys: Ints, time: int) -> list[Due]:
        """Windows that have begun before a time and are not due, with their results so far. Nothing changes."""
        slides = self.slides
        self.slides = Slides(*(array.copy() for array in slides))
        due, _ = self.run(self.slicer.plan_unfinished(self, keys, time))
        self.slides = slides
        slides.front[:] = slides.back[:] = NONE  # lcs and csa were used: the next window computes them anew
        if self.paging is not None:
            self.paging.touch(np.flatnonzero(self.slices.held).tolist())
        self.final.peeked()
        return [self.slicer.begun(each, time) for each in due]

    def run(self, plan: Plan) -> tuple[list[Due], int]:
        """The windows that a plan lists, with their results, and the earliest end of one that is not due.

        Of many keys, several threads do some each. Of few keys, they do an aggregate each.
        """
        if plan.computed is not None:
            return plan.computed, FOREVER
        pool = self.pool if plan.shareable and self.final.by_key and self.paging is None else None
        if pool is None:
            return self._run(plan, None)
        held = np.cumsum(self.slices.held[plan.through])
        if len(held) < SHARES or held[-1] < MANY:
            return self._run(plan, pool)
        cuts = np.searchsorted(held, np.arange(1, SHARES) * (held[-1] / SHARES))
        shares = [plan._replace(through=keys) for keys in np.split(plan.through, cuts)]
        found = list(pool.map(lambda share: self._run(share, None), shares))
        return [due for share, _ in found for due in share], min(wake for _, wake in found)

    def _run(self, plan: Plan, pool: Executor | None) -> tuple[list[Due], int]:
        found, begin, wake, due, ahead = [], 0, FOREVER, None, plan.last_begin
        while begin < len(plan.through):
            due = due or arrow.blanks(DueWindows, self._room(plan), self.due_types)
            state = self.slices, self.slides
            reached, count, end = plan.kernel(*state, due, begin, plan.through, *plan.arguments)
            if reached == UNFOLD:
                self.unfold(count, ahead)
                ahead = None
                continue
            if reached == NONE and plan.refusal is not None:
                raise plan.refusal(count)
            begin, wake = reached, min(wake, int(end))
            if count:
                found.append(self._computed(due, count, pool))
                due = due if SPARSE * count < len(due.key) else None
        return found, wake

    def query(self, key: int, lo: int, hi: int) -> Due:
        """The results of one window over the slices lo to hi of a key."""
        due = arrow.blanks(DueWindows, 1, self.due_types)
        stamp = self.slices.stamp
        self.kernels.emit(due, 0, self.slides, key, 0, stamp[lo], stamp[hi], lo, hi, 1)
        return self._computed(due, 1, None)

    def _computed(self, due: DueWindows, count: int, pool: Executor | None) -> Due:
        results = self.final.results(self, due, count, pool)
        few = SPARSE * count < len(due.key)  # then the list is used again, and the windows in it are copied
        listed = (due.key[:count], due.which[:count], due.start[:count], due.end[:count], due.repeat[:count])
        key, which, start, end, repeat = (column.copy() if few else column for column in listed)
        return Due(key, which, start, end, repeat, results)

    def _room(self, plan: Plan) -> int:
        """How many windows may be due: a window slides on when a slice enters or leaves it."""
        if plan.room:
            return plan.room
        held = self.slices.held[plan.through] if plan.shareable else self.slices.held
        return min(max(self.slicer.windows * (2 * int(held.sum()) + len(held)), LEAST_ROOM), MOST_ROOM)

    def evict(self, eviction: Eviction) -> None:
        """Free slices, and make their slots the identity again."""
        held = self.slices.held if self.paging is None else self.slices.held.copy()
        before = int(self.slices.unused[0])
        eviction.kernel(self.slices, self.slides, *eviction.arguments)
        after = int(self.slices.unused[0])
        if self.paging is not None:
            self.paging.freed(self, self.slices.free[before:after], held)
        self._each(lambda state: state.wipe(self.slices, before, after), after - before)

    def release(self, keys: Ints) -> None:
        """Free all slices of these keys."""
        self.evict(Eviction(self.kernels.release, (keys,)))
        self.final.forget(keys)

    def restart(self, keys: Ints, keep: str = "") -> None:
        """Drop all state of these keys, except the counter to keep, as if they had no row yet."""
        if self.cold is not None:
            self.cold.drop(self, keys)
        self.release(keys)
        slides = self.slides
        slides.following[:, keys] = self.slicer.first_window
        slides.lo[:, keys] = slides.front[:, keys] = slides.back[:, keys] = NONE
        for name, counter in self.slicer.counters.items():
            if name != keep:
                counter[..., keys] = 0
        if self.paging is not None:
            self.paging.touch(keys.tolist())

    def forget(self, keys: Ints) -> None:
        """These keys have no state: what there is of them can be used for other keys."""
        self.slides.following[:, keys] = self.slicer.first_window
        self.final.forget(keys)
        for state in self.aggregates:
            state.forget(keys)
        if self.cold is not None:
            self.cold.forget(keys)
        if self.paging is not None:
            self.paging.forget(keys)

    def unfold(self, slot: int, ahead: int | None = None) -> None:
        """Put the slices that a folded one stands for in its place; also of all folded ones that begin before ``ahead``."""
        assert self.paging is not None, "a folded slice, but the state is in no store"
        self.paging.unfold(self, slot, ahead)

    def live(self) -> Any:
        """For every key, whether it has any state."""
        live = self.slices.held > 0
        live |= False if self.cold is None else self.cold.is_cold(self.key_room)
        for counter in self.slicer.counters.values():
            live |= np.atleast_2d(counter != 0).any(axis=0)
        return live

    def slots_of(self, key: int) -> Ints:
        """The slots of a key, oldest first."""
        slots = np.empty(int(self.slices.held[key]), dtype=np.int64)
        self.kernels.walk(self.slices, np.array([key]), np.zeros(1, dtype=np.int64), slots)
        return slots

    def catch_up(self, reached: int) -> None:
        """Slices were loaded, perhaps as they were before their windows slid to ``reached``: let them slide, unseen."""
        self.slid = reached
        if self.paging is not None:
            freezing.catch_up_all(self)

    def resume(self, wake: int, reached: int) -> None:
        """The state was loaded; windows have slid to ``reached``. ``wake`` is the earliest watermark at which one is due."""
        self._wake = wake
        self.slicer.restored(self)
        self.final.restored(self)
        if self.cold is not None:
            self.cold.started(self, reached)

    def wake_by(self, watermark: int) -> None:
        """A further window may be due at this watermark."""
        self._wake = min(self._wake, watermark)

    def ensure_keys(self) -> None:
        """Make room for all keys."""
        if self.keys.count <= self.key_room:
            return
        old, room = self.key_room, max(self.keys.count, self.key_room * 5 // 4, 64)
        self.slices, slides = more_keys(self.slices, room), self.slides
        following = longer(slides.following, room, self.slicer.first_window)
        self.slides = Slides(following, *(longer(pointers, room) for pointers in slides[1:]))
        self.key_room = room
        self.slicer.grow(room)
        for state in self.aggregates:
            state.grow_keys(old, room)

    def renumber(self, slices: Slices, room: int) -> None:
        """The same slices are in other slots, of so many."""
        self.slices, self.slot_room = slices, room

    def grow_slots(self, slots: int = 0) -> None:
        """Make room for so many slices, and at least for half as many again as now; for fewer once keys were frozen."""
        spare = 2 if self.cold is None or not self.cold.has_frozen else SPARE
        old, room = self.slot_room, max(slots, self.slot_room + self.slot_room // spare)
        self.slices, self.slot_room = more_slots(self.slices, room), room
        for state in self.aggregates:
            state.grow_slots(old, room)
