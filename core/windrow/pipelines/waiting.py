# SPDX-License-Identifier: Apache-2.0
"""Updates that wait: until the watermark has passed them, in the order of their ids, or until another space takes them."""

from __future__ import annotations

from collections.abc import Iterable
from heapq import heapify, heappop, heappush
from typing import Any, NamedTuple

from windrow.errors import CorruptSnapshot
from windrow.pipelines.changes import AFTER_WINDOWS, Id
from windrow.pipelines.emissions import Update
from windrow.pipelines.rows import Event, id_of
from windrow.pipelines.state import encode, read_page, write_page

__all__ = ["Imported", "WaitingUpdates", "outbox_from_page"]


class Imported(NamedTuple):
    """An update of a stream of another space. It keeps the whole id of its event."""

    ts: int
    sequence: int
    origin: str
    named: Any
    """The channels, as a dict. None: the stream is computed differently from here on, and its values are forgotten."""
    stream: str
    home: str
    """The space that emitted it."""


Waiting = Event | Imported


class WaitingUpdates:
    """A heap of updates."""

    def __init__(self, updates: Iterable[Waiting] = ()) -> None:
        self._heap = [(*update[:3], number, update) for number, update in enumerate(updates)]
        self._entered = len(self._heap)
        heapify(self._heap)

    @classmethod
    def load(cls, page: bytes | None) -> WaitingUpdates:
        """Those of :meth:`page`."""
        try:
            rows = read_page(page or b"", "updates that wait")
            return cls([_checked(row) for row in rows])
        except CorruptSnapshot:
            raise
        except (LookupError, TypeError, ValueError) as cause:
            raise CorruptSnapshot(f"updates that wait are damaged: {cause!r}") from cause

    def __len__(self) -> int:
        return len(self._heap)

    def add(self, update: Waiting) -> None:
        """Take an update. Those with equal ids keep their order."""
        self._entered += 1
        heappush(self._heap, (*update[:3], self._entered, update))

    def release(self, before: Id) -> list[Waiting]:
        """The updates with smaller ids, in order; they wait no longer."""
        released: list[Waiting] = []
        while self._heap and self._heap[0][:3] < before:
            released.append(heappop(self._heap)[4])
        return released

    @property
    def next_time(self) -> int | None:
        """The watermark that releases the first: one after its time, but that time itself if a window made it."""
        if not self._heap:
            return None
        ts, sequence = self._heap[0][:2]
        return ts if sequence < AFTER_WINDOWS else ts + 1

    def page(self) -> bytes:
        """All of them in order, as JSON."""
        return write_page(encode([entry[4] for entry in sorted(self._heap, key=lambda entry: entry[:4])]))


def outbox_from_page(page: bytes | None) -> list[tuple[tuple[str, ...], Update]]:
    """Updates that wait for other spaces, and these spaces, as they were written as JSON."""
    if page is None:
        return []
    try:
        return [
            (tuple(spaces), Update(stream, Id(*id_of((*at, {}))), tuple(values), tuple(channels)))
            for spaces, (stream, at, values, channels) in read_page(page, "exported updates")
        ]
    except CorruptSnapshot:
        raise
    except (LookupError, TypeError, ValueError) as cause:
        raise CorruptSnapshot(f"exported updates are damaged: {cause!r}") from cause


def _checked(row: Any) -> Waiting:
    """An update of a page, if it has an id; one that comes from another space has two fields more, and may be a restart."""
    *at, named = row[:4]
    ts, sequence, origin = id_of((*at, {} if named is None and len(row) > 4 else named))
    if len(row) == 4:
        return ts, sequence, origin, row[3]
    update = Imported(*row)
    if not type(update.stream) is type(update.home) is str:
        raise ValueError(f"{row!r} is not an update")
    return update
