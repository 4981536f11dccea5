# SPDX-License-Identifier: Apache-2.0
"""The function that Flink runs: elements are logged in keyed state, the watermark drives the operator, windows go out.

Everything is in keyed state when an element returns, so a failure loses nothing. An element is appended to a log, which
is a list state and costs little. The operator lives in the worker's memory. When the watermark makes a window due, the
operator takes the new entries of the log. When the log has grown long, the operator writes its pages and the log
starts anew.

Each entry carries the watermark that it met. So an operator can be restored from its pages and the log: it sees the same
sequence of rows and watermarks, late rows included. Windows that it gives out again on the way are dropped.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, Protocol

import pyarrow as pa
from pyflink.common import Row
from pyflink.datastream import KeyedProcessFunction, OutputTag, RuntimeContext, TimeDomain, TimerService
from pyflink.datastream.state import ListStateDescriptor, ValueStateDescriptor

import windrow  # noqa: F401  # whole, before its parts: see the package
from windrow.errors import ColumnError
from windrow.kernels.slices.layout import FOREVER
from windrow.operator.emitter import Emitter
from windrow.operator.idle import Idle, IdleFigures
from windrow.operator.operator import Operator
from windrow.operator.window_batches import windows_in
from windrow.query.query import Query
from windrow.query.slicing import time_windows
from windrow.windows import TimeWindow
from windrow_flink.columns import write_columns
from windrow_flink.counters import counter
from windrow_flink.elements import HEAD, MET
from windrow_flink.pages import BucketPages, PageStates, in_thread, raw_bytes
from windrow_flink.time_units import log_another_unit
from windrow_flink.times import END, from_flink, to_flink

BATCH = 4096
"""How many rows of a bucket may wait in the log before the operator takes them."""
LOG = 1 << 18
"""How many bytes of a bucket are logged before its operator writes its pages."""
MOST = 1 << 14
"""How many windows leave together."""
LEVELS = ("state_bytes", "cold_keys", "freezes", "thaws")
"""Metrics that are levels. They are counters that fall, too: a gauge is a function that Flink calls in a thread of its own, and
two threads in one embedded interpreter crash the JVM."""
PASSED = struct.Struct("<qq")
"""The watermark up to which windows were given out, and how many entries of the log the operator had seen."""


class LogCodec(Protocol):
    """How entries of the log become tables."""

    form: str
    """What an entry holds; part of the operator's id."""
    schema: pa.Schema

    def decode(self, entries: list[bytes]) -> Iterable[tuple[int, pa.Table]]:
        """Tables, each with the watermark that its rows met."""


@dataclass
class Held:
    """A bucket in the worker's memory: its operator, and the entries of the log that the operator has not seen."""

    operator: Operator | Emitter
    pages: BucketPages
    new: list[bytes]
    """The entries of the log that the operator has not seen."""
    seen: int
    """How many entries of the log the operator has seen."""
    log_bytes: int
    """The size of the log."""
    used: int = 0
    """When the last element came, in milliseconds of processing time."""
    rows: int = field(default=0, init=False)
    """How many rows the new entries hold."""
    settled: bool = field(default=False, init=False)
    """Whether the operator has been told a watermark since it was restored."""
    _timer: int | None = field(default=None, init=False)
    _asked: int = field(default=FOREVER, init=False)
    _late: int = field(init=False)
    _tasks: int = field(init=False)
    _shown: dict[str, int] = field(init=False)

    def __post_init__(self) -> None:
        self._late, self._tasks = self.operator.late_rows, self.operator.lcs_tasks
        self._shown = dict.fromkeys(LEVELS, 0)

    def changes(self, *, gone: bool = False) -> dict[str, int]:
        """What has changed of the levels of this bucket since the last call; all of them fall to zero if it is ``gone``."""
        idle = self.operator.idle if isinstance(self.operator, Operator) else IdleFigures()
        levels = (self.pages.size + self.log_bytes, idle.cold_keys, idle.freezes, idle.thaws)
        before = self._shown
        self._shown = dict(zip(LEVELS, (0, 0, 0, 0) if gone else levels, strict=True))
        return {name: level - before[name] for name, level in self._shown.items() if level != before[name]}

    def add(self, entry: bytes, rows: int) -> None:
        """An entry with so many rows was logged."""
        self.new.append(entry)
        self.rows += rows
        self.log_bytes += len(entry)

    def take(self) -> list[bytes]:
        """The new entries; the caller gives them to the operator."""
        entries = self.new
        self.new, self.rows = [], 0
        return entries

    def drained(self, entries: int, *, settled: bool) -> tuple[int, int]:
        """The operator has seen so many more entries. Returns its new late rows and new tasks of other threads."""
        self.seen += entries
        self.settled = settled
        late, tasks = self._late, self._tasks
        self._late, self._tasks = self.operator.late_rows, self.operator.lcs_tasks
        return self._late - late, self._tasks - tasks

    def log_cleared(self) -> None:
        """The operator has written its pages, and the log is empty."""
        self.seen = self.log_bytes = 0

    def use(self, now: int) -> None:
        """An element came at this processing time."""
        self.used = now

    def is_new(self, time: int) -> bool:
        """Whether no timer stands for rows of this time yet; the caller then asks for one.

        A timer that stands for a time also stands for later ones.
        """
        new = time < self._asked
        self._asked = min(self._asked, time)
        return new

    def ask(self, watermark: int, clock: TimerService) -> None:
        """Ask Flink for a timer at this watermark, unless an earlier one stands."""
        timer = to_flink(watermark)
        if timer < END and (self._timer is None or timer < self._timer):
            clock.register_event_time_timer(timer)
            self._timer = timer

    def fired(self, timestamp: int) -> None:
        """A timer has fired: if it was the one asked for, none stands any more."""
        if self._timer is not None and self._timer <= timestamp:
            self._timer, self._asked = None, FOREVER


@dataclass
class Wiring:
    """What the window function works with; all of it is known when the job is put together."""

    query: Query
    codec: LogCodec
    emit: Callable[[pa.Table, bool], Iterator[Any]]
    late_tag: OutputTag | None = None
    late_emit: Callable[[pa.Table, bool], Iterator[Any]] | None = None
    schema: pa.Schema | None = None
    """The schema of the rows, if partials of their slices come in instead of them."""
    ttl: int | None = None
    """After how many idle milliseconds a bucket is forgotten."""
    idle: Idle | None = None
    """When the windows of silent keys are frozen."""
    threads: int | None = 1
    """How many threads a slot has for the operator's work; ``None`` is one for each core."""
    log: int = LOG
    """How many bytes of a bucket are logged before its operator writes its pages."""
    queries: Mapping[int, Query] | None = None
    """The query of each Flink key, if they differ."""
    emitter: bool = False
    """Windows are not computed here: batches of them go to workers."""
    windows: list[TimeWindow] = field(init=False)
    """The windows whose ends follow from a row's time; none if the query has others, or early results."""

    def __post_init__(self) -> None:
        self.windows = time_windows(self.query) if self.query.early is None else []

    def due(self, time: int) -> int:
        """No window of a row with this time is due before this watermark."""
        ends = []
        for window in self.windows:
            ids = window.mapping(time)
            if len(ids):
                ends.append(window.bounds(ids[0])[1])
        wait = 0 if self.query.late == "update" else self.query.lateness
        return (min(ends) if ends else time + 1) + wait


class WindowFunction(KeyedProcessFunction):
    """Sliding windows over the rows of a bucket of keys; every stream function of this package makes one."""

    def __init__(self, wiring: Wiring) -> None:
        self.wiring = wiring

    def open(self, context: RuntimeContext) -> None:
        """Called once per worker, also after a failure, before any element."""
        wiring, bytes_ = self.wiring, raw_bytes(context)
        self.log = context.get_list_state(ListStateDescriptor("windrow-log", bytes_))
        self.passed = context.get_state(ValueStateDescriptor("windrow-passed", bytes_))
        self.states = PageStates(context)
        self.held: dict[Any, Held] = {}
        self.now, self.met = -END, MET.pack(from_flink(-END))
        self.in_thread = in_thread(context)
        self.took = False
        threads = wiring.threads or os.cpu_count() or 1
        self.pool = ThreadPoolExecutor(threads, "windrow") if wiring.threads != 1 else None
        self.windows, self.late_rows = counter(context, "windows"), counter(context, "late_rows")
        self.rows, self.lcs_tasks = counter(context, "rows"), counter(context, "lcs_tasks")
        self.levels = {name: counter(context, name) for name in LEVELS}

    def _show(self, held: Held, *, gone: bool = False) -> None:
        """Let the levels rise and fall by what has changed in a bucket."""
        for name, change in held.changes(gone=gone).items():
            self.levels[name].inc(change)

    def close(self) -> None:
        """Called when the job ends or fails."""
        if self.pool is not None:
            self.pool.shutdown(wait=False, cancel_futures=True)

    def process_element(self, element: bytes, context: KeyedProcessFunction.Context) -> Iterable[Any]:
        """Called for each element: log it, and ask to be woken when it may matter."""
        bucket, rows, time = HEAD.unpack_from(element)
        return self.take(bucket, rows, time, element, context.timer_service())

    def take(self, bucket: Any, rows: int, time: int, element: bytes, clock: TimerService) -> Iterable[Any]:
        """Log an element for a bucket: so many rows, of which none is before this time."""
        held = self.held.get(bucket) or self._restored(bucket, clock)
        if held.is_new(time):
            held.ask(self.wiring.due(time), clock)
        now = clock.current_watermark()
        if now != self.now:
            self.now, self.met = now, MET.pack(from_flink(now))
        entry = self.met + element
        self.rows.inc(rows)
        held.add(entry, rows)
        if self.wiring.ttl is not None:
            held.use(clock.current_processing_time())
        self.log.add(entry)
        return () if held.rows < BATCH else self._drain(held, clock)

    def on_timer(self, timestamp: int, context: KeyedProcessFunction.OnTimerContext) -> Iterable[Any]:
        """Called when the watermark has passed a time that was asked for, or when a bucket may have been idle for its ttl."""
        bucket, clock = current_key(context), context.timer_service()
        held = self.held.get(bucket) or self._restored(bucket, clock)
        if self.wiring.ttl is not None and context.time_domain() == TimeDomain.PROCESSING_TIME:
            self._forget_if_idle(bucket, held, timestamp, clock)
            return ()
        held.fired(timestamp)
        return self._drain(held, clock)

    def _restored(self, bucket: Any, clock: TimerService) -> Held:
        """A bucket from its state: the operator's pages first, then the log."""
        wiring, pages = self.wiring, BucketPages(self.states)
        query = wiring.query if wiring.queries is None else wiring.queries[bucket]
        schema = wiring.codec.schema if wiring.schema is None else wiring.schema
        operator = (
            Emitter(query, schema, pages)
            if wiring.emitter
            else Operator.open(query, schema, pages, threads=self.pool or 1, idle=wiring.idle)
        )
        entries = [bytes(entry) for entry in self.log.get() or ()]
        passed = self.passed.value()
        watermark, seen = (-FOREVER, 0) if passed is None else PASSED.unpack(bytes(passed))
        for met, rows in wiring.codec.decode(entries[:seen]):
            operator.advance(met)
            self._take(operator, rows)
            operator.late()
        if watermark > -FOREVER:
            operator.advance(watermark)
        held = Held(operator, pages, entries[seen:], seen, sum(map(len, entries)))
        if wiring.ttl is not None:
            held.use(clock.current_processing_time())
            clock.register_processing_time_timer(held.used + wiring.ttl)
        self.held[bucket] = held
        return held

    def _forget_if_idle(self, bucket: Any, held: Held, now: int, clock: TimerService) -> None:
        assert self.wiring.ttl is not None
        if now < held.used + self.wiring.ttl:
            clock.register_processing_time_timer(held.used + self.wiring.ttl)
            return
        self._show(held, gone=True)
        del self.held[bucket]
        self.log.clear()
        self.passed.clear()
        self.states.clear()

    def _drain(self, held: Held, clock: TimerService) -> Iterator[Any]:
        """Let the operator do what there is to do at the current watermark, and ask to be woken for the next window."""
        watermark = from_flink(clock.current_watermark())
        if held.new or not held.settled or self._due(held.operator, watermark):
            yield from self._advance(held, watermark)
        self._ask_to_wake(held, clock)

    def _advance(self, held: Held, watermark: int) -> Iterator[Any]:
        """Give the new entries to the operator, and advance it to this watermark."""
        operator, entries = held.operator, held.take()
        yield from self._through(operator, entries)
        # The operator learns what is due when it advances, even if only to the same watermark.
        settled = watermark > from_flink(-END)
        if settled:
            yield from self._out(operator.advance(watermark))
        late_rows, lcs_tasks = held.drained(len(entries), settled=settled)
        self.late_rows.inc(late_rows)
        self.lcs_tasks.inc(lcs_tasks)
        if held.log_bytes >= self.wiring.log:
            operator.commit()
            self.log.clear()
            held.log_cleared()
        self._show(held)
        self.passed.update(PASSED.pack(operator.watermark, held.seen))

    def _ask_to_wake(self, held: Held, clock: TimerService) -> None:
        wake = self._wake(held.operator)
        # A timer that is not after the watermark would fire again and again.
        if wake is not None and to_flink(wake) > clock.current_watermark():
            held.ask(wake, clock)

    def _through(self, operator: Operator | Emitter, entries: list[bytes]) -> Iterator[Any]:
        """What comes out of the operator for these entries, each taken under the watermark that it met."""
        for met, rows in self.wiring.codec.decode(entries):
            if met > operator.watermark:
                yield from self._out(operator.advance(met))
            yield from self._out(self._take(operator, rows))
            if self.wiring.late_tag is not None and self.wiring.late_emit is not None:
                for row in self.wiring.late_emit(operator.late(), self.in_thread):
                    yield self.wiring.late_tag, row

    def _take(self, operator: Operator | Emitter, rows: pa.Table) -> pa.Table:
        if self.wiring.schema is None or isinstance(operator, Emitter):
            if not self.took:
                log_another_unit(rows, self.wiring.query)
                self.took = True
            return operator.process(rows)
        return operator.process_partials(rows)

    def _due(self, operator: Operator | Emitter, watermark: int) -> bool:
        wake = self._wake(operator)
        return wake is not None and wake <= watermark

    def _wake(self, operator: Operator | Emitter) -> int | None:
        """The next watermark at which there is something to do."""
        wake, early = operator.wake, self.wiring.query.early
        if wake is None or early is None or abs(operator.watermark) >= from_flink(END):
            return wake
        return min(wake, (operator.watermark // early + 1) * early)

    def _out(self, found: pa.Table) -> Iterator[Any]:
        if found.num_rows:
            self.windows.inc(windows_in(found) if self.wiring.emitter else found.num_rows)
            yield from self.wiring.emit(found, self.in_thread)


def current_key(context: KeyedProcessFunction.Context) -> Any:
    """Flink's current key, in a form that can be looked up."""
    key = context.get_current_key()
    return tuple(key) if isinstance(key, Row | list) else key


def rows_out(found: pa.Table, exact: bool) -> Iterator[Row]:
    """Windows (or late rows) as Flink's rows."""
    columns = [_values(found.column(name), name, exact) for name in found.column_names]
    for values in zip(*columns, strict=True):
        yield Row(*values)


def columns_out(found: pa.Table, exact: bool) -> Iterator[bytes]:
    """Windows in columns, some thousands at a time; the JVM makes rows of them."""
    for begin in range(0, found.num_rows, MOST):
        yield write_columns(found.slice(begin, MOST))


def _values(column: pa.ChunkedArray, name: str, exact: bool) -> list[Any]:
    type_ = column.type
    if pa.types.is_timestamp(type_):
        column = column.cast(pa.timestamp("us"))
        values: list[Any] = column.to_pylist()
        if not exact and any(value is not None and value.microsecond % 1000 for value in values):
            raise ColumnError(
                f"column {name!r} has parts of milliseconds, which Flink's timestamps lose in process mode; "
                "use environment(mode='thread'), or keep times as whole microseconds (Types.LONG())"
            )
        return values
    if type_ == pa.uint64():
        column = column.cast(pa.decimal128(20, 0))
    if pa.types.is_struct(type_):
        return [None if value is None else Row(**value) for value in column.to_pylist()]
    if pa.types.is_map(type_):
        return [None if value is None else dict(value) for value in column.to_pylist()]
    plain: list[Any] = column.to_pylist()
    return plain
