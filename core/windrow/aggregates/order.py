"""Aggregates of the order of rows. They are not commutative: rows count in the order of their times."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from windrow.aggregates.algebra import Aggregate, Field, Monoid, dtype_of
from windrow.aggregates.extremes import ordered_dtype

COUNT = np.dtype(np.int64)


@dataclass(frozen=True)
class First(Aggregate):
    """The value of the first row that has one.

    >>> import windrow as wr
    >>> wr.sliding([3.0, 1.0, 4.0, 1.0], wr.First(), range=3)
    array([3., 1.])
    """

    column: str | None = None

    def dense(self, types: Sequence[pa.DataType]) -> Monoid:
        return _end(self, types[0], _first, _first_object)


@dataclass(frozen=True)
class Last(Aggregate):
    """The value of the last row that has one.

    >>> import windrow as wr
    >>> wr.sliding([3.0, 1.0, 4.0, 1.0], wr.Last(), range=3)
    array([4., 1.])
    """

    column: str | None = None

    def dense(self, types: Sequence[pa.DataType]) -> Monoid:
        return _end(self, types[0], _last, _last_object)


@dataclass(frozen=True)
class LongestIncreasingRun(Aggregate):
    """How many rows the longest run has in which every value is larger than the one before.

    A run may cross from one partial into the next, so a partial knows its first and last value, and how
    long the runs at its two ends are.

    >>> import windrow as wr
    >>> wr.sliding([3.0, 1.0, 2.0, 5.0, 4.0], wr.LongestIncreasingRun(), range=4)
    array([3, 3])
    """

    column: str | None = None

    def dense(self, types: Sequence[pa.DataType]) -> Monoid:
        dtype = ordered_dtype(types[0], self)
        objects = dtype.kind == "O"
        fields = (
            Field("n", COUNT),
            Field("first", dtype),
            Field("last", dtype),
            Field("prefix", COUNT),
            Field("suffix", COUNT),
            Field("best", COUNT),
        )
        return Monoid(
            name=self.label,
            fields=None if objects else fields,
            identity=(0, None, None, 0, 0, 0) if objects else (0, 0, 0, 0, 0, 0),
            lift=_run,
            combine=_joined,
            lower=_best,
            defined=_nonempty,
            output=pa.int64(),
            inputs=tuple(types),
            commutative=False,
        )


def _end(aggregate: Aggregate, type_: pa.DataType, combine: Any, combine_objects: Any) -> Monoid:
    dtype = dtype_of(type_, aggregate, numeric=False)
    objects = dtype.kind == "O"
    return Monoid(
        name=aggregate.label,
        fields=None if objects else (Field("value", dtype), Field("seen", COUNT)),
        identity=None if objects else (0, 0),
        lift=_same if objects else _seen,
        combine=combine_objects if objects else combine,
        lower=_same if objects else _value,
        defined=None if objects else _was_seen,
        output=type_,
        inputs=(type_,),
        commutative=False,
        selective=True,
    )


def _same(x: Any) -> Any:
    return x


def _seen(x: Any) -> Any:
    return x, 1


def _value(p: Any) -> Any:
    return p[0]


def _was_seen(p: Any) -> bool:
    return p[1] == 1  # type: ignore[no-any-return]


def _first(a: Any, b: Any) -> Any:
    return a if a[1] == 1 else b


def _last(a: Any, b: Any) -> Any:
    return b if b[1] == 1 else a


def _first_object(a: Any, b: Any) -> Any:
    return b if a is None else a


def _last_object(a: Any, b: Any) -> Any:
    return a if b is None else b


# (n, first, last, prefix, suffix, best)


def _run(x: Any) -> Any:
    return 1, x, x, 1, 1, 1


def _joined(a: Any, b: Any) -> Any:
    if a[0] == 0:
        return b
    if b[0] == 0:
        return a
    across = a[4] + b[3] if b[1] > a[2] else 0
    prefix = across if across > 0 and a[3] == a[0] else a[3]
    suffix = across if across > 0 and b[4] == b[0] else b[4]
    return a[0] + b[0], a[1], b[2], prefix, suffix, max(a[5], b[5], across)


def _best(p: Any) -> int:
    return p[5]  # type: ignore[no-any-return]


def _nonempty(p: Any) -> bool:
    return p[0] > 0  # type: ignore[no-any-return]
