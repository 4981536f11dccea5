# SPDX-License-Identifier: Apache-2.0
"""A stream that its driver feeds and ends: batches go in through a folder, windows come back in order.

::

    driver ─ a file for each batch ─ ReadFeed ┬ windowed_packed ─┬ InOrder ─ windows
                                              └─ empty elements ─┘   └ the watermark it has reached, for the driver

The driver writes a batch and waits until the watermark of that batch has gone through every slot. Only then it looks for
the next one. So the same rows are late in every run. After the last batch the driver drains the job, and Flink ends the
stream as if its source had ended.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from threading import Event
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyflink.common import Row, Types, WatermarkStrategy
from pyflink.datastream import (
    DataStream,
    KeyedProcessFunction,
    MapFunction,
    ProcessFunction,
    RuntimeContext,
    StreamExecutionEnvironment,
)
from pyflink.datastream.connectors.number_seq import NumberSequenceSource

import windrow  # noqa: F401  # whole, before its parts: see the package
from windrow.columns.ipc import from_ipc, to_ipc
from windrow.query.query import Query
from windrow.query.slicing import time_windows
from windrow_flink.buckets import checked, spread
from windrow_flink.elements import PACKED
from windrow_flink.inputs import kept_columns
from windrow_flink.packed import Packer, packed_out, told, unpack
from windrow_flink.rowtypes import BYTES
from windrow_flink.steps import keyed_by_first, own_thread, timed
from windrow_flink.times import END, from_flink

PACE = 0.01
"""Seconds between two looks for a batch, or for the watermark that it has reached."""
SETTINGS = {
    "python.fn-execution.bundle.size": "1",  # a batch does not wait for the next one
    "pipeline.auto-watermark-interval": "2 ms",
}
"""Settings of the environment for a job that is fed."""


class Feed:
    """Batches on their way to a job, one at a time, through a folder that both sides see."""

    def __init__(self, folder: Path, query: Query, schema: pa.Schema, disorder: int) -> None:
        self.folder, self.query, self.schema, self.disorder = folder, query, schema, disorder
        self.bound, self.next, self.asked = query.bind(schema), 0, -END
        folder.mkdir()

    def put(self, batch: pa.RecordBatch, over: Event) -> None:
        """Returns when the batch has gone through the job, or when that is over."""
        latest = int(self.bound.times(pa.Table.from_batches([batch])).max()) // 1000
        self.asked = max(self.asked, latest - -(-self.disorder // 1000) - 1)
        path = self.folder / str(self.next)
        _written(path, to_ipc(pa.Table.from_batches([batch])))
        self.next += 1
        while (path.exists() or self.reached() < self.asked) and not over.wait(PACE):
            pass

    def reached(self) -> int:
        """The watermark of the slowest slot, in Flink's milliseconds."""
        try:
            return int((self.folder / "reached").read_bytes())
        except FileNotFoundError:
            return -END - 1

    def rows(self, environment: StreamExecutionEnvironment) -> DataStream:
        """The packed rows, with watermarks."""
        flink_keys = list(spread(checked(None, self.query)))
        packer = Packer(self.query, flink_keys, kept_columns(self.query, self.schema))
        ticks = environment.from_source(
            NumberSequenceSource(0, 1 << 62), WatermarkStrategy.no_watermarks(), "ticks", Types.LONG()
        ).set_parallelism(1)
        step = ReadFeed(str(self.folder), packer)
        return timed(ticks, step, PACKED, self.disorder, "windrow-feed", parallelism=1)

    def in_order(self, windows: DataStream, rows: DataStream) -> DataStream:
        """The packed windows that were made of the rows, in the order of every result."""
        beats = own_thread(rows.map(EmptyElement(), output_type=PACKED).set_parallelism(1))
        together = windows.map(ToOne(), output_type=PACKED).union(beats)
        ordered = keyed_by_first(together, BYTES).process(
            InOrder(self.query, self.schema, str(self.folder)), output_type=BYTES
        )
        return own_thread(ordered.name("in order").set_parallelism(1))


class ReadFeed(ProcessFunction):
    """At each tick the next batch, if it is there, as packed elements and their times."""

    def __init__(self, folder: str, packer: Packer) -> None:
        self.folder, self.packer, self.next = folder, packer, 0

    def process_element(self, tick: int, context: ProcessFunction.Context) -> Iterable[Any]:
        time.sleep(PACE)
        path = Path(self.folder, str(self.next))
        if not path.exists():
            return ()
        self.next += 1
        rows = from_ipc(path.read_bytes())
        path.unlink()
        return [(each, told(each)) for each in self.packer(rows)]


class EmptyElement(MapFunction):
    """For each element of rows an empty one, which bypasses the windows and carries only the watermark."""

    def map(self, element: Any) -> Row:
        return Row(0, b"")


class ToOne(MapFunction):
    """Windows of all slots, for one task."""

    def map(self, element: bytes) -> Row:
        return Row(0, element)


class InOrder(KeyedProcessFunction):
    """Holds packed windows until every slot has reached the watermark at which they were final, and sorts them.

    Time windows come out in one order overall. Other windows are in order within each element.
    """

    def __init__(self, query: Query, schema: pa.Schema, folder: str) -> None:
        self.query, self.schema, self.folder = query, schema, folder
        self.by_end = query.early is None and bool(time_windows(query))
        self.wait = 0 if query.late == "update" else query.lateness

    def open(self, context: RuntimeContext) -> None:
        """Called once, before any element."""
        self.bound = self.query.bind(self.schema)
        self.buffer: list[pa.Table] = []

    def process_element(self, element: bytes, context: KeyedProcessFunction.Context) -> None:
        """Called for each table of windows, and for each empty element, of which only the watermark behind it matters."""
        if element:
            output = self.bound.output_schema
            self.buffer.append(unpack(element).select(output.names).cast(output))
        clock = context.timer_service()
        clock.register_event_time_timer(min(clock.current_watermark() + 1, END))

    def on_timer(self, timestamp: int, context: KeyedProcessFunction.OnTimerContext) -> Iterator[bytes]:
        """Called when the watermark of all slots has moved."""
        clock = context.timer_service()
        reached = clock.current_watermark()
        if self.buffer:
            found = self._due(pa.concat_tables(self.buffer), from_flink(reached) - self.wait)
            if self.buffer:
                clock.register_event_time_timer(min(reached + 1, END))
            if found.num_rows:
                yield from packed_out(self.bound.sort(found), True)
        _written(Path(self.folder, "reached"), str(reached).encode())

    def _due(self, found: pa.Table, reached: int) -> pa.Table:
        """The windows that all slots have reached; those of a slot that is ahead stay in the buffer."""
        self.buffer = []
        if not self.by_end:
            return found
        ends = found.column("window_end")
        if pa.types.is_timestamp(ends.type):
            ends = ends.cast(pa.timestamp("us", ends.type.tz)).cast(pa.int64())
        ahead = found.filter(pc.greater(ends, reached))
        if ahead.num_rows:
            self.buffer.append(ahead)
        return found.filter(pc.less_equal(ends, reached))


def _written(path: Path, content: bytes) -> None:
    """Write a file so that it is there either whole or not at all."""
    partial = path.with_name(f"{path.name}.partial")
    partial.write_bytes(content)
    partial.replace(path)
