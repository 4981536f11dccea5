# SPDX-License-Identifier: Apache-2.0
"""How many slices make a chunk: the two theorems of the boundary aggregator, and the time of a combine, which
the second needs.

Any chunk size gives the right answers. The optimal one lets the ``lcs`` of a finished chunk be ready when the
first window needs it, and lets a window span at most three chunks.

Zhang, Akbarinia and Toumani, *Efficient Incremental Computation of Aggregations over Sliding Windows*,
KDD 2021, section 4.3.
"""

from __future__ import annotations

from math import floor
from time import perf_counter

from windrow.aggregates.algebra import Aggregate, Monoid
from windrow.algorithms import drive
from windrow.algorithms.base import monoid_of
from windrow.errors import WindowError
from windrow.kernels.partials import allocate, slots
from windrow.kernels.specialise import fingerprint, specialise

ROUNDING = 1e-6
"""What a quotient of seconds may lack to be a whole number."""


def chunk_size_count(range: int, slide: int = 1) -> int:
    """The optimal chunk size, in slices, of a count-based window W[range, slide] (Theorem 1).

    >>> chunk_size_count(2**5), chunk_size_count(2**20), chunk_size_count(10, 2)
    (17, 524289, 4)

    A window shorter than its slide has no whole slice; its chunks are of one slice.
    """
    _check(range, slide)
    slices, rest = range // slide, range % slide
    if slices <= slide + rest + 1:
        return max(slices, 1)
    return (slide * (slices + 1) + rest + 1) // (slide + 1)


def chunk_size_time(range: float, slide: float, tu: float) -> int:
    """The optimal chunk size, in slices, of a time-based window W[range, slide] (Theorem 2), all in seconds.

    ``tu`` is the time of one combine, see :func:`measure_tu`. The theorem is taken as it is printed; its
    ``C = slide · (range mod slide) + tu`` is not homogeneous in time, so the unit is part of the definition.

    >>> chunk_size_time(3600, 0.01, tu=5e-9)
    360000
    >>> chunk_size_time(3600, 0.01, tu=1e-3)
    330001
    """
    _check(range, slide)
    if not tu > 0:
        raise WindowError(f"the time of a combine must be positive, got {tu!r}")
    slices = floor(range / slide + ROUNDING)
    rest = range - slices * slide
    c = 0.0 if rest <= ROUNDING * slide else slide * rest + tu
    if slices <= (slide + 2 * tu + c) / tu:
        return max(slices, 1)
    return floor((slices * (slide + tu) + slide + 2 * tu + c) / (slide + 2 * tu) + ROUNDING)


def measure_tu(aggregate: Aggregate | Monoid) -> float:
    """The seconds that one combine takes here, compiled where it can be; measured once per process and
    aggregate.

    >>> import windrow as wr
    >>> 0 < measure_tu(wr.Max()) < 1
    True
    """
    monoid = monoid_of(aggregate)
    token = fingerprint(*slots(monoid).values())
    if token not in _measured:
        _measured[token] = _measure(monoid)
    return _measured[token]


_measured: dict[str, float] = {}


def _measure(monoid: Monoid) -> float:
    combine_often = specialise(drive, slots(monoid), compiled=monoid.typed).combine_often
    parts = allocate(monoid, 1024)
    combine_often(parts, 1)  # compiles
    best, times, spent = float("inf"), 64, 0.0
    while spent < 1e-3:
        times *= 4
        begin = perf_counter()
        combine_often(parts, times)
        spent = perf_counter() - begin
        best = min(best, spent / times)
    return best


def _check(range: float, slide: float) -> None:
    if not (range > 0 and slide > 0):
        raise WindowError(f"range and slide must be positive, got range={range!r}, slide={slide!r}")
