# SPDX-License-Identifier: Apache-2.0
"""The log of changes of a space: one page for each, so that a change costs a commit little.

A change is scheduled, applied or refused. The graph is what the applied ones make of it, in the order in which they were
applied.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from windrow.errors import CorruptSnapshot
from windrow.pipelines.changes import Change, Id
from windrow.pipelines.state import encode, read_page, write_page

__all__ = ["Ledger"]

SCHEDULED, REFUSED = 0, -1
"""Instead of the version that a change made."""
AT_ONCE = 1024
"""How many changes are read at a time."""


class Ledger:
    """The changes of a space, and how often each stream was computed anew."""

    def __init__(self) -> None:
        self.count = 0
        self.scheduled: list[tuple[Id, int]] = []
        """The times and numbers of changes that wait for their time, sorted."""
        self._changes: dict[int, Change] = {}
        self._versions: dict[int, int] = {}
        self._generations: dict[str, int] = {}
        self._dirty: set[int] = set()

    @classmethod
    def load(cls, count: int, get: Callable[[Iterable[str]], Mapping[str, bytes]]) -> Ledger:
        ledger = cls()
        for first in range(0, count, AT_ONCE):  # a log that is not there is not asked for as a whole
            names = [f"g/{number}" for number in range(first, min(first + AT_ONCE, count))]
            found = get(names)
            ledger._fill([found.get(name) for name in names])
        ledger._renew(get(["generations"]).get("generations"))
        return ledger

    def _fill(self, pages: list[bytes | None]) -> None:
        for number, page in enumerate(pages, self.count):
            if page is None:
                raise CorruptSnapshot(f"change {number} of the log is missing")
            entry = read_page(page, f"change {number}")
            try:
                self._changes[number] = change = Change.from_row(entry["change"])
                self._versions[number] = int(entry["version"])
            except (LookupError, TypeError, ValueError, OverflowError) as cause:
                raise CorruptSnapshot(f"change {number} of the log is damaged: {cause!r}") from cause
            if self._versions[number] == SCHEDULED and change.at is not None:
                insort(self.scheduled, (change.at.after_windows(), number))
        self.count += len(pages)

    def _renew(self, generations: bytes | None) -> None:
        if generations is None:
            return
        try:
            self._generations = {str(k): int(v) for k, v in read_page(generations, "generations").items()}
        except (AttributeError, TypeError, ValueError, OverflowError) as cause:
            raise CorruptSnapshot(f"the generations of the streams are damaged: {cause!r}") from cause

    def add(self, change: Change) -> int:
        """Write a change down; its number."""
        number, self.count = self.count, self.count + 1
        self._changes[number], self._versions[number] = change, SCHEDULED
        self._dirty.add(number)
        return number

    def schedule(self, change: Change, at: Id) -> None:
        """Keep a change until its time. Those with equal times keep their order."""
        insort(self.scheduled, (at.after_windows(), self.add(change)))

    def due(self, before: Id) -> Iterator[tuple[Change, int]]:
        """The changes whose time is at or before an id; they are no longer scheduled."""
        while self.scheduled and self.scheduled[0][0] <= before:
            _, number = self.scheduled.pop(0)
            yield self._changes[number], number

    @property
    def next_time(self) -> int | None:
        """When the next change is due: a watermark after its time releases it."""
        return self.scheduled[0][0].ts + 1 if self.scheduled else None

    def apply(self, number: int, version: int) -> None:
        self._versions[number] = version
        self._dirty.add(number)

    def refuse(self, number: int) -> None:
        self._versions[number] = REFUSED
        self._dirty.add(number)

    def applied(self) -> list[Change]:
        """The changes that made the graph, in order."""
        made = sorted((version, number) for number, version in self._versions.items() if version > 0)
        return [self._changes[number] for _, number in made]

    def entries(self) -> list[dict[str, Any]]:
        """The whole log as rows: what came of each change, and its columns."""
        words = {SCHEDULED: "scheduled", REFUSED: "refused"}
        return [
            {
                "number": number,
                "status": words.get(self._versions[number], "applied"),
                "version": max(self._versions[number], 0) or None,
                **change.to_row(),
            }
            for number, change in self._changes.items()
        ]

    def generation(self, name: str) -> int:
        """How often a stream was computed anew. State of another generation is not its own."""
        return self._generations.get(name, 0)

    def renew(self, name: str) -> None:
        self._generations[name] = self.generation(name) + 1

    def pages(self) -> tuple[dict[str, bytes], list[str]]:
        """What to write. Called once per commit."""
        put = {
            f"g/{number}": write_page(
                encode({"change": self._changes[number].to_row(), "version": self._versions[number]})
            )
            for number in self._dirty
        }
        if self._dirty and self._generations:
            put["generations"] = write_page(encode(self._generations))
        self._dirty.clear()
        return put, []
