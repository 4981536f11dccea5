"""Sliding-window parallelism: one hot key, or none, and still all slots at work.

Window ``k`` belongs to worker ``k mod N``. A row is sent to every worker that has a window with it, and each
worker slides by ``N`` times the slide: its private slide. A collector puts the windows of all workers back in
their order.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa
from pyflink.common import Row
from pyflink.datastream import DataStream, KeyedProcessFunction, ProcessFunction, RuntimeContext
from pyflink.datastream.state import ListStateDescriptor

from windrow.durations import Duration
from windrow.errors import QueryError
from windrow.query import Query
from windrow.windows import TimeWindow
from windrow_flink.buckets import KEY_GROUPS, spread
from windrow_flink.elements import HEAD, MET, PACKED
from windrow_flink.function import Plan, rows_out
from windrow_flink.pages import in_thread, raw_bytes
from windrow_flink.rowcodec import RowCodec
from windrow_flink.rowtypes import BYTES, schema_of, type_of
from windrow_flink.stream import (
    checked_stream,
    finish,
    kept_columns,
    keyed_by_first,
    own_thread,
    stream_type,
    timed,
)
from windrow_flink.times import from_flink, to_flink


def windowed_by_workers(
    stream: DataStream,
    query: Query,
    workers: int,
    schema: pa.Schema | None = None,
    *,
    disorder: Duration | None = None,
    uid: str = "windrow",
) -> DataStream:
    """The windows of a stream with few keys, computed by ``workers`` slots side by side; they come out in order of their ends.

    For one :class:`windrow.TimeWindow`. A row is sent to ``min(workers, range / slide)`` workers, so this
    pays where aggregating a row costs more than sending it. Arguments are as for
    :func:`windrow_flink.windowed`; the answer is the same.
    """
    window = query.window
    if not isinstance(window, TimeWindow):
        raise QueryError(
            "windowed_by_workers() shares out the windows of one TimeWindow; for others there is windowed()"
        )
    if isinstance(workers, bool) or not isinstance(workers, int) or not 1 <= workers <= KEY_GROUPS:
        raise QueryError(f"workers has to be a whole number from 1 to {KEY_GROUPS}, not {workers!r}")
    if query.late != "drop" or query.early is not None:
        raise QueryError("windowed_by_workers() knows late='drop' and no early results; use windowed()")
    source = checked_stream(stream)
    known = schema if schema is not None else schema_of(stream_type(source))
    output = query.bind(known).output_schema
    kept = kept_columns(query, known)
    codec = RowCodec(kept, query.time, [known.get_field_index(name) for name in kept.names])
    flink_keys = list(spread(workers))
    shared = {key: _share(query, window, number, workers) for number, key in enumerate(flink_keys)}
    step = ToWorkers(codec, window, flink_keys, disorder is not None)
    sent = timed(source, step, PACKED, disorder, uid)
    plan = Plan(query, codec, rows_out, queries=shared)
    parts = finish(keyed_by_first(sent, BYTES), plan, type_of(output), uid)
    windows = RowCodec(output, "window_end", range(len(output)))
    gathered = parts.process(ToCollector(windows), output_type=PACKED).uid(f"{uid}-gather")
    collector = keyed_by_first(own_thread(gathered), BYTES)
    ordered = (
        collector.process(Collector(query, known, windows), output_type=type_of(output))
        .name(f"{uid}-order")
        .uid(f"{uid}-order")
    )
    return own_thread(ordered.set_parallelism(1))


def _share(query: Query, window: TimeWindow, number: int, workers: int) -> Query:
    """The windows of one worker: every ``workers``-th, from its own number on."""
    private = TimeWindow(window.range, window.slide * workers, window.offset + number * window.slide)
    return Query(
        by=query.by,
        time=query.time,
        window=private,
        aggregates=query.aggregates,
        lateness=query.lateness,
        algorithm=query.algorithm,
    )


class ToWorkers(ProcessFunction):
    """Each row to the workers that own a window with it."""

    def __init__(self, codec: RowCodec, window: TimeWindow, flink_keys: list[int], timed: bool) -> None:
        self.codec, self.window, self.flink_keys, self.timed = codec, window, flink_keys, timed

    def process_element(self, row: Any, context: ProcessFunction.Context) -> Iterable[Any]:
        time = self.codec.time_of(row)
        ids = self.window.mapping(time)
        workers = len(self.flink_keys)
        owners = range(workers) if len(ids) >= workers else sorted({number % workers for number in ids})
        keys = [self.flink_keys[owner] for owner in owners]
        keyed = [Row(key, self.codec.encode(key, row)) for key in keys]
        return [(each, time // 1000) for each in keyed] if self.timed else keyed


class ToCollector(ProcessFunction):
    """All windows to the one collector."""

    def __init__(self, codec: RowCodec) -> None:
        self.codec = codec

    def process_element(self, window: Row, context: ProcessFunction.Context) -> Iterable[Row]:
        return (Row(0, self.codec.encode(0, window)),)


class Collector(KeyedProcessFunction):
    """Holds windows, in keyed state, until every worker has passed their end; then lets them go in order."""

    def __init__(self, query: Query, schema: pa.Schema, codec: RowCodec) -> None:
        self.query, self.schema, self.codec = query, schema, codec

    def open(self, context: RuntimeContext) -> None:
        self.bound = self.query.bind(self.schema)
        self.waiting = context.get_list_state(ListStateDescriptor("windrow-windows", raw_bytes(context)))
        self.in_thread = in_thread(context)

    def process_element(self, window: bytes, context: KeyedProcessFunction.Context) -> Iterable[Any]:
        end, clock = HEAD.unpack_from(window)[2], context.timer_service()
        clock.register_event_time_timer(
            max(to_flink(end + self.query.lateness), clock.current_watermark() + 1)
        )
        self.waiting.add(MET.pack(end) + window)
        return ()

    def on_timer(self, timestamp: int, context: KeyedProcessFunction.OnTimerContext) -> Iterator[Row]:
        passed = from_flink(context.timer_service().current_watermark()) - self.query.lateness
        entries = sorted((bytes(entry) for entry in self.waiting.get() or ()), key=_end)
        ready = [entry for entry in entries if _end(entry) <= passed]
        if ready:
            self.waiting.update([entry for entry in entries if _end(entry) > passed])
        for _, windows in self.codec.decode(ready):
            yield from rows_out(self.bound.sort(windows), self.in_thread)


def _end(entry: bytes) -> int:
    """The end of a waiting window, which stands where other rows have their watermark."""
    return int.from_bytes(entry[:8], "little", signed=True)
