# SPDX-License-Identifier: Apache-2.0
"""Sliding-window parallelism: all slots work, even if there is one hot key or no key.

There are two models (:mod:`windrow.query.worker_models`). *Active* workers::

    rows ─ to every worker that owns a window with them ─ keyed operators ─ collector ─ windows

*Agnostic* workers::

    rows ─ keyed emitters ─ window batches, rebalanced ─ workers without state ─ collector ─ windows

The emitters and the collector keep all state, so a checkpoint holds every window that is in flight.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Literal

import pyarrow as pa
from pyflink.common import Row
from pyflink.datastream import DataStream, KeyedProcessFunction, ProcessFunction, RuntimeContext
from pyflink.datastream.state import ListStateDescriptor

import windrow  # noqa: F401  # whole, before its parts: see the package
from windrow.durations import Duration
from windrow.errors import QueryError
from windrow.operator.window_batches import WindowWorker
from windrow.operator.window_order import WindowOrder, hold
from windrow.query.query import Query
from windrow.query.worker_models import ActiveWorkers, extents_of, model_of
from windrow_flink.buckets import KEY_GROUPS, Buckets, checked, spread
from windrow_flink.elements import PACKED
from windrow_flink.function import Wiring, rows_out
from windrow_flink.inputs import check_watermarks, checked_stream, kept_columns, stream_type
from windrow_flink.pages import in_thread, raw_bytes
from windrow_flink.rowcodec import RowCodec
from windrow_flink.rowtypes import BYTES, schema_of, type_of
from windrow_flink.steps import finish, keyed_by_first, own_thread, timed
from windrow_flink.stream import KeyOf, ToBucket
from windrow_flink.time_units import log_assumed_unit
from windrow_flink.times import from_flink, to_flink


def windowed_by_workers(
    stream: DataStream,
    query: Query,
    workers: int,
    schema: pa.Schema | None = None,
    *,
    model: Literal["auto", "active", "agnostic"] = "auto",
    disorder: Duration | None = None,
    uid: str = "windrow",
) -> DataStream:
    """The windows of a stream with few keys, computed by ``workers`` slots side by side; they come out in order.

    ``model="active"`` is for one :class:`windrow.TimeWindow`: each worker owns every ``workers``-th window. A row is sent
    to ``min(workers, range / slide)`` workers, so this pays where aggregating a row costs more than sending it.

    ``model="agnostic"`` is for functions of whole windows, such as :class:`windrow.Apply`, over any window. One
    task for each group of keys keeps the rows and computes ordinary aggregates. Windows that are due are sent to
    the next worker, many at a time. A row is sent about twice if many windows are due at one watermark, and once for
    each of its windows if the watermark comes as often as they end.

    "auto" is active for one time window and agnostic for all others. Other arguments are as for
    :func:`windrow_flink.windowed`; the windows are the same. They are ordered by their ends, then keys; count,
    delta and policy windows by the watermark at which they became due, then ends, then keys.
    """
    chosen = model_of(query, model)
    if isinstance(workers, bool) or not isinstance(workers, int) or not 1 <= workers <= KEY_GROUPS:
        raise QueryError(f"workers has to be a whole number from 1 to {KEY_GROUPS}, not {workers!r}")
    source = checked_stream(stream)
    known = schema if schema is not None else schema_of(stream_type(source))
    log_assumed_unit(known, query)
    if disorder is None:
        check_watermarks(source)
    kept = kept_columns(query, known)
    codec = RowCodec(kept, query.time, [known.get_field_index(name) for name in kept.names], query.time_unit)
    if chosen == "active":
        computed = _active(source, query, workers, codec, disorder, uid)
    else:
        computed = _agnostic(source, query, workers, known, codec, disorder, uid)
    ordered = (
        keyed_by_first(computed, BYTES)
        .process(Collector(query, known), output_type=type_of(query.bind(known).output_schema))
        .name(f"{uid}-order")
        .uid(f"{uid}-order")
    )
    return own_thread(ordered.set_parallelism(1))


def _active(
    source: DataStream, query: Query, workers: int, codec: RowCodec, disorder: Duration | None, uid: str
) -> DataStream:
    shares = ActiveWorkers(query, workers)
    flink_keys = list(spread(workers))
    step = ToWorkers(codec, shares, flink_keys, disorder is not None)
    sent = timed(source, step, PACKED, disorder, uid)
    queries = dict(zip(flink_keys, shares.queries, strict=True))
    return finish(keyed_by_first(sent, BYTES), Wiring(query, codec, held_out, queries=queries), PACKED, uid)


def _agnostic(
    source: DataStream,
    query: Query,
    workers: int,
    schema: pa.Schema,
    codec: RowCodec,
    disorder: Duration | None,
    uid: str,
) -> DataStream:
    extents_of(query, schema)  # what is wrong with the query is said here, and not by the job
    of = KeyOf(
        [schema.get_field_index(name) for name in query.by], Buckets(list(spread(checked(None, query))))
    )
    sent = timed(source, ToBucket(codec, of, disorder is not None), PACKED, disorder, uid)
    wiring = Wiring(query, codec, batches_out, emitter=True)
    batches = finish(keyed_by_first(sent, BYTES), wiring, BYTES, uid)
    computed = (
        batches.rebalance()
        .process(WorkerFunction(query, codec.schema), output_type=PACKED)
        .name(f"{uid}-work")
        .uid(f"{uid}-work")
    )
    return own_thread(computed.set_parallelism(workers))


def held_out(found: pa.Table, exact: bool) -> Iterator[Row]:
    """The windows of an active worker, for the collector."""
    yield Row(0, hold(0, found))


def batches_out(found: pa.Table, exact: bool) -> Iterator[bytes]:
    """The window batches of an emitter, for workers."""
    yield from found.column("batch").to_pylist()


class ToWorkers(ProcessFunction):
    """Each row to the workers that own a window with it."""

    def __init__(self, codec: RowCodec, shares: ActiveWorkers, flink_keys: list[int], timed: bool) -> None:
        self.codec, self.shares, self.flink_keys, self.timed = codec, shares, flink_keys, timed

    def process_element(self, row: Any, context: ProcessFunction.Context) -> Iterable[Any]:
        time = self.codec.time_of(row)
        keys = [self.flink_keys[owner] for owner in self.shares.owners(time)]
        keyed = [Row(key, self.codec.encode(key, row)) for key in keys]
        return [(each, time // 1000) for each in keyed] if self.timed else keyed


class WorkerFunction(ProcessFunction):
    """Window batches in, computed windows out. It keeps nothing."""

    def __init__(self, query: Query, schema: pa.Schema) -> None:
        self.query, self.schema = query, schema

    def open(self, context: RuntimeContext) -> None:
        self.worker = WindowWorker(self.query, self.schema)

    def process_element(self, batch: bytes, context: ProcessFunction.Context) -> Iterable[Row]:
        return (Row(0, hold(*self.worker.finished(bytes(batch)))),)


class Collector(KeyedProcessFunction):
    """Holds windows in keyed state until all that come before them are there, and then emits them in order."""

    def __init__(self, query: Query, schema: pa.Schema) -> None:
        self.query, self.schema = query, schema

    def open(self, context: RuntimeContext) -> None:
        self.order = WindowOrder(self.query.bind(self.schema))
        self.windows = context.get_list_state(ListStateDescriptor("windrow-windows", raw_bytes(context)))
        self.in_thread = in_thread(context)

    def process_element(self, windows: bytes, context: KeyedProcessFunction.Context) -> Iterable[Any]:
        held, clock = bytes(windows), context.timer_service()
        clock.register_event_time_timer(max(to_flink(self.order.due(held)), clock.current_watermark() + 1))
        self.windows.add(held)
        return ()

    def on_timer(self, timestamp: int, context: KeyedProcessFunction.OnTimerContext) -> Iterator[Row]:
        held = [bytes(entry) for entry in self.windows.get() or ()]
        ready, rest = self.order.ready(held, from_flink(context.timer_service().current_watermark()))
        if ready.num_rows:
            self.windows.update(rest)
        yield from rows_out(ready, self.in_thread)
