"""What a discipline promises to the operator that drives it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from windrow.bound import BoundQuery
from windrow.kernels.layout import FOREVER, NONE, UNSET, Slides
from windrow.runs import Due, Ints, State


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
        slides.front[:] = slides.back[:] = (
            NONE  # lcs and csa have been used: the next window computes them anew
        )
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


def per_key(values: NDArray[Any]) -> NDArray[Any]:
    """Kernels read an array of one entry as the same value for all keys."""
    return values if len(values) != 1 else np.append(values, values)
