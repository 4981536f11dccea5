# SPDX-License-Identifier: Apache-2.0
"""The exact number of different values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from windrow.aggregates.algebra import Aggregate, Monoid
from windrow.aggregates.whole import Extents, WholeWindow
from windrow.columns.arrow import Array, physical_dtype
from windrow.errors import AggregateError
from windrow.kernels.extents import distinct
from windrow.kernels.specialise import specialise


@dataclass(frozen=True)
class CountDistinct(Aggregate):
    """How many different values there are, exactly, int64; 0 if there are none.

    Values are equal as in SQL: both zeros are one value, and so are all NaN; nulls are ignored. It is computed from the
    rows of whole windows, which slide: constant time for each row that enters or leaves. :class:`HyperLogLog` takes
    less memory, and is not exact.

    >>> import windrow as wr
    >>> wr.sliding([7.0, 8.0, 7.0, 7.0, 9.0], wr.CountDistinct(), range=3)
    array([2, 2, 2])
    """

    column: str | None = None

    def dense(self, types: Sequence[pa.DataType]) -> Monoid:
        if pa.types.is_nested(types[0]):
            raise AggregateError(
                f"{self.label} needs single values, got {types[0]}; give a field of it, or its text"
            )
        dtype = physical_dtype(types[0])
        objects = dtype.kind == "O"
        return Monoid(
            name=self.label,
            fields=None,
            identity={} if objects else np.empty(0, dtype=dtype),
            lift=_single if objects else lambda x: np.array([x], dtype=dtype),
            lift_many=_all if objects else np.unique,
            combine=_either if objects else _united,
            lower=len,
            defined=_always,
            output=pa.int64(),
            inputs=tuple(types),
        )

    def whole(self, types: Sequence[pa.DataType], *, compiled: bool = True) -> WholeWindow:
        return SlidingDistinct(self._types(types), np.dtype(np.int64), interpreted=not compiled)


@dataclass(frozen=True, kw_only=True)
class SlidingDistinct(WholeWindow):
    """Distinct values of windows that share a table of counts."""

    interpreted: bool = False

    carries = True

    def compute(self, windows: Extents, out: Array, ok: Array) -> None:
        ok[:] = True
        if not len(windows.lo):
            return
        first, last = int(windows.lo.min()), int(windows.hi.max())
        words = _words(windows.columns[0][first:last])
        bits = max(int(4 * (windows.hi - windows.lo).max()).bit_length(), 4)
        places = ((words.view(np.uint64) * _GOLDEN) >> np.uint64(64 - bits)).astype(np.int64)
        keys, counts = np.empty(1 << bits, np.int64), np.empty(1 << bits, np.int32)
        kernels = specialise(distinct, {}, compiled=not self.interpreted)
        kernels.distinct(words, places, windows.lo - first, windows.hi - first, keys, counts, out)


_GOLDEN = np.uint64(0x9E3779B97F4A7C15)


def _words(values: Array) -> Array:
    """A 64-bit word for each value; equal ones have equal words."""
    if values.dtype.kind == "O":
        numbers: dict[Any, int] = {}
        return np.array([numbers.setdefault(value, len(numbers)) for value in values], dtype=np.int64)
    if values.dtype.kind == "f":
        with np.errstate(invalid="ignore"):  # rows between those of two keys may hold anything
            floats = values.astype(np.float64) + 0.0
        floats[np.isnan(floats)] = np.nan
        return floats.view(np.int64)
    return values.astype(np.uint64).view(np.int64) if values.dtype.kind == "u" else values.astype(np.int64)


def _single(x: Any) -> dict[Any, bool]:
    return {x: True}


def _all(column: Array) -> dict[Any, bool]:
    return dict.fromkeys(column.tolist(), True)


def _either(a: dict[Any, bool], b: dict[Any, bool]) -> dict[Any, bool]:
    return a | b


def _united(a: Array, b: Array) -> Array:
    return np.union1d(a, b)


def _always(_: Any) -> bool:
    return True
