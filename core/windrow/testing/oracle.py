# SPDX-License-Identifier: Apache-2.0
"""What a right answer is: every query computed directly from the definition of its window. Slow, and simple.

For each key the rows are put in order (time, arrival). One small function per kind of window yields its
windows as :class:`Found`; every aggregate is folded over the rows of each, from the identity, one row at a
time.

>>> import pyarrow as pa
>>> import windrow as wr
>>> query = wr.Query(time="ts", window=wr.TimeWindow("4us", "2us"), aggregates={"n": wr.Count()})
>>> evaluate(pa.table({"ts": [0, 1, 5]}), query).to_pylist() == [
...     {"window_start": -2, "window_end": 2, "n": 2},
...     {"window_start": 0, "window_end": 4, "n": 2},
...     {"window_start": 2, "window_end": 6, "n": 1},
...     {"window_start": 4, "window_end": 8, "n": 1},
... ]
True
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from types import SimpleNamespace
from typing import Any, NamedTuple, TypeAlias

import pyarrow as pa

from windrow.errors import DeltaOrderError
from windrow.query.bound import BoundQuery
from windrow.query.query import Query
from windrow.testing.calendars import calendar_windows
from windrow.testing.compare import comparable
from windrow.windows import (
    CountWindow,
    DeltaWindow,
    PolicyWindow,
    SessionWindow,
    SlideByTime,
    SlideByTuple,
    TimeWindow,
    Window,
)

__all__ = ["Event", "evaluate", "evaluate_stream"]

Event: TypeAlias = tuple[str] | tuple[str, Any]
"""``("rows", table)``, ``("watermark", microseconds)`` or ``("flush",)``."""


class Found(NamedTuple):
    """One window of one key: its bounds, the positions of its rows, the watermark at which it is final."""

    start: Any
    end: Any
    rows: list[int]
    final: float


class KeyRows(NamedTuple):
    """The rows of one key, in order (time, arrival)."""

    origin: list[int]
    """Where each row is in the data."""
    times: list[int]
    deltas: list[Any]
    result: Callable[[list[int]], SimpleNamespace]
    """The result of all aggregates over the rows at some positions."""


def evaluate(data: Any, query: Query) -> pa.Table:
    """All windows of the data: the answer that every engine and algorithm has to give."""
    table = pa.table(data)
    return _windows(table, query.bind(table.schema), watermark=math.inf)


def evaluate_stream(events: Iterable[Event], query: Query) -> tuple[pa.Table, pa.Table]:
    """The windows that are final after the events, and the rows that came too late for them.

    A row is late if its time is before the watermark at its arrival minus the lateness; a lower watermark
    than an earlier one changes nothing; a flush is a watermark that no row can reach. With
    ``late="update"``, a window is returned as it was last emitted.

    >>> import windrow as wr
    >>> query = wr.Query(time="ts", window=wr.TimeWindow("10us"), aggregates={"n": wr.Count()})
    >>> events = [("rows", pa.table({"ts": [1, 12]})), ("watermark", 10), ("rows", pa.table({"ts": [3, 10]}))]
    >>> windows, late = evaluate_stream(events, query)
    >>> windows.to_pylist(), late.to_pylist()
    ([{'window_start': 0, 'window_end': 10, 'n': 1}], [{'ts': 3}])
    """
    watermark = -math.inf
    accepted: list[pa.Table] = []
    late: list[pa.Table] = []
    for event, *argument in events:
        if event == "rows":
            rows = pa.table(argument[0])
            in_time = [
                bool(time >= watermark - query.lateness) for time in query.bind(rows.schema).times(rows)
            ]
            accepted.append(rows.filter(pa.array(in_time, pa.bool_())))
            late.append(rows.filter(pa.array([not each for each in in_time], pa.bool_())))
        elif event == "watermark":
            watermark = max(watermark, argument[0])
        elif event == "flush":
            watermark = math.inf
        else:
            raise ValueError(f"no event {event!r}; expected 'rows', 'watermark' or 'flush'")
    if not accepted:
        raise ValueError(
            "no event has rows, so the columns are unknown; add ('rows', table), even one without rows"
        )
    table = pa.concat_tables(accepted)
    reached = watermark if query.late == "update" else watermark - query.lateness
    return _windows(table, query.bind(table.schema), reached), pa.concat_tables(late)


# One function per kind of window.


def of_time(window: TimeWindow, rows: KeyRows) -> Iterator[Found]:
    """[k·slide + offset, k·slide + offset + range), for each k that could hold a row."""
    if window.zone is not None:
        for start, end in calendar_windows(window.parameters(), rows.times):
            extent = [i for i, time in enumerate(rows.times) if start <= time < end]
            yield Found(start, end, extent, final=end)
        return
    candidates: set[int] = set()
    for time in rows.times:
        latest = (time - window.offset) // window.slide
        candidates.update(range(latest - window.range // window.slide - 1, latest + 1))
    for k in sorted(candidates):
        start = k * window.slide + window.offset
        end = start + window.range
        yield Found(start, end, [i for i, time in enumerate(rows.times) if start <= time < end], final=end)


def of_count(window: CountWindow, rows: KeyRows) -> Iterator[Found]:
    """[w·slide, w·slide + range), for each w whose rows are all there."""
    w = 0
    while w * window.slide + window.range <= len(rows.times):
        start = w * window.slide
        end = start + window.range
        yield Found(start, end, list(range(start, end)), final=rows.times[end - 1] + 1)
        w += 1


def of_session(window: SessionWindow, rows: KeyRows) -> Iterator[Found]:
    """A row joins the session of the row before it, unless the gap between them is too long."""
    session: list[int] = []
    for i, time in enumerate(rows.times):
        if session and time - rows.times[session[-1]] > window.gap:
            yield _session(window, rows, session)
            session = []
        session.append(i)
    if session:
        yield _session(window, rows, session)


def _session(window: SessionWindow, rows: KeyRows, session: list[int]) -> Found:
    end = rows.times[session[-1]] + window.gap
    return Found(rows.times[session[0]], end, session, final=end + 1)


def of_slide_by_tuple(window: SlideByTuple, rows: KeyRows) -> Iterator[Found]:
    """Row r = (w+1)·slide - 1 triggers window w, which is everything in (τ(r) - range, τ(r)]."""
    w = 0
    while (w + 1) * window.slide - 1 < len(rows.times):
        end = rows.times[(w + 1) * window.slide - 1]
        start = end - window.range
        yield Found(
            start, end, [i for i, time in enumerate(rows.times) if start < time <= end], final=end + 1
        )
        w += 1


def of_slide_by_time(window: SlideByTime, rows: KeyRows) -> Iterator[Found]:
    """The last ``range`` rows before each boundary, if a row came since the boundary before it."""
    for k in sorted({(time - window.offset) // window.slide + 1 for time in rows.times}):
        end = k * window.slide + window.offset
        before = [i for i, time in enumerate(rows.times) if time < end][-window.range :]
        yield Found(rows.times[before[0]], end, before, final=end)


def of_delta(window: DeltaWindow, rows: KeyRows) -> Iterator[Found]:
    """Row 0 triggers, then each row that is more than ``slide`` beyond the last trigger."""
    last = None
    for i, delta in enumerate(rows.deltas):
        if i > 0 and delta < rows.deltas[i - 1]:
            raise DeltaOrderError(
                f"attribute {window.attribute!r} of DeltaWindow fell from {rows.deltas[i - 1]} to {delta} "
                f"(rows in order of time); it must never decrease"
            )
        if last is None or delta - last > window.slide:
            last = delta
            start = delta - window.range
            extent = [j for j, other in enumerate(rows.deltas) if start <= other < delta]
            yield Found(start, delta, extent, final=rows.times[i] + 1)


def of_policy(window: PolicyWindow, rows: KeyRows) -> Iterator[Found]:
    """After each row: evict the oldest rows until the result is valid, then while the policy says to evict."""
    kept: list[int] = []
    for i, time in enumerate(rows.times):
        kept.append(i)
        evicted = 0
        if window.valid is not None:
            while evicted < len(kept) - 1 and not window.valid(rows.result(kept[evicted:])):
                evicted += 1
        if window.evict is not None:
            before = rows.result(kept)
            while evicted < len(kept) - 1 and window.evict(
                rows.result(kept[: evicted + 1]), rows.result(kept[evicted + 1 :]), before
            ):
                evicted += 1
        kept = kept[evicted:]
        yield Found(rows.times[kept[0]], time, list(kept), final=time + 1)


KINDS: dict[type[Window], Callable[[Any, KeyRows], Iterator[Found]]] = {
    TimeWindow: of_time,
    CountWindow: of_count,
    SessionWindow: of_session,
    SlideByTuple: of_slide_by_tuple,
    SlideByTime: of_slide_by_time,
    DeltaWindow: of_delta,
    PolicyWindow: of_policy,
}


# From rows to the answer.


def _windows(table: pa.Table, bound: BoundQuery, watermark: float) -> pa.Table:
    query = bound.query
    first_rows: list[int] = []
    labels: list[str] = []
    starts: list[Any] = []
    ends: list[Any] = []
    results: list[SimpleNamespace] = []
    for rows in _groups(table, bound):
        for label, window in query.windows:
            for found in KINDS[type(window)](window, rows):
                if found.rows and found.final <= watermark:
                    first_rows.append(rows.origin[0])
                    labels.append(label)
                    starts.append(found.start)
                    ends.append(found.end)
                    results.append(rows.result(found.rows))
    columns = {name: table.column(name).take(pa.array(first_rows, pa.int64())) for name in query.by}
    columns["window"] = pa.array(labels, pa.string())
    columns["window_start"] = bound.boundaries(starts)
    columns["window_end"] = bound.boundaries(ends)
    for name, monoid in bound.monoids.items():
        columns[name] = monoid.column([getattr(result, name) for result in results])
        if name in bound.buckets:
            columns[f"{name}_error"] = pa.array([0.0] * len(results), pa.float64())
    columns["emission"] = pa.array(["final"] * len(results), pa.string())
    answer = pa.table({name: columns[name] for name in bound.output_schema.names})
    return bound.sort(answer).cast(bound.output_schema)


def _groups(table: pa.Table, bound: BoundQuery) -> Iterator[KeyRows]:
    """The rows of each key, in order."""
    times: list[int] = bound.times(table).tolist()
    deltas: list[Any] = bound.deltas(table).tolist() if isinstance(bound.query.window, DeltaWindow) else []
    keys = [comparable(table.column(name)) for name in bound.query.by]
    groups: dict[tuple[Any, ...], list[int]] = {}
    for position in sorted(range(len(times)), key=lambda position: times[position]):
        groups.setdefault(tuple(key[position] for key in keys), []).append(position)
    for origin in _anew(groups.values(), times, bound.query.forget_after):
        yield KeyRows(
            origin=origin,
            times=[times[position] for position in origin],
            deltas=[deltas[position] for position in origin] if deltas else [],
            result=_fold(_with_computed(table.take(pa.array(origin, pa.int64())), bound), bound),
        )


def _with_computed(table: pa.Table, bound: BoundQuery) -> pa.Table:
    """The rows with the columns that are computed from others, row by row."""
    for name, column in bound.computed.items():
        values = [column.row(row) for row in table.select(column.reads).to_pylist()]
        table = table.append_column(name, pa.array(values, column.plain))
    return table


def _anew(groups: Iterable[list[int]], times: list[int], after: int | None) -> Iterator[list[int]]:
    """Rows of a key that follow a longer silence than ``forget_after`` are those of a new key."""
    for origin in groups:
        begin = 0
        for i in range(1, len(origin)):
            if after is not None and times[origin[i]] - times[origin[i - 1]] > after:
                yield origin[begin:i]
                begin = i
        yield origin[begin:]


def _fold(table: pa.Table, bound: BoundQuery) -> Callable[[list[int]], SimpleNamespace]:
    """The function that gives the result of all aggregates over some rows of a table."""
    inputs: dict[str, list[tuple[Any, ...]]] = {}
    for name, monoid in bound.monoids.items():
        columns = [monoid.scalars(table.column(column)) for column in bound.inputs(name)]
        inputs[name] = [tuple(column[i] for column in columns) for i in range(table.num_rows)]

    def result(rows: list[int]) -> SimpleNamespace:
        values = {}
        for name, monoid in bound.monoids.items():
            partial = monoid.identity
            for i in rows:
                if monoid.keeps_nulls or not any(value is None for value in inputs[name][i]):
                    partial = monoid.combine(partial, monoid.lift(*inputs[name][i]))
            values[name] = monoid.result(partial)
        return SimpleNamespace(**values)

    return result
