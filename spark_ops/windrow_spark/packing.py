# SPDX-License-Identifier: Apache-2.0
"""Rows travel to the stateful operator packed: as Arrow bytes, one value per bucket of keys.

PySpark hands rows to a stateful operator one by one. One row that holds ten thousand packed rows makes that cheap.
Packing and unpacking are stateless ``mapInArrow`` steps before and after the operator. A bucket is a group of keys,
``hash(key) % buckets``. So the number of calls does not grow with the number of keys.

Workers of these steps import this module. It does not import windrow, so that a worker starts without loading compilers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import count
from typing import Any

import numpy as np
import pyarrow as pa

from windrow_spark.arrow_types import as_spark_has

Batches = Iterator[pa.RecordBatch]
PACKED_ROWS, PACKED_BYTES = 1 << 18, 1 << 28
PACKED = "bucket int, number long, rows binary"
PACKED_BY_NAME = "bucket string, number long, rows binary"
"""For buckets that have names: spaces of pipelines."""
OUTPUT_ROWS = 1 << 16
LATE = "late"
"""The column of late rows, in the result of a query with ``late="side"``."""


def pack(schema: pa.Schema) -> Callable[[Iterable[pa.RecordBatch]], Batches]:
    """Rows with their bucket in the last column, packed.

    ``number`` orders the pieces of a bucket, and is the same if Spark runs a micro-batch again.
    """

    def packed(batches: Iterable[pa.RecordBatch]) -> Batches:
        from pyspark import TaskContext

        task = TaskContext.get()
        numbers = count((task.partitionId() if task else 0) << 32)
        for rows in _gathered(batches):
            names, buckets = _numbered(rows.column(rows.num_columns - 1))
            table = rows.drop_columns([rows.column_names[-1]]).rename_columns(schema.names).cast(schema)
            order = np.argsort(
                buckets.astype(np.uint16), kind="stable"
            )  # numpy sorts 16-bit integers by radix
            table, buckets = table.take(pa.array(order)), buckets[order]
            starts = np.flatnonzero(np.diff(buckets, prepend=-1))
            ends = np.append(starts[1:], len(buckets))
            pieces = [
                _bytes(table.slice(start, end - start)) for start, end in zip(starts, ends, strict=True)
            ]
            yield pa.RecordBatch.from_arrays(
                [
                    names.take(pa.array(buckets[starts]))
                    if names is not None
                    else pa.array(buckets[starts], pa.int32()),
                    pa.array([next(numbers) for _ in pieces], pa.int64()),
                    pa.array(pieces, pa.binary()),
                ],
                ["bucket", "number", "rows"],
            )

    return packed


def unpack(schema: pa.Schema, late: pa.Schema | None = None) -> Callable[[Iterable[pa.RecordBatch]], Batches]:
    """The windows that are packed in the first column.

    With ``late``, the schema of late rows, also the late rows that are packed in the second column. They come as a
    struct in a last column. Further columns are of no interest.
    """

    return unpacked_by(lambda windows: _table(windows.as_buffer()).cast(schema), schema, late)


def unpacked_by(
    read: Callable[[pa.Scalar], pa.Table], schema: pa.Schema, late: pa.Schema | None
) -> Callable[[Iterable[pa.RecordBatch]], Batches]:
    """As :func:`unpack`, with a function that makes windows of what is in the first column."""

    def unpacked(batches: Iterable[pa.RecordBatch]) -> Batches:
        for batch in batches:
            for packed in batch.column(0):
                if packed.is_valid:
                    windows = read(packed)
                    yield from _sent(windows if late is None else _with_late(windows, late))
            for packed in batch.column(1) if late is not None else ():
                if packed.is_valid and late is not None:
                    yield from _sent(_only_late(_table(packed.as_buffer()).cast(late), schema))

    return unpacked


def scatter(batches: Iterable[pa.RecordBatch]) -> Batches:
    """A row for each batch of windows that is packed in the first column, so that they can be spread over tasks."""
    for batch in batches:
        for packed, *late in zip(*batch.columns, strict=True):
            found = _table(packed.as_buffer()).column("batch").to_pylist() if packed.is_valid else []
            sent = [*found, *([None] if late and late[0].is_valid else [])]
            others = [[*[None] * len(found), each.as_py()][: len(sent)] for each in late]
            columns = [pa.array(values, pa.binary()) for values in (sent, *others)]
            yield pa.RecordBatch.from_arrays(columns, batch.schema.names)


def unpack_named(schema: pa.Schema, name: str) -> Callable[[Iterable[pa.RecordBatch]], Batches]:
    """The columns of a schema from the rows that are packed in the first column; ``name`` is the bucket, from the second one.

    Further columns are of no interest: a ``select`` before this would make the plan of every micro-batch longer.
    """

    def unpacked(batches: Iterable[pa.RecordBatch]) -> Batches:
        for batch in batches:
            for packed, bucket in zip(batch.column(0), batch.column(1), strict=True):
                if packed.is_valid:
                    rows = _table(packed.as_buffer())
                    if name in schema.names:
                        rows = rows.append_column(name, pa.repeat(bucket, rows.num_rows))
                    yield from _sent(rows.select(schema.names).cast(schema))

    return unpacked


def _numbered(buckets: pa.ChunkedArray) -> tuple[pa.Array | None, np.ndarray[Any, Any]]:
    """The names of buckets, if they have any, and the number of each row's bucket."""
    if not pa.types.is_string(buckets.type):
        return None, buckets.to_numpy()
    encoded = buckets.combine_chunks().dictionary_encode()
    return encoded.dictionary, encoded.indices.to_numpy()


def _gathered(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
    """Few large tables of the rows of many batches."""
    held: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in batches:
        if batch.num_rows:
            held.append(batch)
            rows, size = rows + batch.num_rows, size + batch.nbytes
        if rows >= PACKED_ROWS or size >= PACKED_BYTES:
            yield pa.Table.from_batches(held)
            held, rows, size = [], 0, 0
    if held:
        yield pa.Table.from_batches(held)


def _bytes(table: pa.Table) -> bytes:
    """A table as an Arrow IPC stream of one record batch."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table.combine_chunks())
    return bytes(sink.getvalue())


def _table(blob: pa.Buffer) -> pa.Table:
    return pa.ipc.open_stream(blob).read_all()


def _with_late(windows: pa.Table, late: pa.Schema) -> pa.Table:
    return windows.append_column(LATE, pa.nulls(windows.num_rows, pa.struct(list(late))))


def _only_late(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    columns = [pa.nulls(rows.num_rows, field.type) for field in schema]
    arrays = [column.combine_chunks() for column in rows.columns]
    structs = pa.StructArray.from_arrays(arrays, fields=list(rows.schema))
    return pa.table([*columns, structs], names=[*schema.names, LATE])


def _sent(table: pa.Table) -> Batches:
    return iter(as_spark_has(table).combine_chunks().to_batches(max_chunksize=OUTPUT_ROWS))
