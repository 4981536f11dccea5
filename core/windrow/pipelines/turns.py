# SPDX-License-Identifier: Apache-2.0
"""The windows of a space, and what they emit in its turn.

Windows that end at the same time come before all other updates of that time, one after the other: first the first window
of each stream, then the second ones. Which stream comes first follows from their names, by a checksum, so that sequences
differ. So the ids of their updates do not depend on what else is in the space, and are the same wherever a stream lives.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from heapq import heappop, heappush
from typing import Any, TypeVar

from windrow.errors import CorruptSnapshot, SnapshotError, StoreError
from windrow.pipelines.changes import Id
from windrow.pipelines.emissions import Report
from windrow.pipelines.plan import CompositePlan
from windrow.pipelines.state import encode, read_page, write_page
from windrow.pipelines.windowing import WindowedStream

__all__ = ["BROKEN", "TICK", "OpenWindows", "tick"]

TICK = -(1 << 62)
"""The first sequence of updates of windows."""
BROKEN = "broken"
"""The page of windows that failed half-way."""
Made = TypeVar("Made")


def tick(end: int, number: int, name: str) -> Id:
    """The id of an update of a window: of those that end then, the one with this number of the stream with this name."""
    return Id(end, TICK + (number << 32) + zlib.crc32(name.encode()), name)


class OpenWindows:
    """The windows that are open, when each may be due, and updates of windows that wait for their turn."""

    def __init__(self, open_window: Callable[[CompositePlan], WindowedStream], reports: list[Report]) -> None:
        self.open_window, self.reports = open_window, reports
        self.streams: dict[str, WindowedStream] = {}
        self.broken: dict[str, str] = {}
        """Windows that failed half-way, and why: they wait for another definition."""
        self._broken_changed = False
        self._due: list[tuple[int, str]] = []
        self._scheduled: dict[str, int] = {}
        """For each window the time under which it is in the heap."""
        self._turn: list[tuple[Id, dict[str, Any]]] = []

    def of(self, plan: CompositePlan) -> WindowedStream:
        name = plan.stream.name
        found = self.streams.get(name)
        if found is None:
            found = self.streams[name] = self.open_window(plan)
            self.schedule(name, found)
        return found

    def schedule(self, name: str, window: WindowedStream) -> None:
        """When this window may be due could have changed."""
        if window.wake is not None and self._scheduled.get(name) != window.wake:
            self._scheduled[name] = window.wake
            heappush(self._due, (window.wake, name))

    def commit(self) -> None:
        """Write what changed of windows into the runtime's commit. Rows that had waited for it may move what is due."""
        for name, window in list(self.streams.items()):
            self.attempt(name, Id(window.latest, TICK, name), window.commit)
            self.schedule(name, window)

    def pages(self) -> dict[str, bytes]:
        """The page of what is broken, if that has changed. Called once per commit."""
        changed, self._broken_changed = self._broken_changed, False
        return {BROKEN: write_page(encode(self.broken))} if changed else {}

    def load(self, page: bytes | None) -> None:
        """What was broken at the last commit is broken still."""
        found = {} if page is None else read_page(page, "broken windows")
        if not isinstance(found, dict):
            raise CorruptSnapshot("the page of broken windows is damaged: it is no object")
        self.broken = {str(name): str(why) for name, why in found.items()}

    @property
    def wake(self) -> int | None:
        """When a window may be due, as far as is known."""
        while self._due:
            due, name = self._due[0]
            window = self.streams.get(name)
            if window is not None and window.wake == due:
                return due
            self._unschedule()
        return None

    def next(self, before: Id) -> tuple[Id, dict[str, Any]] | None:
        """The next update of a window whose id is before this one: id and channels. None if there is none left."""
        while (wake := self.wake) is not None and wake <= before.ts:
            if self._turn and self._turn[0][0].ts < wake:
                break
            self._advance(self._unschedule(), wake)
        return heappop(self._turn) if self._turn and self._turn[0][0] < before else None

    def _advance(self, name: str, time: int) -> None:
        window = self.streams[name]
        found = self.attempt(name, Id(time, TICK), lambda: window.advance(time))
        if found is None:
            return
        before, number = None, 0
        for end, row in found:
            number = number + 1 if end == before else 0
            before = end
            heappush(self._turn, (tick(end, number, name), row))
        self.schedule(name, window)

    def _unschedule(self) -> str:
        """Take the first window out of the heap; its name."""
        due, name = heappop(self._due)
        if self._scheduled.get(name) == due:
            del self._scheduled[name]
        return name

    def attempt(self, name: str, at: Id, step: Callable[[], Made]) -> Made | None:
        """What a step of a window returns. If it fails, that is reported, nobody else is stopped, and it is None."""
        try:
            return step()
        except (StoreError, SnapshotError):
            raise
        except Exception as error:
            self.break_off(name, error)
            self.reports.append(Report("failed", name, at, self.broken[name]))
            return None

    def break_off(self, name: str, error: Exception) -> None:
        """A window that failed half-way cannot go on, not even after a restart: rows of it are missing."""
        self.broken[name], self._broken_changed = f"{type(error).__name__}: {error}", True
        self._close(name)

    def forget(self, name: str) -> None:
        """A composite is computed differently from now on, or is no more."""
        self._broken_changed |= self.broken.pop(name, None) is not None
        self._close(name)

    def _close(self, name: str) -> None:
        if (window := self.streams.pop(name, None)) is not None:
            window.pages.forget()
