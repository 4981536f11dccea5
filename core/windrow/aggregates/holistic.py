# SPDX-License-Identifier: Apache-2.0
"""Aggregates whose partial is as large as their input: lists, the largest few, medians, quantiles. All are
exact.

Quantiles and the largest values are computed from the rows of whole windows, which slide: O(log n) for each row that
enters or leaves. Where partials are needed, they are Python objects that are never changed: tuples, and sorted arrays
that are merged in linear time. The rows of a batch become one partial before they are combined.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from windrow.aggregates.algebra import Aggregate, Monoid, dtype_of
from windrow.aggregates.extremes import ordered_dtype
from windrow.aggregates.whole import Extents, WholeWindow
from windrow.columns.arrow import Array, physical_dtype
from windrow.errors import AggregateError
from windrow.kernels.extents.sliding import SlidingQuantiles, SlidingTopK

FEW_INTO_MANY = 4096
"""From about so many values on, finding the places of a few others is faster than sorting all."""


@dataclass(frozen=True)
class Collect(Aggregate):
    """The values in the order of their rows, as a list; an empty list if there are none.

    >>> import windrow as wr
    >>> collected = wr.Collect("load").bind()
    >>> collected.result(collected.fold([(3.0,), (None,), (1.0,)]))
    [3.0, 1.0]
    """

    column: str | None = None

    def dense(self, types: Sequence[pa.DataType]) -> Monoid:
        return Monoid(
            name=self.label,
            fields=None,
            identity=(),
            lift=_single,
            lift_many=_all,
            combine=concatenated,
            lower=_list_of(types[0]),
            defined=_always,
            output=pa.list_(types[0]),
            inputs=tuple(types),
            commutative=False,
        )


@dataclass(frozen=True)
class TopK(Aggregate):
    """The ``k`` largest values, largest first, as a list (shorter if there are fewer); NaN is larger than
    every number.

    >>> import windrow as wr
    >>> largest = wr.TopK("load", k=2).bind()
    >>> largest.result(largest.fold([(3.0,), (1.0,), (7.0,), (3.0,)]))
    [7.0, 3.0]
    """

    column: str | None = None
    k: int = 10

    def __post_init__(self) -> None:
        if not isinstance(self.k, int) or self.k < 1:
            raise AggregateError(f"{self.label}: k is {self.k!r}; expected a whole number of at least 1")

    def dense(self, types: Sequence[pa.DataType]) -> Monoid:
        ordered_dtype(types[0], self)
        k = self.k

        def largest(a: Any, b: Any) -> Any:
            if a and b:
                return tuple(sorted(a + b, key=_nan_last, reverse=True)[:k])
            return a or b

        return Monoid(
            name=self.label,
            fields=None,
            identity=(),
            lift=_single,
            lift_many=lambda x: tuple(heapq.nlargest(k, _all(x), key=_nan_last)),
            combine=largest,
            lower=_list_of(types[0]),
            output=pa.list_(types[0]),
            inputs=tuple(types),
        )

    def whole(self, types: Sequence[pa.DataType], *, compiled: bool = True) -> WholeWindow | None:
        (type_,) = self._types(types)
        if physical_dtype(type_).kind == "O":
            return None
        return SlidingLargest((type_,), np.dtype(object), k=self.k, interpreted=not compiled)


@dataclass(frozen=True)
class Quantile(Aggregate):
    """The exact ``q``-quantile, float64, linear between the two nearest values (numpy's default). NaN if
    any value is.

    An infinity is a value like others: between a number and an infinity lies that infinity. Between -∞ and ∞
    lies NaN, as in numpy.

    >>> import windrow as wr
    >>> p90 = wr.Quantile("latency", q=0.9).bind()
    >>> p90.result(p90.fold([(float(x),) for x in range(11)]))
    9.0
    """

    column: str | None = None
    q: float = 0.5

    def __post_init__(self) -> None:
        if not isinstance(self.q, int | float) or not 0 <= self.q <= 1:
            raise AggregateError(f"{self.label}: q is {self.q!r}; expected a number from 0 to 1")

    def dense(self, types: Sequence[pa.DataType]) -> Monoid:
        return _quantile(self, types[0], float(self.q))

    def whole(self, types: Sequence[pa.DataType], *, compiled: bool = True) -> WholeWindow | None:
        return _sliding_quantile(self._types(types)[0], float(self.q), compiled)


@dataclass(frozen=True)
class Median(Aggregate):
    """The exact median, float64; of an even number of values, the mean of the two in the middle.

    Infinities and NaN count as in :class:`Quantile`.

    >>> import windrow as wr
    >>> middle = wr.Median("load").bind()
    >>> middle.result(middle.fold([(3.0,), (1.0,), (7.0,), (4.0,)]))
    3.5
    """

    column: str | None = None

    def dense(self, types: Sequence[pa.DataType]) -> Monoid:
        return _quantile(self, types[0], 0.5)

    def whole(self, types: Sequence[pa.DataType], *, compiled: bool = True) -> WholeWindow | None:
        return _sliding_quantile(self._types(types)[0], 0.5, compiled)


# Whole windows.


@dataclass(frozen=True, kw_only=True)
class SlidingQuantile(WholeWindow):
    """Quantiles of windows that share their sorted rows."""

    q: float
    interpreted: bool = False

    carries = True

    def compute(self, windows: Extents, out: Array, ok: Array) -> None:
        quantiles = SlidingQuantiles(self.dtypes[0], [self.q], compiled=not self.interpreted)
        quantiles.run(windows.columns[0], None, windows.lo, windows.hi, out.reshape(-1, 1), ok)


@dataclass(frozen=True, kw_only=True)
class SlidingLargest(WholeWindow):
    """The largest values of windows that share their sorted rows."""

    k: int
    interpreted: bool = False

    carries = True

    def compute(self, windows: Extents, out: Array, ok: Array) -> None:
        largest = SlidingTopK(self.dtypes[0], self.k, compiled=not self.interpreted)
        lists = largest.run(windows.columns[0], None, windows.lo, windows.hi)
        lower = _list_of(self.stored[0])
        for place, values in enumerate(lists.to_pylist()):
            out[place] = lower(values)
        ok[:] = windows.hi > windows.lo


def _sliding_quantile(type_: pa.DataType, q: float, compiled: bool) -> WholeWindow:
    return SlidingQuantile((type_,), np.dtype(np.float64), q=q, interpreted=not compiled)


# Tuples.


def _single(x: Any) -> tuple[Any, ...]:
    return (x.item() if isinstance(x, np.generic) else x,)


def _all(column: Array) -> tuple[Any, ...]:
    if column.dtype.kind == "O":
        return tuple(x.item() if isinstance(x, np.generic) else x for x in column)
    return tuple(column.tolist())


def concatenated(a: tuple[Any, ...], b: tuple[Any, ...]) -> tuple[Any, ...]:
    """Combine of values in their order: the values of a window are those of its slices."""
    return a + b


def _nan_last(x: Any) -> Any:
    return x != x, x


def _list_of(type_: pa.DataType) -> Callable[[Any], list[Any]]:
    if pa.types.is_boolean(type_):
        return lambda p: [bool(x) for x in p]
    return list


def _always(_: Any) -> bool:
    return True


# Sorted arrays.


def _quantile(aggregate: Aggregate, type_: pa.DataType, q: float) -> Monoid:
    dtype = dtype_of(type_, aggregate)
    return Monoid(
        name=aggregate.label,
        fields=None,
        identity=np.empty(0, dtype=dtype),
        lift=lambda x: np.array([x], dtype=dtype),
        lift_many=lambda x: np.sort(x.astype(dtype, copy=False)),
        combine=_merged,
        lower=lambda p: interpolated(p, q),
        output=pa.float64(),
        inputs=(type_,),
    )


def _merged(a: Array, b: Array) -> Array:
    if len(a) < len(b):
        a, b = b, a
    if not len(b):
        return a
    if len(a) > FEW_INTO_MANY + 64 * len(b):
        return np.insert(a, np.searchsorted(a, b), b)
    both = np.concatenate((b, a))  # equal values keep this order, as they do above
    both.sort(kind="stable")  # it merges two ascending runs in linear time
    return both


def interpolated(ascending: Array, q: float) -> float:
    """The q-quantile of a sorted array that is not empty, linear between neighbours."""
    if ascending[-1] != ascending[-1]:
        return float("nan")
    position = q * (len(ascending) - 1)
    below = int(position)
    low = float(ascending[below])
    high = float(ascending[min(below + 1, len(ascending) - 1)])
    return _between(low, high, position - below)


def _between(low: float, high: float, share: float) -> float:
    """The point that lies ``share`` of the way from ``low`` to ``high``, as numpy computes it.

    An infinite neighbour decides; halfway between both infinities is NaN.
    """
    if low == high or share == 0.0:
        return low
    if math.isinf(low) or math.isinf(high):
        return low + high
    if math.isinf(high - low):  # halves are exact here, and their difference is finite
        return 2.0 * _between(low / 2.0, high / 2.0, share)
    if share >= 0.5:  # from the nearer side, as numpy does
        return high - (high - low) * (1.0 - share)
    return low + (high - low) * share
