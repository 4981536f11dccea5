# SPDX-License-Identifier: Apache-2.0
"""A stream processed under a schedule: the job of a user who does what the page on stores says.

The job writes the output of each step under the number of the step, so writing it again changes nothing. After an error
it opens its operator again, and goes on from the commit that it finds there. If the store refuses its state, it restores
the newest backup. Three things are failures: output that is not that of the uninterrupted run; an error without a
cause; a state that is refused although the store has kept its promise.

Many lives share a :class:`World`. What a job does after it was opened depends on nothing but what is in its store, until an
event concerns it. So a world remembers what jobs wrote that were left alone since they were opened. A life that comes to the
same state takes that from there, up to the next event that concerns the job itself, and need not run it again.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import Any
from unittest.mock import patch

import pyarrow as pa

import windrow as wr
from windrow.errors import OperatorBroken, SnapshotError, StoreError, StoreTaken, WindrowError
from windrow.storage import paging
from windrow.storage.pages import HEADER, Pages
from windrow.storage.redis import RedisPages
from windrow.storage.segments import Segments
from windrow_conformance.generated import SCHEMA
from windrow_conformance.simulation.events import (
    COMMITS,
    DAMAGING,
    Event,
    Setting,
    events_of,
    setting_of,
)
from windrow_conformance.simulation.jobs import Processor, Stream, Windows
from windrow_conformance.simulation.servers import FaultyPages, FaultyRedis, Held, rotten
from windrow_conformance.simulation.streams import SHARED, atoms_in, is_space, stream_of

ATTEMPTS = 80
"""How often a job may start again. Every event happens once, so it ends long before."""
DAMAGED = ("pages", "segments", "space")
"""Where damage makes it right to refuse a state."""
ENDING = ("crash", "backup", *COMMITS, "torn", "reordered")
"""Events that concern the store, or end the job: what it did before, it did as if left alone."""


@dataclass(frozen=True)
class Lived:
    """What came of a seed: what failed, if anything; how many events took place; what kind of life it was."""

    seed: int
    failure: str
    kind: str
    events: tuple[str, ...]
    restarts: int
    ran: int
    """How many steps its job took. Others were known from lives of the same world."""


class Failure(Exception):
    """A life went wrong."""


@dataclass(frozen=True)
class Course:
    """What a job that was left alone wrote, from where it was opened to the end of the stream."""

    start: int
    commits: list[tuple[dict[str, bytes], list[str]]]


@dataclass
class World:
    """What many lives share: a stream, where the state is, and what is known of jobs that were left alone."""

    stream: Stream
    setting: Setting
    steps: int
    """How many steps the whole stream has. A replay may leave some out."""
    compiled: bool
    courses: dict[frozenset[tuple[str, bytes]], Course] = field(default_factory=dict)


def world_of(number: int, *, compiled: bool = False, atoms: tuple[int, ...] | None = None) -> World:
    """World ``number``; with ``atoms``, with only those of its stream."""
    setting = setting_of(number, space=is_space(number))
    return World(stream_of(number, compiled, atoms), setting, atoms_in(number)[1], compiled)


def live(
    seed: int,
    *,
    compiled: bool = False,
    events: tuple[int, ...] | None = None,
    atoms: tuple[int, ...] | None = None,
    world: World | None = None,
) -> Lived:
    """Live the life of a seed; with ``events`` and ``atoms``, only those of its schedule and of its stream.

    A ``world`` that is given remembers what jobs did in it. Without one, the life runs every step itself.
    """
    kind, life = setting_of(seed // SHARED, space=is_space(seed // SHARED)).kind, None
    try:
        here = world_of(seed // SHARED, compiled=compiled, atoms=atoms) if world is None else world
        if here.stream.wrong:
            raise Failure(f"the uninterrupted run is not what the oracle says: {here.stream.wrong}")
        with patch.object(paging, "FOLD", here.setting.fold):
            happening = events_of(seed, kind, here.steps, events)
            life = Life(here, happening, HOMES[kind](here.stream.job), remembers=world is not None)
            life.run()
        failure = ""
    except Failure as told:
        failure = str(told)
    except Exception as error:  # whatever it is, it is a failure that can be replayed
        failure = f"{type(error).__name__}: {error}"
    if life is None:
        return Lived(seed, failure, kind, (), 0, 0)
    return Lived(seed, failure, kind, tuple(life.taken), life.starts - 1, life.ran)


class PagesHome:
    """State in a store of pages."""

    commits_again = True

    def __init__(self, job: Processor, wrap: Callable[[FaultyPages], Pages] = lambda pages: pages) -> None:
        self.job, self.server, self._wrap = job, FaultyPages(), wrap

    def opened(self, **how: Any) -> Any:
        return self.job.open(self._wrap(self.server), **how)

    def commit(self, running: Any, number: int) -> None:
        self.job.commit(running, number)

    def commits(self, running: Any) -> int:
        return self.job.commits(running)

    def happen(self, event: Event) -> None:
        if event.what == "rot":
            self.server.rot(Random(event.chance))
        elif event.what == "went back":
            self.server.go_back(Random(event.chance))
        else:
            self.server.arm(event.what, event.chance)

    @property
    def waiting(self) -> set[str]:
        """What is to happen to a read or a commit that is still to come."""
        return self.server.waiting

    def left(self) -> set[str]:
        """The names of what is in the store."""
        return set(self.server.held)


class RedisHome(PagesHome):
    """State in Redis."""

    def __init__(self, job: Processor) -> None:
        self.job, self.server = job, FaultyRedis()  # type: ignore[assignment]
        self._pages: RedisPages | None = None

    def opened(self, **how: Any) -> Any:
        if self._pages is not None:
            self._pages.close()
        self._pages = RedisPages(self.server, "life")
        return self.job.open(self._pages, **how)

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

    def __init__(self, job: Windows) -> None:
        super().__init__(job)
        self._query = job.query
        self._number = 0
        self._torn = False

    def opened(self, **how: Any) -> wr.Operator:
        for number in sorted(map(int, self.server.held), reverse=True):
            try:
                self._number = number
                return wr.Operator.restore(self._query, self.server.held[str(number)], **how)
            except SnapshotError:
                continue
        self._number = 0
        return wr.Operator(self._query, SCHEMA, **how)

    def commit(self, running: wr.Operator, number: int) -> None:
        self._number = number
        blob = running.snapshot()
        self.server.commit({str(self._number): blob[: len(blob) // 2] if self._torn else blob}, [])
        self._torn = False

    def commits(self, running: wr.Operator) -> int:
        return self._number

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

    @property
    def waiting(self) -> set[str]:
        return {*self.server.waiting, *({"torn snapshot"} if self._torn else ())}

    def left(self) -> set[str]:
        return {HEADER}


HOMES: dict[str, Callable[[Any], PagesHome]] = {
    "pages": PagesHome,
    "segments": lambda job: PagesHome(job, Segments),
    "redis": RedisHome,
    "blob": BlobHome,
    "space": PagesHome,
}


class Life:
    """The job, its store, and what happens to them."""

    def __init__(self, world: World, events: tuple[Event, ...], home: PagesHome, *, remembers: bool) -> None:
        self.world, self.stream, self.home, self.remembers = world, world.stream, home, remembers
        self.positions = world.setting.positions(len(self.stream.steps))
        self.events = list(events)
        self.taken: list[str] = []
        """The events that took place."""
        self.backups: list[Held] = [{}]
        self.starts = self.actions = self.ran = 0
        self.told: tuple[str, int, int] | None = None
        """The last error, how many events there had been, and how often one had struck the store."""
        self.damaged = self.superseded = self.recut = False

    def run(self) -> None:
        """Process the stream to its end, whatever happens."""
        for _ in range(ATTEMPTS):
            self.starts += 1
            try:
                if self._processed():
                    return self._check_store()
            except (StoreError, SnapshotError, OperatorBroken) as error:
                self._refused(error)
        raise Failure(f"the job does not end: it started {ATTEMPTS} times")

    def _processed(self) -> bool:
        """Go on from the last commit to the end; false if the job crashed."""
        server, state = self.home.server, frozenset(self.home.server.held.items())
        calm = self.remembers and not self.recut and not self.home.waiting - set(ENDING)
        if calm and (course := self.world.courses.get(state)) is not None and self._is_known(course):
            return self._followed(course)
        written, taken, armed = len(server.journal), len(self.taken), self.home.waiting
        running = self.home.opened(compiled=self.world.compiled, **dict(self.world.setting.how))
        self.superseded = False
        position = start = self.positions[self.home.commits(running)]
        while position < len(self.stream.steps):
            if not self._happened(running):
                return False
            self._compare(position, *self._step(running, position))
            self.ran += 1
            position += 1
            if position in self.positions[1:] and not self._committed(running, position):
                return False
        if calm and not armed and taken == len(self.taken):
            self.world.courses[state] = Course(start, server.journal[written:])
        return True

    def _is_known(self, course: Course) -> bool:
        """Whether all that happens until the job ends concerns the store alone, so that the course says what the job does."""
        allowed = ("crash", "backup") if self.world.setting.kind == "blob" else ENDING
        armed, when, events = bool(self.home.waiting), self.actions, list(self.events)
        ends = iter(self.positions[self.positions.index(course.start) + 1 :])
        commit = next(ends, None)
        for position in range(course.start, len(self.stream.steps)):
            due = [event.what for event in events if event.when <= when]
            if not set(due) <= set(allowed) or "crash" in due:
                return set(due) <= set(allowed)
            events = events[len(due) :]
            armed |= any(what != "backup" for what in due)
            when += 1
            if position + 1 == commit:
                if armed:  # the commit fails, and the job ends if it does not try again
                    return not self.home.commits_again or bool(when % 2)
                commit = next(ends, None)
        return True

    def _followed(self, course: Course) -> bool:
        """What the job does, from what another one did; false if it ends before the stream does."""
        self.superseded, written = False, iter(course.commits)
        for position in range(course.start, len(self.stream.steps)):
            if not self._happened(None):
                return False
            if position + 1 in self.positions[1:]:
                try:
                    self.home.server.commit(*next(written))
                except StoreError:
                    return False
        return True

    def _happened(self, running: Any) -> bool:
        """Let the events happen that are due before this action; false if one of them ends the process."""
        going = True
        while self.events and self.events[0].when <= self.actions:
            event = self.events.pop(0)
            self.taken.append(event.what)
            if event.what == "crash":
                going = False
            elif event.what == "snapshot":
                self._check_snapshot(running)
            elif event.what == "backup":
                self.backups.append(dict(self.home.server.held))
            elif event.what == "recut":
                self.recut = True
            else:
                self.home.happen(event)
                self.damaged |= event.what in DAMAGING and self.world.setting.kind in DAMAGED
                self.superseded |= event.what in ("second process", "wiped")
        self.actions += 1
        return going

    def _step(self, running: Any, position: int) -> tuple[pa.Table, pa.Table]:
        step, job = self.stream.steps[position], self.stream.job
        if self.recut and step.kind == "rows" and job.recuts:
            self.recut = False  # windows do not depend on how rows are cut into batches
            half = step.value.num_rows // 2
            parts = [running.process(step.value.slice(0, half)), running.process(step.value.slice(half))]
            return pa.concat_tables(parts), running.late()
        return job.feed(running, step)

    def _committed(self, running: Any, position: int) -> bool:
        """Commit; false if the process gives up because the store said that it cannot."""
        number = self.positions.index(position, 1)
        try:
            self.home.commit(running, number)
        except StoreTaken:
            return False
        except StoreError:
            if not self.home.commits_again or self.actions % 2:
                return False
            self.home.commit(running, number)
        if self.superseded:
            raise Failure(
                "a commit took place although another process has the store, or it has lost the state"
            )
        if len(self.home.server.late) and self.actions % 3:
            self.home.server.arrive()
        return True

    def _compare(self, position: int, windows: pa.Table, late: pa.Table) -> None:
        """The output of a step is that of the uninterrupted run."""
        for what, got, expected in (
            ("windows", windows, self.stream.windows[position]),
            ("late rows", late, self.stream.late[position]),
        ):
            if got is not expected and not got.equals(expected):
                raise Failure(
                    f"step {position} ({self.stream.steps[position].kind}) gave other {what}\n"
                    f"  expected  {expected.to_pylist()}\n  got       {got.to_pylist()}"
                )

    def _check_snapshot(self, running: Any) -> None:
        if not isinstance(running, wr.Operator):
            return
        blob = running.snapshot()
        again = wr.Operator.restore(running.query, blob, compiled=self.world.compiled)
        if again.snapshot() != blob:
            raise Failure("the snapshot of a restored operator is another one")

    def _refused(self, error: WindrowError) -> None:
        """The store or the state was refused: try once more, then go back to the newest backup."""
        if not self.taken:
            raise Failure(f"nothing had happened, but: {type(error).__name__}: {error}")
        told, self.told = self.told, (str(error), len(self.taken), self.home.server.strikes)
        if self.told != told:  # what happens once may be over; what is damaged is refused again
            return
        if not self.damaged:
            raise Failure(f"the store has kept its promise, but: {type(error).__name__}: {error}")
        self.home.server.become(self.backups.pop() if len(self.backups) > 1 else {})

    def _check_store(self) -> None:
        """Windows that are over leave nothing in a store that was not damaged."""
        left = self.home.left() - {HEADER}
        kept = self.world.setting.kind in ("pages", "redis") and not self.damaged
        if left and kept and self.stream.job.leaves_nothing:
            raise Failure(f"windows that are over have left {sorted(left)} in the store")
