# SPDX-License-Identifier: Apache-2.0
"""Many updates at once, as columns: each composite takes its inputs as of every event, and computes all rows together.

The answer is that of one update after the other. What cannot be done in columns is done row by row: cycles, composites
with ``latest`` or ``compose="first"``, count windows, and updates that are not in order. Windows of time cut a backlog
into pieces, so that what they emit comes in its turn.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from windrow.errors import PipelineError, SnapshotError, StoreError
from windrow.pipelines.changes import Id
from windrow.pipelines.chunks import Chunk, Ints, fitted, in_order, order, whole
from windrow.pipelines.emissions import Emissions, UpdateColumns
from windrow.pipelines.execution import CompositeRunner, Execution
from windrow.pipelines.plan import CompositePlan
from windrow.pipelines.turns import TICK
from windrow.pipelines.values import checked

__all__ = ["Backlog", "Chunk"]

Rows = Callable[[Iterable[Any], Emissions], None]


@dataclass(frozen=True)
class Made:
    """What a stream emits in a piece of a backlog: at which events, and the values."""

    event: Ints
    values: pa.Table


@dataclass(frozen=True)
class PieceRun:
    """What running a composite over a piece came to."""

    runner: CompositeRunner
    made: Made
    filtered: int
    streams: pa.Array
    """Which input's stream triggered each row that was made."""
    current: dict[str, str]


class Backlog:
    """Runs backlogs over an execution's graph and states."""

    def __init__(self, execution: Execution, worth: int) -> None:
        self.execution, self.worth = execution, worth

    def chunks(self, events: Sequence[Any]) -> list[Chunk] | None:
        """Rows as columns, by source; None if one of them is not valid, or if columns are not worth it or not exact."""
        if len(events) < max(self.worth, 1) or (self.execution.arrival and not self._as_they_arrive(events)):
            return None
        found: dict[str, list[Any]] = {}
        try:
            for ts, sequence, stream, named in events:
                source = self.execution.graph.device(stream)
                if source is None:
                    return None
                found.setdefault(stream, []).append((ts, sequence, checked(source, named)))
        except PipelineError:
            return None
        chunks = []
        for stream, rows in found.items():
            ts, sequence, values = zip(*rows, strict=True)
            kinds = self.execution.graph.channels(stream) or {}
            try:
                columns = [
                    pa.array(c, kind)
                    for c, kind in zip(zip(*values, strict=True), kinds.values(), strict=True)
                ]
            except UnicodeError:  # half of a surrogate pair
                return None
            chunks.append(Chunk.of(stream, ts, sequence, pa.Table.from_arrays(columns, names=list(kinds))))
        return chunks

    def _as_they_arrive(self, events: Sequence[Any]) -> bool:
        """In order of arrival: whether columns do what rows would, down to figures and reports, and in less time.

        The updates have come in the order of their ids, and everything so far is older. No window takes them: when a
        session is due depends on when its rows are handed over. Nothing computes a value of another type than it says.
        Composites do not outnumber updates, most of which may be filtered before they come to them.
        """
        graph = self.execution.graph
        sources = {event[2] for event in events}
        if graph.functions or events[0][0] < self.execution.reached:
            return False
        if not all(graph.device(name) is not None and graph.channels(name) for name in sources):
            return False
        if not all(earlier < later for earlier, later in pairwise(tuple(event[:3]) for event in events)):
            return False
        most = min(len(events), graph.quotas.executions - 1)
        affected = self._affected(sources, most)
        return len(affected) <= most and all(
            self._in_columns(name) and graph.plans[name].query is None for name in affected
        )

    def takes(self, chunks: Sequence[Chunk], position: Id) -> bool:
        """Whether these updates can run as columns."""
        if sum(len(chunk.ts) for chunk in chunks) < self.worth:
            return False
        graph = self.execution.graph
        if any(graph.device(chunk.stream) is None for chunk in chunks):
            return False
        if any(fitted(chunk, graph.streams[chunk.stream]) is None for chunk in chunks):  # type: ignore[arg-type]
            return False
        _, ts, sequence = order(chunks)
        if not in_order(chunks) or Id(int(ts[0]), int(sequence[0])) <= position:
            return False
        if ts[0] < self.execution.reached or not all(graph.channels(chunk.stream) for chunk in chunks):
            return False
        affected = self._affected([chunk.stream for chunk in chunks])
        return len(affected) < graph.quotas.executions and all(map(self._in_columns, affected))

    def run(self, chunks: Sequence[Chunk], out: Emissions, rows: Rows) -> Id:
        """Run updates that :meth:`takes` accepted; the id of the last one."""
        graph = self.execution.graph
        tables = [fitted(chunk, graph.streams[chunk.stream]) for chunk in chunks]  # type: ignore[arg-type]
        where, ts, sequence = order(chunks)
        source = np.concatenate([np.full(len(chunk.ts), n) for n, chunk in enumerate(chunks)])[where]
        place = np.concatenate([np.arange(len(chunk.ts)) for chunk in chunks])[where]
        affected = self._affected([chunk.stream for chunk in chunks])
        windowed = [plan for name in affected if (plan := graph.plans[name]).query is not None]
        begin = 0
        while begin < len(ts):
            self.execution.fire_until(int(ts[begin]), out)
            broken = self.execution.windows.broken
            end = self._end([plan for plan in windowed if plan.stream.name not in broken], ts, begin)
            piece = slice(begin, end)
            made = None
            if end - begin >= self.worth // 2 and broken.keys().isdisjoint(affected):
                inputs = {
                    chunk.stream: Made(
                        events := np.flatnonzero(source[piece] == n),
                        table.take(pa.array(place[piece][events])),
                    )
                    for n, (chunk, table) in enumerate(zip(chunks, tables, strict=True))
                    if table is not None
                }
                names = (
                    [chunks[n].stream for n in source[piece]]
                    if len(chunks) > 1
                    else [chunks[0].stream] * (end - begin)
                )
                made = self._piece(inputs, affected, ts[piece], sequence[piece], names, out)
            if not made:
                pieces = zip(
                    ts[piece].tolist(), sequence[piece].tolist(), source[piece], place[piece], strict=True
                )
                rows(
                    [
                        (t, s, chunks[n].stream, chunks[n].values.slice(int(p), 1).to_pylist()[0])
                        for t, s, n, p in pieces
                    ],
                    out,
                )
            self.execution.reach(int(ts[end - 1]))
            begin = end
        return Id(int(ts[-1]), int(sequence[-1]), chunks[source[-1]].stream)

    def _end(self, windowed: Sequence[CompositePlan], ts: Ints, begin: int) -> int:
        """Where a piece ends: before the first update at which a window may be due."""
        windows = self.execution.windows
        dues = [windows.wake] if windows.wake is not None else []
        dues += [windows.of(plan).earliest_end(int(ts[begin])) for plan in windowed]
        return max(int(np.searchsorted(ts, min(dues), "left")), begin + 1) if dues else len(ts)

    def _affected(self, sources: Iterable[str], most: int = 1 << 62) -> list[str]:
        """The composites that updates of these sources can reach, in the order in which they run.

        If there are more than ``most``, some of them.
        """
        found: dict[str, None] = {}
        left = list(sources)
        while left and len(found) <= most:
            for _, other, is_open in self.execution.edges(left.pop()):
                if is_open and other not in found:
                    found[other] = None
                    if self.execution.graph.plans[other].query is None:
                        left.append(other)
                    if len(found) > most:
                        break
        rank = self.execution.graph.rank
        return sorted(found, key=lambda name: (rank[name], name))

    def _in_columns(self, name: str) -> bool:
        execution = self.execution
        plan, rank = execution.graph.plans[name], execution.graph.rank
        return (
            not plan.monoids
            and not plan.per_update
            and plan.stream.compose == "fresh"
            and name not in execution.windows.broken
            and all(rank[other] < rank[name] for other in plan.inputs)
            and _is_plain(plan)
            and all(pa.types.is_primitive(k) or k == pa.string() for k in plan.row_channels.values())
        )

    def _piece(
        self,
        inputs: dict[str, Made],
        affected: Sequence[str],
        ts: Ints,
        sequence: Ints,
        triggers: Sequence[str],
        out: Emissions,
    ) -> bool:
        """Run one piece. If something in it fails, nothing has happened, and it has to run row by row."""
        made = {name: each for name, each in inputs.items() if len(each.event)}
        results: list[PieceRun] = []
        try:
            for name in affected:
                ran = self._composite(self.execution.runner(name), made)
                if ran is not None:
                    results.append(ran)
                    if ran.runner.plan.query is None and len(ran.made.event):
                        made[name] = ran.made
            tables = {
                ran.runner.name: _window_rows(ran, ts) for ran in results if ran.runner.plan.query is not None
            }
        except (StoreError, SnapshotError):
            raise
        except Exception:
            return False
        self._store(inputs, made, results, ts, sequence, triggers, out)
        windows = self.execution.windows
        for name, table in tables.items():
            if table.num_rows:
                window = windows.of(self.execution.graph.plans[name])
                windows.attempt(name, Id(int(ts[-1]), TICK, name), partial(window.add_columns, table))
                windows.schedule(name, window)
        return True

    def _composite(self, runner: CompositeRunner, made: dict[str, Made]) -> PieceRun | None:
        plan = runner.plan
        triggers = sorted(n for n in plan.inputs if n in runner.open and n in made)
        if not triggers:
            return None
        events = made[triggers[0]].event
        if len(triggers) > 1:
            events = np.unique(np.concatenate([made[name].event for name in triggers]))
        data: dict[str, Any] = {"": pa.array(events)}
        current: dict[str, str] = {}
        chosen: dict[str, Any] = {}
        for alias, names in plan.members.items():
            if len(names) != 1:
                chosen[alias] = _latest_member(
                    runner, alias, [n for n in triggers if n in names], made, events
                )
                if chosen[alias][-1] is not None:
                    current[alias] = chosen[alias][-1]
        for alias, channel in plan.reads:
            names = plan.members[alias]
            if len(names) == 1:
                column = self._as_of(runner, names[0], channel, made, events)
            else:
                column = self._as_of_members(runner, chosen[alias], channel, made, events)
            data[f"{alias}.{channel}"] = column
        plan.compute_columns(data)
        kept = np.ones(len(events), bool)
        if plan.where is not None:
            kept = np.asarray(pc.fill_null(whole(plan.where.batch(data), pa.bool_()), False))
        columns = [data[name].filter(pa.array(kept)) for name in plan.row_channels]
        values = pa.Table.from_arrays(columns, names=list(plan.row_channels))
        by = _last_trigger(triggers, made, events)[kept]
        streams = (
            pa.array([triggers[n] for n in by], pa.string())
            if plan.query is not None
            else pa.array([], pa.string())
        )
        return PieceRun(runner, Made(events[kept], values), int(len(events) - kept.sum()), streams, current)

    def _as_of(
        self, runner: CompositeRunner, name: str, channel: str, made: dict[str, Made], events: Ints
    ) -> pa.Array:
        """The channel of a stream at each event: its newest value up to then."""
        graph = self.execution.graph
        kinds = graph.channels(name) or {}
        kind = kinds[channel]
        values = runner.states(name).values if name in runner.open else None
        before = None if values is None else values[list(kinds).index(channel)]
        if name not in made or name not in runner.open:
            return pa.repeat(pa.scalar(before, kind), len(events))
        emitted = made[name]
        place = np.searchsorted(emitted.event, events, "right")
        column = pa.concat_arrays([pa.array([before], kind), whole(emitted.values.column(channel), kind)])
        return column.take(pa.array(place))

    def _as_of_members(
        self,
        runner: CompositeRunner,
        chosen: Sequence[str | None],
        channel: str,
        made: dict[str, Made],
        events: Ints,
    ) -> pa.Array:
        """The channel of whichever stream of an input had an update last."""
        found: Any = None
        members = np.array([name or "" for name in chosen])
        for name in dict.fromkeys(name for name in chosen if name):
            column = self._as_of(runner, name, channel, made, events)
            found = column if found is None else pc.if_else(pa.array(members == name), column, found)
        if found is None:
            kind = next(t.reads[n] for t in runner.plan.steps for n in t.reads if n.endswith(f".{channel}"))
            return pa.nulls(len(events), kind)
        return pc.if_else(pa.array(members == ""), pa.scalar(None, found.type), found)

    def _store(
        self,
        inputs: dict[str, Made],
        made: dict[str, Made],
        results: Sequence[PieceRun],
        ts: Ints,
        sequence: Ints,
        triggers: Sequence[str],
        out: Emissions,
    ) -> None:
        """Everything was computed: now it happens."""
        execution, blocks = self.execution, []
        graph = execution.graph
        for ran in results:
            state = ran.runner.state
            state.figures.count("filtered", ran.filtered)
            execution.dirty.add(ran.runner.name)
            for alias, name in ran.current.items():
                state.choose(alias, name)
            if ran.runner.plan.query is not None:
                state.take_rows(len(ran.made.event))
        for name, each in made.items():
            event = each.event
            keep = graph.streams[name].history
            state = execution.states(name)
            last = each.values.slice(max(0, len(event) - max(keep, 1)))
            ids = event[-last.num_rows :]
            origins = [triggers[n] for n in ids.tolist()]
            at = list(map(Id, ts[ids].tolist(), sequence[ids].tolist(), origins))
            rows = list(zip(*(column.to_pylist() for column in last.columns), strict=True))
            state.emit_many(
                list(zip(at, rows, strict=True)), len(event), triggers[int(event[-1])], graph.version, keep
            )
            execution.dirty.add(name)
            block = UpdateColumns(
                name, graph.rank[name], event, ts[event], sequence[event], each.values, triggers
            )
            blocks.append(block)
            if (spaces := graph.exports.get(name)) is not None:
                execution.exported.extend((spaces, update) for update in block.rows())
            for _, other, is_open in execution.edges(name):
                if not is_open:
                    execution.states(other).figures.count("blocked", len(event))
                    execution.dirty.add(other)
        out.add_blocks(blocks)


def _is_plain(plan: CompositePlan) -> bool:
    """Whether a composite has channels, and no stream that is a member of two inputs."""
    members = [name for names in plan.members.values() if len(names) != 1 for name in names]
    return bool(plan.row_channels) and len(members) == len(set(members))


def _last_trigger(triggers: Sequence[str], made: dict[str, Made], events: Ints) -> Ints:
    """Which of the triggers, by its number, is the last to have emitted at each event."""
    last = np.zeros(len(events), np.int64)
    for number, name in enumerate(triggers):
        last[np.searchsorted(events, made[name].event)] = number
    return last


def _latest_member(
    runner: CompositeRunner, alias: str, triggers: Sequence[str], made: dict[str, Made], events: Ints
) -> list[str | None]:
    """Which stream of an input had an update last, at each event."""
    found = np.full(len(events), -1)
    for number, name in enumerate(triggers):
        found[np.searchsorted(events, made[name].event)] = number
    now: str | None = runner.state.current.get(alias)
    chosen: list[str | None] = []
    for number in found.tolist():
        now = triggers[number] if number >= 0 else now
        chosen.append(now)
    return chosen


def _window_rows(ran: PieceRun, ts: Ints) -> pa.Table:
    times = pa.array(ts[ran.made.event], pa.int64())
    return pa.Table.from_arrays([times, ran.streams, *ran.made.values.columns], schema=ran.runner.plan.schema)
