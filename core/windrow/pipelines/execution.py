# SPDX-License-Identifier: Apache-2.0
"""The tree of an update: everything that depends on it runs, each stream at most once, after its changed inputs.

Streams wait in a heap by rank. A stream runs if its trigger is newer than its own last update; its output has the
largest id of its inputs. A stream that is reached again in the same tree, through a back-edge, discards that. If a
composite fails, it emits nothing, the failure is reported with the update, and everybody else goes on.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from heapq import heappop, heappush
from itertools import groupby
from typing import Any

from windrow.errors import SnapshotError, StoreError
from windrow.pipelines.changes import AFTER_WINDOWS, Id
from windrow.pipelines.emissions import Emissions, Report, Update
from windrow.pipelines.graph import Graph
from windrow.pipelines.plan import CompositePlan
from windrow.pipelines.state import StreamState, Values
from windrow.pipelines.turns import TICK, OpenWindows, tick
from windrow.pipelines.windowing import WindowedStream

__all__ = ["RESTARTED", "CompositeRunner", "Execution"]

FIRST = -1
"""The place in the heap of a composite that runs at its first changed input."""
RESTARTED = ("",)
"""Instead of channels: what is exported is not an update, but that the stream begins anew."""


class CompositeRunner:
    """A composite with the states of its inputs at hand. Made anew when the graph changes."""

    def __init__(self, plan: CompositePlan, graph: Graph, states: Callable[[str], StreamState]) -> None:
        name = plan.stream.name
        self.name, self.plan, self.states, self.state = name, plan, states, states(name)
        self.keep = plan.stream.history
        self.channels = tuple(plan.channels)
        self.open = {other for other in plan.inputs if other == name or graph.open(name, other)}
        self.inputs = [states(other) for other in plan.inputs if other in self.open]
        self.alias_of = {
            other: alias for alias, names in plan.members.items() if len(names) != 1 for other in names
        }
        self._fixed: list[tuple[StreamState, int] | None] = []
        self._varying: dict[int, tuple[str, dict[str, tuple[StreamState, int]]]] = {}
        for place, (alias, channel) in enumerate(plan.reads):
            names = plan.members[alias]
            found = {
                other: (states(other), list(graph.channels(other) or plan.channels).index(channel))
                for other in names
                if other in self.open
            }
            if len(names) == 1:
                self._fixed.append(found.get(names[0]))
            else:
                self._fixed.append(None)
                self._varying[place] = (alias, found)

    def trigger(self, names: Sequence[str]) -> Id:
        """The newest of the updates that ask it to run."""
        found = [last for name in names if (last := self.states(name).last) is not None]
        return found[0] if len(found) == 1 else max(found)

    def newest(self, trigger: Id) -> Id:
        """The newest of a trigger and the latest updates of all inputs."""
        for state in self.inputs:
            if state.last is not None and state.last > trigger:
                trigger = state.last
        return trigger

    def fetch(self) -> list[Any]:
        """The values of what the expressions read; None is null."""
        values = [
            None if found is None or (row := found[0].values) is None else row[found[1]]
            for found in self._fixed
        ]
        for place, (alias, found) in self._varying.items():
            member = found.get(self.state.current.get(alias, ""))
            if member is not None and (row := member[0].values) is not None:
                values[place] = row[member[1]]
        return values

    def members(self) -> list[str]:
        """The streams of the one input of a composite with ``latest``."""
        return [name for names in self.plan.members.values() for name in names if name in self.open]


class Execution:
    """Runs trees over a graph and the states of its streams."""

    def __init__(
        self,
        graph: Graph,
        states: Callable[[str], StreamState],
        open_window: Callable[[CompositePlan], WindowedStream],
        *,
        arrival: bool,
    ) -> None:
        self.graph, self.states, self.arrival = graph, states, arrival
        self.reports: list[Report] = []
        self.windows = OpenWindows(open_window, self.reports)
        self.dirty: set[str] = set()
        self.exported: list[tuple[tuple[str, ...], Update]] = []
        """Updates of streams that other spaces import, with these spaces."""
        self.reached = -(1 << 62)
        """The largest event time so far, or the watermark."""
        self._runners: dict[str, CompositeRunner] = {}
        self._edges: dict[str, tuple[tuple[int, str, bool], ...]] = {}

    def reach(self, time: int) -> None:
        """Everything before this time has been processed."""
        self.reached = max(self.reached, time)

    def report(self, kind: str, stream: str, at: Id | None, message: str) -> None:
        """Something failed, was refused or came late."""
        self.reports.append(Report(kind, stream, at, message))

    def changed(self) -> None:
        """The graph has changed: what was derived from it is made anew when it is needed."""
        self._runners.clear()
        self._edges.clear()

    def runner(self, name: str) -> CompositeRunner:
        found = self._runners.get(name)
        if found is None:
            found = self._runners[name] = CompositeRunner(self.graph.plans[name], self.graph, self.states)
        return found

    def edges(self, name: str) -> tuple[tuple[int, str, bool], ...]:
        """The composites on a stream: place in the heap, name, and whether updates may go there."""
        found = self._edges.get(name)
        if found is None:
            graph = self.graph
            found = self._edges[name] = tuple(
                (
                    FIRST if graph.plans[other].stream.compose == "first" else graph.rank[other],
                    other,
                    other == name or graph.open(other, name),
                )
                for other in sorted(graph.subscribers.get(name, ()))
            )
        return found

    def tree(self, changed: Sequence[tuple[str, Values]], at: Id, out: Emissions) -> None:
        """Streams have an update, all of one event: emit them, and run everything that depends on them."""
        heap: list[tuple[int, str]] = []
        pending: dict[str, list[str]] = {}
        done = {name for name, _ in changed}
        for name, values in changed:
            self.emit(name, self.states(name), at, values, at.origin, self.graph.streams[name].history)
            self._hand_out(Update(name, at, values, self.channels(name)), out)
        for name, _ in changed:
            self._dispatch(name, heap, pending, done)
        most = self.graph.quotas.executions
        while heap:
            _, each = heappop(heap)
            done.add(each)
            if len(done) > most:
                self.report(
                    "failed", each, at, f"the update of {at.origin!r} runs more than {most} composites"
                )
                return
            runner = self.runner(each)
            found = self._run(runner, pending[each], at)
            if found is not None:
                self.emit(each, runner.state, found[0], found[1], at.origin, runner.keep)
                self._hand_out(Update(each, found[0], found[1], runner.channels), out)
                self._dispatch(each, heap, pending, done)

    def _hand_out(self, update: Update, out: Emissions) -> None:
        out.append(update)
        if (spaces := self.graph.exports.get(update.stream)) is not None:
            self.exported.append((spaces, update))

    def export_restart(self, name: str, at: Id) -> None:
        """A stream is computed differently from an id on: other spaces forget its values, too."""
        if (spaces := self.graph.exports.get(name)) is not None:
            self.exported.append((spaces, Update(name, at, (), RESTARTED)))

    def channels(self, name: str) -> tuple[str, ...]:
        return tuple(self.graph.channels(name) or ())

    def emit(self, name: str, state: StreamState, at: Id, values: Values, trigger: str, keep: int) -> None:
        state.emit(at, values, trigger, self.graph.version, keep)
        self.dirty.add(name)

    def _dispatch(
        self, name: str, heap: list[tuple[int, str]], pending: dict[str, list[str]], done: set[str]
    ) -> None:
        for place, other, is_open in self.edges(name):
            if not is_open:
                self.states(other).figures.count("blocked")
                self.dirty.add(other)
            elif other in done:
                self.states(other).figures.count("discarded")
                self.dirty.add(other)
            elif other in pending:
                pending[other].append(name)
            else:
                pending[other] = [name]
                heappush(heap, (place, other))

    def _run(self, runner: CompositeRunner, triggers: Sequence[str], at: Id) -> tuple[Id, Values] | None:
        """Run one composite; what it emits, if anything."""
        name, state = runner.name, runner.state
        self.dirty.add(name)
        output = trigger = at
        if self.arrival:
            trigger = runner.trigger(triggers)
            output = runner.newest(trigger)
        if state.last is not None and trigger <= state.last:
            state.figures.count("discarded")
            return None
        if runner.alias_of:
            for each in sorted(triggers):
                if (alias := runner.alias_of.get(each)) is not None:
                    state.current[alias] = each
        if name in self.windows.broken:
            state.figures.count("failed")
            return None
        try:
            values = runner.plan.compute(runner.fetch())
            if values is None:
                state.figures.count("filtered")
                return None
            if runner.plan.monoids:
                values = self._latest(runner, output)
            elif runner.plan.query is not None:
                values = self._windowed(runner, values, triggers, output)
        except (StoreError, SnapshotError):
            raise
        except Exception as error:
            state.figures.count("failed")
            self.report("failed", name, at, f"{type(error).__name__}: {error}")
            return None
        return None if values is None else (output, values)

    def _windowed(
        self, runner: CompositeRunner, values: Values, triggers: Sequence[str], at: Id
    ) -> Values | None:
        plan, state = runner.plan, runner.state
        window, by = self.windows.of(plan), max(triggers)
        if plan.per_update:
            order = state.take_row()
            window.add((order, at.ts, by, *values))
            try:
                found = window.step(order)
            except Exception as error:
                self.windows.break_off(runner.name, error)
                raise
            return tuple(found[-1][channel] for channel in runner.channels) if found else None
        if at.ts < window.reached:
            state.figures.count("discarded")
            return None
        state.take_row()
        window.add((at.ts, by, *values))
        self.windows.schedule(runner.name, window)
        return None

    def _latest(self, runner: CompositeRunner, at: Id) -> Values:
        """Aggregates over the latest update of every member that is not too old."""
        plan, expire = runner.plan, runner.plan.expire
        rows = []
        for name in runner.members():
            state = runner.states(name)
            if state.values is None or state.last is None:
                continue
            if expire is not None and state.last.ts < at.ts - expire:
                continue
            own = list(self.graph.channels(name) or ())
            given = [state.values[own.index(channel)] for _, channel in plan.reads]
            if (row := plan.compute(given)) is not None:
                rows.append(row)
        found = []
        for monoid, places in plan.monoids.values():
            partial, any_row = monoid.identity, not places
            for row in rows:
                given = [row[place] for place in places]
                if None not in given:
                    partial, any_row = monoid.combine(partial, monoid.lift(*given)), True
            found.append(_plain(monoid.lower(partial)) if any_row else None)
        return tuple(found)

    def fire(self, before: Id, out: Emissions) -> None:
        """Emit what windows have to emit before an update with this id."""
        while (found := self.windows.next(before)) is not None:
            at, row = found
            self.dirty.add(at.origin)
            values = tuple(row[channel] for channel in self.graph.plans[at.origin].channels)
            self.tree([(at.origin, values)], at, out)

    def fire_until(self, time: int, out: Emissions) -> None:
        """Emit the windows that end at or before a time."""
        self.fire(Id(time, AFTER_WINDOWS), out)

    def replay(self, name: str, out: Emissions) -> None:
        """Feed a composite the history of its inputs, as if it had been there. What depends on it already is not run."""
        plan = self.graph.plans[name]
        own = self.states(name)
        past = {other: StreamState() for other in plan.inputs if other != name}
        runner = CompositeRunner(plan, self.graph, lambda other: past.get(other, own))
        rows = [
            (at, other, values)
            for other in past
            if other in runner.open
            for at, values in self.states(other).history
        ]
        rows.sort(key=lambda row: row[:2])
        own.forget_last()
        for at, group in groupby(rows, key=lambda row: row[0]):
            triggers = []
            for _, other, values in group:
                past[other].emit(at, values, other, 0, 0)
                triggers.append(other)
            if plan.query is not None and not plan.per_update:
                self._replay_windows(runner, at.ts, out)
            found = self._run(runner, triggers, at)
            if found is not None:
                self.emit(name, own, found[0], found[1], triggers[-1], runner.keep)
                out.append(Update(name, found[0], found[1], runner.channels))
        if plan.query is not None and not plan.per_update:
            self._replay_windows(runner, self.reached, out)

    def _replay_windows(self, runner: CompositeRunner, watermark: int, out: Emissions) -> None:
        if runner.name in self.windows.broken:
            return
        window = self.windows.of(runner.plan)
        while (wake := window.wake) is not None and wake <= watermark:
            found = self.windows.attempt(runner.name, Id(wake, TICK), partial(window.advance, wake))
            if found is None:
                return
            for number, (end, row) in enumerate(found):
                at = tick(end, number, runner.name)
                values = tuple(row[channel] for channel in runner.channels)
                self.emit(runner.name, runner.state, at, values, runner.name, runner.keep)
                out.append(Update(runner.name, at, values, runner.channels))
        self.windows.schedule(runner.name, window)


def _plain(value: Any) -> Any:
    return value.item() if hasattr(value, "item") else value
