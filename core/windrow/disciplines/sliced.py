"""Time and count windows, which cut their axis into slices, and sessions, which are slices themselves."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Executor
from typing import Any

import numpy as np

from windrow.bound import BoundQuery
from windrow.disciplines.base import Discipline, Rows, per_key
from windrow.kernels.layout import FOREVER, NONE, Windows
from windrow.runs import Due, Ints


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
        yield from self.due_below(keys, per_key(self.counter("seen")))
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
        self.state.evict(lambda runs, slides: evict(runs, slides, keys, per_key(slides.following[0].copy())))
