# SPDX-License-Identifier: Apache-2.0
"""The functions of a polynomial fit, generated for its degree.

The partial has an own origin: the smallest x, and the y of its row. With u and v, x and y counted from there, it has the
number of rows, Σuᵏ up to k = 2·degree, Σuᵏv up to k = degree, and Σv². To combine two partials, the sums of the one whose
origin is later are shifted to the earlier origin with the binomial theorem, as Pébay does it for means (*Formulas for
Robust, One-Pass Parallel Computation of Covariances and Arbitrary-Order Statistical Moments*, 2008). No u is negative, so
nothing cancels in the sums of its powers; nothing is subtracted when rows leave; and an epoch time never enters a
product. So no precision is lost as a window slides, and a combine has no division.

The fit centres the sums, and solves the normal equations by Cholesky's method without square roots (LDLᵀ), which does
not mind the scale of x. A pivot is what is left of uᵏ when lower powers have been fitted to it; with k distinct x or fewer
that is rounding only.

Code is generated as text because the number of fields depends on the degree. Numbers in local variables are what makes
a combine take some nanoseconds.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from math import comb
from typing import Any, NamedTuple

import numpy as np

TOO_CLOSE = 1e-9
"""A pivot this small against the power that it is left of is rounding: too few distinct x, or all but too few of them
too close together for a double."""

PERFECT = 1e-14
"""A residual this small against the squares of y is rounding."""


class Functions(NamedTuple):
    """What :class:`windrow.aggregates.algebra.Monoid` needs, for one degree."""

    names: list[str]
    """The fields of the partial."""
    lift: Callable[..., Any]
    combine: Callable[..., Any]
    defined: Callable[..., Any]
    lower: Callable[..., Any]


def functions(degree: int, whole: bool, unit: float, origin: float | None) -> Functions:
    """The functions of a fit.

    ``whole`` says that x are integers. Coefficients are in powers of (x - origin) / unit; if ``origin`` is ``None``,
    that is the mean of x, rounded to what a result can hold.
    """
    names = _names(degree)
    source = [_lift(degree), _combine(degree), _defined(degree), _lower(degree, origin)]
    namespace: dict[str, Any] = {
        "__name__": __name__,
        "math": math,
        "exact": whole_number if whole else float_number,
        "difference": whole_difference if whole else float_difference,
        "nearest": whole_nearest if whole else float_nearest,
        "UNIT": float(unit),
        "ORIGIN": 0 if origin is None else int(origin) if whole else float(origin),
        "TOO_CLOSE": TOO_CLOSE,
        "PERFECT": PERFECT,
    }
    exec("\n\n".join(source), namespace)
    return Functions(names, *(namespace[name] for name in ("lift", "combine", "defined", "lower")))


# x and the origin, which are whole numbers (int64) or floats.


def whole_number(x: Any) -> Any:
    return np.int64(x)


def float_number(x: Any) -> Any:
    return float(x)


def whole_difference(a: Any, b: Any) -> Any:
    """a - b as a float; no difference of halves leaves 64 bits."""
    return 2.0 * ((a >> 1) - (b >> 1)) + ((a & 1) - (b & 1))


def float_difference(a: Any, b: Any) -> Any:
    return a - b


def whole_nearest(origin: Any, mean: Any) -> Any:
    """The whole number nearest to a mean."""
    return int(origin) + math.floor(mean + 0.5)


def float_nearest(origin: Any, mean: Any) -> Any:
    return origin + mean


# Text. The names of a partial's fields: n, origin, level, x1 … x(2·degree), x0y … x(degree)y, yy.


def _names(degree: int) -> list[str]:
    powers = [f"x{k}" for k in range(1, 2 * degree + 1)]
    return ["n", "origin", "level", *powers, *(f"x{k}y" for k in range(degree + 1)), "yy"]


def _function(head: str, lines: list[str]) -> str:
    return f"def {head}:\n    " + "\n    ".join(lines)


def _unpacked(degree: int, prefix: str, partial: str) -> str:
    return ", ".join(f"{prefix}{name}" for name in _names(degree)) + f" = {partial}"


def _lift(degree: int) -> str:
    """A row. What is infinite or NaN leaves NaN in every sum, so that no grouping hides it."""
    zeros = ["u"] * (2 * degree) + ["u * v"] * (degree + 1) + ["v"]
    return _function(
        "lift(x, y)",
        [
            "x, y = exact(x), float(y)",
            "u, v = difference(x, x), y - y",
            f"return 1, x, y, {', '.join(zeros)}",
        ],
    )


def _combine(degree: int) -> str:
    lines = [
        "if a[0] == 0:",
        "    return b",
        "if b[0] == 0:",
        "    return a",
        "if b[1] < a[1]:",
        "    a, b = b, a",
        _unpacked(degree, "a_", "a"),
        _unpacked(degree, "b_", "b"),
        "u, v = difference(b_origin, a_origin), b_level - a_level",
        "b_x0 = float(b_n)",
    ]
    lines += [f"x{k} = a_x{k} + {_shifted('b_x', k)}" for k in range(1, 2 * degree + 1)]
    lines += [f"w{k} = b_x{k}y + v * b_x{k}" for k in range(degree + 1)]
    lines += [f"x{k}y = a_x{k}y + {_shifted('w', k)}" for k in range(degree + 1)]
    lines.append("yy = a_yy + (b_yy + v * (2.0 * b_x0y + v * b_x0))")
    results = ", ".join(_names(degree)[3:])
    return _function("combine(a, b)", [*lines, f"return a_n + b_n, a_origin, a_level, {results}"])


def _shifted(name: str, power: int) -> str:
    """Σ(x + u)ᵏ from Σxʲ, by Horner's rule."""
    text = f"{name}0"
    for j in range(1, power + 1):
        factor = comb(power, j)
        text = f"({text} * u + {f'{factor}.0 * ' if factor > 1 else ''}{name}{j})"
    return text


def _defined(degree: int) -> str:
    lines = [_unpacked(degree, "", "p"), f"if n <= {degree}:", "    return False"]
    lines += ["if x2 != x2 or yy != yy:", "    return True"]
    return _function("defined(p)", [*lines, *_pivots(degree, checked=True), "return True"])


def _pivots(degree: int, checked: bool) -> list[str]:
    """The central moments m2, m3 …, and the factors of their matrix: pivots d1 …, their reciprocals o1 …, and l21, l31,
    l32 … below them.

    If ``checked``, a pivot that is only rounding ends the function.
    """
    lines = ["x0, per = float(n), 1.0 / n", "mean = x1 * per", "u = -mean"]
    lines += [f"m{k} = {_shifted('x', k)}" for k in range(2, 2 * degree + 1)]
    for j in range(1, degree + 1):
        for i in range(j, degree + 1):
            entry = f"m{i + j}" + (f" - m{i} * m{j} * per" if min(i, j) > 1 else "")
            entry += "".join(f" - l{i}{k} * l{j}{k} * d{k}" for k in range(1, j))
            lines.append(f"d{j} = {entry}" if i == j else f"l{i}{j} = ({entry}) * o{j}")
            if i == j and checked:
                lines += [f"if not d{j} > TOO_CLOSE * m{2 * j}:", "    return False"]
            if i == j:
                lines.append(f"o{j} = 1.0 / d{j}")
    return lines


def _lower(degree: int, origin: float | None) -> str:
    place = "nearest(origin, x1 / n)" if origin is None else "ORIGIN"
    nans = ", ".join(["math.nan"] * (degree + 1))
    lines = [
        _unpacked(degree, "", "p"),
        f"place = {place}",
        "if x2 != x2 or yy != yy:",
        f"    return {nans}, place, math.nan, math.nan, n",
        *_pivots(degree, checked=False),
        *_solved(degree),
        "spread = yy - x0y * middle",
        "residual = spread - explained",
        "if residual < PERFECT * spread:",
        "    residual = 0.0",
        "r2 = 1.0 - residual / spread if spread > 0.0 else 1.0",
        "shift = difference(place, origin) - mean",
    ]
    for i in range(degree):
        lines += [f"c{j} = c{j} + shift * c{j + 1}" for j in range(degree - 1, i - 1, -1)]
    lines += [f"c{k} = c{k} * {' * '.join(['UNIT'] * k)}" for k in range(1, degree + 1)]
    coefficients = ", ".join(f"c{k}" for k in range(degree + 1))
    return _function("lower(p)", [*lines, f"return {coefficients}, place, r2, residual, n"])


def _solved(degree: int) -> list[str]:
    """The coefficients c0 … in powers of x - mean, and how much of the variance of y they explain."""
    lines = ["middle = x0y * per", "w0 = 0.0"]
    lines += [f"w{k} = x{k}y - middle * x{k}" for k in range(1, degree + 1)]
    for j in range(1, degree + 1):
        before = "".join(f" - l{j}{k} * z{k}" for k in range(1, j))
        lines.append(f"z{j} = {_shifted('w', j)}{before}")
    for j in range(degree, 0, -1):
        after = "".join(f" - l{i}{j} * c{i}" for i in range(j + 1, degree + 1))
        lines.append(f"c{j} = z{j} * o{j}{after}")
    lines.append(
        "c0 = level + (middle" + "".join(f" - c{j} * m{j} * per" for j in range(2, degree + 1)) + ")"
    )
    lines.append("explained = " + " + ".join(f"z{j} * z{j} * o{j}" for j in range(1, degree + 1)))
    return lines
