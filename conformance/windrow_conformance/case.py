# SPDX-License-Identifier: Apache-2.0
"""A case: a query, what happens to its stream, and what has to come out after each step.

What has to come out is either written down (transcripts) or follows from the definition of the windows
(:func:`expectations`, which asks the oracle). No engine is asked.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import pyarrow as pa
import pyarrow.compute as pc

import windrow as wr
from windrow import oracle
from windrow.query.bound import BoundQuery
from windrow.query.slicing import time_windows
from windrow.testing.compare import comparable

Kind = Literal["rows", "watermark", "restart", "end"]


@dataclass(frozen=True)
class Step:
    """Rows that arrive, a watermark (microseconds), a restart from stored state, or the end of the stream.

    ``windows`` and ``late`` are what the step has to give: the windows that it finishes, corrects or shows
    early, and the rows that came too late.
    """

    kind: Kind
    value: Any = None
    windows: pa.Table | None = None
    late: pa.Table | None = None


@dataclass(frozen=True)
class Case:
    """One case of the suite."""

    name: str
    query: wr.Query
    schema: pa.Schema
    steps: tuple[Step, ...]
    story: str = ""
    cites: str = ""
    covers: tuple[str, ...] = ()
    error: str = ""
    """The error of :mod:`windrow.errors` that has to be raised, instead of any answer."""
    clock: int = 1000
    """Times are written as multiples of so many microseconds."""
    quick: bool = False
    """Part of the quick subset."""
    replay: str = field(default="", compare=False)
    """The command that runs this case alone."""

    @property
    def bound(self) -> BoundQuery:
        return self.query.bind(self.schema)

    @property
    def windows(self) -> pa.Table:
        """All windows that have to come out, in the order of the steps."""
        tables = [step.windows for step in self.steps if step.windows is not None]
        return pa.concat_tables([self.bound.output_schema.empty_table(), *tables])

    @property
    def late(self) -> pa.Table:
        """All rows that come too late."""
        tables = [step.late for step in self.steps if step.late is not None]
        return pa.concat_tables([self.schema.empty_table(), *tables])

    @property
    def rows(self) -> pa.Table:
        """All rows, in the order in which they arrive."""
        tables = [step.value for step in self.steps if step.kind == "rows"]
        return pa.concat_tables([self.schema.empty_table(), *tables])

    @property
    def restarts(self) -> int:
        return sum(step.kind == "restart" for step in self.steps)

    @property
    def ended(self) -> bool:
        return any(step.kind == "end" for step in self.steps)

    def expecting(self) -> Case:
        """The same case, expecting what the definition of its windows says."""
        found = expectations(self.query, self.schema, self.steps)
        steps = [
            replace(step, windows=windows, late=late)
            for step, (windows, late) in zip(self.steps, found, strict=True)
        ]
        return replace(self, steps=tuple(steps), error="")


def expectations(
    query: wr.Query, schema: pa.Schema, steps: Sequence[Step]
) -> Iterator[tuple[pa.Table | None, pa.Table | None]]:
    """The windows and the late rows of each step, by the oracle.

    A window comes out when the watermark (less the lateness) makes it final. With ``late="update"`` it comes out
    without waiting for the lateness, and again, as an update, when accepted rows fall into it afterwards. If a row can move windows
    of this kind, the new windows come out, and those that no longer exist are withdrawn. With ``early``, windows
    that have begun and are not final are shown whenever the watermark passes a multiple of it. If an aggregate or the
    kind of window depends on the order of rows, they are shown with the rows whose order is settled: no row that
    may still come is older.
    """
    bound = query.bind(schema)
    accepted, watermark = schema.empty_table(), -math.inf
    emitted: set[tuple[Any, ...]] = set()
    for step in steps:
        found: list[pa.Table] = []
        late = None
        if step.kind == "rows":
            times = bound.times(step.value)
            in_time = pa.array([bool(time >= watermark - query.lateness) for time in times], pa.bool_())
            late = step.value.filter(pc.invert(in_time))
            fresh = step.value.filter(in_time)
            known, accepted = accepted, pa.concat_tables([accepted, fresh])
            if movable(query):
                old, new = (_final(rows, query, watermark) for rows in (known, accepted))
                gone = _without(old, new)
                found.append(_emission(gone, "withdrawn"))
                found.append(_first_or_update(_without(new, old), set(identities(gone, bound)), bound))
            elif query.late == "update":
                touched = _touched(_final(accepted, query, watermark), fresh, bound)
                found.append(_first_or_update(touched, emitted, bound))
        elif step.kind != "restart":
            before, watermark = watermark, math.inf if step.kind == "end" else max(watermark, step.value)
            final = _final(accepted, query, watermark)
            if movable(query):
                final = _without(final, _final(accepted, query, before))
                emitted.clear()
            fresh_ids = [window not in emitted for window in identities(final, bound)]
            found.append(final.filter(pa.array(fresh_ids, pa.bool_())))
            if _shows_early(query.early, before, watermark):
                everything = _final(_settled(accepted, bound, watermark), query, math.inf)
                ends = set(identities(final, bound))
                begun = [
                    window not in ends and _microseconds(start) < watermark
                    for window, start in zip(
                        identities(everything, bound), everything.column("window_start"), strict=True
                    )
                ]
                found.append(_emission(everything.filter(pa.array(begun, pa.bool_())), "early"))
        windows = pa.concat_tables(found) if found else None
        if windows is not None:
            emitted.update(
                window
                for window, row in zip(identities(windows, bound), windows.to_pylist(), strict=True)
                if row.get("emission") != "early"
            )
        yield (
            windows if windows is not None and windows.num_rows else None,
            late if late is not None and late.num_rows else None,
        )


def movable(query: wr.Query) -> bool:
    """Whether a late row may move windows that have come out."""
    return query.late == "update" and not time_windows(query)


def _without(windows: pa.Table, others: pa.Table) -> pa.Table:
    """The windows that are not among the others; of equal ones, so many more as there are."""
    left = [repr(row) for row in others.to_pylist()]
    chosen = []
    for row in map(repr, windows.to_pylist()):
        chosen.append(row not in left)
        if not chosen[-1]:
            left.remove(row)
    return windows.filter(pa.array(chosen, pa.bool_()))


def identities(windows: pa.Table, bound: BoundQuery) -> list[tuple[Any, ...]]:
    """What makes two emissions the same window: everything but the results."""
    names = [name for name in windows.column_names if name not in bound.outputs and name != "emission"]
    columns = [comparable(windows.column(name)) for name in names]
    positions = [0] * windows.num_rows
    again = bound.query.forget_after is not None  # a key that starts anew counts its windows anew
    if again or isinstance(bound.query.window, wr.SlideByTuple | wr.PolicyWindow | wr.DeltaWindow):
        seen: dict[tuple[Any, ...], int] = {}  # rows of equal time trigger windows with equal bounds
        for i, key in enumerate(zip(*columns, strict=True)):
            positions[i] = seen[key] = seen.get(key, -1) + 1
    return list(zip(*columns, positions, strict=True))


def _final(rows: pa.Table, query: wr.Query, watermark: float) -> pa.Table:
    mark = ("flush",) if watermark == math.inf else ("watermark", watermark)
    return oracle.evaluate_stream([("rows", rows), mark], query)[0]


def _settled(rows: pa.Table, bound: BoundQuery, watermark: float) -> pa.Table:
    query = bound.query
    updated = query.late == "update"
    if time_windows(query) and (updated or all(monoid.commutative for monoid in bound.monoids.values())):
        return rows
    before = [bool(time < watermark - (0 if updated else query.lateness)) for time in bound.times(rows)]
    return rows.filter(pa.array(before, pa.bool_()))


def _touched(windows: pa.Table, rows: pa.Table, bound: BoundQuery) -> pa.Table:
    """The windows that hold one of the rows."""
    theirs = set(identities(oracle.evaluate(rows, bound.query), bound))
    return windows.filter(pa.array([window in theirs for window in identities(windows, bound)], pa.bool_()))


def _first_or_update(windows: pa.Table, emitted: set[tuple[Any, ...]], bound: BoundQuery) -> pa.Table:
    """A window whose key and bounds have not come out before is final, also if a late row made it; else an update."""
    place = windows.schema.get_field_index("emission")
    kinds = ["update" if window in emitted else "final" for window in identities(windows, bound)]
    return windows.set_column(place, "emission", pa.array(kinds, pa.string()))


def _emission(windows: pa.Table, emission: str) -> pa.Table:
    place = windows.schema.get_field_index("emission")
    return windows.set_column(place, "emission", pa.array([emission] * windows.num_rows, pa.string()))


def _shows_early(early: int | None, before: float, watermark: float) -> bool:
    if early is None or watermark == math.inf:
        return False
    return before == -math.inf or watermark // early != before // early


def _microseconds(value: pa.Scalar) -> int:
    return int(value.cast(pa.int64()).as_py())
