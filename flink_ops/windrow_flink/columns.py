# SPDX-License-Identifier: Apache-2.0
"""Rows in columns, as bytes that the JVM and Python both write and read.

Each column is eight bytes with two lengths, which of its values are there (if some are not), and its values: the buffers
that Arrow has in memory, each filled up to eight bytes. So they are read without a copy.
"""

from __future__ import annotations

import struct
import zlib
from typing import Any

import numpy as np
import pyarrow as pa

import windrow  # noqa: F401  # whole, before its parts: see the package
from windrow.errors import ColumnError

KINDS = {
    pa.bool_(): "?",
    pa.int8(): "b",
    pa.int16(): "h",
    pa.int32(): "i",
    pa.int64(): "l",
    pa.float32(): "f",
    pa.float64(): "d",
    pa.string(): "s",
}
"""The types that can be columns, each with the letter that the JVM has for it."""
_WIDER = {
    pa.uint8(): pa.int16(),
    pa.uint16(): pa.int32(),
    pa.uint32(): pa.int64(),
    pa.large_string(): pa.string(),
}
"""What stands for types that Flink does not have."""
_LENGTHS = struct.Struct("<ii")
"""The bytes that say which values are there, and the bytes of all texts."""
_WIDTHS = {"b": 1, "h": 2, "i": 4, "l": 8, "f": 4, "d": 8}


def kinds_of(schema: pa.Schema) -> str | None:
    """A letter for each column; ``None`` if one of them cannot cross in columns.

    >>> kinds_of(pa.schema({"plug": pa.string(), "ts": pa.int64(), "load": pa.float64()}))
    'sld'
    """
    kinds = [KINDS.get(_WIDER.get(field.type, field.type)) for field in schema]
    return None if None in kinds else "".join(kind for kind in kinds if kind)


def fingerprint(schema: pa.Schema) -> int:
    """What the JVM puts before columns of these types."""
    kinds = kinds_of(schema)
    return zlib.crc32(kinds.encode()) if kinds is not None else 0


def read_columns(body: pa.Buffer, rows: int, schema: pa.Schema) -> pa.RecordBatch:
    """So many rows of a body, without a copy.

    >>> table = pa.table({"plug": ["a", None], "load": [1.5, 2.5]})
    >>> body = pa.py_buffer(write_columns(table)).slice(8)
    >>> read_columns(body, 2, table.schema).to_pylist()
    [{'plug': 'a', 'load': 1.5}, {'plug': None, 'load': 2.5}]
    """
    view = memoryview(body)
    arrays, at = [], 0
    for field in schema:
        validity, text = _LENGTHS.unpack_from(view, at)
        at += _LENGTHS.size
        valid = body.slice(at, validity) if validity else None
        at += validity
        sizes = _sizes(KINDS[field.type], rows, text)
        buffers = [valid]
        for size in sizes:
            buffers.append(body.slice(at, size))
            at += _padded(size)
        arrays.append(pa.Array.from_buffers(field.type, rows, buffers))
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def write_columns(table: pa.Table) -> bytes:
    """The number of rows, filled up to eight bytes, and the columns."""
    rows = table.num_rows
    parts: list[Any] = [_LENGTHS.pack(rows, 0)]
    for column in table.columns:
        array = _one(column)
        text, buffers = _buffers(array, rows)
        valid = np.packbits(~np.asarray(array.is_null()), bitorder="little") if array.null_count else b""
        parts.append(_LENGTHS.pack(_padded(len(valid)), text))
        for buffer in (valid, *buffers):
            parts.append(buffer)
            parts.append(bytes(-len(memoryview(buffer).cast("B")) % 8))
    return b"".join(parts)


def check_fingerprint(found: int, schema: pa.Schema) -> None:
    if found != fingerprint(schema):
        raise ColumnError(
            f"the gathered rows have other columns than {schema.names} ({', '.join(map(str, schema.types))}); "
            "give windowed_packed() the schema of the stream that was packed"
        )


def _one(column: pa.ChunkedArray) -> pa.Array:
    """A column as one array that begins at the first value of its buffers."""
    wider = _WIDER.get(column.type)
    column = column if wider is None else column.cast(wider)
    array = column.combine_chunks()
    array = array if isinstance(array, pa.Array) else pa.concat_arrays(array.chunks)
    return pa.concat_arrays([array, array.slice(0, 0)]) if array.offset else array


def _buffers(array: pa.Array, rows: int) -> tuple[int, list[Any]]:
    _, *buffers = array.buffers()
    kind = KINDS[array.type]
    text = 0
    if kind == "s":
        text = int(np.frombuffer(buffers[0], np.int32, rows + 1)[rows]) if rows else 0
    sizes = _sizes(kind, rows, text)
    given = [
        bytes(size) if buffer is None else buffer[:size]
        for size, buffer in zip(sizes, [*buffers, None], strict=False)
    ]
    return text, [memoryview(buffer) for buffer in given]


def _sizes(kind: str, rows: int, text: int) -> list[int]:
    """The bytes of each buffer of values."""
    if kind == "s":
        return [(rows + 1) * 4, text]
    return [(rows + 7) // 8 if kind == "?" else rows * _WIDTHS[kind]]


def _padded(size: int) -> int:
    return (size + 7) & ~7
