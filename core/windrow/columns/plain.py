# SPDX-License-Identifier: Apache-2.0
"""Key values as the plain Python values that snapshots hold, and back.

A value has the form that Arrow gives it in Python: a number, text, bytes, a decimal, a date, a time, a datetime or a
duration; NaN, None. A date or time that Python cannot hold exactly is a pair: the name of its type, and the integer that
Arrow stores. A value of an extension type is that which stores it.

>>> import pyarrow as pa
>>> to_plain(pa.array([1, 1000], pa.time64("ns")))
[('time64[ns]', 1), datetime.time(0, 0, 0, 1)]
>>> from_plain(to_plain(pa.array([1, 1000], pa.time64("ns"))), pa.time64("ns")).cast(pa.int64()).to_pylist()
[1, 1000]
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from windrow.columns import arrow
from windrow.errors import CorruptSnapshot

__all__ = ["from_plain", "to_plain"]

DAY = 86_400_000
"""A day in milliseconds."""


def to_plain(array: pa.Array) -> list[Any]:
    """The values of an array that is no dictionary and of no extension type."""
    if pa.types.is_temporal(array.type):
        return _moments(array)
    return [float(value) if isinstance(value, np.floating) else value for value in array.to_pylist()]


def from_plain(values: Sequence[Any], type_: pa.DataType) -> pa.Array:
    """The array of this type that :func:`to_plain` gave the values of."""
    try:
        if pa.types.is_float16(type_):
            valid = np.array([value is not None for value in values], dtype=np.bool_)
            numbers = np.array([0.0 if value is None else value for value in values], dtype=np.float32)
            return arrow.from_numpy(numbers, valid, type_)
        if any(isinstance(value, tuple) for value in values):
            return _with_pairs(values, type_)
        return pa.array(values, type=type_)
    except (pa.ArrowException, TypeError, ValueError, OverflowError, ArithmeticError) as cause:
        raise CorruptSnapshot(f"the state has keys that are no {type_}: {cause}") from cause


def _moments(array: pa.Array) -> list[Any]:
    """Dates, times, datetimes and durations; pairs where Python's would not be exact."""
    exact, units = _exact(array.type)
    stored = array.view(_integer(array.type)).to_pylist()
    whole = [None if value is None or value % units else value // units for value in stored]
    try:
        moments = _in_python(whole, exact)
    except _NOT_IN_PYTHON:
        moments = [_in_python_or_none(value, exact) for value in whole]
    name = str(array.type)
    return [
        (name, value) if value is not None and moment is None else moment
        for value, moment in zip(stored, moments, strict=True)
    ]


def _exact(type_: pa.DataType) -> tuple[pa.DataType, int]:
    """The type whose values Python can hold, and how many of the given type's units are one of its."""
    if pa.types.is_date64(type_):
        return pa.date32(), DAY
    if pa.types.is_date32(type_) or type_.unit != "ns":
        return type_, 1
    if pa.types.is_timestamp(type_):
        return pa.timestamp("us", type_.tz), 1000
    return (pa.duration("us") if pa.types.is_duration(type_) else pa.time64("us")), 1000


def _in_python(integers: list[int | None], type_: pa.DataType) -> list[Any]:
    moments = pa.array(integers, _integer(type_)).view(type_).to_pylist()
    back = pa.array(moments, type=type_).view(_integer(type_)).to_pylist()
    pairs = zip(moments, integers, back, strict=True)
    return [moment if integer == again else None for moment, integer, again in pairs]


def _in_python_or_none(integer: int | None, type_: pa.DataType) -> Any:
    try:
        return _in_python([integer], type_)[0]
    except _NOT_IN_PYTHON:
        return None


_NOT_IN_PYTHON = (ValueError, OverflowError, pa.ArrowException)


def _with_pairs(values: Sequence[Any], type_: pa.DataType) -> pa.Array:
    for value in values:
        if isinstance(value, tuple) and (len(value) != 2 or value[0] != str(type_)):
            raise ValueError(f"{value!r} is of another type")
    integer = _integer(type_)
    plain = pa.array([None if isinstance(value, tuple) else value for value in values], type=type_)
    known = plain.view(integer).to_pylist()
    integers = [
        value[1] if isinstance(value, tuple) else stored for value, stored in zip(values, known, strict=True)
    ]
    return pa.array(integers, integer).view(type_)


def _integer(type_: pa.DataType) -> pa.DataType:
    return pa.int32() if type_.bit_width == 32 else pa.int64()
