# SPDX-License-Identifier: Apache-2.0
"""Counting rows and values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from windrow.aggregates.algebra import Aggregate, Field, Monoid, SliceSql
from windrow.aggregates.monoid import WindowSql, first_field


@dataclass(frozen=True)
class Count(Aggregate):
    """How many rows; with a column, how many of its values are not null.

    >>> import windrow as wr
    >>> wr.sliding([3.0, 1.0, 4.0, 1.0], wr.Count("load"), range=3)
    array([3, 3])
    """

    column: str | None = None

    def __post_init__(self) -> None:
        if self.column == "*":  # as SQL writes it
            object.__setattr__(self, "column", None)

    @property
    def arity(self) -> int:
        return len(self.columns)

    def dense(self, types: Sequence[pa.DataType]) -> Monoid:
        return Monoid(
            name=self.label,
            fields=(Field("n", np.dtype(np.int64)),),
            identity=(0,),
            lift=_one,
            combine=_plus,
            lower=first_field,
            defined=_always,
            invert=_minus,
            output=pa.int64(),
            inputs=tuple(types),
            sql=_sql("count({0})" if types else "count(*)"),
        )


def _sql(count: str) -> SliceSql:
    return SliceSql({"n": count}, windows=WindowSql.of_one(count, "sum({0})"))


def _one(*_: Any) -> tuple[int]:
    return (1,)


def _plus(a: tuple[int], b: tuple[int]) -> tuple[int]:
    return (a[0] + b[0],)


def _minus(a: tuple[int], b: tuple[int]) -> tuple[int]:
    return (a[0] - b[0],)


def _always(_: tuple[int]) -> bool:
    return True
