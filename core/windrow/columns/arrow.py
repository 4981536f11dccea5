# SPDX-License-Identifier: Apache-2.0
"""Data in: any data as a table, its event times, its columns as the arrays that kernels read. Results out, as Arrow columns.

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

import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeAlias, TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from windrow.columns.text import MAY_BE_VIEWS, castable, fitted, plain_schema
from windrow.columns.times import FARTHEST, LIKELY, PER_UNIT, UNIT_NAMES, TimeUnit
from windrow.errors import ColumnError, QueryError, TimeColumnError, TimeUnitWarning

Array = np.ndarray[Any, Any]
Times: TypeAlias = NDArray[np.int64]
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
        return _plain(pa.table(castable(data)))
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


def read_rows(data: Any, name: str, unit: TimeUnit | None = None) -> tuple[pa.Table, Times]:
    """Rows as a table, and their event times in microseconds."""
    table = as_table(data)
    return table, event_times(table, name, unit)


def event_times(data: pa.Table | pa.RecordBatch, name: str, unit: TimeUnit | None = None) -> Times:
    """The event times of the rows, in microseconds.

    Finer times are rounded down, which keeps every row in its windows: their boundaries are whole microseconds.
    Floats are rounded to the nearest microsecond, because a float of seconds has less than that to spare.

    >>> event_times(pa.table({"ts": [1.5, 2.0]}), "ts", "s").tolist()
    [1500000, 2000000]
    """
    kind = check_time(data.schema, name, unit).type
    column = data.column(name)
    if column.null_count:
        raise TimeColumnError(
            f"time column {name!r} has at least {column.null_count} null(s); every row needs a time: "
            f"drop such rows first, or give them one"
        )
    if pa.types.is_floating(kind):
        assert unit is not None, "floats without a unit are refused by check_time"
        found = _from_floats(to_numpy(column)[0].astype(np.float64), name, unit)
    else:
        found = _from_integers(column, name, unit)
    earliest, latest = (int(found.min()), int(found.max())) if len(found) else (0, 0)
    if not -FARTHEST < earliest <= latest < FARTHEST:
        wrong = earliest if earliest <= -FARTHEST else latest
        raise TimeColumnError(
            f"time column {name!r} has {wrong} microseconds, more than 70,000 years from 1970; "
            f"is it in another unit? Set it with Query(time_unit=), such as time_unit='ns'"
        )
    if not pa.types.is_timestamp(kind):
        _warn_of_another_unit(name, unit, earliest, latest)
    return found


def field(schema: pa.Schema, name: str, role: str) -> pa.Field:
    """The column of this name; an error that says what it is needed for if there is none, or several."""
    count = len(schema.get_all_field_indices(name))
    if count == 0:
        raise ColumnError.unknown(name, role, schema.names)
    if count > 1:
        raise ColumnError(f"column {name!r} ({role}) occurs {count} times in the data; rename all but one")
    return schema.field(name)


def check_time(schema: pa.Schema, name: str, unit: TimeUnit | None = None) -> pa.Field:
    """The time column of a schema; an error if there is none, or its type is none of a time."""
    found = field(schema, name, "time")
    if pa.types.is_timestamp(found.type):
        if unit is not None:
            raise TimeColumnError(
                f"time column {name!r} is a {found.type}, which already has a unit; leave time_unit={unit!r} out"
            )
    elif pa.types.is_floating(found.type):
        if unit is None:
            raise TimeColumnError(
                f"time column {name!r} is a {found.type}, which has no unit; set it with "
                f"Query(time_unit=), one of {', '.join(map(repr, PER_UNIT))}, or cast it to a timestamp"
            )
    elif not pa.types.is_integer(found.type):
        raise TimeColumnError(
            f"time column {name!r} is a {found.type}; cast it to a timestamp, or to integer microseconds"
        )
    return found


def microseconds(column: Column) -> Times:
    """A column of timestamps or integers without nulls, as int64 microseconds."""
    if pa.types.is_timestamp(column.type):
        if column.type.unit == "ns":
            return np.floor_divide(to_numpy(column)[0], 1000)
        if column.type.unit != "us":
            column = column.cast(pa.timestamp("us", column.type.tz))
    elif column.type.id != _INT64:
        column = column.cast(pa.int64())
    return to_numpy(column)[0]


def in_microseconds(type_: pa.DataType) -> pa.DataType:
    """The type of the same times or durations in microseconds; other types are as they are."""
    if pa.types.is_dictionary(type_):
        return in_microseconds(type_.value_type)
    if pa.types.is_timestamp(type_):
        return pa.timestamp("us", type_.tz)
    return pa.duration("us") if pa.types.is_duration(type_) else type_


def to_microseconds(column: Column) -> Column:
    """Times or durations in microseconds, rounded down.

    >>> to_microseconds(pa.array([-1, 1999, None], pa.timestamp("ns"))).cast(pa.int64()).to_pylist()
    [-1, 1, None]
    """
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    target = in_microseconds(column.type)
    if column.type.unit != "ns":
        return column.cast(target)
    values, valid = to_numpy(column)
    return from_numpy(np.floor_divide(values, 1000), valid, target)


_INT64 = pa.int64().id


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
    """The values of a column and, if it has nulls, which of them are valid. No copy where Arrow allows it.

    Numbers cannot be written to, wherever they come from: Arrow's values do not change, and a kernel is compiled once for
    arrays that can be written to and once for others.
    """
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
        values = np.zeros(len(array), dtype=dtype)
    else:
        values = np.frombuffer(buffer, dtype=dtype, count=len(array) + array.offset)[array.offset :]
    values.setflags(write=False)
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


def _plain(table: pa.Table) -> pa.Table:
    """The table without view types."""
    if not any(type_.id in MAY_BE_VIEWS for type_ in table.schema.types):
        return table
    return fitted(table, plain_schema(table.schema))


def _from_integers(column: Column, name: str, unit: TimeUnit | None) -> Times:
    try:
        found = microseconds(column)
    except pa.ArrowInvalid as error:
        raise TimeColumnError(
            f"time column {name!r} does not fit into 64 bits of microseconds: {error}"
        ) from None
    times, divided = PER_UNIT[unit or "us"]
    if times > 1:
        most = FARTHEST // times
        if len(found) and not -most < found.min() <= found.max() < most:
            raise TimeColumnError(
                f"time column {name!r} has {_farthest(found)} {UNIT_NAMES[unit or 'us']}, more than 70,000 years from 1970; "
                f"is it in another unit than time_unit={unit!r}?"
            )
        return found * times
    return np.floor_divide(found, divided) if divided > 1 else found


def _from_floats(values: NDArray[np.float64], name: str, unit: TimeUnit) -> Times:
    times, divided = PER_UNIT[unit]
    found = np.rint(values * times / divided)
    wrong = ~(np.abs(found) < FARTHEST)  # NaN too
    if wrong.any():
        raise TimeColumnError(
            f"time column {name!r} has {values[wrong][0]} {UNIT_NAMES[unit]}, which is not a time, or is more than 70,000 years from "
            f"1970; drop such rows, or change time_unit={unit!r}"
        )
    return found.astype(np.int64)


def _farthest(found: Times) -> int:
    return int(found.max() if abs(int(found.max())) > abs(int(found.min())) else found.min())


def _warn_of_another_unit(name: str, unit: TimeUnit | None, earliest: int, latest: int) -> None:
    """If times are not between 1990 and 2100, and would be in exactly one other unit, they are most likely in that one."""
    if LIKELY[0] <= latest and earliest < LIKELY[1]:
        return
    times, divided = PER_UNIT[unit or "us"]
    for other, (multiplied, over) in PER_UNIT.items():
        one, last = (each * divided * multiplied // (times * over) for each in (earliest, latest))
        if LIKELY[0] <= one and last < LIKELY[1]:
            year = 1970 + earliest // 31_556_952_000_000
            told = "integers without a unit are microseconds" if unit is None else f"time_unit={unit!r}"
            warnings.warn(
                f"time column {name!r}: {told}, which gives times in the year {year}; the numbers look like "
                f"{UNIT_NAMES[other]}: give the query time_unit={other!r}",
                TimeUnitWarning,
                stacklevel=4,
            )
            return
