# SPDX-License-Identifier: Apache-2.0
"""Spaces of pipelines in the simulation: updates, and changes of the graph that take effect while they flow.

The oracle is the same space fed in one piece, one update after the other, without a store. The life runs updates as
columns where it may, in batches, and commits.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from functools import lru_cache
from random import Random
from typing import Any

import pyarrow as pa

from windrow.pipelines import Change, Id
from windrow.pipelines.emissions import reports_to_table
from windrow.pipelines.runtime import Runtime
from windrow.storage.pages import MemoryPages, Pages
from windrow_conformance.case import Step
from windrow_conformance.pipelines.story import BEGIN, STEP, Story
from windrow_conformance.simulation.jobs import Stream

END = 1 << 50
CHANGE: Any = "change"
"""A kind of step that only spaces have."""
Atom = tuple[str, Any]


class Pipelined:
    """A runtime of pipelines, whose position in the source is the number of the commit."""

    leaves_nothing, recuts = False, True

    def open(self, pages: Pages, **how: Any) -> Runtime:
        return Runtime(pages, columns=2)

    def commits(self, running: Runtime) -> int:
        return int(running.source_position or 0)

    def commit(self, running: Runtime, number: int) -> None:
        running.commit(str(number))

    def feed(self, running: Runtime, step: Step) -> tuple[pa.Table, pa.Table]:
        if step.kind == "rows":
            out = running.process(step.value)
        elif step.kind == CHANGE:
            out = running.process(changes=step.value)
        else:
            out = running.advance(END if step.kind == "end" else step.value)
        return out.to_table(), reports_to_table(running.reports())

    def feed_in_two(self, running: Runtime, step: Step) -> tuple[pa.Table, pa.Table]:
        half = len(step.value) // 2
        parts = [running.process(step.value[:half]), running.process(step.value[half:])]
        return pa.concat_tables([out.to_table() for out in parts]), reports_to_table(running.reports())


def atoms_in(number: int) -> tuple[int, int]:
    """How many atoms the stream of a space has, and how many steps they make."""
    atoms = _atoms(number)
    return len(atoms), sum(1 for _ in _steps(atoms))


def stream_of(number: int, kept: tuple[int, ...] | None = None) -> Stream:
    """The stream of a space: updates and changes, and what comes out after each step."""
    atoms = _atoms(number)
    chosen = atoms if kept is None else [atoms[place] for place in kept if place < len(atoms)]
    steps, job = tuple(_steps(chosen)), Pipelined()
    running = job.open(MemoryPages())
    windows, late = zip(*(job.feed(running, step) for step in steps), strict=True)
    return Stream(steps, windows, late, _difference(steps, windows, late), job)


def _difference(steps: tuple[Step, ...], windows: tuple[pa.Table, ...], late: tuple[pa.Table, ...]) -> str:
    """What the same space gives otherwise, in one piece and one by one."""
    one = Runtime(columns=1 << 40)
    changes = [change for step in steps if step.kind == CHANGE for change in step.value]
    updates = [update for step in steps if step.kind == "rows" for update in step.value]
    emitted = [one.process(updates, changes).to_table(), one.advance(END).to_table()]
    for what, ours, theirs in (
        ("updates", windows, emitted),
        ("reports", late, [reports_to_table(one.reports())]),
    ):
        got, expected = (Counter(map(repr, pa.concat_tables(each).to_pylist())) for each in (ours, theirs))
        if got != expected:
            return f"other {what}: {dict(got - expected)} instead of {dict(expected - got)}"
    return ""


@lru_cache(maxsize=4)
def _atoms(number: int) -> list[Atom]:
    """Changes that make a graph, then updates, watermarks, cuts and changes for later times."""
    random = Random(f"windrow space {number}")
    story = Story(random.randint(8, 40), apart=random.choice([20_000, 60_000]))
    first: list[Atom] = [("change", change) for change in story.first if random.random() < 0.8]
    later = iter(_later(random, story))
    atoms, mark = first, BEGIN - STEP
    for stream, ts, sequence, values in story.updates:
        if ts >= mark:
            atoms.append(("row", (ts, sequence, stream, json.loads(values))))
        chance = random.random()
        if chance < 0.2:
            mark = max(mark, ts - 2 * STEP + random.choice([0, 0, 3 * STEP]))
            atoms.append(("watermark", mark))
        elif chance < 0.4 and (change := next(later, None)) is not None and _is_to_come(change, mark):
            atoms.append(("change", change))
        elif chance < 0.5:
            atoms.append(("cut", None))
    return atoms


def _later(random: Random, story: Story) -> Iterator[Change]:
    """The later changes of a story, at times that updates may pass in any order."""
    for change in story.later:
        at = Id(BEGIN + random.randrange(story.count) * STEP, 0)
        yield Change(change.operation, change.actor, change.document, at)


def _is_to_come(change: Change, mark: int) -> bool:
    return change.at is not None and change.at.ts >= mark


def _steps(atoms: list[Atom]) -> Iterator[Step]:
    """Updates between two other atoms are one batch, and so are changes."""
    batch: list[Any] = []
    kind = ""
    for what, value in [*atoms, ("cut", None)]:
        if batch and what != kind:
            yield Step("rows" if kind == "row" else "change", batch)  # type: ignore[arg-type]
            batch = []
        kind = what
        if what in ("row", "change"):
            batch.append(value)
        elif what == "watermark":
            yield Step("watermark", value)
    yield Step("end")
