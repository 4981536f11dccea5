# SPDX-License-Identifier: Apache-2.0
"""What a bucket has to know of an aggregate, so that an error can be stated: its partial beside the aggregate's own.

>>> import pyarrow as pa
>>> import windrow as wr
>>> [kind_of(each, [pa.float64()]) for each in (wr.Sum("x"), wr.Mean("x"), wr.Max("x"), wr.Median("x"))]
[0, 2, 3, 4]
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from windrow.aggregates.algebra import Aggregate, Field, Monoid
from windrow.aggregates.counting import Count
from windrow.aggregates.extremes import Max, Min
from windrow.aggregates.monoid import link
from windrow.aggregates.sums import Mean, Sum
from windrow.kernels.rounding import above, below, down, larger, smaller, up
from windrow.kernels.slices.bucket_layout import (
    AVERAGE,
    COUNT,
    EXTREME,
    FAR,
    FIELDS,
    NOTHING,
    ROWS,
    TOTAL,
)

__all__ = ["Bucket", "bucket_of", "kind_of"]


@dataclass(frozen=True, eq=False)
class Bucket:
    """What buckets know of one aggregate, and how its error follows from it."""

    kind: int
    monoid: Monoid
    """Its partials are totals; suffixes appear when slices are merged."""
    negated: bool
    """Buckets hold negated values: a minimum is the maximum of those."""
    whole: bool
    """Results are whole numbers."""
    rounded: bool
    """Results are rounded sums of floats, or quotients."""
    keeps_nulls: bool
    """Rows with nulls count too."""


def kind_of(aggregate: Aggregate | Monoid, types: Sequence[pa.DataType]) -> int:
    """How the error of an aggregate is bounded: by its value, or by the number of rows (ROWS), as for any monoid by itself."""
    if type(aggregate) is Count:
        return COUNT
    numeric = bool(types) and (
        pa.types.is_integer(types[0]) or pa.types.is_floating(types[0]) or pa.types.is_boolean(types[0])
    )
    kinds: dict[type, int] = {Sum: TOTAL, Mean: AVERAGE, Max: EXTREME, Min: EXTREME}
    return kinds.get(type(aggregate), ROWS) if numeric else ROWS


def bucket_of(name: str, aggregate: Aggregate | Monoid, monoid: Monoid) -> Bucket:
    """What buckets have to know of an aggregate, which is bound to this monoid."""
    types = monoid.inputs
    kind = kind_of(aggregate, types)
    return Bucket(
        kind=kind,
        monoid=_monoid(name, aggregate, types, kind),
        negated=type(aggregate) is Min,
        whole=kind != ROWS and monoid.results.kind in "iu",
        rounded=kind == AVERAGE or (kind == TOTAL and monoid.results.kind == "f"),
        keeps_nulls=monoid.keeps_nulls,
    )


def _monoid(name: str, aggregate: Aggregate | Monoid, types: Sequence[pa.DataType], kind: int) -> Monoid:
    add: Any = {COUNT: _add_row, ROWS: _add_row, EXTREME: _add_larger}.get(kind, _add_value)
    if type(aggregate) is Min:
        add = _add_smaller
    if add is not _add_row and pa.types.is_floating(types[0]):
        add = link(add, {"below": _as_it_is, "above": _as_it_is})
    extreme = kind == EXTREME
    lowest = -np.inf if extreme else 0.0
    return Monoid(
        name=f"{name}_error",
        fields=tuple(Field(field, np.dtype(dtype)) for field, dtype in FIELDS),
        identity=(lowest, lowest, *NOTHING),
        lift=_nothing,
        combine=_nothing,
        lower=_nothing,
        add=add,
        merge=link(_merge, {"joined_low": larger, "joined_high": larger} if extreme else {}),
        output=pa.float64(),
        inputs=() if kind in (COUNT, ROWS) else tuple(types),
    )


def joined_low(a: float, b: float) -> float:
    return down(a, b)


def joined_high(a: float, b: float) -> float:
    return up(a, b)


def _nothing(*_: Any) -> Any:
    raise NotImplementedError("buckets are changed in place")


def _as_it_is(x: Any) -> float:
    return float(x)


def _add_row(p: Any, i: int) -> None:
    p[6][i] += 1


def _add_value(p: Any, i: int, x: Any) -> None:
    low, high = below(x), above(x)
    p[0][i], p[1][i] = down(p[0][i], low), up(p[1][i], high)
    p[4][i], p[5][i] = smaller(p[4][i], low), larger(p[5][i], high)
    p[6][i] += 1


def _add_larger(p: Any, i: int, x: Any) -> None:
    p[0][i], p[1][i] = larger(p[0][i], below(x)), larger(p[1][i], above(x))
    p[6][i] += 1


def _add_smaller(p: Any, i: int, x: Any) -> None:
    p[0][i], p[1][i] = larger(p[0][i], -above(x)), larger(p[1][i], -below(x))
    p[6][i] += 1


def _merge(d: Any, i: int, a: Any, j: int, b: Any, k: int) -> None:
    """Totals alone: what lcs and csa need of a window."""
    d[0][i], d[1][i] = joined_low(a[0][j], b[0][k]), joined_high(a[1][j], b[1][k])
    d[2][i], d[3][i] = np.inf, -np.inf
    d[4][i], d[5][i] = smaller(a[4][j], b[4][k]), larger(a[5][j], b[5][k])
    d[6][i] = a[6][j] + b[6][k]
    d[7][i], d[8][i], d[9][i] = FAR, -1, 0
