# SPDX-License-Identifier: Apache-2.0
"""A table as the bytes of an Arrow IPC stream, and back.

>>> import pyarrow as pa
>>> from_ipc(to_ipc(pa.table({"load": [1.5, 2.5]}))).to_pydict()
{'load': [1.5, 2.5]}
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from windrow.columns import arrow
from windrow.columns.arrow import Array
from windrow.errors import CorruptSnapshot

__all__ = ["checked_ipc", "columns_from_ipc", "columns_to_ipc", "from_ipc", "to_ipc"]


def to_ipc(table: pa.Table) -> bytes:
    """The bytes of a table, as one record batch. Equal tables give equal bytes, however they are chunked."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table.combine_chunks())
    return bytes(sink.getvalue())


def from_ipc(blob: bytes | pa.Buffer) -> pa.Table:
    """The table that :func:`to_ipc` wrote. Its columns share the memory of the bytes."""
    try:
        return pa.ipc.open_stream(blob).read_all()
    except (pa.ArrowException, OSError, ValueError, TypeError) as cause:
        raise CorruptSnapshot(f"the bytes of a table cannot be read: {cause}") from cause


def checked_ipc(blob: object) -> pa.Table:
    """As :func:`from_ipc`, for bytes that anyone may have written: every offset and every value is checked.

    >>> checked_ipc(b"not a table")
    Traceback (most recent call last):
    windrow.errors.CorruptSnapshot: the bytes of a table cannot be read: Expected to read 544501614 metadata bytes, but only read 7
    """
    if not isinstance(blob, bytes):
        raise CorruptSnapshot(f"the bytes of a table have to be bytes, not {type(blob).__name__}")
    table = from_ipc(blob)
    try:
        table.validate(full=True)
        table.schema.names  # noqa: B018 - raises if a name is no text
    except (pa.ArrowException, ValueError) as cause:
        raise CorruptSnapshot(f"the values of a table are damaged: {cause}") from cause
    return table


def columns_to_ipc(columns: Sequence[Array], types: Sequence[pa.DataType]) -> bytes:
    """The bytes of columns of physical values. ``None`` in a column of objects is null.

    >>> import numpy as np
    >>> columns_from_ipc(columns_to_ipc([np.array([1.5, 2.5])], [pa.float64()]), [pa.float64()])
    (array([1.5, 2.5]),)
    """
    arrays = [
        arrow.from_numpy(column, _not_null(column), type_)
        for column, type_ in zip(columns, types, strict=True)
    ]
    return to_ipc(pa.table(arrays, names=[str(place) for place in range(len(arrays))]))


def columns_from_ipc(blob: object, types: Sequence[pa.DataType]) -> tuple[Array, ...]:
    """The columns that :func:`columns_to_ipc` wrote, from bytes that anyone may have written."""
    table = checked_ipc(blob)
    if list(table.schema.types) != list(types):
        raise CorruptSnapshot(f"rows have the types {table.schema.types}, not {list(types)}")
    return tuple(arrow.to_numpy(column)[0] for column in table.columns)


def _not_null(column: Array) -> Array | None:
    if column.dtype.kind != "O":
        return None
    return np.array([value is not None for value in column.tolist()], np.bool_)
