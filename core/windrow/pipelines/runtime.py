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

from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import Any, Literal, Unpack

import pyarrow as pa

from windrow.errors import CorruptSnapshot, PipelineError, SnapshotError, StoreError, WindrowError
from windrow.pipelines.admission import Admission
from windrow.pipelines.backlog import Backlog
from windrow.pipelines.changes import AFTER_WINDOWS, BEFORE, Change, Id
from windrow.pipelines.changing import Changing
from windrow.pipelines.chunks import Chunk
from windrow.pipelines.crossings import Place, check_rounds
from windrow.pipelines.emissions import Emissions, Report
from windrow.pipelines.execution import RESTARTED, Execution
from windrow.pipelines.graph import Graph
from windrow.pipelines.header import SpaceHeader
from windrow.pipelines.ledger import Ledger
from windrow.pipelines.one_commit import OneCommit
from windrow.pipelines.options import SpaceOptions
from windrow.pipelines.plan import CompositePlan
from windrow.pipelines.quotas import Quotas
from windrow.pipelines.rows import Event, changes_of, events_of, name_of
from windrow.pipelines.state import StreamState, Values, encode, write_page
from windrow.pipelines.stored import StoredStreams
from windrow.pipelines.turns import BROKEN
from windrow.pipelines.waiting import Imported, WaitingUpdates, outbox_from_page
from windrow.pipelines.windowing import Shared, WindowedStream
from windrow.storage.pages import HEADER, MemoryPages, Pages

__all__ = ["Event", "Runtime"]


class Runtime:
    """All streams of one space: their graph, their values, their windows, in one store.

    ``sinks`` are the names that composites may send to, ``functions`` what expressions may call, ``allow`` the modules
    that documents may import aggregates from. ``late`` says what happens to a change whose time has passed: it is
    refused, or applied from now on. From so many updates at once on they run as ``columns``. ``space`` is its name, and
    ``rounds`` are those of spaces that import streams of others: see :mod:`windrow.pipelines.crossings`.
    """

    def __init__(
        self,
        pages: Pages | None = None,
        *,
        order: Literal["event", "arrival"] = "event",
        sinks: Iterable[str] = (),
        columns: int = 64,
        space: str = "",
        **options: Unpack[SpaceOptions],
    ) -> None:
        late = options.get("late", "refuse")
        if order not in ("event", "arrival") or late not in ("refuse", "now"):
            raise PipelineError("order is 'event' or 'arrival', and late is 'refuse' or 'now'")
        if unknown := options.keys() - SpaceOptions.__annotations__.keys():
            raise TypeError(f"a runtime has no parameter {', '.join(sorted(unknown))}")
        self.pages = OneCommit(MemoryPages() if pages is None else pages)
        self.order, self.late = order, late
        self.graph = Graph(
            options.get("functions") or {},
            options.get("quotas") or Quotas(),
            options.get("allow", ()),
            place=Place(space, check_rounds(options.get("rounds", {})), order == "event"),
        )
        self.position = BEFORE
        """The id of the last update or change that was processed."""
        self.watermark = BEFORE.ts
        self.source_position = ""
        """What :meth:`commit` was given: how far the source was read."""
        self._stored = StoredStreams(self.pages, self.graph)
        self._ledger, self._waiting = Ledger(), WaitingUpdates()
        self._arrived = 0
        self._outbox = 0
        """How many exported updates the last commit has."""
        self._execution = Execution(
            self.graph, self._stored.of, self._open_window, arrival=order == "arrival"
        )
        self._backlog = Backlog(self._execution, columns)
        self._admission = Admission(self._execution)
        self._open()
        self._changing = Changing(self._execution, self._stored, self._ledger, sinks)

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
            except (StoreError, SnapshotError):
                raise  # nobody refused the change: it is applied when the space is opened again
            except WindrowError as error:
                self._execution.report("refused", name_of(change), change.at, str(error))
        events = events_of(updates, self._execution.reports)
        if self.order == "arrival":
            self._run_many(events, out)
        else:
            self._let_wait(events)
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
            self._let_wait(chunk.events())
        return out

    def advance(self, watermark: int) -> Emissions:
        """No update before this time will come any more; returns what that releases: updates, changes, windows."""
        out = Emissions()
        if watermark <= self.watermark:
            return out
        self.watermark = watermark
        self._run_many(self._waiting.release(Id(watermark, AFTER_WINDOWS)), out)
        self._due_changes(Id(watermark, AFTER_WINDOWS), out)
        self._execution.fire_until(watermark, out)
        self._execution.reach(watermark)
        return out

    def take(self, imported: Iterable[Imported]) -> None:
        """Take updates of streams of other spaces. They come before the watermark that released them there."""
        for update in imported:
            at = Id(*update[:3])
            if update.ts >= self.watermark:
                self._waiting.add(update)
            elif update.named is not None and ((last := self.state(update.stream).last) is None or last < at):
                self._execution.report(
                    "refused", update.stream, at, "the imported update came behind the watermark"
                )

    def exports(self) -> dict[str, list[Imported]]:
        """What other spaces are to :meth:`take`, by space. It is kept, and part of commits, until it is :meth:`sent`."""
        found: dict[str, list[Imported]] = {}
        for spaces, update in self._execution.exported:
            for space in spaces:
                named = None if update.channels == RESTARTED else update.named
                row = Imported(*update.at, named, update.stream, self.graph.place.space)
                found.setdefault(space, []).append(row)
        return found

    def sent(self) -> None:
        """The others have taken what was exported."""
        self._execution.exported.clear()

    def change(self, change: Change, out: Emissions | None = None) -> str:
        """Apply a change, or keep it until its time: ``applied`` or ``scheduled``. A refusal is an error."""
        at = None if change.at is None else change.at.after_windows()
        if at is not None and at > self.position and at.ts >= self.reached:
            self._ledger.schedule(change, at)
            return "scheduled"
        if at is not None and change.at is not None:
            passed = f"{change.operation} was to take effect at {change.at.ts}, which has passed"
            if self.late == "refuse":
                self._ledger.refuse(self._ledger.add(change))
                raise PipelineError(f"{passed}; give a later time, or none for now")
            self._execution.report("late", name_of(change), at, f"{passed}; it does from now on")
        now = Id(self.watermark, AFTER_WINDOWS)
        number = self._ledger.add(change)
        self._changing.apply(change, number, Emissions() if out is None else out, now)
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
        """The earliest watermark, of those to come, at which something is due: a window, a change, an update that waits."""
        times = (self._execution.windows.wake, self._ledger.next_time, self._waiting.next_time)
        due = min((time for time in times if time is not None), default=None)
        return None if due is None else max(due, self.watermark + 1)  # engines have no timers for the past

    def reports(self) -> list[Report]:
        """What failed, was refused or came late since the last call."""
        found = list(self._execution.reports)
        self._execution.reports.clear()
        return found

    def log(self) -> list[dict[str, Any]]:
        """All changes as rows, with what came of each."""
        return self._ledger.entries()

    def state(self, name: str) -> StreamState:
        """The state of a stream."""
        return self._stored.of(name)

    def commit(self, position: str | None = None) -> None:
        """Write what changed, all or nothing: graph, values, windows, and how far the source was read."""
        if position is not None:
            self.source_position = position
        self._stored.write(self._execution.dirty)
        self._execution.windows.commit()
        put, gone = self._ledger.pages()
        put |= self._execution.windows.pages()
        put[HEADER] = self._header()
        if self.order == "event":  # as large as what the watermark has not passed
            put["waiting"] = self._waiting.page()
        if self._outbox or self._execution.exported:
            self._outbox = len(self._execution.exported)
            put["outbox"] = write_page(encode(self._execution.exported))
        self._stored.commit(put, gone)
        self._execution.dirty.clear()

    def _header(self) -> bytes:
        return SpaceHeader(
            order=self.order,
            position=self.position,
            watermark=self.watermark,
            reached=self._execution.reached,
            source=self.source_position,
            changes=self._ledger.count,
            arrived=self._arrived,
            waiting=len(self._waiting),
        ).page()

    def _open(self) -> None:
        if (page := self.pages.get([HEADER]).get(HEADER)) is None:
            return
        header = SpaceHeader.read(page, self.order)
        self.position, self.watermark = header.position, header.watermark
        self.source_position, self._arrived = header.source, header.arrived
        self._execution.reach(header.reached)
        self._ledger = Ledger.load(header.changes, self.pages.get)
        found = self.pages.get(["waiting", "outbox", BROKEN])
        if header.waiting:
            self._waiting = WaitingUpdates.load(found.get("waiting"))
        self._execution.exported.extend(outbox_from_page(found.get("outbox")))
        self._outbox = len(self._execution.exported)
        windows = self._execution.windows
        windows.load(found.get(BROKEN))
        try:
            self.graph.restore(self._ledger.applied())
        except PipelineError as cause:
            raise CorruptSnapshot(f"the log of changes cannot be applied again: {cause}") from cause
        for name, plan in self.graph.plans.items():
            timed = plan.query is not None and not plan.per_update and name not in windows.broken
            if timed and self.state(name).rows:
                windows.of(plan)  # so that it is known when it is due

    def _open_window(self, plan: CompositePlan) -> WindowedStream:
        prefix = f"w/{self._ledger.generation(plan.stream.name)}/{plan.stream.name}/"
        return WindowedStream(plan, Shared(self.pages, prefix, self._stored.put, self._stored.gone))

    def _let_wait(self, events: Iterable[Event]) -> None:
        """Updates wait until the watermark has passed them. One that comes behind it is refused."""
        for event in events:
            ts, sequence, stream, _ = event
            if ts < self.watermark:
                self._execution.report(
                    "refused", stream, Id(ts, sequence), "the update came behind the watermark"
                )
            else:
                self._waiting.add(event)

    def _run_many(self, events: Sequence[Event | Imported], out: Emissions) -> None:
        """Run updates as columns if that is possible and worth it, otherwise one by one."""
        own = [event for event in events if not isinstance(event, Imported)]
        chunks = None if self._ledger.scheduled else self._backlog.chunks(own)
        if len(own) < len(events):
            self._run_joined(events, out)
        elif chunks is not None and self._backlog.takes(chunks, self.position):
            self._backlog_run(chunks, out)
        else:
            self._run(own, out)

    def _backlog_run(self, chunks: Sequence[Chunk], out: Emissions) -> None:
        self.position = self._backlog.run(chunks, out, self._run)

    def _run(self, events: Iterable[Event], out: Emissions) -> None:
        """Run updates one by one, with the changes and the windows that are due before each."""
        for ts, sequence, stream, named in events:
            at = Id(ts, sequence, stream)
            self._reach(at, out)
            if (values := self._admission.values(stream, named, at, None)) is not None:
                self.position = max(self.position, at)
                self._execution.tree([(stream, values)], at, out)

    def _run_joined(self, updates: Iterable[Event | Imported], out: Emissions) -> None:
        """Run updates of here and of other spaces. Those with the same id are one event, and run together."""
        for key, group in groupby(updates, key=lambda update: update[:3]):
            at = Id(*key)
            self._reach(at, out)
            changed: dict[str, Values] = {}
            for update in group:
                home = update.home if isinstance(update, Imported) else None
                stream = update.stream if isinstance(update, Imported) else at.origin
                if update[3] is None and self.graph.imported(stream, home):
                    self._changing.restart(stream)  # it is computed differently there
                elif (
                    stream not in changed
                    and (values := self._admission.values(stream, update[3], at, home)) is not None
                ):
                    changed[stream] = values
            if changed:
                self.position = max(self.position, at)
                self._execution.tree(sorted(changed.items()), at, out)

    def _reach(self, at: Id, out: Emissions) -> None:
        """Everything before an update has come: changes, and windows."""
        if self._ledger.scheduled:
            self._due_changes(at, out)
        self._execution.fire(at, out)
        self._execution.reach(at.ts)

    def _due_changes(self, before: Id, out: Emissions) -> None:
        """Apply the changes whose time is at or before an update."""
        for change, number in self._ledger.due(before):
            assert change.at is not None
            self._execution.fire_until(change.at.ts, out)
            self._execution.reach(change.at.ts)
            self.position = max(self.position, change.at.after_windows())
            try:
                self._changing.apply(change, number, out, change.at.after_windows())
            except (StoreError, SnapshotError):
                raise
            except WindrowError as error:
                self._execution.report("refused", name_of(change), change.at, f"{change.operation}: {error}")
