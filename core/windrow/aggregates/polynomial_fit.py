# SPDX-License-Identifier: Apache-2.0
"""Least-squares polynomials."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from windrow import durations
from windrow.aggregates.algebra import Aggregate, Field, Monoid, dtype_of
from windrow.aggregates.polynomial_moments import functions
from windrow.errors import AggregateError

HIGHEST = 5
"""The highest degree. Beyond it, sums of powers in doubles keep too few digits."""


@dataclass(frozen=True)
class PolynomialFit(Aggregate):
    """The polynomial of a ``degree`` that fits y over x best, by least squares.

    The result is a struct: coefficients ``c0``, ``c1`` …, the ``origin`` of x, ``r2`` (the share of the variance of y
    that the fit explains), ``residual`` (the sum of its squared errors) and ``n``, the number of rows. The fitted value
    is ``c0 + c1 * (x - origin) + c2 * (x - origin)**2 …``. The origin is the window's mean x, in the type of x: whole
    for integers and times. There, coefficients keep all their digits even if x are epoch times, and ``c0`` is the
    level in the middle of the window. ``origin=0`` gives powers of x itself.

    x is a number or a time. Where it is a time, coefficients are per second, or per ``unit="1h"``. A ``unit`` for whole
    numbers says that they are microseconds.

    Null if x has fewer than ``degree + 1`` distinct values, or too few that a double tells apart. NaN and infinities
    make coefficients NaN. If all y are equal, ``r2`` is 1, as in SQL. A residual is known to about 1e-14 of the
    variance of y; a smaller one is 0.

    >>> import windrow as wr
    >>> x, y = [0.0, 1.0, 2.0, 3.0], [1.0, 2.0, 5.0, 10.0]
    >>> parabola = wr.PolynomialFit("x", "y", degree=2, origin=0).bind()
    >>> c0, c1, c2, *_ = parabola.result(parabola.fold(list(zip(x, y))))
    >>> round(float(c0), 9), round(float(c1), 9), round(float(c2), 9)
    (1.0, 0.0, 1.0)
    """

    x: str | None = None
    y: str | None = None
    degree: int = 2
    origin: float | None = None
    unit: str | None = None
    inputs: ClassVar[tuple[str, ...]] = ("x", "y")

    def __post_init__(self) -> None:
        if not isinstance(self.degree, int) or not 1 <= self.degree <= HIGHEST:
            raise AggregateError(
                f"{self.label}: degree is {self.degree!r}; expected a whole number from 1 to {HIGHEST}"
            )
        _check_axis(self, self.origin, self.unit)

    def dense(self, types: Sequence[pa.DataType]) -> Monoid:
        return _fit(self, types, self.degree, self.origin, self.unit)


@dataclass(frozen=True)
class LinearFit(Aggregate):
    """The straight line that fits y over x best: :class:`PolynomialFit` of degree 1.

    ``c1`` is the slope, and ``c0`` the level at ``origin``.

    >>> import windrow as wr
    >>> line = wr.LinearFit("x", "y").bind()
    >>> line.result(line.fold([(0.0, 1.0), (1.0, 3.0), (2.0, 5.0)]))[:3]
    (3.0, 2.0, 1.0)
    """

    x: str | None = None
    y: str | None = None
    origin: float | None = None
    unit: str | None = None
    inputs: ClassVar[tuple[str, ...]] = ("x", "y")

    def __post_init__(self) -> None:
        _check_axis(self, self.origin, self.unit)

    def dense(self, types: Sequence[pa.DataType]) -> Monoid:
        return _fit(self, types, 1, self.origin, self.unit)


def _check_axis(aggregate: Aggregate, origin: Any, unit: Any) -> None:
    if origin is not None and (isinstance(origin, bool) or not isinstance(origin, int | float)):
        raise AggregateError(f"{aggregate.label}: origin is {origin!r}; expected a number")
    if unit is not None and durations.parse(unit, f"unit of {aggregate.label}") <= 0:
        raise AggregateError(f"{aggregate.label}: unit is {unit!r}; expected a duration such as '1s' or '1h'")


def _fit(
    aggregate: Aggregate, types: Sequence[pa.DataType], degree: int, origin: float | None, unit: str | None
) -> Monoid:
    dtype_of(types[1], aggregate)
    axis = _axis(aggregate, types[0], origin)
    whole = pa.types.is_temporal(axis) or pa.types.is_integer(axis)
    made = functions(degree, whole, _per(aggregate, axis, unit), origin)
    number, count = np.dtype(np.float64), np.dtype(np.int64)
    kinds = {"n": count, "origin": count if whole else number}
    coefficients = [(f"c{k}", pa.float64()) for k in range(degree + 1)]
    rest = [("origin", axis), ("r2", pa.float64()), ("residual", pa.float64()), ("n", pa.int64())]
    return Monoid(
        name=aggregate.label,
        fields=tuple(Field(name, kinds.get(name, number)) for name in made.names),
        identity=tuple(
            0 if name in ("n", "origin") and (name == "n" or whole) else 0.0 for name in made.names
        ),
        lift=made.lift,
        combine=made.combine,
        lower=made.lower,
        defined=made.defined,
        output=pa.struct([*coefficients, *rest]),
        record=True,
        inputs=tuple(types),
        tolerance=1e-9,
    )


def _axis(aggregate: Aggregate, type_: pa.DataType, origin: float | None) -> pa.DataType:
    """The type of the origin: times and whole numbers keep theirs, and other numbers are float64."""
    if pa.types.is_temporal(type_) and type_ != pa.month_day_nano_interval():
        if origin is not None:
            raise AggregateError(
                f"{aggregate.label}: x is a {type_}, whose origin is the window's mean time; leave origin out"
            )
        return type_
    dtype = dtype_of(type_, aggregate)
    if dtype.kind == "f" or type_ == pa.uint64():
        return pa.float64()
    if origin is not None and origin != int(origin):
        raise AggregateError(
            f"{aggregate.label}: x is a {type_} and origin is {origin!r}; expected a whole number"
        )
    return pa.int64()


def _per(aggregate: Aggregate, axis: pa.DataType, unit: str | None) -> float:
    """How many steps of x are one unit of the coefficients."""
    if not pa.types.is_temporal(axis):
        if unit is not None and not pa.types.is_integer(axis):
            raise AggregateError(
                f"{aggregate.label}: x is a {axis}, which has no unit; leave unit out, or cast x to a timestamp"
            )
        return 1.0 if unit is None else float(durations.parse(unit))
    seconds = durations.parse("1s" if unit is None else unit) / 1e6
    if pa.types.is_date32(axis):
        return seconds / 86_400.0
    return seconds * {"s": 1.0, "ms": 1e3, "us": 1e6, "ns": 1e9}[getattr(axis, "unit", "ms")]
