# SPDX-License-Identifier: Apache-2.0
"""Approximate quantiles from a handful of sums."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from windrow.aggregates.algebra import Aggregate, Field, Monoid, dtype_of, link
from windrow.aggregates.maximum_entropy import BINOMIALS, ORDER, fitted, position
from windrow.errors import AggregateError


@dataclass(frozen=True)
class MomentSketch(Aggregate):
    """An estimate of the ``q``-quantile, float64, from the range, the count, and the first ``k`` power sums
    of values and logs.

    The partial has ``2k + 3`` numbers whatever the number of rows. The estimate is the quantile of the
    distribution of maximum entropy with those moments; when all values are positive, that of their
    logarithms is fitted too, and the one of lower entropy (nearer the data) decides. For smooth
    distributions the rank of the estimate is off by 0.01 or less, however far from 0 their values are; for
    values on a few points by up to their share. NaN and infinities make it NaN.

    Powers are those of the position in the range, -1 at its low end and 1 at its high end. Where two ranges are
    joined, the sums of both move to the new one. No term of that grows, so little precision is lost.

    Gan, Ding, Tai, Sharan and Bailis, *Moment-Based Quantile Sketches for Efficient High Cardinality
    Aggregation Queries*, VLDB 2018.

    >>> import windrow as wr
    >>> p95 = wr.MomentSketch("latency", q=0.95).bind()
    >>> bool(94 < p95.result(p95.fold([(float(x),) for x in range(101)])) < 96)
    True
    """

    column: str | None = None
    k: int = 10
    q: float = 0.5

    def __post_init__(self) -> None:
        if not isinstance(self.k, int) or not 1 <= self.k <= ORDER:
            raise AggregateError(f"{self.label}: k is {self.k!r}; expected a whole number from 1 to {ORDER}")
        if not isinstance(self.q, int | float) or not 0 <= self.q <= 1:
            raise AggregateError(f"{self.label}: q is {self.q!r}; expected a number from 0 to 1")

    def dense(self, types: Sequence[pa.DataType]) -> Monoid:
        dtype_of(types[0], self)
        number, count = np.dtype(np.float64), np.dtype(np.int64)
        names: dict[str, Any] = {"K": self.k, "Q": float(self.q)}
        for function in (_join, _accumulate):
            names[function.__name__] = link(function, names)
        return Monoid(
            name=self.label,
            fields=(
                Field("low", number),
                Field("high", number),
                Field("n", count),
                Field("powers", number, self.k),
                Field("logs", number, self.k),
            ),
            identity=(math.inf, -math.inf, 0, 0.0, 0.0),
            lift=link(_lift, names),
            combine=link(_combine, names),
            lower=link(_lower, names),
            defined=_some,
            output=pa.float64(),
            inputs=tuple(types),
            add=link(_add, names),
            merge=link(_merge, names),
            tolerance=1e-5,
        )


K, Q = 10, 0.5
NOTHING = (0.0, 0.0, 0.0)

DOUBT = 1e-3
"""Where two fits differ in entropy by about this, the estimate is between theirs: it never jumps."""

NARROW = 1e-9
"""Logarithms in a relative range of this or less are nearly linear, and too coarse for a fit."""


def _lift(x: Any) -> Any:
    x = float(x)
    if math.isfinite(x):
        return x, x, 1, np.zeros(K), np.zeros(K)  # the only position in its range is 0
    return math.inf, -math.inf, 1, np.full(K, math.nan), np.full(K, math.nan)


def _combine(a: Any, b: Any) -> Any:
    if a[2] == 0 or b[2] == 0:
        return b if a[2] == 0 else a
    low, high = min(a[0], b[0]), max(a[1], b[1])
    powers, logs = np.zeros(K), np.zeros(K)
    _join(powers, a[3], _move(a[2], a[0], a[1], low, high), b[3], _move(b[2], b[0], b[1], low, high))
    if low > 0.0:
        _join(
            logs, a[4], _log_move(a[2], a[0], a[1], low, high), b[4], _log_move(b[2], b[0], b[1], low, high)
        )
    return low, high, a[2] + b[2], powers, logs


def _add(parts: Any, i: int, x: Any) -> None:
    x = float(x)
    lows, highs, counts, powers, logs = parts
    low, high, n = lows[i], highs[i], counts[i]
    counts[i] += 1
    if not math.isfinite(x):
        for order in range(K):
            powers[i, order] = logs[i, order] = math.nan
        return
    if x < low or x > high:
        lows[i], highs[i] = min(low, x), max(high, x)
        if n > 0:
            _join(powers[i], powers[i], _move(n, low, high, lows[i], highs[i]), powers[i], NOTHING)
        if n > 0 and lows[i] > 0.0:
            _join(logs[i], logs[i], _log_move(n, low, high, lows[i], highs[i]), logs[i], NOTHING)
    _accumulate(powers[i], x, lows[i], highs[i])
    if lows[i] > 0.0:
        _accumulate(logs[i], math.log(x), math.log(lows[i]), math.log(highs[i]))
    elif low > 0.0:
        for order in range(K):
            logs[i, order] = 0.0


def _merge(dst: Any, i: int, a: Any, j: int, b: Any, k: int) -> None:
    low, high = min(a[0][j], b[0][k]), max(a[1][j], b[1][k])
    n, a_low, a_high = a[2][j], a[0][j], a[1][j]
    m, b_low, b_high = b[2][k], b[0][k], b[1][k]
    dst[0][i], dst[1][i], dst[2][i] = low, high, n + m
    _join(dst[3][i], a[3][j], _move(n, a_low, a_high, low, high), b[3][k], _move(m, b_low, b_high, low, high))
    if low > 0.0:
        a_move, b_move = _log_move(n, a_low, a_high, low, high), _log_move(m, b_low, b_high, low, high)
        _join(dst[4][i], a[4][j], a_move, b[4][k], b_move)
    else:
        for order in range(K):
            dst[4][i, order] = 0.0


def _lower(p: Any) -> float:
    low, high, n, powers, logs = p
    if not math.isfinite(powers[0]) or not math.isfinite(high - low):
        return math.nan
    if low == high or Q == 0.0:
        return low
    if Q == 1.0:
        return high
    if n == 2:
        return low + Q * (high - low)
    estimate = entropy = 0.0
    sums, left, right = powers, low, high
    for logarithmic in range(2):  # one place that calls ``fitted`` compiles in half the time of two
        if logarithmic:
            if low <= 0.0 or math.log(high) - math.log(low) <= NARROW * abs(math.log(high)):
                break
            sums, left, right = logs, math.log(low), math.log(high)
        centre, radius = 0.5 * left + 0.5 * right, 0.5 * right - 0.5 * left
        if radius == 0.0:
            return low
        masses, found = fitted(sums, n, radius)
        x = centre + radius * position(masses, Q)
        if logarithmic:
            x, found = math.exp(x), found + centre + radius * logs[0] / n
            share = 1.0 / (1.0 + math.exp(min(max((found - entropy) / DOUBT, -700.0), 700.0)))
            x = share * x + (1.0 - share) * estimate
        estimate, entropy = x, found
    return float(min(max(estimate, low), high))


def _some(p: Any) -> bool:
    return p[2] > 0


# Positions in a range: u = (x - centre) / radius. In a wider range they are stretch · u + shift, where
# stretch + |shift| ≤ 1.


def _move(n: Any, low: float, high: float, new_low: float, new_high: float) -> Any:
    """How the sums of n values move from one range to another: (n, stretch, shift)."""
    if n == 0:
        return 0.0, 0.0, 0.0
    if low > high:  # none of the values is finite
        return math.nan, math.nan, math.nan
    radius = 0.5 * new_high - 0.5 * new_low
    if radius == 0.0 or (low == new_low and high == new_high):
        return float(n), 1.0, 0.0
    shift = (0.5 * low + 0.5 * high) - (0.5 * new_low + 0.5 * new_high)
    return float(n), (0.5 * high - 0.5 * low) / radius, shift / radius


def _log_move(n: Any, low: float, high: float, new_low: float, new_high: float) -> Any:
    """As :func:`_move`, for the logarithms of positive values."""
    if n == 0 or low > high:
        return _move(n, low, high, new_low, new_high)
    return _move(n, math.log(low), math.log(high), math.log(new_low), math.log(new_high))


def _join(out: Any, a: Any, a_move: Any, b: Any, b_move: Any) -> None:
    """The sums of two partials, each moved. The highest come first, so ``out`` may be ``a`` or ``b``."""
    for order in range(K, 0, -1):
        out[order - 1] = _moved(a, order, a_move) + _moved(b, order, b_move)


def _moved(sums: Any, order: int, move: Any) -> float:
    """Σ(stretch · u + shift)^order, from Σu, Σu², …"""
    total, stretch, shift = move
    if stretch == 1.0 and shift == 0.0:
        return float(sums[order - 1])
    power = 1.0
    for j in range(1, order + 1):
        power *= stretch
        total = total * shift + BINOMIALS[order, j] * power * sums[j - 1]
    return total


def _accumulate(sums: Any, x: float, low: float, high: float) -> None:
    """Add the powers of a value's position in its range."""
    radius = 0.5 * high - 0.5 * low
    if radius > 0.0:
        u, power = (x - (0.5 * low + 0.5 * high)) / radius, 1.0
        for order in range(K):
            power *= u
            sums[order] += power
