# SPDX-License-Identifier: Apache-2.0
"""Least-squares fit of a model of one's own: the method of Levenberg and Marquardt.

>>> import math
>>> import numpy as np
>>> def decay(x, p):
...     return p[0] * math.exp(-p[1] * x)
>>> x = np.linspace(0.0, 4.0, 30)
>>> fit = levenberg_marquardt(decay, (1.0, 1.0))
>>> height, rate, r2, residual, iterations, converged = fit(x, 3.0 * np.exp(-0.5 * x))
>>> print(round(height, 9), round(rate, 9), converged)
3.0 0.5 1.0

A step δ solves (JᵀJ + λD) δ = Jᵀr (Marquardt, *An Algorithm for Least-Squares Estimation of Nonlinear Parameters*,
1963). D is the diagonal of JᵀJ, the largest so far of each entry. λ is such that the step is no longer than a radius, which
grows and shrinks with the ratio of actual to predicted gain (Moré, *The Levenberg-Marquardt Algorithm: Implementation and
Theory*, 1978). The fit has converged when a whole Gauss-Newton step would change the parameters by a small part of their
standard errors (Bates and Watts, *A Relative Offset Orthogonality Convergence Criterion for Nonlinear Least Squares*,
1981). Derivatives are forward differences until it is near, and central ones for the last steps.

Every fit begins at ``p0``. So it does not depend on which windows were fitted before, nor on the thread that fits.
Rows are passed over several times, and none is copied.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import combinations_with_replacement
from typing import Any

from windrow.aggregates.monoid import link
from windrow.errors import AggregateError

MOST = 12
"""The most parameters: code is generated for each pair of them."""

FORWARD, CENTRAL = 1.5e-8, 6e-6
"""The steps of differences, relative to a parameter: about the square and the cube root of the rounding of a double."""

FACTOR = 1.0
"""How far the first step may go, against the parameters to begin with."""

NEAR = 1e-8
"""Where a whole step gains less than this part of the squared errors, rounding hides whether it gains anything: it is
taken, until the gain grows no smaller."""

ROUNDING = 1e-28
"""A gain this small against the squares of y is rounding."""

STUCK = 1e-15
"""A step this short against the parameters moves nothing any more."""


def levenberg_marquardt(
    model: Callable[[Any, Any], Any],
    p0: Sequence[float],
    *,
    tolerance: float = 1e-7,
    iterations: int = 1000,
) -> Callable[[Any, Any], tuple[float, ...]]:
    """A function of two columns, x and y, that fits ``model(x, p)`` to them.

    The model is a function of one x and of the parameters, a tuple as long as ``p0``. The fit returns the parameters,
    then R², the sum of squared errors, the number of iterations, and 1.0 if it converged, else 0.0. Parameters are NaN
    if there are fewer different x than parameters. The function and the model are plain Python that numba compiles; they also
    run as they are.
    """
    start = _start(p0)
    if not callable(model):
        raise AggregateError(f"model is {model!r}; expected a function of x and the parameters")
    if not tolerance > 0.0 or iterations < 1:
        raise AggregateError(
            f"tolerance is {tolerance!r} and iterations {iterations!r}; expected a number above 0, and 1 or more"
        )
    names: dict[str, Any] = {"__name__": __name__, "math": math, "model": model}
    exec("\n\n".join(_functions(len(start))), names)
    constants = {
        "START": start,
        "NANS": (math.nan,) * len(start),
        "ENOUGH": tolerance * tolerance,
        "ITERATIONS": iterations,
        "model": model,
    }
    generated = ("normal", "step", "moved", "dot", "weight", "diagonal", "larger")
    made = {name: names[name] for name in generated}
    made |= {"squares": link(_squares, {"model": model}), "_damping": link(_damping, made)}
    return link(_fit, {**constants, **made})


def _start(p0: Sequence[float]) -> tuple[float, ...]:
    try:
        start = tuple(float(p) for p in p0)
    except (TypeError, ValueError):
        start = ()
    if not 1 <= len(start) <= MOST or not all(math.isfinite(p) for p in start):
        raise AggregateError(f"p0 is {p0!r}; expected 1 to {MOST} numbers, the parameters to begin with")
    return start


# The fit, in which the names below are bound to generated functions and to constants.

START: Any = (0.0,)
NANS: Any = (math.nan,)
ENOUGH: float = 1e-14
ITERATIONS: int = 1000


def _linked(*_: Any) -> Any:
    raise NotImplementedError("linked by levenberg_marquardt()")


model = normal = step = moved = dot = weight = diagonal = larger = squares = _linked


def _fit(x: Any, y: Any) -> Any:
    p = START
    if not _has_distinct(x, len(p)):
        return NANS + (math.nan, math.nan, 0.0, 0.0)  # noqa: RUF005
    total, spread = _spread(y)
    error = squares(x, y, p)
    central, converged, used, last = False, False, 0, math.inf
    a, g = normal(x, y, p, FORWARD, central)
    scale = diagonal(a)
    radius = FACTOR * math.sqrt(weight(scale, p))
    if radius == 0.0:
        radius = math.inf
    while used < ITERATIONS:
        used += 1
        whole = step(a, g, scale, 0.0)
        gain = dot(g, whole)
        near = gain <= max(NEAR * error, ROUNDING * total)
        if near and not central:
            central = True
            a, g = normal(x, y, p, CENTRAL, central)
            continue
        if near and (gain <= max(ENOUGH * error, ROUNDING * total) or gain >= last):
            converged = True
            break
        last = gain if near else math.inf
        damping = 0.0 if near else _damping(a, g, scale, radius)
        d = whole if damping == 0.0 else step(a, g, scale, damping)
        length = math.sqrt(weight(scale, d))
        q = moved(p, d)
        trial = squares(x, y, q)
        ratio = (error - trial) / (dot(g, d) + damping * length * length)
        if not ratio > 0.25:
            radius = 0.25 * min(radius, length)
        elif ratio > 0.75 or damping == 0.0:
            radius = 2.0 * length
        if ratio > 1e-4 or (near and trial <= error + NEAR * error):
            p, error = q, trial
            a, g = normal(x, y, p, CENTRAL if central else FORWARD, central)
            scale = larger(scale, diagonal(a))
        elif length <= STUCK * math.sqrt(weight(scale, p)):
            if central:
                break
            central = True
            a, g = normal(x, y, p, CENTRAL, central)
    r2 = 1.0 - error / spread if spread > 0.0 else math.nan
    return p + (r2, error, float(used), 1.0 if converged else 0.0)  # noqa: RUF005


def _has_distinct(x: Any, least: int) -> bool:
    """Whether there are at least so many different values. Sorted ones show it after a few rows."""
    found, highest = 0, -math.inf
    for value in x:
        if value > highest:
            highest = value
            found += 1
            if found == least:
                return True
    passed = -math.inf
    for _ in range(least):
        following = math.inf
        for value in x:
            if passed < value < following:
                following = value
        if following == math.inf:
            return False
        passed = following
    return True


def _damping(a: Any, g: Any, scale: Any, radius: Any) -> Any:
    """The λ whose step is as long as the radius, to a tenth; 0 if the whole step is not longer."""
    d = step(a, g, scale, 0.0)
    if weight(scale, d) <= (1.1 * radius) ** 2:
        return 0.0
    low, high = 0.0, 1.0
    d = step(a, g, scale, high)
    while weight(scale, d) > (1.1 * radius) ** 2 and high < 1e100:
        low, high = high, high * 16.0
        d = step(a, g, scale, high)
    while weight(scale, d) < (0.9 * radius) ** 2 and high > 1e-100:
        middle = math.sqrt(low * high) if low > 0.0 else high / 16.0
        d = step(a, g, scale, middle)
        if weight(scale, d) > (1.1 * radius) ** 2:
            low = middle
            d = step(a, g, scale, high)
            if high <= 1.001 * low:
                break
        else:
            high = middle
    return high


def _squares(x: Any, y: Any, p: Any) -> Any:
    """The sum of squared errors."""
    total = 0.0
    for i in range(len(y)):
        error = y[i] - model(x[i], p)
        total += error * error
    return total


def _spread(y: Any) -> Any:
    """The sum of squares of y, and of its deviations from the mean."""
    mean = 0.0
    for i in range(len(y)):
        mean += y[i]
    mean /= len(y)
    total = spread = 0.0
    for i in range(len(y)):
        total += y[i] * y[i]
        spread += (y[i] - mean) * (y[i] - mean)
    return total, spread


# Text, for k parameters p0 …: JᵀJ is a00, a01, a11 … by rows of its upper half, and Jᵀr is g0 ….


def _functions(k: int) -> list[str]:
    return [_normal(k), _step(k), _moved(k), _dot(k), _weight(k), _diagonal(k), _larger(k)]


def _pairs(k: int) -> list[tuple[int, int]]:
    return list(combinations_with_replacement(range(k), 2))


def _tuple(names: list[str]) -> str:
    return f"({', '.join(names)},)"


def _many(prefix: str, k: int) -> list[str]:
    return [f"{prefix}{j}" for j in range(k)]


def _matrix(k: int) -> list[str]:
    return [f"a{i}_{j}" for i, j in _pairs(k)]


def _function(head: str, lines: list[str]) -> str:
    return f"def {head}:\n    " + "\n    ".join(lines)


def _normal(k: int) -> str:
    """JᵀJ and Jᵀr in one pass over the rows."""
    sums = [*_matrix(k), *_many("g", k)]
    lines = [f"{_tuple(_many('p', k))} = p"]
    for j in range(k):
        lines += [
            f"h{j} = size * abs(p{j}) if p{j} != 0.0 else size",
            f"u{j}, l{j} = p{j} + h{j}, p{j} - h{j}",
            f"w{j} = 1.0 / (u{j} - l{j}) if central else 1.0 / (u{j} - p{j})",
        ]
    lines += [f"{name} = 0.0" for name in sums]
    lines += ["for i in range(len(y)):", "    f = model(x[i], p)", "    r = y[i] - f"]
    for j in range(k):
        upper = _tuple([f"u{j}" if i == j else f"p{i}" for i in range(k)])
        lower = _tuple([f"l{j}" if i == j else f"p{i}" for i in range(k)])
        lines.append(f"    b{j} = model(x[i], {lower}) if central else f")
        lines.append(f"    j{j} = (model(x[i], {upper}) - b{j}) * w{j}")
    lines += [f"    a{i}_{j} += j{i} * j{j}" for i, j in _pairs(k)]
    lines += [f"    g{j} += j{j} * r" for j in range(k)]
    return _function(
        "normal(x, y, p, size, central)",
        [*lines, f"return {_tuple(_matrix(k))}, {_tuple(_many('g', k))}"],
    )


def _step(k: int) -> str:
    """The step for a damping: LDLᵀ of JᵀJ with its diagonal scaled to 1. A direction that nothing depends on is left."""
    lines = [f"{_tuple(_matrix(k))} = a", f"{_tuple(_many('g', k))} = g", f"{_tuple(_many('q', k))} = scale"]
    lines += [f"s{j} = 1.0 / math.sqrt(a{j}_{j}) if a{j}_{j} > 0.0 else 0.0" for j in range(k)]
    for j in range(k):
        for i in range(j, k):
            entry = f"1.0 + damping * q{j} * s{j} * s{j}" if i == j else f"a{j}_{i} * s{i} * s{j}"
            entry += "".join(f" - m{i}_{n} * m{j}_{n} * v{n}" for n in range(j))
            lines.append(f"v{j} = {entry}" if i == j else f"m{i}_{j} = ({entry}) * o{j}")
            if i == j:
                lines.append(f"o{j} = 1.0 / v{j} if v{j} > 1e-15 else 0.0")
    for j in range(k):
        lines.append(f"z{j} = g{j} * s{j}" + "".join(f" - m{j}_{n} * z{n}" for n in range(j)))
    for j in reversed(range(k)):
        lines.append(f"d{j} = z{j} * o{j}" + "".join(f" - m{i}_{j} * d{i}" for i in range(j + 1, k)))
    return _function(
        "step(a, g, scale, damping)", [*lines, f"return {_tuple([f'd{j} * s{j}' for j in range(k)])}"]
    )


def _moved(k: int) -> str:
    return _function("moved(p, d)", [f"return {_tuple([f'p[{j}] + d[{j}]' for j in range(k)])}"])


def _dot(k: int) -> str:
    return _function("dot(a, b)", ["return " + " + ".join(f"a[{j}] * b[{j}]" for j in range(k))])


def _weight(k: int) -> str:
    """δᵀDδ, for a diagonal D."""
    return _function(
        "weight(scale, d)", ["return " + " + ".join(f"scale[{j}] * d[{j}] * d[{j}]" for j in range(k))]
    )


def _diagonal(k: int) -> str:
    places = [place for place, (i, j) in enumerate(_pairs(k)) if i == j]
    return _function("diagonal(a)", [f"return {_tuple([f'a[{place}]' for place in places])}"])


def _larger(k: int) -> str:
    return _function("larger(a, b)", [f"return {_tuple([f'max(a[{j}], b[{j}])' for j in range(k)])}"])
