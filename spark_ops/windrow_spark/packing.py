"""Rows travel to the stateful operator packed: Arrow bytes, one value per bucket of keys.

PySpark's stateful operators handle their input row by row; a row that holds ten thousand rows makes that cheap. Packing
and unpacking are stateless ``mapInArrow`` steps before and after it. A bucket is ``hash(key) % buckets``: many keys
then cost as few calls as a few keys do.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import count
from typing import Any

import numpy as np
import pyarrow as pa

from windrow_spark.schemas import as_spark_has

Batches = Iterator[pa.RecordBatch]
PACKED_ROWS = 1 << 18
PACKED = "bucket int, number long, rows binary"
OUTPUT_ROWS = 1 << 16
LATE = "late"
"""The column of late rows, in the answer of a query with ``late="side"``."""


def pack(schema: pa.Schema) -> Callable[[Iterable[pa.RecordBatch]], Batches]:
    """Rows with their bucket in the last column, packed. ``number`` orders the pieces of a bucket, also if a batch is run again."""

    def packed(batches: Iterable[pa.RecordBatch]) -> Batches:
        from pyspark import TaskContext

        task = TaskContext.get()
        numbers = count((task.partitionId() if task else 0) << 32)
        for rows in _gathered(batches, PACKED_ROWS):
            buckets = rows.column(rows.num_columns - 1).to_numpy()
            table = rows.drop_columns([rows.column_names[-1]]).rename_columns(schema.names).cast(schema)
            order = np.argsort(buckets.astype(np.uint16), kind="stable")  # 16 bits: numpy sorts them by radix
            table, buckets = table.take(pa.array(order)), buckets[order]
            starts = np.flatnonzero(np.diff(buckets, prepend=-1))
            ends = np.append(starts[1:], len(buckets))
            pieces = [
                to_bytes(table.slice(start, end - start)) for start, end in zip(starts, ends, strict=True)
            ]
            yield pa.RecordBatch.from_arrays(
                [
                    pa.array(buckets[starts], pa.int32()),
                    pa.array([next(numbers) for _ in pieces], pa.int64()),
                    pa.array(pieces, pa.binary()),
                ],
                ["bucket", "number", "rows"],
            )

    return packed


def unpack(schema: pa.Schema, late: pa.Schema | None = None) -> Callable[[Iterable[pa.RecordBatch]], Batches]:
    """The windows in the first column; with ``late``, a schema, also the late rows in the second, as a struct in a last column."""

    def unpacked(batches: Iterable[pa.RecordBatch]) -> Batches:
        for batch in batches:
            for packed in batch.column(0):
                if packed.is_valid:
                    windows = from_bytes(packed.as_buffer()).cast(schema)
                    yield from _sent(windows if late is None else _with_late(windows, late))
            for packed in batch.column(1) if late is not None else ():
                if packed.is_valid and late is not None:
                    yield from _sent(_only_late(from_bytes(packed.as_buffer()).cast(late), schema))

    return unpacked


def _with_late(windows: pa.Table, late: pa.Schema) -> pa.Table:
    return windows.append_column(LATE, pa.nulls(windows.num_rows, pa.struct(list(late))))


def _only_late(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    columns = [pa.nulls(rows.num_rows, field.type) for field in schema]
    arrays = [column.combine_chunks() for column in rows.columns]
    structs = pa.StructArray.from_arrays(arrays, fields=list(rows.schema))
    return pa.table([*columns, structs], names=[*schema.names, LATE])


def _sent(table: pa.Table) -> Batches:
    return iter(as_spark_has(table).combine_chunks().to_batches(max_chunksize=OUTPUT_ROWS))


def to_bytes(table: pa.Table) -> bytes:
    """A table as an Arrow stream."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table.combine_chunks())
    packed: bytes = sink.getvalue().to_pybytes()
    return packed


def from_bytes(packed: Any) -> pa.Table:
    return pa.ipc.open_stream(packed).read_all()


def _gathered(batches: Iterable[pa.RecordBatch], rows: int) -> Iterator[pa.Table]:
    waiting: list[pa.RecordBatch] = []
    held = 0
    for batch in batches:
        if batch.num_rows:
            waiting.append(batch)
            held += batch.num_rows
        if held >= rows:
            yield pa.Table.from_batches(waiting)
            waiting, held = [], 0
    if waiting:
        yield pa.Table.from_batches(waiting)
