"""How each kind of window cuts rows into slices, knows its due windows, and lets slices go: one small class
each.

All of them drive the same :class:`~windrow.runs.State`. ``ordered`` disciplines see every row in its final
order (time, then arrival), so the operator keeps rows back until the watermark has passed them.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Executor
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from windrow.bound import BoundQuery
from windrow.errors import DeltaOrderError
from windrow.kernels.layout import FOREVER, NONE, UNSET, Slides, Windows
from windrow.runs import Due, Ints, State
from windrow.windows import (
    CountWindow,
    DeltaWindow,
    PolicyWindow,
    SessionWindow,
    SlideByTime,
    SlideByTuple,
    TimeWindow,
)


@dataclass
class Rows:
    """Rows on their way into slices. ``order`` groups them by key, each key's rows by time."""

    data: pa.Table
    times: Ints
    keys: Ints
    order: Ints
    grouped_keys: Ints
    """The keys in that order: quicker to read than one by one through the order. """
    grouped_times: Ints


class Discipline:
    """One kind of window over the runs of all keys.

    The operator calls ``take`` with new rows, then ``due`` with the watermark until it is exhausted, then
    ``evict``. ``wake`` is then the earliest watermark at which a further window is due. ``counters`` are
    whole numbers (or, for deltas, attribute values) kept per key.
    """

    ordered: ClassVar[bool] = True
    waits_for_rows: ClassVar[bool] = False
    """Whether a window that has begun may stay unfinished whatever the watermark is."""
    first_window: ClassVar[int] = UNSET
    windows = 1
    stamps: Any = np.int64

    def __init__(self, bound: BoundQuery) -> None:
        self.bound = bound
        self.window: Any = bound.query.window
        self.wake = FOREVER
        self.counters: dict[str, NDArray[Any]] = {}

    def attach(self, state: State) -> None:
        self.state = state

    def counter(self, name: str, rows: int = 0, dtype: Any = np.int64) -> NDArray[Any]:
        """A counter with an entry (or ``rows`` of them) for every key."""
        shape = (rows, self.state.keys) if rows else (self.state.keys,)
        known = self.counters.get(name)
        if known is None or known.shape != shape:
            fresh = np.zeros(shape, dtype=dtype)
            if known is not None:
                fresh[..., : known.shape[-1]] = known
            known = self.counters[name] = fresh
        return known

    def counter_named(self, name: str) -> NDArray[Any]:
        """The counter of this name, as this kind of window makes it."""
        return self.counter(name)

    def counted(self) -> dict[str, NDArray[Any]]:
        """All counters, with an entry for every key."""
        return {
            name: self.counter(name, known.shape[0] if known.ndim == 2 else 0, known.dtype)
            for name, known in sorted(self.counters.items())
        }

    def take(self, rows: Rows) -> Ints:
        """Put rows into slices; the slot of each."""
        raise NotImplementedError

    def due(self, keys: Ints, watermark: int) -> Iterator[Due]:
        """Windows that are due at this watermark, keys in the given order."""
        raise NotImplementedError

    def begun(self, keys: Ints, time: int) -> Iterator[Due]:
        """Windows that are not due, but begin before this time, with their results so far. Nothing
        changes."""
        slides, wake, counters = self.state.slides, self.wake, self.counters
        self.state.slides = Slides(*(array.copy() for array in slides))
        self.counters = {name: counter.copy() for name, counter in counters.items()}
        yield from self.unfinished(keys, time)
        slides.front[:] = NONE  # their lcs and csa have been used: they are computed anew for the next window
        self.state.slides, self.wake, self.counters = slides, wake, counters

    def unfinished(self, keys: Ints, time: int) -> Iterator[Due]:
        """What :meth:`begun` gives, at the cost of what the windows need to go on."""
        return self.due(keys, FOREVER)

    def evict(self, keys: Ints, watermark: int) -> None:
        """Free the slices that no window at or after this watermark needs."""
        raise NotImplementedError

    def closed(self, key: int, reached: int) -> Any:
        """Slices of this key before here take no more rows, and no window will end inside them."""
        return -FOREVER

    def restored(self) -> None:
        """Called once after the state was loaded from a snapshot."""

    def rearranged(self, key: int, gone: Ints, new: Ints) -> None:
        """Slices of a key were folded or unfolded: some slots are about to go, others are new or hold other partials."""

    def forget(self, numbers: Ints) -> None:
        """Keys without any state: what there is of them can be used for other keys."""
        self.state.slides.following[:, numbers] = self.first_window


class _Sliced(Discipline):
    """Windows with fixed bounds on an axis: slices are cut wherever a window starts or ends."""

    def __init__(self, bound: BoundQuery, windows: list[Any]) -> None:
        super().__init__(bound)
        self.windows = len(windows)
        self.ranges = np.array([window.range for window in windows], dtype=np.int64)
        self.every = np.array([window.slide for window in windows], dtype=np.int64)
        self.offsets = np.array([getattr(window, "offset", 0) for window in windows], dtype=np.int64)
        cuts = {(window.slide, getattr(window, "offset", 0) % window.slide) for window in windows}
        cuts |= {(w.slide, (getattr(w, "offset", 0) + w.range) % w.slide) for w in windows}
        self.cut_every, self.cut_at = (
            np.array(column, dtype=np.int64) for column in zip(*sorted(cuts), strict=True)
        )
        self.gaps = bool((self.every > self.ranges).all())

    def slice_rows(self, rows: Rows, axis: Ints) -> Ints:
        """The slot of each row; ``axis`` is where the rows lie, in the order of the rows."""
        place = self.state.kernels.place_in_slices
        return self.state.place(
            lambda runs, slot, begin: place(
                runs, rows.order, rows.grouped_keys, axis, self.cut_every, self.cut_at,
                self.ranges, self.every, self.offsets, self.gaps, slot, begin,
            ),
            rows.order, len(axis),
        )  # fmt: skip

    def due_below(self, keys: Ints, limit: Ints) -> Iterator[Due]:
        state, plan, wakes = self.state, self.state.kernels.plan_slices, []

        def due(keys: Ints, pool: Executor | None) -> Iterator[Due]:
            wakes.append(wake := np.full(1, FOREVER, dtype=np.int64))

            def planned(windows: Windows, begin: int) -> tuple[int, int]:
                done: tuple[int, int] = plan(
                    state.runs, state.slides, windows, keys, limit, self.ranges, self.every, self.offsets,
                    begin, wake,
                )  # fmt: skip
                return done

            return state.due(planned, len(keys), state.room(state.runs.held[keys]), pool)

        yield from state.shared(due, keys)
        self.wake = min(int(wake[0]) for wake in wakes)

    def evict(self, keys: Ints, watermark: int) -> None:
        evict = self.state.kernels.evict_slices
        self.state.evict(
            lambda runs, slides: evict(runs, slides, keys, self.ranges, self.every, self.offsets)
        )


class InTime(_Sliced):
    """Time windows, one or several over the same slices. Disorder inside open slices is free."""

    ordered = False

    def take(self, rows: Rows) -> Ints:
        self.seek(rows)
        if len(rows.times):
            first = (int(rows.times.min()) - self.offsets - self.ranges) // self.every + 1
            self.wake = min(self.wake, int((first * self.every + self.offsets + self.ranges).min()))
        return self.slice_rows(rows, rows.grouped_times)

    def seek(self, rows: Rows) -> None:
        """Set the cursors to where new rows are likely to belong: at the end."""
        self.state.runs.cursor[:] = NONE

    def due(self, keys: Ints, watermark: int) -> Iterator[Due]:
        return self.due_below(keys, np.array([watermark], dtype=np.int64))

    def unfinished(self, keys: Ints, time: int) -> Iterator[Due]:
        for due in super().unfinished(keys, time):
            begun = -((due.start - time) // self.every[due.which])
            yield due.cut(np.minimum(due.times, begun))

    def span(self, keys: Ints) -> tuple[int, int]:
        """From the earliest end of a window that is not final to the latest."""
        runs = self.state.runs
        held = runs.last[keys[runs.held[keys] > 0]]
        return self.wake, int(runs.stop[held].max() + self.ranges.max()) if len(held) else self.wake

    def closed(self, key: int, reached: int) -> int:
        return self.cut(reached)

    def cut(self, time: int) -> int:
        """The last time, not after this one, at which slices are cut."""
        return max(
            int(time - (time - at) % every)
            for every, at in zip(self.cut_every.tolist(), self.cut_at.tolist(), strict=True)
        )


class InCount(_Sliced):
    """Count windows are time windows on the axis of row positions, whose clock is the number of rows of the
    key."""

    first_window = 0
    waits_for_rows = True

    def take(self, rows: Rows) -> Ints:
        position = np.empty(len(rows.times), dtype=np.int64)
        self.state.kernels.number(rows.order, rows.keys, self.counter("seen"), position)
        return self.slice_rows(rows, position[rows.order])

    def due(self, keys: Ints, watermark: int) -> Iterator[Due]:
        yield from self.due_below(keys, _per_key(self.counter("seen")))
        self.wake = FOREVER

    def unfinished(self, keys: Ints, time: int) -> Iterator[Due]:
        return self.due_below(keys, np.array([FOREVER], dtype=np.int64))

    def closed(self, key: int, reached: int) -> int:
        seen = int(self.counter("seen")[key])
        return max(
            int(seen - (seen - at) % every) for every, at in zip(self.cut_every, self.cut_at, strict=True)
        )


class InSessions(Discipline):
    """Each session is one slice, which grows."""

    def take(self, rows: Rows) -> Ints:
        place, gap = self.state.kernels.place_in_sessions, self.window.gap
        return self.state.place(
            lambda runs, slot, begin: place(runs, rows.order, rows.keys, rows.times, gap, slot, begin),
            rows.order,
            len(rows.times),
        )

    def due(self, keys: Ints, watermark: int) -> Iterator[Due]:
        wake = np.full(1, FOREVER, dtype=np.int64)
        plan, gap, state = self.state.kernels.plan_sessions, self.window.gap, self.state
        yield from state.due(
            lambda windows, begin: plan(state.runs, state.slides, windows, keys, watermark, gap, begin, wake),
            len(keys),
        )
        self.wake = int(wake[0])

    def evict(self, keys: Ints, watermark: int) -> None:
        evict = self.state.kernels.evict_below
        self.state.evict(lambda runs, slides: evict(runs, slides, keys, _per_key(slides.following[0].copy())))


class _EachRow(Discipline):
    """Every row is a slice of its own; windows begin and end at rows."""

    def take(self, rows: Rows) -> Ints:
        self.rows = rows
        self.axis = self.stamps_of(rows)
        place = self.state.kernels.place_each
        self.slot = self.state.place(
            lambda runs, slot, begin: place(runs, rows.order, rows.keys, self.axis, slot, begin),
            rows.order,
            len(self.axis),
        )
        return self.slot

    def stamps_of(self, rows: Rows) -> NDArray[Any]:
        return rows.times

    def closed(self, key: int, reached: int) -> Any:
        return np.inf


class ByTuple(_EachRow):
    """Slide-by-tuple: every so many rows, a length of time."""

    def take(self, rows: Rows) -> Ints:
        self.position = np.empty(len(rows.times), dtype=np.int64)
        self.state.kernels.number(rows.order, rows.keys, self.counter("seen"), self.position)
        return super().take(rows)

    def due(self, keys: Ints, watermark: int) -> Iterator[Due]:
        plan, window, state, rows = (
            self.state.kernels.plan_tuple_slides,
            self.window,
            self.state,
            self.rows,
        )
        yield from state.due(
            lambda windows, begin: plan(
                state.runs, state.slides, windows, rows.order, rows.keys, rows.times, self.position, self.slot,
                window.range, window.slide, begin,
            ),
            len(rows.order),
        )  # fmt: skip

    def evict(self, keys: Ints, watermark: int) -> None:
        bound = np.array([watermark - self.window.range + 1], dtype=np.int64)
        evict = self.state.kernels.evict_below
        self.state.evict(lambda runs, slides: evict(runs, slides, keys, bound))


class ByTime(_EachRow):
    """Slide-by-time: every length of time, so many rows."""

    def due(self, keys: Ints, watermark: int) -> Iterator[Due]:
        wake = np.full(1, FOREVER, dtype=np.int64)
        plan, window, state = self.state.kernels.plan_time_slides, self.window, self.state
        held = self.counter("held")
        yield from state.due(
            lambda windows, begin: plan(
                state.runs, state.slides, windows, keys, watermark, window.range, window.slide, window.offset,
                held, state.fold, begin, wake,
            ),
            len(keys),
        )  # fmt: skip
        self.wake = int(wake[0])

    def closed(self, key: int, reached: int) -> Any:
        back = self.state.slides.back[0, key]
        return -FOREVER if back == NONE else self.state.runs.stamp[back]

    def evict(self, keys: Ints, watermark: int) -> None:
        self.state.evict(lambda runs, slides: self.state.kernels.evict_before_lo(runs, slides, keys))


class ByDelta(_EachRow):
    """Delta: whenever an attribute has grown by so much."""

    def __init__(self, bound: BoundQuery) -> None:
        super().__init__(bound)
        self.stamps = np.float64 if pa.types.is_floating(bound.bound_type) else np.int64

    def stamps_of(self, rows: Rows) -> NDArray[Any]:
        return self.bound.deltas(rows.data)

    def counter_named(self, name: str) -> NDArray[Any]:
        return self.counter(name, 3, self.stamps)

    def due(self, keys: Ints, watermark: int) -> Iterator[Due]:
        plan, window, state, rows = (
            self.state.kernels.plan_deltas,
            self.window,
            self.state,
            self.rows,
        )
        trigger = self.counter_named("trigger")
        length, slide = self.stamps(window.range), self.stamps(window.slide)
        try:
            yield from state.due(
                lambda windows, begin: plan(
                    state.runs,
                    state.slides,
                    windows,
                    rows.order,
                    rows.keys,
                    self.axis,
                    self.slot,
                    length,
                    slide,
                    trigger,
                    begin,
                ),
                len(rows.order),
            )
        except IndexError as found:
            row = found.args[0]
            before = trigger[2, rows.keys[row]]
            raise DeltaOrderError(
                f"attribute {window.attribute!r} of DeltaWindow fell from {before} to {self.axis[row]} (rows in order of time); "
                "it must never decrease"
            ) from None

    def evict(self, keys: Ints, watermark: int) -> None:
        window, trigger = self.window, self.counter_named("trigger")
        bounds = np.maximum(trigger[2], trigger[1] + window.slide) - window.range
        bounds[trigger[0] == 0] = UNSET
        evict = self.state.kernels.evict_below
        self.state.evict(lambda runs, slides: evict(runs, slides, keys, _per_key(bounds)))


class ByPolicy(_EachRow):
    """Policy windows: after each row, evict as the user's invariants say, and emit (section 5.2 of the A²MTA
    thesis)."""

    def due(self, keys: Ints, watermark: int) -> Iterator[Due]:
        rows = self.rows
        for row in rows.order.tolist():
            yield self._enforce(int(rows.keys[row]), int(self.slot[row]))

    def _enforce(self, key: int, newest: int) -> Due:
        window, state = self.window, self.state
        oldest = int(state.slides.lo[0, key])
        if oldest == NONE:
            oldest = int(state.runs.first[key])
        before = found = self._query(key, oldest, newest)
        candidate = [tower.monoid.identity for tower in state.towers]
        while oldest != newest and window.valid is not None and not window.valid(_named(found)):
            candidate = self._extended(candidate, oldest)
            oldest = self._leave(key, oldest)
            found = self._query(key, oldest, newest)
        while oldest != newest and window.evict is not None:
            more = self._extended(candidate, oldest)
            after = self._peek(key, int(state.runs.follower[oldest]), newest)
            if not window.evict(self._result(more), _named(after), _named(before)):
                break
            candidate = more
            oldest = self._leave(key, oldest)
            found = self._query(key, oldest, newest)
        return found

    def _leave(self, key: int, slot: int) -> int:
        self.state.kernels.pass_by(self.state.slides, 0, key, slot)
        return int(self.state.runs.follower[slot])

    def _query(self, key: int, lo: int, hi: int) -> Due:
        state = self.state
        start, end = state.runs.stamp[lo], state.runs.stamp[hi]

        def one(windows: Windows, begin: int) -> tuple[int, int]:
            return 1, state.kernels.emit(windows, 0, state.slides, key, 0, start, end, lo, hi, 1)

        return next(iter(state.due(one, 1, room=1)))

    def _peek(self, key: int, lo: int, hi: int) -> Due:
        """The result without the oldest slice, before it is known whether that slice goes."""
        slides = self.state.slides
        was = slides.lo[0, key], slides.front[0, key]
        oldest = int(self.state.runs.leader[lo])
        self._leave(key, oldest)
        peeked = self._query(key, lo, hi)
        if slides.front[0, key] == was[1]:
            slides.lo[0, key] = was[0]
        else:  # a new boundary was set at lo; the oldest slice is not covered by it
            slides.lo[0, key], slides.front[0, key] = was[0], NONE
        return peeked

    def _extended(self, candidate: list[Any], slot: int) -> list[Any]:
        """With the partials of the oldest slice, which then stands for no page."""
        while self.state.runs.page[slot] and self.state.unfold is not None:
            self.state.unfold(slot)
        towers = self.state.towers
        return [t.monoid.combine(c, t.partial(slot)) for t, c in zip(towers, candidate, strict=True)]

    def _result(self, candidate: list[Any]) -> SimpleNamespace:
        pairs = zip(self.state.towers, candidate, strict=True)
        return SimpleNamespace(**{tower.name: tower.monoid.result(partial) for tower, partial in pairs})

    def evict(self, keys: Ints, watermark: int) -> None:
        self.state.evict(lambda runs, slides: self.state.kernels.evict_before_lo(runs, slides, keys))


def discipline(bound: BoundQuery) -> Discipline:
    """The discipline of a query's window."""
    window = bound.query.window
    if isinstance(window, CountWindow):
        return InCount(bound, [window])
    for kind, made in _KINDS.items():
        if isinstance(window, kind):
            return made(bound)
    windows = [each for _, each in bound.query.windows]
    assert all(isinstance(each, TimeWindow) for each in windows)
    return InTime(bound, windows)


_KINDS: dict[type, type[Discipline]] = {
    SessionWindow: InSessions,
    SlideByTuple: ByTuple,
    SlideByTime: ByTime,
    DeltaWindow: ByDelta,
    PolicyWindow: ByPolicy,
}


def _per_key(values: NDArray[Any]) -> NDArray[Any]:
    """Kernels read an array of one entry as the same value for all keys."""
    return values if len(values) != 1 else np.append(values, values)


def _named(found: Due) -> SimpleNamespace:
    return SimpleNamespace(
        **{
            name: (out[0].item() if hasattr(out[0], "item") else out[0]) if ok[0] else None
            for name, (out, ok) in found.results.items()
        }
    )
