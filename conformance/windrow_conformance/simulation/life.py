# SPDX-License-Identifier: Apache-2.0
"""A stream processed under a schedule: the job of a user who does what the page on stores says.

The job writes the output of each step under the number of the step, so writing it again changes nothing. After an error
it opens its operator again, and goes on from the commit that it finds there. If the store refuses its state, it restores
the newest backup. Three things are failures: output that is not that of the uninterrupted run; an error without a
cause; a state that is refused although the store has kept its promise.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
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
from windrow_conformance.simulation.events import DAMAGING, Event, Schedule, schedule_of
from windrow_conformance.simulation.servers import FaultyPages, FaultyRedis, rotten
from windrow_conformance.simulation.streams import Stream, fed, stream_of

ATTEMPTS = 80
"""How often a job may start again. Every event happens once, so it ends long before."""


@dataclass(frozen=True)
class Lived:
    """What came of a seed: what failed, if anything; how many events took place; what kind of life it was."""

    seed: int
    failure: str
    kind: str
    events: tuple[str, ...]
    restarts: int


class Failure(Exception):
    """A life went wrong."""


def live(
    seed: int,
    *,
    compiled: bool = False,
    events: tuple[int, ...] | None = None,
    atoms: tuple[int, ...] | None = None,
) -> Lived:
    """Live the life of a seed; with ``events`` and ``atoms``, only those of its schedule and of its stream."""
    schedule = schedule_of(seed, events)
    life: Life | None = None
    try:
        stream = stream_of(seed, compiled, atoms)
        if stream.wrong:
            raise Failure(f"the uninterrupted run is not what the oracle says: {stream.wrong}")
        with patch.object(paging, "FOLD", schedule.fold):
            life = Life(stream, schedule, HOMES[schedule.kind](), compiled)
            life.run()
        failure = ""
    except Failure as told:
        failure = str(told)
    except Exception as error:  # whatever it is, it is a failure that can be replayed
        failure = f"{type(error).__name__}: {error}"
    taken = () if life is None else tuple(life.taken)
    return Lived(seed, failure, schedule.kind, taken, 0 if life is None else life.starts - 1)


class PagesHome:
    """State in a store of pages."""

    commits_again = True

    def __init__(self, wrap: Callable[[FaultyPages], Pages] = lambda pages: pages) -> None:
        self.server, self._wrap = FaultyPages(), wrap

    def opened(self, query: wr.Query, **how: Any) -> wr.Operator:
        return wr.Operator.open(query, SCHEMA, self._wrap(self.server), **how)

    def commit(self, operator: wr.Operator) -> None:
        operator.commit()

    def commits(self, operator: wr.Operator) -> int:
        return operator.commits

    def happen(self, event: Event) -> None:
        if event.what == "rot":
            self.server.rot(Random(event.chance))
        elif event.what == "went back":
            self.server.go_back(Random(event.chance))
        else:
            self.server.arm(event.what, event.chance)

    def left(self) -> set[str]:
        """The names of what is in the store."""
        return set(self.server.held)


class RedisHome(PagesHome):
    """State in Redis."""

    def __init__(self) -> None:
        self.server = FaultyRedis()  # type: ignore[assignment]
        self._pages: RedisPages | None = None

    def opened(self, query: wr.Query, **how: Any) -> wr.Operator:
        if self._pages is not None:
            self._pages.close()
        self._pages = RedisPages(self.server, "life")
        return wr.Operator.open(query, SCHEMA, self._pages, **how)

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

    def __init__(self) -> None:
        super().__init__()
        self._number = 0
        self._torn = False

    def opened(self, query: wr.Query, **how: Any) -> wr.Operator:
        for number in sorted(map(int, self.server.held), reverse=True):
            try:
                self._number = number
                return wr.Operator.restore(query, self.server.held[str(number)], **how)
            except SnapshotError:
                continue
        self._number = 0
        return wr.Operator(query, SCHEMA, **how)

    def commit(self, operator: wr.Operator) -> None:
        self._number += 1
        blob = operator.snapshot()
        self.server.commit({str(self._number): blob[: len(blob) // 2] if self._torn else blob}, [])
        self._torn = False

    def commits(self, operator: wr.Operator) -> int:
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

    def left(self) -> set[str]:
        return {HEADER}


HOMES: dict[str, Callable[[], PagesHome]] = {
    "pages": PagesHome,
    "segments": lambda: PagesHome(Segments),
    "redis": RedisHome,
    "blob": BlobHome,
}


class Life:
    """The job, its store, and what happens to them."""

    def __init__(self, stream: Stream, schedule: Schedule, home: PagesHome, compiled: bool) -> None:
        self.stream, self.schedule, self.home, self.compiled = stream, schedule, home, compiled
        random, last = Random(schedule.chance), len(stream.steps) - 1
        after = [number + 1 for number in range(last) if random.random() < schedule.pace]
        self.positions = [0, *after, last + 1]
        """How many steps are done at each commit."""
        self.events = list(schedule.events)
        self.taken: list[str] = []
        """The events that took place."""
        self.backups: list[dict[str, bytes]] = [{}]
        self.starts = self.actions = 0
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
        operator = self.home.opened(self.stream.query, compiled=self.compiled, **dict(self.schedule.how))
        self.superseded = False
        position = self.positions[self.home.commits(operator)]
        while position < len(self.stream.steps):
            if not self._happened(operator):
                return False
            self._compare(position, *self._step(operator, position))
            position += 1
            if position in self.positions[1:] and not self._committed(operator):
                return False
        return True

    def _happened(self, operator: wr.Operator) -> bool:
        """Let the events happen that are due before this action; false if one of them ends the process."""
        going = True
        while self.events and self.events[0].when <= self.actions:
            event = self.events.pop(0)
            self.taken.append(event.what)
            if event.what == "crash":
                going = False
            elif event.what == "snapshot":
                self._check_snapshot(operator)
            elif event.what == "backup":
                self.backups.append(dict(self.home.server.held))
            elif event.what == "recut":
                self.recut = True
            else:
                self.home.happen(event)
                self.damaged |= event.what in DAMAGING and self.schedule.kind in ("pages", "segments")
                self.superseded |= event.what in ("second process", "wiped")
        self.actions += 1
        return going

    def _step(self, operator: wr.Operator, position: int) -> tuple[pa.Table, pa.Table]:
        step = self.stream.steps[position]
        if self.recut and step.kind == "rows" and self.stream.query.late != "update":
            self.recut = False  # windows do not depend on how rows are cut into batches
            half = step.value.num_rows // 2
            given = [operator.process(step.value.slice(0, half)), operator.process(step.value.slice(half))]
            return pa.concat_tables(given), operator.late()
        return fed(operator, step), operator.late()

    def _committed(self, operator: wr.Operator) -> bool:
        """Commit; false if the process gives up because the store said that it cannot."""
        try:
            self.home.commit(operator)
        except StoreTaken:
            return False
        except StoreError:
            if not self.home.commits_again or self.actions % 2:
                return False
            self.home.commit(operator)
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
            if not got.equals(expected):
                raise Failure(
                    f"step {position} ({self.stream.steps[position].kind}) gave other {what}\n"
                    f"  expected  {expected.to_pylist()}\n  got       {got.to_pylist()}"
                )

    def _check_snapshot(self, operator: wr.Operator) -> None:
        blob = operator.snapshot()
        if wr.Operator.restore(self.stream.query, blob, compiled=self.compiled).snapshot() != blob:
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
        windows = [window for _, window in self.stream.query.windows]
        over = all(isinstance(window, wr.TimeWindow | wr.SessionWindow) for window in windows)
        left = self.home.left() - {HEADER}
        if left and over and self.schedule.kind in ("pages", "redis") and not self.damaged:
            raise Failure(f"windows that are over have left {sorted(left)} in the store")
