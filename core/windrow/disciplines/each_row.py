"""Windows that begin and end at rows: every row is a slice of its own."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from windrow.bound import BoundQuery
from windrow.disciplines.base import Discipline, Rows, per_key
from windrow.errors import DeltaOrderError
from windrow.kernels.layout import FOREVER, NONE, UNSET
from windrow.runs import Due, Ints


class EachRow(Discipline):
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


class ByTuple(EachRow):
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


class ByTime(EachRow):
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

    def restored(self) -> None:
        """State that was written before pages held such rows knows the end of the last window only by its last row."""
        slides, window = self.state.slides, self.window
        back = slides.back[0]
        unknown = (back != NONE) & (slides.following[0] == UNSET)
        slides.following[0, unknown] = (
            self.state.runs.stamp[back[unknown]] - window.offset
        ) // window.slide + 2

    def evict(self, keys: Ints, watermark: int) -> None:
        self.state.evict(lambda runs, slides: self.state.kernels.evict_before_lo(runs, slides, keys))


class ByDelta(EachRow):
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
        self.state.evict(lambda runs, slides: evict(runs, slides, keys, per_key(bounds)))
