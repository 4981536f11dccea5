# SPDX-License-Identifier: Apache-2.0
"""Variance and standard deviation, from pairwise moments.

The partial is the number of values, their mean, and the sum of squared deviations from it. Two partials are
combined as in Chan, Golub and LeVeque, *Updating Formulae and a Pairwise Algorithm for Computing Sample
Variances*, 1979: no two nearly equal numbers are subtracted, so a small spread around a large mean is kept.
That is for floats; sums of integers are exact (:mod:`windrow.aggregates.integer_moments`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from windrow.aggregates.algebra import Aggregate, Field, Monoid, SliceSql, dtype_of, link
from windrow.aggregates.integer_moments import integer_moments
from windrow.errors import AggregateError


@dataclass(frozen=True)
class Var(Aggregate):
    """The variance; ``ddof=1`` (default) is that of a sample, 0 that of a population. Null for ``ddof``
    values or fewer.

    That of integers comes from exact sums and is right to the last bit or two, however large they are.

    >>> import windrow as wr
    >>> wr.sliding([1e9 + 1, 1e9 + 3, 1e9 + 5, 1e9 + 5], wr.Var(), range=3)
    array([4.        , 1.33333333])
    """

    column: str | None = None
    ddof: int = 1

    def __post_init__(self) -> None:
        _check_ddof(self, self.ddof)

    def dense(self, types: Sequence[pa.DataType]) -> Monoid:
        return _moments(self, types, self.ddof, deviation=False)


@dataclass(frozen=True)
class Std(Aggregate):
    """The standard deviation: the square root of :class:`Var`.

    >>> import windrow as wr
    >>> wr.sliding([1.0, 3.0, 5.0, 7.0], wr.Std(), range=3)
    array([2., 2.])
    """

    column: str | None = None
    ddof: int = 1

    def __post_init__(self) -> None:
        _check_ddof(self, self.ddof)

    def dense(self, types: Sequence[pa.DataType]) -> Monoid:
        return _moments(self, types, self.ddof, deviation=True)


def _check_ddof(aggregate: Aggregate, ddof: Any) -> None:
    if not isinstance(ddof, int) or ddof < 0:
        raise AggregateError(f"{aggregate.label}: ddof is {ddof!r}; expected 0, 1 or another whole number")


def _moments(aggregate: Aggregate, types: Sequence[pa.DataType], ddof: int, deviation: bool) -> Monoid:
    if dtype_of(types[0], aggregate).kind != "f":
        return integer_moments(aggregate, types[0], ddof, deviation)
    number = np.dtype(np.float64)
    return Monoid(
        name=aggregate.label,
        fields=(Field("n", np.dtype(np.int64)), Field("mean", number), Field("deviations", number)),
        identity=(0, 0.0, 0.0),
        lift=_lift,
        combine=_combine,
        lower=link(_deviation if deviation else _variance, {"DDOF": ddof}),
        defined=link(_enough, {"DDOF": ddof}),
        output=pa.float64(),
        inputs=tuple(types),
        sql=SliceSql(
            {
                "n": "count({0})",
                "mean": "avg(cast({0} as double))",
                "deviations": "var_pop(cast({0} as double)) * count({0})",
            },
            engines=("spark",),  # Flink's var_pop is the difference of two large sums
            exact=False,
        ),
        tolerance=1e-12,
    )


DDOF = 1


def _lift(x: Any) -> Any:
    x = float(x)
    return 1, x, x - x  # an infinity deviates from itself by NaN


def _combine(a: Any, b: Any) -> Any:
    n = a[0] + b[0]
    share = b[0] / max(n, 1)
    delta = b[1] - a[1]
    return n, a[1] + delta * share, a[2] + b[2] + delta * (a[0] * share) * delta


def _enough(p: Any) -> bool:
    return p[0] > DDOF


def _variance(p: Any) -> float:
    return p[2] / (p[0] - DDOF)


def _deviation(p: Any) -> float:
    return math.sqrt(p[2] / (p[0] - DDOF))
