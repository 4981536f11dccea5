# SPDX-License-Identifier: Apache-2.0
"""Approximate quantiles whose error is one of ranks, whatever the values are."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from windrow.aggregates.algebra import Aggregate, Field, Monoid, dtype_of, link
from windrow.aggregates.hashing import hash_float, hash_signed
from windrow.errors import AggregateError

LEVELS = 40
"""A value of level h stands for 2 ** h rows, so this many levels hold more rows than there will ever be."""

SHRINK = 2.0 / 3.0
"""The capacity of a level, as a share of the one above it: the paper's constant."""


@dataclass(frozen=True)
class KLL(Aggregate):
    """A value of the window whose rank is near that of the ``q``-quantile, float64; with several ``q``, a list of such values.

    The partial has room for ``3 * k + 40`` values whatever the number of rows: 5 KB for the default ``k``. As long as
    they have room, the result is exact: the smallest value that at least a share ``q`` of the rows does not exceed, which
    is SQL's ``percentile_disc``. Beyond, the rank of 99 of 100 results is off by no more than :attr:`rank_error`, which
    is 1 % of the rows for the default ``k``. That holds for every distribution of the values and every order of the
    rows, unless somebody chooses the values so that it does not. The smallest and the largest value are always exact.

    When there is no room, a level of values is sorted, and every other one goes up to the next level, where it counts
    twice. A hash of the number of rows and of the values decides which ones go. Nothing is random: the same rows,
    grouped in the same way, always give the same result. With more rows than there is room for, the result does depend on
    their order and on how they are grouped into partials, within twice the error: the sketch can be merged in any order,
    but merging is not exactly associative.

    Nulls are ignored. Infinities are values like others. NaN makes the result NaN. Integers beyond 2 ** 53 are rounded.

    Karnin, Lang and Liberty, *Optimal Quantile Approximation in Streams*, FOCS 2016.

    >>> import windrow as wr
    >>> tails = wr.KLL("latency", q=(0.5, 0.99)).bind()
    >>> tails.result(tails.fold([(float(x),) for x in range(1, 101)]))
    [50.0, 99.0]
    """

    column: str | None = None
    q: float | tuple[float, ...] = 0.5
    k: int = 200

    def __post_init__(self) -> None:
        if not isinstance(self.k, int) or not 8 <= self.k <= 4096:
            raise AggregateError(f"{self.label}: k is {self.k!r}; expected a whole number from 8 to 4096")
        if isinstance(self.q, list):
            object.__setattr__(self, "q", tuple(self.q))
        asked = self.q if isinstance(self.q, tuple) else (self.q,)
        if not asked or not all(_is_share(q) for q in asked):
            raise AggregateError(
                f"{self.label}: q is {self.q!r}; expected a number from 0 to 1, or a list of such numbers"
            )

    @property
    def rank_error(self) -> float:
        """By how much the rank of a result is off at most, in 99 of 100 results, as a share of the rows. It is measured.

        >>> import windrow as wr
        >>> wr.KLL("latency").rank_error, wr.KLL("latency", k=800).rank_error
        (0.01, 0.0025)
        """
        return 2.0 / self.k

    def dense(self, types: Sequence[pa.DataType]) -> Monoid:
        dtype_of(types[0], self)
        number, several = np.dtype(np.float64), isinstance(self.q, tuple)
        names: dict[str, Any] = {"SPACE": 3 * self.k + LEVELS, "CAPACITY": _capacities(self.k)}
        names["Q"] = np.array(self.q if several else [self.q], dtype=number)
        for function in (_compact, _squeeze, _add, _merge, _quantiles):
            names[function.__name__] = link(function, names)
        return Monoid(
            name=self.label,
            fields=(
                Field("low", number),
                Field("high", number),
                Field("n", np.dtype(np.int64)),
                Field("sizes", np.dtype(np.uint16), LEVELS),
                Field("values", number, names["SPACE"]),
            ),
            identity=(math.inf, -math.inf, 0, 0, 0.0),
            lift=link(_lift, names),
            combine=link(_combine, names),
            lower=link(_lower_all if several else _lower, names),
            defined=_some,
            output=pa.list_(pa.float64()) if several else pa.float64(),
            inputs=tuple(types),
            add=names["_add"],
            merge=names["_merge"],
            tolerance=2.0 * self.rank_error,  # of ranks: one result above the true one, another below
        )


def _is_share(q: Any) -> bool:
    return isinstance(q, int | float) and not isinstance(q, bool) and 0 <= q <= 1


def _capacities(k: int) -> Any:
    """How many values a level may keep when there is no room, from the top level down."""
    return np.array([max(1, math.floor(k * SHRINK**depth)) for depth in range(LEVELS)], dtype=np.int64)


GAPS = np.array([4193, 1750, 701, 301, 132, 57, 23, 10, 4, 1], dtype=np.int64)
"""Those of Ciura, 2001."""

SPACE = 640
CAPACITY = _capacities(200)
Q = np.array([0.5])

# Values lie side by side, those of the highest level first, so that a row is added at the end. ``sizes`` has how many
# there are of each level, from level 0 on. No level is in order; a level is sorted when it is compacted. Loops take the place
# of slices, because they compile faster.


def _add(parts: Any, i: int, x: Any) -> None:
    x = float(x) + 0.0  # one zero
    lows, highs, counts, sizes, values = parts
    counts[i] += 1
    lows[i], highs[i] = _lowest(lows[i], x), _highest(highs[i], x)
    if x != x:
        return
    used = 0
    for level in range(LEVELS):
        used += int(sizes[i, level])
    if used > SPACE:  # not what was written: stored state has been changed
        for level in range(LEVELS):
            sizes[i, level] = 0
        used = 0
    if used == SPACE:
        used = _squeeze(sizes[i], values[i], used, SPACE - 1, counts[i])
    values[i, used] = x
    sizes[i, 0] += 1


def _merge(dst: Any, i: int, a: Any, j: int, b: Any, k: int) -> None:
    n = a[2][j] + b[2][k]
    dst[0][i], dst[1][i], dst[2][i] = _lowest(a[0][j], b[0][k]), _highest(a[1][j], b[1][k]), n
    sizes, values = np.zeros(LEVELS, dtype=np.uint16), np.zeros(2 * SPACE)
    used = a_used = b_used = 0
    for level in range(LEVELS - 1, -1, -1):
        a_size = min(int(a[3][j, level]), SPACE - a_used)
        b_size = min(int(b[3][k, level]), SPACE - b_used)
        sizes[level] = a_size + b_size
        for _ in range(a_size):
            values[used] = a[4][j, a_used]
            used, a_used = used + 1, a_used + 1
        for _ in range(b_size):
            values[used] = b[4][k, b_used]
            used, b_used = used + 1, b_used + 1
    _squeeze(sizes, values, used, SPACE, n)
    for level in range(LEVELS):
        dst[3][i, level] = sizes[level]
    for place in range(SPACE):
        dst[4][i, place] = values[place]


def _squeeze(sizes: Any, values: Any, used: int, room: int, n: Any) -> int:
    """Compact levels until no more than ``room`` values are left; how many they are."""
    while used > room:
        top = LEVELS - 1
        while sizes[top] == 0:
            top -= 1
        level = 0
        while sizes[level] <= CAPACITY[top - level]:
            level += 1
        used = _compact(sizes, values, used, level, n)
    return used


def _compact(sizes: Any, values: Any, used: int, level: int, n: Any) -> int:
    """Half of the values of a level go up to the next one; one stays, if their number is odd."""
    begin = 0
    for above in range(level + 1, LEVELS):
        begin += int(sizes[above])
    size = int(sizes[level])
    end, half, odd = begin + size, size // 2, size % 2
    _sort(values, values[:0], begin, end)
    coin = _coin(values[begin], values[end - 1], n, level)
    stays = values[end - 1]
    for place in range(half):
        values[begin + place] = values[begin + 2 * place + coin]
    if odd:
        values[begin + half] = stays
    sizes[level] = odd
    sizes[min(level + 1, LEVELS - 1)] += half
    for place in range(end, used):
        values[place - half] = values[place]
    for place in range(used - half, used):
        values[place] = 0.0  # equal partials have equal bytes
    return used - half


def _sort(values: Any, weights: Any, begin: int, end: int) -> None:
    """Sort some values, and their weights with them, if they have any.

    This is Shell's sort. Numpy's takes ten times as long to compile, and is no faster for so few values.
    """
    weighted = len(weights) > 0
    for gap in GAPS:
        for place in range(begin + gap, end):
            value, weight = values[place], weights[place] if weighted else 0.0
            hole = place
            while hole - gap >= begin and values[hole - gap] > value:
                values[hole] = values[hole - gap]
                if weighted:
                    weights[hole] = weights[hole - gap]
                hole -= gap
            values[hole] = value
            if weighted:
                weights[hole] = weight


def _coin(low: Any, high: Any, n: Any, level: int) -> int:
    """0 or 1: a hash of the smallest and the largest of the values, of the level and of the number of rows."""
    return int((hash_float(low) ^ hash_float(high) ^ hash_signed(n * LEVELS + level)) >> 63)


def _lift(x: Any) -> Any:
    x = float(x) + 0.0
    sizes, values = np.zeros(LEVELS, dtype=np.uint16), np.zeros(SPACE)
    if x == x:
        sizes[0], values[0] = 1, x
    return x, x, 1, sizes, values


def _combine(a: Any, b: Any) -> Any:
    if a[2] == 0 or b[2] == 0:
        return b if a[2] == 0 else a
    low, high, n = np.empty(3), np.empty(3), np.zeros(3, dtype=np.int64)
    sizes, values = np.zeros((3, LEVELS), dtype=np.uint16), np.zeros((3, SPACE))
    parts = (low, high, n, sizes, values)
    low[0], high[0], n[0], sizes[0], values[0] = a[0], a[1], a[2], a[3], a[4]
    low[1], high[1], n[1], sizes[1], values[1] = b[0], b[1], b[2], b[3], b[4]
    _merge(parts, 2, parts, 0, parts, 1)
    return float(low[2]), float(high[2]), int(n[2]), sizes[2], values[2]


def _lower(p: Any) -> float:
    return float(_quantiles(p)[0])


def _lower_all(p: Any) -> list[float]:
    return [float(x) for x in _quantiles(p)]


def _quantiles(p: Any) -> Any:
    low, high, n, sizes, values = p
    found = np.full(len(Q), math.nan)
    if low != low:
        return found
    used = 0
    weights = np.empty(SPACE)
    for level in range(LEVELS - 1, -1, -1):
        size = min(int(sizes[level]), SPACE - used)
        for _ in range(size):
            weights[used] = 2.0**level
            used += 1
    ascending = values.copy()
    _sort(ascending, weights, 0, used)
    for place in range(len(Q)):
        ranked = 0.0
        found[place] = high
        for item in range(used):
            ranked += weights[item]
            if ranked >= Q[place] * n:
                found[place] = ascending[item]
                break
        if Q[place] == 0.0:
            found[place] = low
        if Q[place] == 1.0:
            found[place] = high
    return found


def _some(p: Any) -> bool:
    return p[2] > 0


def _lowest(a: Any, b: Any) -> float:
    if a != a or b != b:
        return math.nan
    return a if a < b else b


def _highest(a: Any, b: Any) -> float:
    if a != a or b != b:
        return math.nan
    return a if a > b else b
