"""Arrow columns as the arrays that kernels read, and results as Arrow columns again.

A column has a *physical* form: a numpy array of numbers (timestamps, dates and durations are their integers,
booleans are bytes) with an optional validity array, or, for everything else, an array of Python objects.

>>> import pyarrow as pa
>>> values, valid = to_numpy(pa.array([1.5, None, 2.5]))
>>> values[0], valid.tolist()
(np.float64(1.5), [True, False, True])
>>> from_numpy(values, valid, pa.float64()).to_pylist()
[1.5, None, 2.5]
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

Array = np.ndarray[Any, Any]
Column: TypeAlias = "pa.Array | pa.ChunkedArray"


def physical_dtype(type_: pa.DataType) -> np.dtype[Any]:
    """The numpy type in which a column of this Arrow type is computed on; ``object`` if it has none."""
    if pa.types.is_boolean(type_):
        return np.dtype(np.uint8)
    if pa.types.is_float16(type_):
        return np.dtype(np.float32)
    if pa.types.is_integer(type_) or pa.types.is_floating(type_):
        numeric: np.dtype[Any] = np.dtype(type_.to_pandas_dtype())
        return numeric
    if (
        pa.types.is_timestamp(type_)
        or pa.types.is_duration(type_)
        or pa.types.is_time64(type_)
        or pa.types.is_date64(type_)
    ):
        return np.dtype(np.int64)
    if pa.types.is_date32(type_) or pa.types.is_time32(type_):
        return np.dtype(np.int32)
    return np.dtype(object)


def to_numpy(column: Column) -> tuple[Array, Array | None]:
    """The values of a column and, if it has nulls, which of them are valid. No copy where Arrow allows it."""
    array = _one_array(column)
    dtype = physical_dtype(array.type)
    valid = None
    if array.null_count:
        valid = array.is_valid().to_numpy(zero_copy_only=False)
    if dtype.kind == "O":
        values = np.empty(len(array), dtype=object)
        values[:] = _list_cells(array.to_pylist())
        return values, valid
    if pa.types.is_boolean(array.type) or pa.types.is_float16(array.type):
        array = array.cast(pa.from_numpy_dtype(dtype))
    buffer = array.buffers()[1]
    if buffer is None:
        return np.zeros(len(array), dtype=dtype), valid
    values = np.frombuffer(buffer, dtype=dtype, count=len(array) + array.offset)[array.offset :]
    return values, valid


def blank(count: int, dtype: Any) -> Array:
    """An array to be filled, in memory from Arrow's pool: the pool keeps what is given back, which for large
    answers takes a tenth of the time that fresh pages of the system take."""
    kind = np.dtype(dtype)
    if count * kind.itemsize < 1 << 20:
        return np.empty(count, dtype=kind)
    return np.frombuffer(pa.allocate_buffer(count * kind.itemsize), dtype=kind, count=count)


def from_numpy(values: Array, valid: Array | None, type_: pa.DataType) -> pa.Array:
    """An Arrow array of the given type from physical values; entries that are not valid become null."""
    dtype = physical_dtype(type_)
    if dtype.kind == "O":
        cells = values.tolist()
        if valid is not None:
            cells = [cell if ok else None for cell, ok in zip(cells, valid.tolist(), strict=True)]
        return pa.array(cells, type=type_)
    if pa.types.is_boolean(type_):
        array = pa.array(values.astype(np.bool_))
    else:
        physical = pa.from_numpy_dtype(dtype)
        array = pa.array(np.ascontiguousarray(values, dtype=dtype), type=physical)
        if type_ != physical:
            array = array.cast(type_) if pa.types.is_float16(type_) else array.view(type_)
    if valid is None or bool(valid.all()):
        return array
    import pyarrow.compute as pc

    return pc.if_else(pa.array(valid), array, pa.scalar(None, type=array.type))


def scalars(column: Column) -> list[Any]:
    """The column as Python values in the form that ``lift`` takes; ``None`` for null."""
    values, valid = to_numpy(column)
    cells = values.tolist()
    return (
        cells
        if valid is None
        else [cell if ok else None for cell, ok in zip(cells, valid.tolist(), strict=True)]
    )


def column(results: Sequence[Any], type_: pa.DataType) -> pa.Array:
    """Lowered results (``None`` for null) as an Arrow array."""
    dtype = physical_dtype(type_)
    valid = np.array([cell is not None for cell in results], dtype=np.bool_)
    values = np.zeros(len(results), dtype=dtype)
    if dtype.kind == "O":
        values[:] = _list_cells(list(results))
    else:
        for position, cell in enumerate(results):
            if cell is not None:
                values[position] = cell
    return from_numpy(values, valid, type_)


def _one_array(column: Column) -> pa.Array:
    if isinstance(column, pa.ChunkedArray):
        column = column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
    if isinstance(column, pa.ChunkedArray):
        column = pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], type=column.type)
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    return column


def _list_cells(cells: list[Any]) -> Array:
    """An object array whose entries are the given cells, also when the cells are sequences."""
    boxed = np.empty(len(cells), dtype=object)
    for position, cell in enumerate(cells):
        boxed[position] = cell
    return boxed
