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

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeAlias, TypeVar

import numpy as np
import pyarrow as pa

from windrow.errors import ColumnError, QueryError

Array = np.ndarray[Any, Any]
Column: TypeAlias = "pa.Array | pa.ChunkedArray"
Physical: TypeAlias = "tuple[Array, Array | None]"
"""The values of a column, and which of them are valid; ``None`` if all are."""
T = TypeVar("T")


def as_table(data: Any) -> pa.Table:
    """Anything that can be exported as Arrow, or a pandas frame, or a mapping of columns, as a table."""
    if isinstance(data, pa.Table):
        return _plain(data)
    if isinstance(data, pa.RecordBatch):
        return _plain(pa.Table.from_batches([data]))
    if hasattr(data, "__arrow_c_stream__") or hasattr(data, "__arrow_c_array__"):
        return _plain(pa.table(data))
    if hasattr(data, "columns") and hasattr(data, "dtypes"):
        return _plain(pa.Table.from_pandas(data, preserve_index=False))
    if isinstance(data, dict):
        return _plain(pa.table(data))
    if isinstance(data, list) and data and all(isinstance(row, Mapping) for row in data):
        return _plain(pa.Table.from_pylist(data))
    raise QueryError(
        f"data has to be Arrow-exportable (pyarrow, Polars, DuckDB, pandas), a dict of columns, or a list of dicts, "
        f"not {type(data).__name__}"
    )


_VIEWS = {pa.string_view().id: pa.string(), pa.binary_view().id: pa.binary()}
_TEXTS = {pa.string().id: "text", pa.large_string().id: "text", pa.string_view().id: "text"}
_TEXTS |= {pa.binary().id: "bytes", pa.large_binary().id: "bytes", pa.binary_view().id: "bytes"}
_LARGE = {pa.large_string().id, pa.large_binary().id}


def is_text(type_: pa.DataType) -> bool:
    """Whether values are text, or bytes of any length."""
    return type_.id in _TEXTS


def is_large(type_: pa.DataType) -> bool:
    """Whether text or bytes of this type have 64-bit offsets."""
    return type_.id in _LARGE


def text_type(type_: pa.DataType, *, large: bool) -> pa.DataType:
    """The type of text or bytes, as this one, with 64-bit or with 32-bit offsets."""
    if _TEXTS[type_.id] == "text":
        return pa.large_string() if large else pa.string()
    return pa.large_binary() if large else pa.binary()


def plain_schema(schema: pa.Schema) -> pa.Schema:
    """The schema without view types, which Polars exports and Arrow cannot sort: with the plain ones."""
    for position, type_ in enumerate(schema.types):
        if type_.id in _MAY_BE_VIEWS and (plain := _without_views(type_)) is not type_:
            schema = schema.set(position, schema.field(position).with_type(plain))
    return schema


_MAY_BE_VIEWS = {*_VIEWS, pa.dictionary(pa.int32(), pa.string()).id}


def _without_views(type_: pa.DataType) -> pa.DataType:
    if type_.id in _VIEWS:
        return _VIEWS[type_.id]
    if pa.types.is_dictionary(type_) and type_.value_type.id in _VIEWS:
        return pa.dictionary(type_.index_type, _VIEWS[type_.value_type.id], type_.ordered)
    return type_


def _plain(table: pa.Table) -> pa.Table:
    schema = table.schema
    plain = plain_schema(schema)
    return table if plain is schema else fitted(table, plain)


def alike(one: pa.DataType, other: pa.DataType) -> bool:
    """Whether two types have the same values: they are equal, or both are text, or both bytes."""
    kinds = [_TEXTS.get((t.value_type if pa.types.is_dictionary(t) else t).id) for t in (one, other)]
    return one == other or (kinds[0] is not None and kinds[0] == kinds[1])


def fitted(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """The table with the types of a schema, for columns that have another one with the same values."""
    if table.schema == schema:
        return table
    for position, found in enumerate(table.schema):
        place = schema.get_field_index(found.name)
        wanted = found.type if place < 0 else schema.field(place).type
        if found.type != wanted and alike(found.type, wanted):
            column = table.column(position)
            chunks = [_in_type(chunk, wanted) for chunk in column.chunks]
            table = table.set_column(position, found.with_type(wanted), pa.chunked_array(chunks, type=wanted))
    return table


def _in_type(array: pa.Array, type_: pa.DataType) -> pa.Array:
    """Text or bytes in another type that holds them."""
    if not pa.types.is_dictionary(type_):
        decoded = array.dictionary_decode() if pa.types.is_dictionary(array.type) else array
        return decoded.cast(type_)
    if not pa.types.is_dictionary(array.type):
        array = array.dictionary_encode()
    indices, values = array.indices.cast(type_.index_type), array.dictionary.cast(type_.value_type)
    return pa.DictionaryArray.from_arrays(indices, values, ordered=type_.ordered)


def field(schema: pa.Schema, name: str, role: str) -> pa.Field:
    """The column of this name; an error that says what it is needed for if there is none, or several."""
    count = len(schema.get_all_field_indices(name))
    if count == 0:
        raise ColumnError.unknown(name, role, schema.names)
    if count > 1:
        raise ColumnError(f"column {name!r} ({role}) occurs {count} times in the data; rename all but one")
    return schema.field(name)


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


def record_dtype(type_: pa.DataType) -> np.dtype[Any]:
    """The numpy type of a struct of numbers: a record with the physical type of each field."""
    return np.dtype([(field.name, physical_dtype(field.type)) for field in type_], align=True)


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


def with_nan(values: Array, valid: Array | None) -> Array:
    """The values of a column with NaN in place of nulls; numbers become float64. Objects have ``None`` there already."""
    if values.dtype.kind == "O":
        return values
    floats = values if values.dtype.kind == "f" else values.astype(np.float64)
    return floats if valid is None else np.where(valid, floats, np.nan).astype(floats.dtype, copy=False)


def physical(data: pa.Table | pa.RecordBatch, names: Iterable[str]) -> dict[str, Physical]:
    """Some columns of a table in their physical form, each converted once."""
    return {name: to_numpy(data.column(name)) for name in names}


def blank(count: int, dtype: Any, fill: Any = None) -> Array:
    """An array to be written, or of one value. Large ones come from Arrow's pool.

    The pool keeps what is given back. For large outputs that takes a tenth of the time of fresh memory.
    """
    kind = np.dtype(dtype)
    if count * kind.itemsize < 1 << 20:
        array = np.empty(count, dtype=kind)
    else:
        array = np.frombuffer(pa.allocate_buffer(count * kind.itemsize), dtype=kind, count=count)
    if fill is not None:
        array.fill(fill)
    return array


def blanks(kind: Callable[..., T], count: int, types: Mapping[str, Any], fill: Any = None) -> T:
    """A named tuple of arrays as :func:`blank` gives them; a field whose type is not given is int64."""
    names: tuple[str, ...] = kind._fields  # type: ignore[attr-defined]
    return kind(*(blank(count, types.get(name, np.int64), fill) for name in names))


def from_numpy(values: Array, valid: Array | None, type_: pa.DataType) -> pa.Array:
    """An Arrow array of the given type from physical values; entries that are not valid become null.

    The values of a struct may be records of the physical values of its fields.
    """
    if values.dtype.names is not None:
        fields = [from_numpy(values[field.name], None, field.type) for field in type_]
        mask = None if valid is None else pa.array(~valid)
        return pa.StructArray.from_arrays(fields, fields=list(type_), mask=mask)
    dtype = physical_dtype(type_)
    if dtype.kind == "O":
        cells = values.tolist()
        if valid is not None:
            cells = [cell if ok else None for cell, ok in zip(cells, valid.tolist(), strict=True)]
        return pa.array(cells, type=type_)
    mask = None if valid is None or bool(valid.all()) else ~valid
    if pa.types.is_boolean(type_):
        return pa.array(values.astype(np.bool_), mask=mask)
    physical = pa.from_numpy_dtype(dtype)
    array = pa.array(np.ascontiguousarray(values, dtype=dtype), type=physical, mask=mask)
    if type_ == physical:
        return array
    return array.cast(type_) if pa.types.is_float16(type_) else array.view(type_)


def columns(
    values: Iterable[Array], valid: Iterable[Array | None], types: Iterable[pa.DataType]
) -> list[pa.Array]:
    """Several columns at once; see :func:`from_numpy`."""
    return [from_numpy(*column) for column in zip(values, valid, types, strict=True)]


def scalars(column: Column) -> list[Any]:
    """The column as Python values in the form that ``lift`` takes; ``None`` for null."""
    values, valid = to_numpy(column)
    cells = values.tolist()
    return (
        cells
        if valid is None
        else [cell if ok else None for cell, ok in zip(cells, valid.tolist(), strict=True)]
    )


def column(results: Sequence[Any], type_: pa.DataType, dtype: np.dtype[Any]) -> pa.Array:
    """Lowered results (``None`` for null) as an Arrow array; ``dtype`` is the numpy type of their array."""
    valid = np.array([cell is not None for cell in results], dtype=np.bool_)
    values = np.zeros(len(results), dtype=dtype)
    if dtype.kind == "O":
        values[:] = _list_cells(list(results))
    else:
        for position, cell in enumerate(results):
            if cell is not None:
                values[position] = cell
    return from_numpy(values, valid, type_)


def one_array(column: Column) -> pa.Array:
    """A column as one array."""
    if isinstance(column, pa.ChunkedArray):
        column = column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
    if isinstance(column, pa.ChunkedArray):
        column = pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], type=column.type)
    return column


def _one_array(column: Column) -> pa.Array:
    array = one_array(column)
    return array.dictionary_decode() if pa.types.is_dictionary(array.type) else array


def _list_cells(cells: list[Any]) -> Array:
    """An object array whose entries are the given cells, also when the cells are sequences."""
    boxed = np.empty(len(cells), dtype=object)
    for position, cell in enumerate(cells):
        boxed[position] = cell
    return boxed
