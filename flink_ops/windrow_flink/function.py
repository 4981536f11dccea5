"""The function that Flink runs: what comes in waits in keyed state, the watermark drives the operator, windows go out.

Everything is in keyed state when an element returns, so a failure loses nothing: an element is appended to a
list state, which costs little, and the list is taken through the operator when the watermark makes a window
due, or when it has grown long. Each entry carries the watermark that it met, so that the operator sees the
same sequence of rows and watermarks as if nothing had waited: the answer, late rows included, is the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import pyarrow as pa
from pyflink.common import Row
from pyflink.datastream import KeyedProcessFunction, OutputTag, RuntimeContext, TimerService
from pyflink.datastream.state import ListStateDescriptor, StateTtlConfig

from windrow.errors import ColumnError
from windrow.kernels.layout import FOREVER
from windrow.operator import Operator
from windrow.query import Query
from windrow.windows import TimeWindow
from windrow_flink.elements import HEAD, MET
from windrow_flink.pages import FlinkPages, in_thread, raw_bytes
from windrow_flink.times import END, from_flink, to_flink

BATCH = 4096
"""How many rows of a bucket may wait before they are aggregated, whether or not a window is due."""


class Codec(Protocol):
    """How what waits in state becomes tables."""

    schema: pa.Schema

    def decode(self, entries: list[bytes]) -> Iterable[tuple[int, pa.Table]]:
        """Tables, each with the watermark that its rows met."""


@dataclass
class Held:
    """What a worker remembers of a bucket; state alone says what is true."""

    operator: Operator | None = None
    version: int = -1
    waiting: int = 0
    timer: int | None = None
    asked: int = FOREVER
    """A timer stands for rows of this time; so it does for later ones."""
    late: int = 0
    settled: bool = False


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
    ttl: StateTtlConfig | None = None
    threads: int = 1
    batch: int = BATCH
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
        plan = self.plan
        waiting = ListStateDescriptor("windrow-waiting", raw_bytes(context))
        if plan.ttl is not None:
            waiting.enable_time_to_live(plan.ttl)
        self.waiting = context.get_list_state(waiting)
        self.pages = FlinkPages(context, plan.ttl)
        self.held: dict[Any, Held] = {}
        self.now, self.met = -END, MET.pack(from_flink(-END))
        self.in_thread = in_thread(context)
        metrics = context.get_metrics_group().add_group("windrow")
        self.windows, self.late_rows = metrics.counter("windows"), metrics.counter("late_rows")
        self.state_bytes: dict[Any, int] = {}
        metrics.gauge("state_bytes", lambda: sum(self.state_bytes.values()))

    def process_element(self, element: bytes, context: KeyedProcessFunction.Context) -> Iterable[Any]:
        """Called for each element: append it to the state, and ask to be woken when it may matter."""
        bucket, rows, time = HEAD.unpack_from(element)
        return self.take(bucket, rows, time, element, context.timer_service())

    def take(self, bucket: Any, rows: int, time: int, element: bytes, clock: TimerService) -> Iterable[Any]:
        """An element for a bucket: so many rows, from this time on."""
        held = self.held.get(bucket) or self._held(bucket)
        if time < held.asked:
            held.asked = time
            self._ask(held, self.plan.due(time), clock)
        now = clock.current_watermark()
        if now != self.now:
            self.now, self.met = now, MET.pack(from_flink(now))
        held.waiting += rows
        if held.waiting < self.plan.batch:
            self.waiting.add(self.met + element)
            return ()
        return self._drain(bucket, held, clock, self.met + element)

    def on_timer(self, timestamp: int, context: KeyedProcessFunction.OnTimerContext) -> Iterable[Any]:
        """Called when the watermark has passed a time that was asked for."""
        bucket = context.get_current_key()
        held = self._held(bucket)
        if held.timer is not None and held.timer <= timestamp:
            held.timer, held.asked = None, FOREVER
        return self._drain(bucket, held, context.timer_service())

    def _held(self, bucket: Any) -> Held:
        held = self.held.get(bucket)
        if held is None:
            waiting = list(self.waiting.get() or ())
            held = self.held[bucket] = Held(
                waiting=sum(table.num_rows for _, table in self.plan.codec.decode(waiting))
            )
        return held

    def _ask(self, held: Held, watermark: int, clock: TimerService) -> None:
        timer = to_flink(watermark)
        if timer < END and (held.timer is None or timer < held.timer):
            clock.register_event_time_timer(timer)
            held.timer = timer

    def _drain(
        self, bucket: Any, held: Held, clock: TimerService, newest: bytes | None = None
    ) -> Iterator[Any]:
        """Take what waits through the operator, up to the watermark of now."""
        operator = self._operator(bucket, held)
        entries = [bytes(entry) for entry in self.waiting.get() or ()] if held.waiting else []
        had = bool(entries)
        if newest is not None:
            entries.append(newest)
        watermark = from_flink(clock.current_watermark())
        if not entries and held.settled and not self._due(operator, watermark):
            return
        for met, rows in self.plan.codec.decode(entries):
            yield from self._advance(operator, met)
            take = operator.process if self.plan.schema is None else operator.process_partials
            yield from self._out(take(rows))
            if self.plan.late_tag is not None and self.plan.late_emit is not None:
                for row in self.plan.late_emit(operator.late(), self.in_thread):
                    yield self.plan.late_tag, row
        if had:
            self.waiting.clear()
        held.waiting = 0
        # The operator learns what is due when it advances, even if only to the same watermark.
        held.settled = watermark > from_flink(-END)
        if held.settled:
            yield from self._out(operator.advance(watermark))
        self.late_rows.inc(operator.late_rows - held.late)
        held.late = operator.late_rows
        self.state_bytes[bucket] = operator.commit()
        held.version = self.pages.version
        wake = self._wake(operator)
        if wake is not None:
            self._ask(held, wake, clock)

    def _due(self, operator: Operator, watermark: int) -> bool:
        wake = self._wake(operator)
        return wake is not None and wake <= watermark

    def _wake(self, operator: Operator) -> int | None:
        """The next watermark at which there is something to do."""
        wake, early = operator.wake, self.plan.query.early
        if wake is None or early is None or abs(operator.watermark) >= from_flink(END):
            return wake
        return min(wake, (operator.watermark // early + 1) * early)

    def _advance(self, operator: Operator, watermark: int) -> Iterator[Any]:
        if watermark > operator.watermark:
            yield from self._out(operator.advance(watermark))

    def _out(self, found: pa.Table) -> Iterator[Any]:
        if found.num_rows:
            self.windows.inc(found.num_rows)
            yield from self.plan.emit(found, self.in_thread)

    def _operator(self, bucket: Any, held: Held) -> Operator:
        if held.operator is None or held.version != self.pages.version:
            plan = self.plan
            query = plan.query if plan.queries is None else plan.queries[bucket]
            schema = plan.codec.schema if plan.schema is None else plan.schema
            held.operator = Operator.open(query, schema, self.pages, threads=plan.threads)
            held.version, held.late = self.pages.version, held.operator.late_rows
        return held.operator


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
