# SPDX-License-Identifier: Apache-2.0
"""Generated cases: random queries and streams from a seed, cut into batches at random, with crashes between them.

``generate(7, 12)`` is the same case everywhere and always. A case is a list of atoms (a row, a cut between batches, a
watermark, a restart, the end), so that a failing one can be told in a few numbers and made smaller by leaving atoms
out: ``7:12:0-3,9`` is case 12 of seed 7 with only those atoms.

>>> case = generate(7, 12)
>>> case.name, case == replayed("7:12")
('generated 7:12', True)
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from random import Random
from typing import Any

import pyarrow as pa

import windrow as wr
from windrow.errors import QueryError
from windrow.query.slicing import columns_sent
from windrow.windows import Window
from windrow_conformance.case import Case, Step
from windrow_conformance.policies import at_most_three, dominated

Atom = tuple[str, Any]
MS = 1000
SCHEMA = pa.schema({"k": pa.string(), "ts": pa.int64(), "x": pa.float64(), "i": pa.int32(), "d": pa.int64()})
AGGREGATES: dict[str, wr.Aggregate] = {
    "n": wr.Count(),
    "peak": wr.Max("x"),
    "low": wr.Min("i"),
    "total": wr.Sum("i"),
    "sum": wr.Sum("x"),
    "mean": wr.Mean("i"),
    "some": wr.Count("x"),
    "first": wr.First("i"),
    "last": wr.Last("x"),
    "all": wr.Collect("i"),
    "median": wr.Median("x"),
    "where": wr.ArgMax("i", "x"),
    "run": wr.LongestIncreasingRun("x"),
    "top": wr.TopK("i", 2),
    "often": wr.MaxCount("i"),
}
"""All exact for the values that are generated."""


def generate(seed: int, number: int, kept: Sequence[int] | None = None) -> Case:
    """Case ``number`` of a seed; with ``kept``, only those of its atoms."""
    random = Random(f"windrow {seed} {number}")
    long = number % 16 == 7
    query = _long_query(random) if long else _query(random)
    rows = _long_rows(random) if long else _rows(random)
    times = rows.column("ts").to_pylist()
    pace = 0.1 if long else 1.0
    atoms = list(_cut(random, rows, times, disorder=not long and random.random() < 0.7, pace=pace))
    return case_of(f"generated {seed}:{number}", query, SCHEMA, atoms, kept, f"{seed}:{number}")


def replayed(text: str) -> Case:
    """The case that a replay names: seed, number, and which atoms are kept, if not all."""
    found = re.fullmatch(r"(\d+):(\d+)(?::([\d,-]*))?", text)
    if not found:
        raise QueryError(
            f"cannot replay {text!r}; write SEED:NUMBER or SEED:NUMBER:ATOMS, such as 7:12:0-3,9"
        )
    return generate(int(found[1]), int(found[2]), None if found[3] is None else numbers_of(found[3]))


def for_query(query: wr.Query, rows: pa.Table | None, seed: int, number: int) -> Case:
    """A stream for a query of a user: its own rows cut at random, or rows made up from the columns that it reads."""
    random = Random(f"windrow {seed} {number}")
    table = _made_up(random, query) if rows is None else rows
    table = table.select(columns_sent(query))
    times = query.bind(table.schema).times(table)
    return case_of(f"query {seed}:{number}", query, table.schema, list(_cut(random, table, times.tolist())))


def case_of(
    name: str,
    query: wr.Query,
    schema: pa.Schema,
    atoms: Sequence[Atom],
    kept: Sequence[int] | None = None,
    told: str = "",
) -> Case:
    """The case of some atoms, expecting what the oracle says."""
    chosen = range(len(atoms)) if kept is None else [number for number in kept if number < len(atoms)]
    replay = f"windrow conformance --replay {told}" + ("" if kept is None else f":{written(kept)}")
    case = Case(
        name,
        query,
        schema,
        tuple(steps_of([atoms[number] for number in chosen], schema)),
        replay=replay if told else "",
    )
    return case.expecting()


def atoms_of(case: Case) -> list[Atom]:
    """The atoms of a case."""
    atoms: list[Atom] = []
    for step in case.steps:
        if step.kind == "rows":
            if atoms and atoms[-1][0] == "row":
                atoms.append(("cut", None))
            atoms += [("row", step.value.slice(number, 1)) for number in range(step.value.num_rows)]
        else:
            atoms.append((step.kind, step.value))
    return atoms


def shrink(
    atoms: Sequence[Any], failing: Callable[[list[list[int]]], list[bool]], rounds: int = 40
) -> list[int]:
    """The numbers of few atoms that still fail.

    ``failing`` judges several choices of atoms at once, since starting an engine is dear. Halves, quarters, … are
    left out, until no single atom can be.
    """
    kept = list(range(len(atoms)))
    size = max(1, len(kept) // 2)
    for _ in range(rounds):
        choices = [kept[:begin] + kept[begin + size :] for begin in range(0, len(kept), size)]
        choices = [choice for choice in choices if choice and len(choice) < len(kept)]
        smaller = [choice for choice, fails in zip(choices, failing(choices), strict=True) if fails]
        if smaller:
            kept = smaller[0]
            size = min(size, max(1, len(kept) // 2))
        elif size == 1:
            break
        else:
            size = max(1, size // 2)
    return kept


def steps_of(atoms: Iterable[Atom], schema: pa.Schema) -> Iterator[Step]:
    """The steps that some atoms make up: rows between two others are one batch."""
    rows: list[pa.Table] = []
    for kind, value in [*atoms, ("cut", None)]:
        if kind == "row":
            rows.append(value)
            continue
        if rows:
            yield Step("rows", pa.concat_tables(rows).combine_chunks())
            rows = []
        if kind != "cut":
            yield Step(kind, value)  # type: ignore[arg-type]


def _query(random: Random) -> wr.Query:
    window = random.choice(list(_windows(random)))
    late = random.choice(["drop", "side", "update"])
    sliced = isinstance(window, list | wr.TimeWindow)
    names = random.sample(list(AGGREGATES), random.randint(1, 3))
    if isinstance(window, wr.PolicyWindow):
        names = list(dict.fromkeys([*names, "n", "peak"]))
    return wr.Query(
        by="k" if random.random() < 0.8 else (),
        window=window,
        aggregates={name: AGGREGATES[name] for name in names},
        late=late,  # type: ignore[arg-type]
        lateness=random.choice([0, 0, 10 * MS, 40 * MS]),
        early=random.choice([None, None, None, 15 * MS]) if sliced else None,
    )


def _windows(random: Random) -> Iterator[Window | list[Window]]:
    def length(most: int = 40) -> int:
        return random.randint(1, most) * MS

    time = wr.TimeWindow(length(), length(20), random.choice([0, length()]))
    yield time
    yield wr.TimeWindow(length())
    yield [time, wr.TimeWindow(length(), length())]
    yield wr.CountWindow(random.randint(1, 6), random.randint(1, 4))
    yield wr.SessionWindow(length(15))
    yield wr.SlideByTuple(length(), random.randint(1, 4))
    yield wr.SlideByTime(random.randint(1, 5), length(20), random.choice([0, length()]))
    yield wr.DeltaWindow("d", random.randint(1, 30), random.randint(0, 15) + 1)
    yield wr.PolicyWindow(valid=at_most_three, evict=random.choice([None, dominated]))


def _rows(random: Random) -> pa.Table:
    """Rows of a few keys on both sides of the epoch, with ties, bursts and silences."""
    times = [random.randint(-40, 120) for _ in range(random.randint(0, 25))]
    rows = [
        {
            "k": random.choice(["a", "b", None]),
            "ts": time * MS,
            "x": random.choice([None, -1.0, 0.0, 0.5, 2.0, 7.0]),
            "i": random.choice([None, -5, 0, 3, 4]),
            "d": time // 2,
        }
        for time in times
    ]
    return pa.Table.from_pylist(rows, schema=SCHEMA)


def _long_query(random: Random) -> wr.Query:
    """Windows of more slices than a store keeps together: their runs are folded into pages."""
    names = random.sample(["n", "peak", "total", "low"], 2)
    return wr.Query(
        window=wr.TimeWindow(random.randint(140, 190) * MS, random.choice([MS, 2 * MS])),
        aggregates={name: AGGREGATES[name] for name in names},
        lateness=random.choice([0, 20 * MS]),
    )


def _long_rows(random: Random) -> pa.Table:
    times = [*range(180), *(180 + random.randint(0, 40) for _ in range(10))]
    rows = [
        {
            "k": "a",
            "ts": time * MS,
            "x": random.choice([None, 0.5, 7.0]),
            "i": random.randint(-5, 5),
            "d": time,
        }
        for time in times
    ]
    return pa.Table.from_pylist(rows, schema=SCHEMA)


def _cut(
    random: Random, rows: pa.Table, times: list[int], *, disorder: bool = True, pace: float = 1.0
) -> Iterator[Atom]:
    """Rows in their order, or in that of time, with cuts, watermarks and restarts where chance puts them."""
    order = list(range(len(times)))
    if not disorder:
        order.sort(key=lambda number: times[number])
    low, high = min(times, default=0), max(times, default=0)
    mark = low
    for number in order:
        yield "row", rows.slice(number, 1)
        chance = random.random() / pace
        if chance < 0.15:
            yield "cut", None
        elif chance < 0.35:
            reached = times[number] if not disorder else low + (high - low) * random.randint(0, 10) // 10
            mark = max(mark, reached // MS * MS)
            yield "watermark", mark
        elif chance < 0.45:
            yield "restart", None
    yield "end", None


def _made_up(random: Random, query: wr.Query) -> pa.Table:
    scale = max([MS, *(_length(window) for _, window in query.windows)])
    count = random.randint(1, 30)
    times = [random.randint(-2, 6 * 5) * scale // 5 for _ in range(count)]
    columns: dict[str, Any] = {query.time: pa.array(times, pa.int64())}
    window = query.window
    if isinstance(window, wr.DeltaWindow):
        grown = [time // max(1, scale // 10) for time in times]
        kind = (
            pa.timestamp("us")
            if window.temporal
            else pa.float64()
            if isinstance(window.range, float)
            else pa.int64()
        )
        columns[window.attribute] = pa.array(times if window.temporal else grown, pa.int64()).cast(kind)
    for name in query.by:
        columns.setdefault(
            name, pa.array([random.choice(["a", "b", None]) for _ in range(count)], pa.string())
        )
    values = [random.choice([None, -1.0, 0.0, 0.5, 2.0, 7.0]) for _ in range(count)]
    for aggregate in query.aggregates.values():
        for name in aggregate.columns:
            columns.setdefault(name, pa.array(values, pa.float64()))
    return pa.table(columns)


def _length(window: Window) -> int:
    return max(
        (getattr(window, name, 0) for name in ("range", "slide", "gap") if _is_time(window, name)), default=0
    )


def _is_time(window: Window, name: str) -> bool:
    if isinstance(window, wr.CountWindow | wr.DeltaWindow | wr.PolicyWindow):
        return False
    return not (isinstance(window, wr.SlideByTuple) and name == "slide") and not (
        isinstance(window, wr.SlideByTime) and name == "range"
    )


def numbers_of(text: str) -> list[int]:
    """The numbers that :func:`written` has written."""
    found: list[int] = []
    for part in filter(None, text.split(",")):
        first, _, last = part.partition("-")
        if not re.fullmatch(r"\d+(-\d+)?", part):
            raise QueryError(f"cannot read {part!r} as numbers of atoms; write 3 or 3-7")
        found += range(int(first), int(last or first) + 1)
    return found


def written(numbers: Sequence[int]) -> str:
    """Numbers as ranges.

    >>> written([0, 1, 2, 3, 9])
    '0-3,9'
    """
    parts: list[list[int]] = []
    for number in numbers:
        if parts and number == parts[-1][-1] + 1:
            parts[-1].append(number)
        else:
            parts.append([number])
    return ",".join(str(part[0]) if len(part) == 1 else f"{part[0]}-{part[-1]}" for part in parts)
