# SPDX-License-Identifier: Apache-2.0
"""A stream processed under a schedule: the job of a user who does what the page on stores says.

The job writes the output of each step under the number of the step, so writing it again changes nothing. After an error
it opens its operator again, and goes on from the commit that it finds there. If the store refuses its state, it restores
the newest backup. Three things are failures: output that is not that of the uninterrupted run; an error without a
cause; a state that is refused although the store has kept its promise.

Many lives share a :class:`World`, and with it the :mod:`histories <windrow_conformance.simulation.histories>` of their jobs.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from unittest.mock import patch

import pyarrow as pa

import windrow as wr
from windrow.errors import OperatorBroken, SnapshotError, StoreError, StoreTaken, WindrowError
from windrow.storage import paging
from windrow.storage.pages import HEADER
from windrow_conformance.simulation.events import DAMAGING, Event, Setting, events_of, setting_of
from windrow_conformance.simulation.histories import JobProcess, Killed, Moment, SharedJob
from windrow_conformance.simulation.homes import HOMES, PagesHome
from windrow_conformance.simulation.jobs import Stream
from windrow_conformance.simulation.servers import Held
from windrow_conformance.simulation.streams import SHARED, atoms_in, is_space, stream_of

ATTEMPTS = 80
"""How often a job may start again. Every event happens once, so it ends long before."""
DAMAGED = ("pages", "segments", "space")
"""Where damage makes it right to refuse a state."""


@dataclass(frozen=True)
class Lived:
    """What came of a seed: what failed, if anything; how many events took place; what kind of life it was."""

    seed: int
    failure: str
    kind: str
    events: tuple[str, ...]
    restarts: int
    taken: int
    """How many steps its job took."""
    ran: int
    """How many of them it executed, or executed again. What comes of the others was known from lives of the same world."""


class Failure(Exception):
    """A life went wrong."""


@dataclass
class World:
    """What many lives share: a stream, where the state is, and the histories of their jobs."""

    stream: Stream
    setting: Setting
    steps: int
    """How many steps the whole stream has. A replay may leave some out."""
    compiled: bool
    begin: Moment = field(default_factory=Moment)


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
    alone: bool = False,
) -> Lived:
    """Live the life of a seed; with ``events`` and ``atoms``, only those of its schedule and of its stream.

    A ``world`` that is given remembers what jobs did in it. Without one, or ``alone`` in it, the life executes every step itself.
    """
    kind, life = setting_of(seed // SHARED, space=is_space(seed // SHARED)).kind, None
    try:
        here = world_of(seed // SHARED, compiled=compiled, atoms=atoms) if world is None else world
        if here.stream.wrong:
            raise Failure(f"the uninterrupted run is not what the oracle says: {here.stream.wrong}")
        with patch.object(paging, "FOLD", here.setting.fold):
            happening = events_of(seed, kind, here.steps, events)
            life = Life(here, happening, HOMES[kind](here.stream.job), remembers=not (alone or world is None))
            life.run()
        failure = ""
    except Failure as told:
        failure = str(told)
    except Exception as error:  # whatever it is, it is a failure that can be replayed
        failure = f"{type(error).__name__}: {error}"
    if life is None:
        return Lived(seed, failure, kind, (), 0, 0, 0)
    return Lived(seed, failure, kind, tuple(life.happened), life.starts - 1, life.steps, life.ran)


class Life:
    """The job, its store, and what happens to them."""

    def __init__(self, world: World, events: tuple[Event, ...], home: PagesHome, *, remembers: bool) -> None:
        self.world, self.stream, self.home, self.remembers = world, world.stream, home, remembers
        self.positions = world.setting.positions(len(self.stream.steps))
        self.events = list(events)
        self.happened: list[str] = []
        """The events that took place."""
        self.backups: list[Held] = [{}]
        self.starts = self.actions = self.steps = self.ran = 0
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
            except Killed:
                continue
        raise Failure(f"the job does not end: it started {ATTEMPTS} times")

    def _processed(self) -> bool:
        """Go on from the last commit to the end; false if the job crashed."""
        begin = self.world.begin if self.remembers else Moment()
        how = dict(self.world.setting.how)
        job, number = self.home.opened(begin, compiled=self.world.compiled, **how)
        try:
            return self._went_on(job, self.positions[number])
        finally:
            job.leave()

    def _went_on(self, job: SharedJob, start: int) -> bool:
        self.superseded = False
        for position in range(start, len(self.stream.steps)):
            if not self._goes_on(job):
                return False
            self._step(job, position)
            if position + 1 in self.positions[1:] and not self._committed(job, position + 1):
                return False
        return True

    def _goes_on(self, job: SharedJob) -> bool:
        """Let the events happen that are due before this action; false if one of them ends the process."""
        going = True
        while self.events and self.events[0].when <= self.actions:
            event = self.events.pop(0)
            self.happened.append(event.what)
            if event.what == "crash":
                going = False
            elif event.what == "snapshot":
                job.do("snapshot", self._check_snapshot)
            elif event.what == "backup":
                self.backups.append(dict(self.home.server.held))
            elif event.what == "recut":
                self.recut = True
            else:
                self.home.happen(event)
                self.damaged |= event.what in DAMAGING and self.world.setting.kind in DAMAGED
                self.superseded |= event.what in ("second process", "wiped")
                # It may go back to when this job had the store. Then the job may commit again.
                self.superseded &= event.what != "went back"
        self.actions += 1
        return going

    def _step(self, job: SharedJob, position: int) -> None:
        """Take a step, and hold what comes of it against the uninterrupted run."""
        step, processor = self.stream.steps[position], self.stream.job
        recut = self.recut and step.kind == "rows" and processor.recuts
        if recut:
            self.recut = False  # windows do not depend on how rows are cut into batches

        def work(process: JobProcess) -> None:
            self.ran += 1
            feed = processor.feed_in_two if recut else processor.feed
            self._compare(position, *feed(process.running, step))

        self.steps += 1
        job.do(("in two" if recut else "step", position), work)

    def _committed(self, job: SharedJob, position: int) -> bool:
        """Commit; false if the process gives up because the store said that it cannot."""
        number = self.positions.index(position, 1)
        try:
            self.home.commit(job, number)
        except StoreTaken:
            return False
        except StoreError:
            if not self.home.commits_again or self.actions % 2:
                return False
            self.home.commit(job, number)
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

    def _check_snapshot(self, process: JobProcess) -> None:
        if not isinstance(process.running, wr.Operator):
            return
        blob = process.running.snapshot()
        again = wr.Operator.restore(process.running.query, blob, compiled=self.world.compiled)
        if again.snapshot() != blob:
            raise Failure("the snapshot of a restored operator is another one")

    def _refused(self, error: WindrowError) -> None:
        """The store or the state was refused: try once more, then go back to the newest backup."""
        if not self.happened:
            raise Failure(f"nothing had happened, but: {type(error).__name__}: {error}")
        told, self.told = self.told, (str(error), len(self.happened), self.home.server.strikes)
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
