# SPDX-License-Identifier: Apache-2.0
"""Where the state of a life is, and what can happen there."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from random import Random
from typing import Any

import windrow as wr
from windrow.errors import SnapshotError
from windrow.storage.pages import HEADER, Pages
from windrow.storage.redis import RedisPages
from windrow.storage.segments import Segments
from windrow_conformance.generated import SCHEMA
from windrow_conformance.simulation.events import Event
from windrow_conformance.simulation.histories import JobProcess, Moment, SharedJob
from windrow_conformance.simulation.jobs import Processor, Windows
from windrow_conformance.simulation.servers import FaultyPages, FaultyRedis, rotten


class PagesHome:
    """State in a store of pages."""

    commits_again = True

    def __init__(self, processor: Processor, wrap: Callable[[Any], Pages] = lambda pages: pages) -> None:
        self.processor, self.server, self._wrap = processor, FaultyPages(), wrap

    def store(self) -> Pages:
        """The store, as a new process reaches it."""
        return self.server

    def opened(self, begin: Moment, **how: Any) -> tuple[SharedJob, int]:
        """A job that goes on from the last commit, and the number of that commit."""
        job = SharedJob(begin, self.store())

        def work(process: JobProcess) -> int:
            process.start(self.processor.open(self._wrap(process.store), **how))
            return self.processor.commits(process.running)

        return job, job.do("open", work)

    def commit(self, job: SharedJob, number: int) -> None:
        """Commit for the ``number``-th time."""
        job.do(("commit", number), lambda process: self.processor.commit(process.running, number))

    def happen(self, event: Event) -> None:
        """Something happens to the store."""
        if event.what == "rot":
            self.server.rot(Random(event.chance))
        elif event.what == "went back":
            self.server.go_back(Random(event.chance))
        else:
            self.server.arm(event.what, event.chance)

    def left(self) -> set[str]:
        """The names of what is in the store."""
        return set(self.server.held)


class ReadingAhead(RedisPages):
    """Tells the server when it begins to read in the background, because it is not known when the thread runs that does it."""

    def prefetch(self, names: Iterable[str]) -> None:
        wanted = [name for name in names if name not in self._coming]
        self.client.begin_to_read([f"{self.prefix}:{name}" for name in wanted])
        super().prefetch(wanted)


class RedisHome(PagesHome):
    """State in Redis."""

    def __init__(self, processor: Processor) -> None:
        super().__init__(processor)
        self.server = FaultyRedis()  # type: ignore[assignment]
        self._pages: RedisPages | None = None

    def store(self) -> Pages:
        if self._pages is not None:
            self._pages.close()
        self._pages = ReadingAhead(self.server, "life")
        return self._pages

    def happen(self, event: Event) -> None:
        if event.what == "wiped":
            self.server.wipe()  # type: ignore[attr-defined]
        elif event.what == "second process":
            RedisPages(self.server, "life").get([HEADER])
        else:
            super().happen(event)

    def left(self) -> set[str]:
        return {key.removeprefix("life:") for key in self.server.held} - {"fence"}


class BlobHome(PagesHome):
    """State in snapshots, each in a file of its own under its number. The job restores the newest that is whole."""

    commits_again = False

    def __init__(self, processor: Windows) -> None:
        super().__init__(processor)
        self._query = processor.query
        self._torn = False

    def opened(self, begin: Moment, **how: Any) -> tuple[SharedJob, int]:
        for number in sorted(map(int, self.server.held), reverse=True):
            blob, job = self.server.held[str(number)], SharedJob(begin, self.server)

            def restore(process: JobProcess, blob: bytes = blob) -> None:
                process.start(wr.Operator.restore(self._query, blob, **how))

            try:
                job.do(blob, restore)
            except SnapshotError:
                continue
            return job, number

        def start(process: JobProcess) -> None:
            process.start(wr.Operator(self._query, SCHEMA, **how))

        job = SharedJob(begin, self.server)
        job.do("start", start)
        return job, 0

    def commit(self, job: SharedJob, number: int) -> None:
        blob = job.do("to bytes", lambda process: process.running.snapshot())
        self.server.commit({str(number): blob[: len(blob) // 2] if self._torn else blob}, [])
        self._torn = False

    def happen(self, event: Event) -> None:
        if event.what == "torn":
            self._torn = True
        elif event.what == "rot" and self.server.held:
            newest = max(self.server.held, key=int)
            self.server.become(
                {**self.server.held, newest: rotten(self.server.held[newest], Random(event.chance))}
            )
        else:
            super().happen(event)

    def left(self) -> set[str]:
        return {HEADER}


HOMES: dict[str, Callable[[Any], PagesHome]] = {
    "pages": PagesHome,
    "segments": lambda processor: PagesHome(processor, Segments),
    "redis": RedisHome,
    "blob": BlobHome,
    "space": PagesHome,
    "space in redis": RedisHome,
}
