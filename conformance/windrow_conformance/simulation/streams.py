# SPDX-License-Identifier: Apache-2.0
"""The streams of the simulation: queries from a fixed list, and rows, cuts and watermarks from a seed.

The list of queries is fixed, so that a process compiles the kernels of each once.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import cycle
from random import Random

import pyarrow as pa

import windrow as wr
from windrow.storage.pages import MemoryPages
from windrow.windows import Window
from windrow_conformance.answers import Answer
from windrow_conformance.case import Case, Step
from windrow_conformance.compare import difference
from windrow_conformance.generated import AGGREGATES, SCHEMA, Atom, steps_of
from windrow_conformance.policies import at_most_three, dominated
from windrow_conformance.simulation import spaces
from windrow_conformance.simulation.jobs import Stream, Windows

SHARED = 256
"""How many seeds share a stream and a setting, because asking the oracle takes as long as many lives."""

WINDOWS: tuple[Window | list[Window], ...] = (
    wr.TimeWindow(10, 5),
    wr.TimeWindow(7, 3, 1),
    wr.TimeWindow(20),
    [wr.TimeWindow(10, 5), wr.TimeWindow(7, 3, 1), wr.TimeWindow(40, 10)],
    wr.CountWindow(4, 2),
    wr.SessionWindow(6),
    wr.SlideByTuple(20, 3),
    wr.SlideByTime(4, 15),
    wr.DeltaWindow("d", 30, 10),
    wr.PolicyWindow(valid=at_most_three, evict=dominated),
)
LONG: tuple[Window | list[Window], ...] = (
    wr.TimeWindow(120, 3),
    wr.CountWindow(40, 3),
    [wr.TimeWindow(100, 5), wr.TimeWindow(70, 3, 1)],
    wr.SlideByTuple(120, 3),
    wr.SlideByTime(30, 15),
    wr.DeltaWindow("d", 60, 4),
)
"""Windows of many slices. With small pages, most of their slices are in the store."""
APPROXIMATE: tuple[tuple[Window | list[Window], wr.Within | wr.AtMost], ...] = (
    (wr.TimeWindow(60, 5), wr.Within(relative=0.2)),
    (wr.CountWindow(30, 2), wr.Within(relative=0.1)),
    (wr.CountWindow(30, 3), wr.AtMost(leaves=6)),
    ([wr.TimeWindow(60, 5), wr.TimeWindow(40, 20)], wr.AtMost(leaves=8)),
    (wr.TimeWindow(120, 10), wr.Within(rows=0.2)),
)
"""Windows whose slices are merged into buckets, as far as the error allows."""
TOGETHER = (["n", "peak"], ["total", "last"], ["median", "low"], ["all", "mean"], ["some", "first"], ["top"])


def queries() -> Iterator[tuple[wr.Query, bool]]:
    """All queries, and whether their windows are long."""
    aggregates, random = cycle(TOGETHER), Random("windrow simulation")
    for long, windows in ((False, WINDOWS), (True, LONG)):
        for window in windows:
            for late, lateness in (("drop", 0), ("side", 10), ("update", 20)):
                names = next(aggregates)
                names = [*names, "n", "peak"] if isinstance(window, wr.PolicyWindow) else names
                sliced = isinstance(window, list | wr.TimeWindow)
                yield (
                    wr.Query(
                        by="k" if random.random() < 0.8 else (),
                        window=window,
                        aggregates={name: AGGREGATES[name] for name in names},
                        late=late,  # type: ignore[arg-type]
                        lateness=lateness,
                        early=15 if sliced and late == "side" else None,
                        algorithm="DABALite" if sliced and late == "drop" and long else "auto",
                    ),
                    long,
                )
    for window, within in APPROXIMATE:
        for lateness in (0, 20):
            exact = {name: AGGREGATES[name] for name in ("n", "peak", "total")}
            yield wr.Query("k", window=window, aggregates=exact, lateness=lateness, within=within), True


QUERIES = tuple(queries())


SPACES = 8
"""One stream in so many is that of a space of pipelines."""


def stream_of(number: int, compiled: bool, kept: tuple[int, ...] | None = None) -> Stream:
    """Stream ``number``; with ``kept``, only those of its atoms."""
    if is_space(number):
        return spaces.stream_of(number, kept)
    query, atoms = _drawn(number)
    chosen = atoms if kept is None else [atoms[place] for place in kept if place < len(atoms)]
    return _stream(query, [*steps_of(chosen, SCHEMA), Step("end")], compiled)


def is_space(number: int) -> bool:
    """Whether a stream is that of a space of pipelines."""
    return number % SPACES == SPACES - 1


def atoms_in(number: int) -> tuple[int, int]:
    """How many atoms a stream has, and how many steps they make."""
    if is_space(number):
        return spaces.atoms_in(number)
    atoms = _drawn(number)[1]
    return len(atoms), sum(1 for _ in steps_of(atoms, SCHEMA)) + 1


@lru_cache(maxsize=4)
def _drawn(number: int) -> tuple[wr.Query, list[Atom]]:
    random = Random(f"windrow stream {number}")
    query, long = random.choice(QUERIES)
    return query, list(_atoms(random, long))


def _atoms(random: Random, long: bool) -> Iterator[Atom]:
    """Rows, cuts between batches, and watermarks."""
    count = random.randint(40, 110) if long else random.randint(0, 24)
    keys: list[str | None] = ["a"] if long and random.random() < 0.5 else ["a", "b", None]
    spread = random.choice([0, 0, 10, 60])
    mark = low = -40
    for number in range(count):
        due = low + (160 * number) // max(count, 1)
        yield "row", _row(random, keys, due + random.randint(-spread, spread) if spread else due)
        chance = random.random() * (4 if long else 1)
        if chance < 0.2:
            yield "cut", None
        elif chance < 0.5:
            mark = max(mark, due + random.choice([-spread, 0, 0, 5]))
            yield "watermark", mark


def _row(random: Random, keys: Sequence[str | None], time: int) -> pa.Table:
    row = {
        "k": random.choice(keys),
        "ts": time,
        "x": random.choice([None, -1.0, 0.0, 0.5, 2.0, 7.0]),
        "i": random.choice([None, -5, 0, 3, 4]),
        "d": time // 2,
    }
    return pa.Table.from_pylist([row], schema=SCHEMA)


def _stream(query: wr.Query, steps: list[Step], compiled: bool) -> Stream:
    """The steps with what they give, by a run that nothing interrupts, held against the oracle."""
    job = Windows(query)
    operator = job.open(MemoryPages(), compiled=compiled)
    given = [job.feed(operator, step) for step in steps]
    windows, late = (tuple(tables) for tables in zip(*given, strict=True))
    case = Case("simulated", query, SCHEMA, tuple(steps)).expecting()
    everything = pa.concat_tables(late) if query.late == "side" else None
    answer = Answer(
        "simulated", "local", "stream", windows, stepped=True, late=everything, late_rows=operator.late_rows
    )
    return Stream(tuple(steps), windows, late, str(difference(case, answer) or ""), job)
