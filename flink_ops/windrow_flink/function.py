"""The function that Flink runs: elements are logged in keyed state, the watermark drives the operator, windows go out.

Everything is in keyed state when an element returns, so a failure loses nothing. An element is appended to a
log, a list state, which costs little. When the watermark makes a window due, what is new in the log goes through
the operator, which lives in the worker's memory; when the log has grown long, the operator writes its pages
and the log starts anew. Each entry carries the watermark that it met, so that the operator can be brought back by
its pages and the log: it sees the same sequence of rows and watermarks, late rows included. What it had given
out already, it then gives out to nobody.
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

from windrow.errors import ColumnError
from windrow.kernels.layout import FOREVER
from windrow.operator import Operator
from windrow.query import Query
from windrow.windows import TimeWindow
from windrow_flink.elements import HEAD, MET
from windrow_flink.pages import BucketPages, PageStates, in_thread, raw_bytes
from windrow_flink.times import END, from_flink, to_flink

BATCH = 4096
"""How many rows of a bucket may wait for the operator."""
LOG = 1 << 18
"""How many bytes of a bucket are logged before its operator writes its pages."""
PASSED = struct.Struct("<qq")
"""The watermark up to which windows were given out, and how many entries of the log went into them."""


class Codec(Protocol):
    """How what waits in state becomes tables."""

    schema: pa.Schema

    def decode(self, entries: list[bytes]) -> Iterable[tuple[int, pa.Table]]:
        """Tables, each with the watermark that its rows met."""


@dataclass
class Held:
    """A bucket in the worker's memory: what its state says, ready for use."""

    operator: Operator
    pages: BucketPages
    new: list[bytes]
    """The entries of the log that the operator has not seen."""
    rows: int = 0
    """How many rows they hold."""
    seen: int = 0
    """How many entries it has seen."""
    bytes: int = 0
    """How large the log is."""
    late: int = 0
    tasks: int = 0
    timer: int | None = None
    asked: int = FOREVER
    """A timer stands for rows of this time; so it does for later ones."""
    settled: bool = False
    used: int = 0
    """When an element came last, in milliseconds."""


@dataclass
class Plan:
    """What the function is to do; all of it is known when the job is put together."""

    query: Query
    codec: Codec
    emit: Callable[[pa.Table, bool], Iterator[Any]]
    late_tag: OutputTag | None = None
    late_emit: Callable[[pa.Table, bool], Iterator[Any]] | None = None
    schema: pa.Schema | None = None
    """The schema of the rows, if not they come in but partials of their slices."""
    ttl: int | None = None
    """After how many idle milliseconds a bucket is forgotten."""
    threads: int | None = 1
    """How many threads a slot has for the operator's work; ``None`` is one for each core."""
    log: int = LOG
    queries: Mapping[int, Query] | None = None
    """The query of each Flink key, if they differ."""
    windows: list[Any] = field(init=False)

    def __post_init__(self) -> None:
        windows = [window for _, window in self.query.windows]
        simple = all(isinstance(window, TimeWindow) for window in windows) and self.query.early is None
        self.windows = windows if simple else []

    def due(self, time: int) -> int:
        """No window of a row with this time is due before this watermark."""
        ends = []
        for window in self.windows:
            ids = window.mapping(time)
            if len(ids):
                ends.append(window.extent(ids[0])[1])
        wait = 0 if self.query.late == "update" else self.query.lateness
        return (min(ends) if ends else time + 1) + wait


class Windows(KeyedProcessFunction):
    """Sliding windows over the rows of a bucket of keys. Made by :func:`windrow_flink.windowed` and its kin."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan

    def open(self, context: RuntimeContext) -> None:
        """Called once per worker, also after a failure, before any element."""
        plan, bytes_ = self.plan, raw_bytes(context)
        self.log = context.get_list_state(ListStateDescriptor("windrow-log", bytes_))
        self.passed = context.get_state(ValueStateDescriptor("windrow-passed", bytes_))
        self.states = PageStates(context)
        self.held: dict[Any, Held] = {}
        self.now, self.met = -END, MET.pack(from_flink(-END))
        self.in_thread = in_thread(context)
        threads = plan.threads or os.cpu_count() or 1
        self.pool = ThreadPoolExecutor(threads, "windrow") if plan.threads != 1 else None
        metrics = context.get_metrics_group().add_group("windrow")
        self.windows, self.late_rows = metrics.counter("windows"), metrics.counter("late_rows")
        self.lcs_tasks = metrics.counter("lcs_tasks")
        metrics.gauge("state_bytes", lambda: sum(each.pages.size + each.bytes for each in self.held.values()))

    def close(self) -> None:
        """Called when the job ends or fails."""
        if self.pool is not None:
            self.pool.shutdown(wait=False, cancel_futures=True)

    def process_element(self, element: bytes, context: KeyedProcessFunction.Context) -> Iterable[Any]:
        """Called for each element: log it, and ask to be woken when it may matter."""
        bucket, rows, time = HEAD.unpack_from(element)
        return self.take(bucket, rows, time, element, context.timer_service())

    def take(self, bucket: Any, rows: int, time: int, element: bytes, clock: TimerService) -> Iterable[Any]:
        """An element for a bucket: so many rows, from this time on."""
        held = self.held.get(bucket) or self._restored(bucket, clock)
        if time < held.asked:
            held.asked = time
            self._ask(held, self.plan.due(time), clock)
        now = clock.current_watermark()
        if now != self.now:
            self.now, self.met = now, MET.pack(from_flink(now))
        entry = self.met + element
        held.new.append(entry)
        held.rows += rows
        if self.plan.ttl is not None:
            held.used = clock.current_processing_time()
        held.bytes += len(entry)
        self.log.add(entry)
        return () if held.rows < BATCH else self._drain(held, clock)

    def on_timer(self, timestamp: int, context: KeyedProcessFunction.OnTimerContext) -> Iterable[Any]:
        """Called when the watermark has passed a time that was asked for, or a bucket may have been idle for long."""
        bucket, clock = current_key(context), context.timer_service()
        held = self.held.get(bucket) or self._restored(bucket, clock)
        if self.plan.ttl is not None and context.time_domain() == TimeDomain.PROCESSING_TIME:
            self._forget_if_idle(bucket, held, timestamp, clock)
            return ()
        if held.timer is not None and held.timer <= timestamp:
            held.timer, held.asked = None, FOREVER
        return self._drain(held, clock)

    def _restored(self, bucket: Any, clock: TimerService) -> Held:
        """A bucket from its state: the operator's pages, and after them the log."""
        plan, pages = self.plan, BucketPages(self.states)
        query = plan.query if plan.queries is None else plan.queries[bucket]
        schema = plan.codec.schema if plan.schema is None else plan.schema
        operator = Operator.open(query, schema, pages, threads=self.pool or 1)
        entries = [bytes(entry) for entry in self.log.get() or ()]
        passed = self.passed.value()
        watermark, seen = (-FOREVER, 0) if passed is None else PASSED.unpack(bytes(passed))
        for met, rows in plan.codec.decode(entries[:seen]):
            operator.advance(met)
            self._take(operator, rows)
            operator.late()
        if watermark > -FOREVER:
            operator.advance(watermark)
        held = Held(operator, pages, entries[seen:], seen=seen, bytes=sum(map(len, entries)))
        held.late, held.tasks = operator.late_rows, operator.lcs_tasks
        if plan.ttl is not None:
            held.used = clock.current_processing_time()
            clock.register_processing_time_timer(held.used + plan.ttl)
        self.held[bucket] = held
        return held

    def _forget_if_idle(self, bucket: Any, held: Held, now: int, clock: TimerService) -> None:
        assert self.plan.ttl is not None
        if now < held.used + self.plan.ttl:
            clock.register_processing_time_timer(held.used + self.plan.ttl)
            return
        del self.held[bucket]
        self.log.clear()
        self.passed.clear()
        self.states.clear()

    def _ask(self, held: Held, watermark: int, clock: TimerService) -> None:
        timer = to_flink(watermark)
        if timer < END and (held.timer is None or timer < held.timer):
            clock.register_event_time_timer(timer)
            held.timer = timer

    def _drain(self, held: Held, clock: TimerService) -> Iterator[Any]:
        """Take what is new through the operator, up to the watermark of now."""
        operator, entries = held.operator, held.new
        watermark = from_flink(clock.current_watermark())
        if not entries and held.settled and not self._due(operator, watermark):
            # The timer that led here may be an older one than that for the next window.
            self._ask_to_wake(held, clock)
            return
        held.new, held.rows = [], 0
        yield from self._through(operator, entries)
        # The operator learns what is due when it advances, even if only to the same watermark.
        held.settled = watermark > from_flink(-END)
        if held.settled:
            yield from self._out(operator.advance(watermark))
        self.late_rows.inc(operator.late_rows - held.late)
        self.lcs_tasks.inc(operator.lcs_tasks - held.tasks)
        held.late, held.tasks = operator.late_rows, operator.lcs_tasks
        held.seen += len(entries)
        if held.bytes >= self.plan.log:
            operator.commit()
            self.log.clear()
            held.seen = held.bytes = 0
        self.passed.update(PASSED.pack(operator.watermark, held.seen))
        self._ask_to_wake(held, clock)

    def _ask_to_wake(self, held: Held, clock: TimerService) -> None:
        wake = self._wake(held.operator)
        # A timer that is not after the watermark would fire again and again.
        if wake is not None and to_flink(wake) > clock.current_watermark():
            self._ask(held, wake, clock)

    def _through(self, operator: Operator, entries: list[bytes]) -> Iterator[Any]:
        """Entries of the log go through the operator, each under the watermark that it met."""
        for met, rows in self.plan.codec.decode(entries):
            if met > operator.watermark:
                yield from self._out(operator.advance(met))
            yield from self._out(self._take(operator, rows))
            if self.plan.late_tag is not None and self.plan.late_emit is not None:
                for row in self.plan.late_emit(operator.late(), self.in_thread):
                    yield self.plan.late_tag, row

    def _take(self, operator: Operator, rows: pa.Table) -> pa.Table:
        return operator.process(rows) if self.plan.schema is None else operator.process_partials(rows)

    def _due(self, operator: Operator, watermark: int) -> bool:
        wake = self._wake(operator)
        return wake is not None and wake <= watermark

    def _wake(self, operator: Operator) -> int | None:
        """The next watermark at which there is something to do."""
        wake, early = operator.wake, self.plan.query.early
        if wake is None or early is None or abs(operator.watermark) >= from_flink(END):
            return wake
        return min(wake, (operator.watermark // early + 1) * early)

    def _out(self, found: pa.Table) -> Iterator[Any]:
        if found.num_rows:
            self.windows.inc(found.num_rows)
            yield from self.plan.emit(found, self.in_thread)


def current_key(context: KeyedProcessFunction.Context) -> Any:
    """The key that Flink is at, in a form that can be looked up."""
    key = context.get_current_key()
    return tuple(key) if isinstance(key, Row | list) else key


def rows_out(found: pa.Table, exact: bool) -> Iterator[Row]:
    """Windows (or late rows) as Flink's rows."""
    columns = [_values(found.column(name), name, exact) for name in found.column_names]
    for values in zip(*columns, strict=True):
        yield Row(*values)


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
