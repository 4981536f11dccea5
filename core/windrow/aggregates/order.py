# SPDX-License-Identifier: Apache-2.0
"""Aggregates of the order of rows. They are not commutative: rows count in the order of their times."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from windrow.aggregates.algebra import Aggregate, Field, Monoid, dtype_of
from windrow.aggregates.monoid import first_field

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


def _end(aggregate: Aggregate, type_: pa.DataType, combine: Any, combine_objects: Any) -> Monoid:
    dtype = dtype_of(type_, aggregate, numeric=False)
    objects = dtype.kind == "O"
    return Monoid(
        name=aggregate.label,
        fields=None if objects else (Field("value", dtype), Field("seen", COUNT)),
        identity=None if objects else (0, 0),
        lift=_same if objects else _seen,
        combine=combine_objects if objects else combine,
        lower=_same if objects else first_field,
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


def _was_seen(p: Any) -> bool:
    return p[1] == 1


def _first(a: Any, b: Any) -> Any:
    return a if a[1] == 1 else b


def _last(a: Any, b: Any) -> Any:
    return b if b[1] == 1 else a


def _first_object(a: Any, b: Any) -> Any:
    return b if a is None else a


def _last_object(a: Any, b: Any) -> Any:
    return a if b is None else b
