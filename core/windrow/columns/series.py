# SPDX-License-Identifier: Apache-2.0
"""A user's values as the arrays that kernels read, and results in the form in which the values came.

>>> import numpy as np
>>> load = read(np.ma.array([1.5, 2.5], mask=[False, True]))
>>> load.type, load.values.dtype, load.valid.tolist()
(DataType(double), dtype('float64'), [True, False])
>>> load.give(np.array([7.0, 8.0]), np.array([True, False]), load.type)
masked_array(data=[7.0, --],
             mask=[False,  True],
       fill_value=1e+20)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from windrow.columns import arrow
from windrow.errors import ColumnError

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Series:
    """One column: its physical values, which of them are not null (``None``: all), and what it was made
    from.
    """

    values: Array
    valid: Array | None
    type: pa.DataType
    dtype: np.dtype[Any] | None
    """The numpy type that the user had; ``None`` if the values came as Arrow, and results go back as Arrow.
    """

    def __len__(self) -> int:
        return len(self.values)

    def result_dtype(self, output: pa.DataType, record: bool = False) -> np.dtype[Any]:
        """The numpy type in which results of an Arrow type go back; ``record`` says that they are structs of numbers."""
        if record:
            return np.dtype([(field.name, self.result_dtype(field.type)) for field in output], align=True)
        if self.dtype is None:
            return arrow.physical_dtype(output)
        if self.dtype.kind in "mM" and output == self.type:
            return self.dtype
        if pa.types.is_boolean(output):
            return np.dtype(np.bool_)
        if pa.types.is_float16(output):
            return np.dtype(np.float16)
        if pa.types.is_timestamp(output):
            return np.dtype(f"datetime64[{output.unit}]")
        if pa.types.is_duration(output):
            return np.dtype(f"timedelta64[{output.unit}]")
        return arrow.physical_dtype(output)

    def give(self, results: Array, ok: Array | None, output: pa.DataType) -> Any:
        """Physical results as the user gets them; where ``ok`` is false they are null."""
        if ok is not None and bool(ok.all()):
            ok = None
        if self.dtype is None:
            return arrow.from_numpy(results, ok, output)
        dtype = self.result_dtype(output, results.dtype.names is not None)
        if dtype.kind == "O":
            if ok is not None:
                results[~ok] = None
            return results
        given = results
        if dtype != results.dtype:
            given = results.astype(dtype) if dtype.kind == "f" else results.view(dtype)
        return given if ok is None else np.ma.MaskedArray(given, mask=~ok)


def read(values: Any) -> Series:
    """One column in any of the accepted forms. Nothing is copied that numba can read as it is."""
    if isinstance(values, pa.Array | pa.ChunkedArray):
        return _from_arrow(values, None)
    if isinstance(values, np.ndarray):
        return _from_numpy(values)
    if type(values).__module__.partition(".")[0] == "pandas":
        return _from_pandas(values)
    if hasattr(values, "__arrow_c_stream__") or hasattr(values, "__arrow_c_array__"):
        return _from_arrow(pa.chunked_array(values), None)
    if isinstance(values, list | tuple) and any(value is None for value in values):
        return _from_objects(values)
    return _from_numpy(np.asarray(values))


def is_column(values: Any) -> bool:
    """Is this one column, and not a single value?"""
    return isinstance(
        values, pa.Array | pa.ChunkedArray | np.ndarray | Sequence | pa.Table
    ) and not isinstance(values, str | bytes)


def readable(array: Array) -> Array:
    """The same memory as an array that may be written, though kernels only read it: numba compiles a kernel
    once more for arrays that are read-only.
    """
    if array.flags.writeable or array.dtype == object:
        return array
    return np.asarray(_Unlocked(array))


class _Unlocked:
    def __init__(self, array: Array) -> None:
        interface = dict(array.__array_interface__)
        interface["data"] = (interface["data"][0], False)
        self.array, self.__array_interface__ = array, interface


def _from_arrow(column: pa.Array | pa.ChunkedArray, dtype: np.dtype[Any] | None) -> Series:
    values, valid = arrow.to_numpy(column)
    type_ = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
    return Series(readable(values), valid, type_, dtype)


def _from_pandas(series: Any) -> Series:
    if isinstance(series.dtype, np.dtype):
        return _from_numpy(series.to_numpy())
    return _from_arrow(pa.Array.from_pandas(series), np.dtype(object))


def _from_numpy(array: Array) -> Series:
    if array.ndim != 1:
        raise ColumnError(
            f"values have {array.ndim} dimensions; expected one column. Give a 2-D array, or a list of "
            "columns, only to an aggregate of one input"
        )
    valid: Array | None = None
    if isinstance(array, np.ma.MaskedArray):
        if array.mask is not np.ma.nomask:
            valid = ~np.ma.getmaskarray(array)
        array = array.data
    kind, dtype = array.dtype.kind, array.dtype
    if kind in "OUS":
        return _from_objects(array.tolist(), valid)
    if kind in "mM":
        nat = np.isnat(array)
        if nat.any():
            valid = ~nat if valid is None else valid & ~nat
        unit = np.datetime_data(dtype)[0]
        unit = unit if unit in ("s", "ms", "us", "ns") and np.datetime_data(dtype)[1] == 1 else "s"
        type_ = pa.timestamp(unit) if kind == "M" else pa.duration(unit)
        array = array.view(np.int64) if dtype.isnative else array.astype(np.int64)
        return Series(readable(array), _some_null(valid), type_, dtype.newbyteorder("="))
    if kind not in "iufb" or dtype.itemsize > 8:
        raise ColumnError(
            f"values are an array of {dtype}; expected numbers of up to 64 bits, booleans, or datetime64. "
            "Convert them first"
        )
    type_ = pa.from_numpy_dtype(dtype)
    physical = arrow.physical_dtype(type_)
    values = array.view(np.uint8) if kind == "b" else array.astype(physical, copy=False)
    if not values.flags.aligned:
        values = values.copy()
    return Series(readable(values), _some_null(valid), type_, dtype.newbyteorder("="))


def _from_objects(values: Sequence[Any], valid: Array | None = None) -> Series:
    try:
        column = pa.array(values, mask=None if valid is None else ~valid)
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as cause:
        raise ColumnError(
            f"values are Python objects that have no common Arrow type ({cause}); "
            "give an array of numbers, or an Arrow array of the type you mean"
        ) from None
    if pa.types.is_null(column.type):
        column = column.cast(pa.float64())
    return _from_arrow(column, np.dtype(object))


def _some_null(valid: Array | None) -> Array | None:
    return None if valid is None or bool(valid.all()) else valid
