# SPDX-License-Identifier: Apache-2.0
"""Many lives on several processes, what was seen in them, and a failure made small."""

from __future__ import annotations

import csv
import gc
import multiprocessing
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter

from windrow.errors import QueryError
from windrow_conformance.generated import numbers_of, shrink, written
from windrow_conformance.simulation.events import events_of, setting_of
from windrow_conformance.simulation.life import Lived, live, world_of
from windrow_conformance.simulation.streams import SHARED, atoms_in, is_space

ALONE = 64
"""One life in so many executes every step itself, as a replay does."""
FEW = 20
"""Failures that are kept. The first one is enough."""
WHO = {
    "pages": "a store of pages",
    "segments": "segments",
    "redis": "Redis",
    "blob": "snapshots",
    "space": "a space of pipelines",
    "space in redis": "a space of pipelines in Redis",
}

IN, EVENT = "schedules with state in ", "event: "


@dataclass
class CampaignReport:
    """What was seen in a number of lives."""

    schedules: int = 0
    restarts: int = 0
    steps: int = 0
    executed: int = 0
    seconds: float = 0.0
    kinds: Counter[str] = field(default_factory=Counter)
    events: Counter[str] = field(default_factory=Counter)
    failures: list[tuple[int, str]] = field(default_factory=list)
    differences: int = 0

    def add(self, lived: Lived) -> None:
        """One more life."""
        self.schedules += 1
        self.restarts += lived.restarts
        self.steps += lived.taken
        self.executed += lived.ran
        self.kinds[lived.kind] += 1
        self.events.update(lived.events)
        if lived.failure:
            self.differences += 1
            self.failures = [*self.failures, (lived.seed, lived.failure)][:FEW]

    def join(self, other: CampaignReport, seconds: float) -> None:
        """The lives of another report too; ``seconds`` is how long all have taken."""
        self.seconds = seconds
        self.schedules += other.schedules
        self.restarts += other.restarts
        self.steps += other.steps
        self.executed += other.executed
        self.differences += other.differences
        self.kinds.update(other.kinds)
        self.events.update(other.events)
        self.failures = [*self.failures, *other.failures][:FEW]

    def lines(self) -> Iterator[tuple[str, int]]:
        """What was counted, as lines of a table."""
        yield "schedules", self.schedules
        yield "differences", self.differences
        yield "restarts", self.restarts
        yield "steps", self.steps
        yield "steps executed", self.executed
        for kind, name in WHO.items():
            yield f"{IN}{name}", self.kinds[kind]
        for event, count in sorted(self.events.items()):
            yield f"{EVENT}{event}", count
        yield "seconds", round(self.seconds)

    def write(self, path: Path) -> None:
        """The counts as a file, all of it or nothing."""
        written = path.with_name(f"{path.name}.new")
        with written.open("w", encoding="utf-8", newline="") as out:
            csv.writer(out, lineterminator="\n").writerows([("what", "count"), *self.lines()])
        written.replace(path)

    @classmethod
    def read(cls, path: Path) -> CampaignReport:
        """What a file says that :meth:`write` has written."""
        with path.open(encoding="utf-8", newline="") as lines:
            counts = {what: int(count) for what, count in list(csv.reader(lines))[1:]}
        names = {f"{IN}{name}": kind for kind, name in WHO.items()}
        return cls(
            schedules=counts["schedules"],
            restarts=counts["restarts"],
            steps=counts["steps"],
            executed=counts["steps executed"],
            seconds=counts["seconds"],
            kinds=Counter({names[what]: count for what, count in counts.items() if what in names}),
            events=Counter({what[len(EVENT) :]: n for what, n in counts.items() if what.startswith(EVENT)}),
            differences=counts["differences"],
        )


def simulate(
    seeds: range,
    *,
    processes: int = 1,
    compiled: bool = False,
    seconds: float | None = None,
    progress: Callable[[CampaignReport], None] = lambda report: None,
    before: CampaignReport | None = None,
) -> CampaignReport:
    """Live the lives of some seeds, in their order, until all are done or the time is up. ``before`` is what was seen before."""
    report = before or CampaignReport()
    earlier, began = report.seconds, perf_counter()
    parts = [
        range(max(begin, seeds.start), min(begin + SHARED, seeds.stop))
        for begin in range(seeds.start // SHARED * SHARED, seeds.stop, SHARED)
    ]
    for part in _done(parts, processes, compiled):
        report.join(part, earlier + perf_counter() - began)
        progress(report)
        if seconds is not None and report.seconds - earlier > seconds:
            break
    return report


def _done(parts: Sequence[range], processes: int, compiled: bool) -> Iterator[CampaignReport]:
    arguments = [(part, compiled) for part in parts]
    if processes == 1:
        yield from map(_lived, arguments)
        return
    with multiprocessing.get_context("spawn").Pool(processes, _ready) as pool:
        yield from pool.imap(_lived, arguments)  # in order, so that what is done is told by one number


def _ready() -> None:
    """A process of its own: what a world keeps lives as long as the world, so looking for garbage often is a waste."""
    gc.freeze()
    gc.set_threshold(100_000, 50, 1000)


def _lived(arguments: tuple[range, bool]) -> CampaignReport:
    seeds, compiled = arguments
    report, number = CampaignReport(), seeds.start // SHARED
    try:
        world = world_of(number, compiled=compiled)
    except Exception:  # every seed of this world tells of it
        world = None
    for seed in seeds:
        report.add(live(seed, compiled=compiled, world=world, alone=seed % ALONE == 0))
    return report


def smallest(seed: int, *, compiled: bool = False) -> str:
    """The replay of a failing seed, with as few events and atoms of the stream as still fail."""
    number = seed // SHARED
    count, steps = atoms_in(number)
    kind = setting_of(number, space=is_space(number)).kind
    events, atoms = tuple(range(len(events_of(seed, kind, steps)))), tuple(range(count))

    def fails(chosen_events: Sequence[int], chosen_atoms: Sequence[int]) -> bool:
        lived = live(seed, compiled=compiled, events=tuple(chosen_events), atoms=tuple(chosen_atoms))
        return bool(lived.failure)

    if fails((), atoms):  # the stream alone
        events = ()
    events = tuple(shrink(events, lambda choices: [fails(choice, atoms) for choice in choices]))
    atoms = tuple(shrink(atoms, lambda choices: [fails(events, choice) for choice in choices]))
    return f"{seed}:{written(events)}:{written(atoms)}"


def replayed(text: str, *, compiled: bool = False) -> Lived:
    """Live again what a replay names: SEED, or SEED:EVENTS:ATOMS."""
    found = re.fullmatch(r"(\d+)(?::([\d,-]*):([\d,-]*))?", text)
    if not found:
        raise QueryError(f"cannot replay {text!r}; write SEED or SEED:EVENTS:ATOMS, such as 7:0-1:3,9")
    if found[2] is None:
        return live(int(found[1]), compiled=compiled)
    events, atoms = (tuple(numbers_of(part)) for part in (found[2], found[3]))
    return live(int(found[1]), compiled=compiled, events=events, atoms=atoms)
