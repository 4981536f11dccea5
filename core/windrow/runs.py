"""The state of all keys: runs of slices, the windows that slide over them, and one tower of partials per
aggregate.

:class:`State` owns the arrays and lets them grow; what happens in them is in :mod:`windrow.kernels.runs`
(structure) and
:mod:`windrow.kernels.slide` (aggregates). A :class:`Discipline` says for one kind of window how rows become
slices, which windows are due, and which slices no window needs any more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Executor
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from windrow.aggregates import arrow
from windrow.aggregates.algebra import Monoid
from windrow.errors import AggregateError, ArithmeticOverflow, ColumnError, QueryError
from windrow.kernels import runs as runs_kernels
from windrow.kernels import slide as slide_kernels
from windrow.kernels.layout import NONE, UNFOLD, UNSET, Runs, Slides, Windows
from windrow.kernels.slots import allocate, blank, slots
from windrow.kernels.specialise import specialise

Ints = NDArray[np.int64]
LEAST_ROOM, MOST_ROOM = 1 << 10, 1 << 24
"""How many due windows are planned and computed at a time."""
MANY = 10_000
"""So many slices or windows are worth a second thread."""
SHARES = 4
"""Into how many parts the keys are shared out among threads."""

Results = dict[str, tuple[Any, Any]]
"""For each aggregate the values of some windows, and which of them are not null."""


class Tower:
    """One aggregate's partials: of every slice, and the lcs and csa of every window over every run."""

    def __init__(self, name: str, monoid: Monoid, columns: tuple[str, ...], compiled: bool) -> None:
        self.name, self.monoid, self.columns = name, monoid, columns
        self.kernels = specialise(slide_kernels, slots(monoid), compiled=compiled and monoid.compiles)
        self.parts = allocate(monoid, 0)
        self.lcs = allocate(monoid, 0)
        self.csa = allocate(monoid, 0)

    def absorb(self, data: pa.Table | pa.RecordBatch, slot: Ints) -> None:
        """Rows into their slices."""
        columns, valid = [], np.empty(0, dtype=np.bool_)
        for name in self.columns:
            values, ok = arrow.to_numpy(data.column(name))
            columns.append(values)
            if ok is not None:
                valid = ok if len(valid) == 0 else valid & ok
        with _Explained(self, columns, valid):
            self.kernels.absorb(self.parts, slot, tuple(columns), valid, len(slot))

    def absorb_partials(self, data: pa.Table, slot: Ints) -> None:
        """Ready-made partials, from the columns ``name.field``, into their slices."""
        if self.monoid.fields is None:
            raise QueryError(f"{self.name}: {self.monoid.name} has no typed partial; give the operator rows")
        incoming = []
        for field, identity in zip(self.monoid.fields, self.monoid.identity, strict=True):
            name = f"{self.name}.{field.name}"
            if name not in data.column_names:
                raise ColumnError.unknown(name, f"partial of aggregate {self.name!r}", data.column_names)
            values, valid = arrow.to_numpy(data.column(name))
            filled = (
                values if valid is None else np.where(valid, values, np.asarray(identity, dtype=values.dtype))
            )
            incoming.append(filled.astype(field.dtype, copy=False))
        self.kernels.absorb_partials(self.parts, slot, tuple(incoming))

    def slide(self, state: State, due: Windows, count: int) -> tuple[Any, Any]:
        """The results of due windows and which of them are not null."""
        out, ok = self.room(count)
        self.slide_some(state, due, out, ok, 0, count, True)
        return out, ok

    def room(self, count: int) -> tuple[Any, Any]:
        """For so many results, and whether they are not null."""
        kind = arrow.physical_dtype(self.monoid.output)
        return _filled(count, kind, 0), _filled(count, np.bool_, False)

    def slide_some(
        self, state: State, due: Windows, out: Any, ok: Any, begin: int, end: int, cover: bool
    ) -> None:
        """The results of some of the due windows; with ``cover``, their lcs is computed first."""
        with self.no_overflow():
            self.kernels.slide(
                self.parts, self.lcs, self.csa, allocate(self.monoid, 1), state.runs, due, state.slots,
                state.keys, out, ok, begin, end, cover,
            )  # fmt: skip

    def lowered(self, partial: Any) -> Any:
        """The result of one partial."""
        with self.no_overflow():
            return self.monoid.lower(partial)

    @contextmanager
    def no_overflow(self) -> Iterator[None]:
        """A result that does not fit its type is an error that says so."""
        try:
            yield
        except OverflowError as cause:
            raise ArithmeticOverflow(
                f"{self.name}: {self.monoid.name} does not fit {self.monoid.output}; cast its column to float64 or decimal first"
            ) from cause

    def partial(self, slot: int) -> Any:
        """The partial of one slice."""
        return tuple(part[slot] for part in self.parts) if self.monoid.typed else self.parts[0][slot]


class _Explained:
    """Turns an error that a user's function raised into one that names the aggregate and the row."""

    def __init__(self, tower: Tower, columns: list[Any], valid: Any) -> None:
        self.tower, self.columns, self.valid = tower, columns, valid

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        if not isinstance(error, Exception):
            return
        tower, where = self.tower, ""
        partial = tower.monoid.identity
        for row in range(len(self.columns[0]) if self.columns else 0):
            values = tuple(column[row] for column in self.columns)
            try:
                if len(self.valid) == 0 or self.valid[row]:
                    partial = tower.monoid.combine(partial, tower.monoid.lift(*values))
            except Exception:
                where = f" at row {row}, for {', '.join(repr(value) for value in values)}"
                break
        raise AggregateError(
            f"{tower.name}: {tower.monoid.name} raised {type(error).__name__}{where}: {error}"
        ) from error


class State:
    """All runs, for a number of windows that share the slices."""

    def __init__(
        self,
        towers: list[Tower],
        windows: int,
        *,
        compiled: bool,
        stamps: Any = np.int64,
        first_window: int = UNSET,
    ) -> None:
        self.towers = towers
        self.compiled = compiled
        self.kernels: SimpleNamespace = specialise(runs_kernels, {}, compiled=compiled)
        self.slots, self.keys, self.windows = 0, 0, windows
        self.first_window = first_window
        self.pool: Executor | None = None
        self.slide: Callable[[State, Windows, int], Results] | None = None
        """How due windows get their results, if not tower by tower."""
        self.unfold: Callable[[int], None] | None = None
        self.fold = 1
        """How many slices one stands for that was folded once."""
        self.rearranged: set[int] = set()
        """Keys of which slices were folded or unfolded; who remembers slots takes them out."""
        self.freed: Callable[[Ints], None] | None = None
        self.runs = Runs(
            stamp=np.empty(0, stamps), stop=np.empty(0, stamps), follower=_none(0), leader=_none(0),
            page=np.empty(0, np.int64), free=_none(0), meta=np.zeros(1, np.int64),
            first=_none(0), last=_none(0), cursor=_none(0), held=np.empty(0, np.int64),
        )  # fmt: skip
        self.slides = Slides(
            following=np.empty((windows, 0), np.int64),
            lo=_none(windows, 0),
            front=_none(windows, 0),
            back=_none(windows, 0),
        )
        self.grow_slots(1024)

    def ensure_keys(self, keys: int) -> None:
        """Room for this many keys."""
        if keys <= self.keys:
            return
        room = max(keys, 2 * self.keys, 64)
        runs = self.runs
        self.runs = runs._replace(
            first=longer(runs.first, room), last=longer(runs.last, room), cursor=longer(runs.cursor, room),
            held=longer(runs.held, room, 0),
        )  # fmt: skip
        self.slides = Slides(
            following=_wider(self.slides.following, room, self.first_window),
            lo=_wider(self.slides.lo, room, NONE),
            front=_wider(self.slides.front, room, NONE),
            back=_wider(self.slides.back, room, NONE),
        )
        old, self.keys = self.keys, room
        for tower in self.towers:
            csa = allocate(tower.monoid, self.windows * room)
            for which in range(self.windows):
                for new, known in zip(csa, tower.csa, strict=True):
                    new[which * room : which * room + old] = known[which * old : (which + 1) * old]
            tower.csa = csa

    def grow_slots(self, slots: int = 0) -> None:
        """Room for more slices: at least this many in all, or twice as many as now."""
        old, room = self.slots, max(slots, 2 * self.slots)
        runs = self.runs
        free = _roomier(runs.free, room)
        top = int(runs.meta[0])
        free[top : top + room - old] = np.arange(room - 1, old - 1, -1)
        runs.meta[0] = top + room - old
        self.runs = runs._replace(
            stamp=_roomier(runs.stamp, room), stop=_roomier(runs.stop, room),
            follower=_roomier(runs.follower, room), leader=_roomier(runs.leader, room),
            page=_roomier(runs.page, room, np.zeros), free=free,
        )  # fmt: skip
        self.slots = room
        for tower in self.towers:
            tower.parts = _grown(tower.monoid, tower.parts, room)
            lcs = blank(tower.monoid, self.windows * room)
            for which in range(self.windows):
                for new, known in zip(lcs, tower.lcs, strict=True):
                    new[which * room : which * room + old] = known[which * old : (which + 1) * old]
            tower.lcs = lcs

    def place(self, place: Callable[[Runs, Ints, int], int], order: Ints, rows: int) -> Ints:
        """The slot of each row; ``place(runs, slot, begin)`` is called until it has placed them all."""
        slot: Ints = _filled(rows, np.int64, NONE)
        begin = 0
        while (begin := int(place(self.runs, slot, begin))) < len(order):
            left = (len(order) - begin) / max(
                begin, 1
            )  # how many times what was placed so far is still to come
            self.grow_slots(int(self.slots * min(1 + 1.1 * left, 16)))
        return slot

    def due(
        self,
        plan: Callable[[Windows, int], tuple[int, int]],
        end: int,
        room: int = 0,
        pool: Executor | None = None,
    ) -> Iterator[Due]:
        """Due windows with their results, in batches; ``plan(windows, begin)`` is called until it reaches
        the end."""
        begin = 0
        while begin < end:
            windows = _windows(room or self.room(self.runs.held), self.runs.stamp.dtype)
            reached, count = plan(windows, begin)
            if reached == UNFOLD:
                assert self.unfold is not None, "a slice stands for a page, but the state is in no store"
                self.unfold(count)
                continue
            if reached == NONE:
                raise IndexError(count)
            begin = reached
            if count:
                results = self._results(windows, count, pool)
                cut = Windows(*(column[:count] for column in windows))
                yield Due(cut.key, cut.which, cut.start, cut.end, cut.times, results)

    def room(self, held: Ints) -> int:
        """How many windows may be due over runs of so many slices: a window slides on when a slice enters or leaves it."""
        return min(max(self.windows * (2 * int(held.sum()) + len(held)), LEAST_ROOM), MOST_ROOM)

    def shared(self, due: Callable[[Ints, Executor | None], Iterator[Due]], keys: Ints) -> Iterator[Due]:
        """What ``due(keys, pool)`` gives. Of many keys, several threads do some each; of few, an aggregate each."""
        held = np.cumsum(self.runs.held[keys])
        alone = self.pool is None or self.slide is not None or self.unfold is not None
        if alone or len(keys) < SHARES or held[-1] < MANY:
            yield from due(keys, None if alone else self.pool)
            return
        assert self.pool is not None
        cuts = np.searchsorted(held, np.arange(1, SHARES) * (held[-1] / SHARES))
        for found in self.pool.map(lambda some: list(due(some, None)), np.split(keys, cuts)):
            yield from found

    def _results(self, windows: Windows, count: int, pool: Executor | None) -> Results:
        """The results of planned windows."""
        if self.slide is not None:
            return self.slide(self, windows, count)
        mapped = map if pool is None or count < MANY else pool.map
        slid = mapped(lambda tower: tower.slide(self, windows, count), self.towers)
        return {tower.name: result for tower, result in zip(self.towers, slid, strict=True)}

    def evict(self, evict: Callable[[Runs, Slides], None]) -> None:
        """Free slices, and make their slots the identity again."""
        before = int(self.runs.meta[0])
        evict(self.runs, self.slides)
        after = int(self.runs.meta[0])
        if self.freed is not None:
            self.freed(self.runs.free[before:after])
        mapped = map if self.pool is None or after - before < MANY else self.pool.map
        free = self.runs.free
        list(mapped(lambda tower: tower.kernels.wipe(tower.parts, free, before, after), self.towers))

    def release(self, keys: Ints) -> None:
        """Free all slices of these keys."""
        release = self.kernels.release
        self.evict(lambda runs, slides: release(runs, keys))

    def give_back(self, slots: Ints) -> None:
        """Slots that are in no run any more."""
        runs = self.runs
        top = int(runs.meta[0])
        runs.page[slots] = 0
        runs.free[top : top + len(slots)] = slots
        runs.meta[0] = top + len(slots)
        for tower in self.towers:
            tower.kernels.wipe(tower.parts, runs.free, top, top + len(slots))

    def unfolded(self, key: int, slot: int, slots: Ints) -> Ints:
        """Let slices, which are in no run yet, take the place of the one that stands for them; where they are then.

        The first of them gets its slot: what points to the beginning stays right.
        """
        runs, slides = self.runs, self.slides
        covered = [
            slides.front[w, key] != NONE and runs.stamp[slot] <= runs.stamp[slides.front[w, key]]
            for w in range(self.windows)
        ]
        newer = int(runs.follower[slot])
        beyond = [newer if covered[w] and slides.front[w, key] != slot else NONE for w in range(self.windows)]
        placed: Ints = np.append(slot, slots[1:])
        for array in (
            runs.stamp,
            runs.stop,
            runs.page,
            *(part for tower in self.towers for part in tower.parts),
        ):
            array[slot] = array[slots[0]]
        self.give_back(slots[:1])
        self.rearranged.add(key)
        runs.follower[placed[:-1]], runs.leader[placed[1:]] = placed[1:], placed[:-1]
        runs.follower[placed[-1]] = newer
        if newer == NONE:
            runs.last[key] = placed[-1]
        else:
            runs.leader[newer] = placed[-1]
        runs.held[key] += len(placed) - 1
        for which in range(self.windows):
            for pointer in (slides.front, slides.back):
                if pointer[which, key] == slot:
                    pointer[which, key] = placed[-1]
            if covered[which]:
                for tower in self.towers:
                    tower.kernels.unfold(tower.parts, tower.lcs, placed, beyond[which], which * self.slots)
        return placed

    def run(self, key: int) -> Ints:
        """The slots of a key, oldest first."""
        slots, slot = [], int(self.runs.first[key])
        while slot != NONE:
            slots.append(slot)
            slot = int(self.runs.follower[slot])
        return np.array(slots, dtype=np.int64)


class Due:
    """A batch of results: windows of keys, and for each aggregate its values and which of them are not null.

    An entry stands for ``times`` windows in a row, each one slide later, with the same result.
    """

    def __init__(
        self, key: Any, which: Any, start: Any, end: Any, times: Any, results: Mapping[str, tuple[Any, Any]]
    ) -> None:
        self.key, self.which, self.start, self.end, self.times, self.results = (
            key,
            which,
            start,
            end,
            times,
            results,
        )

    def cut(self, times: Any) -> Due:
        """Only the first so many windows of each entry."""
        some = times > 0
        results = {name: (out[some], ok[some]) for name, (out, ok) in self.results.items()}
        return Due(self.key[some], self.which[some], self.start[some], self.end[some], times[some], results)


def _windows(room: int, stamps: Any) -> Windows:
    types = {
        "start": stamps,
        "end": stamps,
        "lo": np.int32,
        "hi": np.int32,
        "back": np.int32,
        "flip": np.bool_,
    }
    return Windows(**{name: arrow.blank(room, types.get(name, np.int64)) for name in Windows._fields})


def _none(*shape: int) -> NDArray[np.int32]:
    return np.full(shape, NONE, dtype=np.int32)


def longer(array: Any, room: int, fill: int = NONE) -> Any:
    """The same beginning, then the given number."""
    longer = np.full(room, fill, dtype=array.dtype)
    longer[: len(array)] = array
    return longer


def _filled(count: int, dtype: Any, value: Any) -> Any:
    array = arrow.blank(count, dtype)
    array.fill(value)
    return array


def _roomier(array: Any, room: int, make: Any = arrow.blank) -> Any:
    """The same beginning, and room for entries that are written before they are read."""
    roomier = make(room, array.dtype)
    roomier[: len(array)] = array
    return roomier


def _wider(array: Any, room: int, fill: int) -> Any:
    wider = np.full((array.shape[0], room), fill, dtype=array.dtype)
    wider[:, : array.shape[1]] = array
    return wider


def _grown(monoid: Monoid, parts: tuple[Any, ...], room: int) -> tuple[Any, ...]:
    grown = allocate(monoid, room)
    for new, known in zip(grown, parts, strict=True):
        new[: len(known)] = known
    return grown
