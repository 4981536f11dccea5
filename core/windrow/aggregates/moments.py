"""Variance and standard deviation, from pairwise moments.

The partial is the number of values, their mean, and the sum of squared deviations from it. Two partials are
combined as in Chan, Golub and LeVeque, *Updating Formulae and a Pairwise Algorithm for Computing Sample
Variances*, 1979: nothing is subtracted that is nearly equal, so that a small spread on a large mean
survives.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from windrow.aggregates.algebra import Aggregate, Field, Monoid, SliceSql, dtype_of, link
from windrow.errors import AggregateError


@dataclass(frozen=True)
class Var(Aggregate):
    """The variance; ``ddof=1`` (default) is that of a sample, 0 that of a population. Null for ``ddof``
    values or fewer.

    >>> import windrow as wr
    >>> wr.sliding([1e9 + 1, 1e9 + 3, 1e9 + 5, 1e9 + 5], wr.Var(), range=3)
    array([4.        , 1.33333333])
    """

    column: str | None = None
    ddof: int = 1

    def __post_init__(self) -> None:
        _check_ddof(self, self.ddof)

    def dense(self, types: Sequence[pa.DataType]) -> Monoid:
        return _moments(self, types, self.ddof, _variance)


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
        return _moments(self, types, self.ddof, _deviation)


def _check_ddof(aggregate: Aggregate, ddof: Any) -> None:
    if not isinstance(ddof, int) or ddof < 0:
        raise AggregateError(f"{aggregate.label}: ddof is {ddof!r}; expected 0, 1 or another whole number")


def _moments(aggregate: Aggregate, types: Sequence[pa.DataType], ddof: int, lower: Any) -> Monoid:
    dtype_of(types[0], aggregate)
    number = np.dtype(np.float64)
    return Monoid(
        name=aggregate.label,
        fields=(Field("n", np.dtype(np.int64)), Field("mean", number), Field("deviations", number)),
        identity=(0, 0.0, 0.0),
        lift=_lift,
        combine=_combine,
        lower=link(lower, {"DDOF": ddof}),
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
    return p[0] > DDOF  # type: ignore[no-any-return]


def _variance(p: Any) -> float:
    return p[2] / (p[0] - DDOF)  # type: ignore[no-any-return]


def _deviation(p: Any) -> float:
    return math.sqrt(p[2] / (p[0] - DDOF))
