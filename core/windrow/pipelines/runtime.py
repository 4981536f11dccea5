# SPDX-License-Identifier: Apache-2.0
"""The engine-neutral runtime of dynamic pipelines: updates and changes in, emitted updates out.

One runtime is one bucket of an engine's keyed state, and all streams of a space live in one bucket. So the whole tree of
an update runs here, at whatever depth, and graph, values, windows and the position in the source are committed together.
An adapter does this, and nothing else:

1. Key the rows by space. Open ``Runtime(pages)`` over the bucket's store (a :class:`~windrow.storage.pages.Pages`).
2. Per batch: ``process(updates, changes)``, then ``advance(watermark)``, then ``commit(position)``. Rows are
   :data:`~windrow.pipelines.emissions.UPDATES` and :data:`~windrow.pipelines.changes.CHANGES`. Each call returns
   :class:`~windrow.pipelines.emissions.Emissions`; ``to_table()`` has the rows to hand out.
3. ``reports()`` are what failed, was refused or came late: a side output. ``wake`` is when to call ``advance`` though no
   row came: a timer.
4. If anything raises, forget the runtime and open it again: the store has the last commit, whole, with its
   ``position``. Rows that were processed before are known by their ids, and discarded.

With ``order="event"`` rows wait until the watermark has passed them and then run by (ts, sequence), changes among them.
What comes out does not depend on how rows are cut into batches, nor on the engine. With ``order="arrival"`` each row runs
when it comes; an update that is older than what a stream has emitted already is discarded there, and counted.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from heapq import heapify, heappop, heappush
from itertools import pairwise
from typing import Any, Literal

import pyarrow as pa

from windrow.errors import CorruptSnapshot, PipelineError, WindrowError
from windrow.expressions import Registered
from windrow.imports import Allow
from windrow.pipelines.backlog import Backlog
from windrow.pipelines.changes import BEFORE, Change, Id
from windrow.pipelines.chunks import Chunk
from windrow.pipelines.emissions import Emissions, Report
from windrow.pipelines.execution import Execution
from windrow.pipelines.graph import Graph
from windrow.pipelines.ledger import Ledger
from windrow.pipelines.plan import CompositePlan
from windrow.pipelines.quotas import Quotas
from windrow.pipelines.rows import Event, changes_of, events_of, name_of
from windrow.pipelines.state import StreamState, encode, read_page, write_page
from windrow.pipelines.streams import Source
from windrow.pipelines.values import checked, fits
from windrow.pipelines.windowing import Shared, WindowedStream
from windrow.storage.pages import HEADER, MemoryPages, Pages

__all__ = ["Event", "Runtime"]

FORMAT = 1


class Runtime:
    """All streams of one space: their graph, their values, their windows, in one store.

    ``sinks`` are the names that composites may send to, ``functions`` what expressions may call, ``allow`` the modules
    that documents may import aggregates from. ``late`` says what happens to a change whose time has passed: it is
    refused, or applied from now on. From so many updates at once on they run as ``columns``.
    """

    def __init__(
        self,
        pages: Pages | None = None,
        *,
        order: Literal["event", "arrival"] = "event",
        functions: Mapping[str, Registered] | None = None,
        sinks: Iterable[str] = (),
        quotas: Quotas | None = None,
        allow: Allow = (),
        late: Literal["refuse", "now"] = "refuse",
        columns: int = 64,
    ) -> None:
        if order not in ("event", "arrival") or late not in ("refuse", "now"):
            raise PipelineError("order is 'event' or 'arrival', and late is 'refuse' or 'now'")
        self.pages: Pages = MemoryPages() if pages is None else pages
        self.order, self.late, self.sinks = order, late, frozenset(sinks)
        self.graph = Graph(functions or {}, quotas or Quotas(), allow)
        self.position = BEFORE
        """The id of the last update or change that was processed."""
        self.watermark = BEFORE.ts
        self.source_position = ""
        """What :meth:`commit` was given: how far the source was read."""
        self._states: dict[str, StreamState] = {}
        self._put: dict[str, bytes] = {}
        self._gone: dict[str, None] = {}
        self._ledger = Ledger()
        self._waiting: list[tuple[int, int, str, int, Event]] = []
        self._entered = 0
        self._arrived = 0
        self._execution = Execution(self.graph, self.state, self._open_window, arrival=order == "arrival")
        self._backlog = Backlog(self._execution, columns)
        self._open()

    # Rows in, updates out.

    def process(self, updates: Any = None, changes: Any = None) -> Emissions:
        """Take updates and changes; returns what was emitted.

        Updates are rows of UPDATES or anything Arrow-exportable with these columns, or a list of
        ``(ts, sequence, stream, channels)``. Changes are rows of CHANGES, or a list of :class:`Change`. A row that is
        not valid is refused with a report, and the others go on.
        """
        out = Emissions()
        for change in changes_of(changes):
            try:
                self.change(change, out)
            except WindrowError as error:
                self._report("refused", name_of(change), change.at, str(error))
        events = events_of(updates, self._execution.reports)
        if self.order == "arrival":
            self._run_many(events, out)
        else:
            self._wait(events)
        return out

    def process_columns(self, stream: str, ts: Any, sequence: Any, values: pa.Table) -> Emissions:
        """Take many updates of one source as columns: the same as :meth:`process`, in less time per update."""
        out = Emissions()
        chunk = Chunk.of(stream, ts, sequence, values)
        if (
            self.order == "arrival"
            and not self._ledger.scheduled
            and self._backlog.takes([chunk], self.position)
        ):
            self._backlog_run([chunk], out)
        elif self.order == "arrival":
            self._run(chunk.events(), out)
        else:
            self._wait(chunk.events())
        return out

    def advance(self, watermark: int) -> Emissions:
        """No update before this time will come any more; returns what that releases: updates, changes, windows."""
        out = Emissions()
        if watermark <= self.watermark:
            return out
        self.watermark = watermark
        released: list[Event] = []
        while self._waiting and self._waiting[0][0] < watermark:
            released.append(heappop(self._waiting)[4])
        self._run_many(released, out)
        self._due_changes(Id(watermark, BEFORE.sequence), out)
        self._execution.fire(watermark, out)
        self._execution.reach(watermark)
        return out

    def change(self, change: Change, out: Emissions | None = None) -> str:
        """Apply a change, or keep it until its time: ``applied`` or ``scheduled``. A refusal is an error."""
        at = change.at
        if at is not None and at > self.position and at.ts >= self.reached:
            self._ledger.schedule(change, at)
            return "scheduled"
        if at is not None:
            passed = f"{change.operation} was to take effect at {tuple(at)}, which has passed"
            if self.late == "refuse":
                self._ledger.refuse(self._ledger.add(change))
                raise PipelineError(f"{passed}; give a later time, or none for now")
            self._report("late", name_of(change), at, f"{passed}; it does from now on")
        self._apply(change, self._ledger.add(change), Emissions() if out is None else out)
        return "applied"

    def number(self, count: int) -> int:
        """Numbers for updates that come without a sequence: the first of so many that nobody else gets."""
        first, self._arrived = self._arrived, self._arrived + count
        return first

    @property
    def reached(self) -> int:
        """The time before which everything has been processed."""
        return max(self.watermark, self._execution.reached) if self.order == "arrival" else self.watermark

    @property
    def wake(self) -> int | None:
        """The earliest watermark at which something is due: a window, a change, an update that waits."""
        times = [due for due in (self._execution.due, self._ledger.next_time) if due is not None]
        times += [self._waiting[0][0] + 1] if self._waiting else []
        return min(times, default=None)

    def reports(self) -> list[Report]:
        """What failed, was refused or came late since the last call."""
        found = list(self._execution.reports)
        self._execution.reports.clear()
        return found

    def log(self) -> list[dict[str, Any]]:
        """All changes as rows, with what came of each."""
        return self._ledger.entries()

    def state(self, name: str) -> StreamState:
        """The state of a stream; it is read from the store when it is first needed."""
        found = self._states.get(name)
        if found is None:
            found = self._stored(name)
            self._check(name, found)
            self._states[name] = found
        return found

    def _stored(self, name: str) -> StreamState:
        page = self.pages.get([f"s/{name}"]).get(f"s/{name}") if f"s/{name}" not in self._gone else None
        return StreamState() if page is None else StreamState.load(name, page, self.pages.get)

    def _check(self, name: str, state: StreamState) -> None:
        """Values from a store are of the channels' types, and in order."""
        channels = self.graph.channels(name) or {}
        rows = [values for _, values in state.history] + ([state.values] if state.values is not None else [])
        ids = [at for at, _ in state.history]
        if not all(fits(values, channels) for values in rows) or any(a > b for a, b in pairwise(ids)):
            raise CorruptSnapshot(f"the state of stream {name!r} does not fit its channels")

    # The store.

    def commit(self, position: str | None = None) -> None:
        """Write what changed, all or nothing: graph, values, windows, and how far the source was read."""
        if position is not None:
            self.source_position = position
        for name in self._execution.dirty:
            if name in self.graph.streams:
                put, gone = self.state(name).pages(name)
                self._put |= put
                self._gone |= dict.fromkeys(gone)
        self._execution.commit_windows()
        put, gone = self._ledger.pages()
        self._put |= put
        self._put |= {HEADER: self._header()}
        self._wait_pages()
        self.pages.commit(self._put, [name for name in (*self._gone, *gone) if name not in self._put])
        self._put.clear()
        self._gone.clear()
        self._execution.dirty.clear()

    def _header(self) -> bytes:
        return write_page(
            encode(
                {
                    "format": FORMAT,
                    "order": self.order,
                    "position": self.position,
                    "watermark": self.watermark,
                    "reached": self._execution.reached,
                    "ticks": self._execution.ticks,
                    "source": self.source_position,
                    "changes": self._ledger.count,
                    "arrived": self._arrived,
                    "waiting": len(self._waiting),
                }
            )
        )

    def _wait_pages(self) -> None:
        """Updates that wait, in one page. It is as large as what the watermark has not passed."""
        if self.order == "event":
            rows = [entry[4] for entry in sorted(self._waiting, key=lambda entry: entry[:4])]
            self._put["waiting"] = write_page(encode(rows))

    def _open(self) -> None:
        page = self.pages.get([HEADER]).get(HEADER)
        if page is None:
            return
        header = read_page(page, "a space")
        try:
            if header["format"] > FORMAT:
                raise CorruptSnapshot(
                    f"the space has format {header['format']}, this windrow reads up to {FORMAT}"
                )
            if header["order"] != self.order:
                raise PipelineError(
                    f"the space was made with order={header['order']!r}; open it with the same"
                )
            self.position, self.watermark = Id(*header["position"]), int(header["watermark"])
            self.source_position, self._arrived = str(header["source"]), int(header["arrived"])
            self._execution.resume(int(header["reached"]), int(header["ticks"]))
            self._ledger = Ledger.load(int(header["changes"]), self.pages.get)
            waiting = self.pages.get(["waiting"]).get("waiting") if header["waiting"] else None
            rows = [] if waiting is None else read_page(waiting, "updates that wait")
            self._entered = len(rows)
            self._waiting = [(e[0], e[1], e[2], n, (e[0], e[1], e[2], e[3])) for n, e in enumerate(rows)]
            heapify(self._waiting)
        except (KeyError, TypeError, ValueError) as cause:
            if isinstance(cause, WindrowError):
                raise
            raise CorruptSnapshot(f"the header of the space is damaged: {cause!r}") from cause
        try:
            for change in self._ledger.applied():
                self.graph.apply(change)
        except PipelineError as cause:
            raise CorruptSnapshot(f"the log of changes cannot be applied again: {cause}") from cause
        for name, plan in self.graph.plans.items():
            if plan.query is not None and not plan.per_update and self.state(name).rows:
                self._execution.window(plan)  # so that it is known when it is due

    def _open_window(self, plan: CompositePlan) -> WindowedStream:
        prefix = f"w/{self._ledger.generation(plan.stream.name)}/{plan.stream.name}/"
        return WindowedStream(plan, Shared(self.pages, prefix, self._put, self._gone))

    # Events in order.

    def _wait(self, events: Iterable[Event]) -> None:
        for event in events:
            if event[0] < self.watermark:
                self._report(
                    "refused", event[2], Id(event[0], event[1]), "the update came behind the watermark"
                )
                continue
            self._entered += 1
            heappush(self._waiting, (*event[:3], self._entered, event))

    def _run_many(self, events: list[Event], out: Emissions) -> None:
        """Run updates as columns if that is possible and worth it, otherwise one by one."""
        chunks = None if self._ledger.scheduled else self._backlog.chunks(events)
        if chunks is not None and self._backlog.takes(chunks, self.position):
            self._backlog_run(chunks, out)
        else:
            self._run(events, out)

    def _backlog_run(self, chunks: Sequence[Chunk], out: Emissions) -> None:
        self.position = self._backlog.run(chunks, out, self._run)

    def _run(self, events: Iterable[Event], out: Emissions) -> None:
        """Run updates one by one, with the changes and the windows that are due before each."""
        execution = self._execution
        for ts, sequence, stream, named in events:
            at = Id(ts, sequence, stream)
            if self._ledger.scheduled:
                self._due_changes(at, out)
            execution.fire(ts, out)
            execution.reach(ts)
            source = self.graph.streams.get(stream)
            if not isinstance(source, Source):
                self._report("refused", stream, at, f"there is no source {stream!r}")
                continue
            try:
                values = checked(source, named)
            except PipelineError as error:
                self.state(stream).figures.count("failed")
                self._report("refused", stream, at, str(error))
                continue
            state = self.state(stream)
            if state.last is not None and at <= state.last:
                state.figures.count("discarded")
                execution.dirty.add(stream)
                continue
            self.position = max(self.position, at)
            execution.tree(stream, at, values, stream, out)

    def _due_changes(self, before: Id, out: Emissions) -> None:
        """Apply the changes whose time is at or before an update."""
        for change, number in self._ledger.due(before):
            assert change.at is not None
            self._execution.fire(change.at.ts, out)
            self._execution.reach(change.at.ts)
            self.position = max(self.position, change.at)
            try:
                self._apply(change, number, out)
            except WindrowError as error:
                self._report("refused", name_of(change), change.at, f"{change.operation}: {error}")

    def _apply(self, change: Change, number: int, out: Emissions) -> None:
        try:
            sink = change.form.get("sink") if change.operation == "put" else None
            if sink is not None and sink not in self.sinks:
                raise PipelineError(f"no sink {sink!r}; there is {', '.join(sorted(self.sinks)) or 'none'}")
            applied = self.graph.apply(change)
        except WindrowError:
            self._ledger.refuse(number)
            raise
        self._ledger.apply(number, self.graph.version)
        self._execution.changed()
        for name in (*applied.restarted, *applied.dropped):
            self._restart(name, name in applied.dropped)
        for name in (*applied.added, *applied.restarted):
            plan = self.graph.plans.get(name)
            if plan is not None and plan.stream.start == "replay":
                self._execution.replay(name, out)

    def _restart(self, name: str, dropped: bool) -> None:
        window = self._execution.windows.get(name)
        if window is not None:
            self._gone |= dict.fromkeys(window.names())
        self._ledger.renew(name)
        self._execution.forget(name)
        # Its values are of the old definition's channels: they are forgotten, not checked.
        state = self._states[name] = self._states.get(name) or self._stored(name)
        state.restart()
        if dropped:
            put, gone = state.pages(name)
            self._gone |= dict.fromkeys((*put, *gone))
            for page in self._gone:  # in place: windows put their pages here
                self._put.pop(page, None)
            del self._states[name]
            self._execution.dirty.discard(name)
        else:
            self._execution.dirty.add(name)

    def _report(self, kind: str, stream: str, at: Id | None, message: str) -> None:
        self._execution.reports.append(Report(kind, stream, at, message))
