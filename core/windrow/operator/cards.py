# SPDX-License-Identifier: Apache-2.0
"""The windows that cold keys will have without a further row: what comes out while their slices are frozen.

Without a row, the result of a key's window stays the same until its oldest slice leaves. A *card* is such a stretch of
windows: the next one, how many there are, and their result. Every cold key has one card for each window of the query.
When a card is used up, the next one comes from the :class:`Futures` of its block.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from windrow.kernels.slices.layout import FOREVER, DueWindows, Results
from windrow.operator.plan import Due, Ints
from windrow.operator.room import longer
from windrow.storage.cold_block import Codec, pack, unpack

COLUMNS = ("key", "which", "start", "end", "repeat")


class Futures:
    """All windows that the keys of a block will have, in the order of its keys, each key's by window and time."""

    def __init__(self, due: Due, codec: Codec, *, compiled: bool) -> None:
        columns = {name: getattr(due, name) for name in COLUMNS}
        columns |= {f"{name}.out": results.out for name, results in due.results.items()}
        columns |= {f"{name}.ok": results.ok for name, results in due.results.items()}
        self.names, self.compiled = list(due.results), compiled
        self.plain = {name: each for name, each in columns.items() if each.dtype.kind not in "iubf"}
        packed = {name: each for name, each in columns.items() if name not in self.plain}
        self.packed = pack(packed, codec, compiled=compiled)

    @property
    def nbytes(self) -> int:
        return len(self.packed) + sum(each.nbytes for each in self.plain.values())

    def due(self) -> Due:
        """The windows, with their results."""
        columns = {**unpack(self.packed, "futures of cold keys", compiled=self.compiled), **self.plain}
        results = {
            name: Results(columns[f"{name}.out"], columns[f"{name}.ok"].astype(np.bool_))
            for name in self.names
        }
        key, which, start, end, repeat = (columns[name] for name in COLUMNS)
        return Due(key, which, start, end, repeat, results)


class Taken(NamedTuple):
    """What :meth:`Cards.take` found."""

    due: Due
    used_up: Ints
    """Keys whose card has no window left."""
    through: Any
    """For each of them, where its last window ends."""


class Cards:
    """A card for each window of the query and each cold key; those of other keys mean nothing."""

    def __init__(self, slides: Ints, lengths: Ints | None, stamps: Any, due_after: int) -> None:
        self.slides = np.maximum(slides, 1)
        """How far each window slides, or 1 if windows are not alike: then a card is one window."""
        self.due_after = due_after
        self.lengths = lengths
        """How long each window is; none if windows are not alike: then a card says when its window starts."""
        self.start = None if lengths is not None else np.zeros((len(slides), 0), stamps)
        self.end = np.zeros((len(slides), 0), stamps)
        self.repeat = np.zeros((len(slides), 0), np.int64)
        self.results: dict[str, Results] = {}

    @property
    def nbytes(self) -> int:
        results = sum(array.nbytes for each in self.results.values() for array in each)
        starts = 0 if self.start is None else self.start.nbytes
        return starts + self.end.nbytes + self.repeat.nbytes + results

    def put(
        self, keys: Ints, room: int, which: Any, due: Due | DueWindows, results: Mapping[str, Results]
    ) -> None:
        """Give keys new cards: those of the entries of ``due``, which are of these keys and windows."""
        self._grow(room, results)
        self.end[which, keys] = due.end
        if self.start is not None:
            self.start[which, keys] = due.start
        self.repeat[which, keys] = due.repeat
        for name, (out, ok) in results.items():
            self.results[name].out[which, keys], self.results[name].ok[which, keys] = out, ok

    def clear(self, keys: Ints, room: int) -> None:
        """These keys have no windows to come."""
        self._grow(room, {})
        self.repeat[:, keys] = 0
        for results in self.results.values():
            if results.out.dtype.hasobject:
                results.out[:, keys] = None

    def exhausted(self, which: int, keys: Ints, watermark: int, empty: Ints) -> Any:
        """For which of these keys a watermark uses up the card, while windows follow until the key is ``empty``."""
        repeat = self.repeat[which, keys]
        last = self.end[which, keys] + (repeat - 1) * self.slides[which] + self.due_after
        return (repeat > 0) & (last <= watermark) & (last < empty)

    def take(self, which: int, keys: Ints, watermark: int) -> Taken:
        """The windows of the cards that are due at a watermark. The cards move on."""
        slide, end, repeat = self.slides[which], self.end[which, keys], self.repeat[which, keys]
        count = np.clip((watermark - self.due_after - end) // slide + 1, 0, repeat)
        some = count > 0
        keys, count, end = keys[some], count[some], end[some]
        used_up = count == repeat[some]
        results = {
            name: Results(out[which, keys], ok[which, keys]) for name, (out, ok) in self.results.items()
        }
        start = self._starts(which, keys)
        due = Due(keys, np.full(len(keys), which), start, end, count, results)
        moved = count * slide
        if self.start is not None:
            self.start[which, keys] += moved
        self.end[which, keys] += moved
        self.repeat[which, keys] -= count
        return Taken(due, keys[used_up], (end + moved - slide)[used_up])

    def turn(self, which: int, used_up: Ints, through: Any, futures: Due, watermark: int) -> Due:
        """The next cards of keys whose cards are used up; the windows of them that are due already.

        ``through`` is where the last window of each key ends, ``futures`` those of the block that the keys are in.
        """
        slide, order = self.slides[which], np.argsort(used_up)
        place = np.minimum(np.searchsorted(used_up, futures.key, sorter=order), len(used_up) - 1)
        place = order[place]
        wanted = (used_up[place] == futures.key) & (futures.which == which) & (futures.end > through[place])
        coming = futures.cut(np.where(wanted, futures.repeat, 0))
        count = np.clip((watermark - self.due_after - coming.end) // slide + 1, 0, coming.repeat)
        due = coming.cut(count)
        left = coming.repeat - count
        rest = coming._replace(start=coming.start + count * slide, end=coming.end + count * slide).cut(left)
        _, first = np.unique(rest.key, return_index=True)
        at = np.zeros(len(rest.key), np.int64)
        at[first] = 1
        card = rest.cut(np.where(at > 0, rest.repeat, 0))
        self.put(card.key, self.repeat.shape[1], which, card, card.results)
        return due

    def wake(self, keys: Ints) -> int:
        """The earliest watermark at which one of these keys has a window due; FOREVER if none has."""
        ends = self.end[:, keys][self.repeat[:, keys] > 0]
        return int(ends.min()) + self.due_after if len(ends) else FOREVER

    def _starts(self, which: int, keys: Ints) -> Any:
        """When the next window of each of these keys starts."""
        if self.lengths is None:
            assert self.start is not None, "windows that are not alike have starts"
            return self.start[which, keys]
        return self.end[which, keys] - self.lengths[which]

    def _grow(self, room: int, results: Mapping[str, Results]) -> None:
        if room > self.repeat.shape[1]:
            self.start = None if self.start is None else longer(self.start, room, 0)
            self.end = longer(self.end, room, 0)
            self.repeat = longer(self.repeat, room, 0)
            self.results = {
                name: Results(longer(out, room, 0), longer(ok, room, 0))
                for name, (out, ok) in self.results.items()
            }
        for name, (out, _) in results.items():
            if name not in self.results:
                shape = self.repeat.shape
                self.results[name] = Results(np.zeros(shape, out.dtype), np.zeros(shape, np.bool_))
