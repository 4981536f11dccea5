# SPDX-License-Identifier: Apache-2.0
"""Many lives on several processes, what was seen in them, and a failure made small."""

from __future__ import annotations

import csv
import multiprocessing
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter

from windrow.errors import QueryError
from windrow_conformance.generated import numbers_of, shrink, written
from windrow_conformance.simulation.events import schedule_of
from windrow_conformance.simulation.life import Lived, live
from windrow_conformance.simulation.streams import SHARED, atoms_in

FEW = 20
"""Failures that are kept. The first one is enough."""
WHO = {"pages": "a store of pages", "segments": "segments", "redis": "Redis", "blob": "snapshots"}


@dataclass
class CampaignReport:
    """What was seen in a number of lives."""

    schedules: int = 0
    restarts: int = 0
    seconds: float = 0.0
    kinds: Counter[str] = field(default_factory=Counter)
    events: Counter[str] = field(default_factory=Counter)
    failures: list[tuple[int, str]] = field(default_factory=list)
    differences: int = 0

    def add(self, lived: Lived) -> None:
        """One more life."""
        self.schedules += 1
        self.restarts += lived.restarts
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
        self.differences += other.differences
        self.kinds.update(other.kinds)
        self.events.update(other.events)
        self.failures = [*self.failures, *other.failures][:FEW]

    def lines(self) -> Iterator[tuple[str, int]]:
        """What was counted, as lines of a table."""
        yield "schedules", self.schedules
        yield "differences", self.differences
        yield "restarts", self.restarts
        for kind, name in WHO.items():
            yield f"schedules with state in {name}", self.kinds[kind]
        for event, count in sorted(self.events.items()):
            yield f"event: {event}", count

    def write(self, path: Path) -> None:
        """The counts as a file."""
        with path.open("w", encoding="utf-8", newline="") as out:
            csv.writer(out, lineterminator="\n").writerows([("what", "count"), *self.lines()])


def simulate(
    seeds: range,
    *,
    processes: int = 1,
    compiled: bool = False,
    seconds: float | None = None,
    progress: Callable[[CampaignReport], None] = lambda report: None,
) -> CampaignReport:
    """Live the lives of some seeds, until all are done or the time is up."""
    report, began = CampaignReport(), perf_counter()
    parts = [
        range(begin, min(begin + SHARED, seeds.stop)) for begin in range(seeds.start, seeds.stop, SHARED)
    ]
    for part in _done(parts, processes, compiled):
        report.join(part, perf_counter() - began)
        progress(report)
        if seconds is not None and report.seconds > seconds:
            break
    return report


def _done(parts: Sequence[range], processes: int, compiled: bool) -> Iterator[CampaignReport]:
    arguments = [(part, compiled) for part in parts]
    if processes == 1:
        yield from map(_lived, arguments)
        return
    with multiprocessing.get_context("spawn").Pool(processes) as pool:
        yield from pool.imap_unordered(_lived, arguments)


def _lived(arguments: tuple[range, bool]) -> CampaignReport:
    seeds, compiled = arguments
    report = CampaignReport()
    for seed in seeds:
        report.add(live(seed, compiled=compiled))
    return report


def smallest(seed: int, *, compiled: bool = False) -> str:
    """The replay of a failing seed, with as few events and atoms of the stream as still fail."""
    events = tuple(range(len(schedule_of(seed).events)))
    atoms = tuple(range(atoms_in(seed)))

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
