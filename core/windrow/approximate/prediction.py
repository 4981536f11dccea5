# SPDX-License-Identifier: Apache-2.0
"""What later results will be, as far as recent ones tell: intervals for sums, extremes and evictions.

The predictors are those of A²MTA (Villalba, doctoral thesis, UPC 2019, chapter 5), corrected in three places. The sample
of results is three moments, not all results. The k-th eviction ahead varies more than the first. A window of m blocks
has the largest of m block maxima, so its quantile p is their quantile p^(1/m).

A prediction decides how much memory is used. It never decides what an error is.

All functions but :func:`normal_quantile` are in the subset that numba compiles.

>>> z = normal_quantile(0.95)
>>> sample = NO_RESULTS
>>> for result in range(100, 140):
...     sample = with_result(sample, float(result))
>>> low, high = result_interval(sample, z)
>>> round(low, 2), round(high, 2), round(smallest_magnitude(low, high), 2)
(95.56, 143.44, 95.56)
"""

from __future__ import annotations

import math
from statistics import NormalDist
from typing import Any

__all__ = [
    "FEWEST",
    "NO_RESULTS",
    "Sample",
    "combined",
    "extreme_interval",
    "gev_fit",
    "gev_quantile",
    "hop_interval",
    "normal_quantile",
    "result_interval",
    "smallest_magnitude",
    "student_t",
    "with_result",
]

FEWEST = 30
"""A sample of fewer values predicts nothing."""

Sample = tuple[int, float, float]
"""How many values, their mean, and the sum of squared distances from it."""

NO_RESULTS: Sample = (0, 0.0, 0.0)


def with_result(sample: Sample, value: float) -> Sample:
    """A sample with one more value (Welford 1962)."""
    n = sample[0] + 1
    off = value - sample[1]
    mean = sample[1] + off / n
    return n, mean, sample[2] + off * (value - mean)


def combined(a: Sample, b: Sample) -> Sample:
    """Two samples as one (Chan, Golub and LeVeque 1979)."""
    n = a[0] + b[0]
    if n == 0:
        return 0, 0.0, 0.0
    off = b[1] - a[1]
    return n, a[1] + off * b[0] / n, a[2] + b[2] + off * off * a[0] * b[0] / n


def normal_quantile(confidence: float) -> float:
    """The z for which a standard normal value lies between -z and z with this probability."""
    return NormalDist().inv_cdf((1.0 + confidence) / 2.0)


def student_t(z: float, freedom: float) -> float:
    """The quantile of Student's t at which the normal quantile is z, for 29 degrees of freedom or more.

    It is Fisher's series (Abramowitz and Stegun, 26.7.5), which is within 1e-6 there.

    >>> round(student_t(normal_quantile(0.95), 29), 4), round(student_t(normal_quantile(0.99), 120), 4)
    (2.0452, 2.6174)
    """
    u = z * z
    first = (u + 1.0) / 4.0
    second = ((5.0 * u + 16.0) * u + 3.0) / 96.0
    third = (((3.0 * u + 19.0) * u + 17.0) * u - 15.0) / 384.0
    fourth = ((((79.0 * u + 776.0) * u + 1482.0) * u - 1920.0) * u - 945.0) / 92160.0
    return z * (1.0 + (first + (second + (third + fourth / freedom) / freedom) / freedom) / freedom)


def result_interval(sample: Sample, z: float) -> tuple[float, float]:
    """Where the next result lies: the mean ± t·s·√(1 + 1/n). The sample has at least :data:`FEWEST` results."""
    return hop_interval(sample, 1, z)


def hop_interval(sample: Sample, ahead: int, z: float) -> tuple[float, float]:
    """Where the sum of the next ``ahead`` values lies: k·mean ± t·s·√(k·(1 + k/n)).

    Of eviction sizes, this is where the k-th eviction from now ends. The sample has at least :data:`FEWEST` values.

    >>> hop_interval((30, 6.0, 0.0), 4, 1.96)
    (24.0, 24.0)
    """
    n, mean, squares = sample
    deviation = math.sqrt(max(squares, 0.0) / (n - 1))
    reach = student_t(z, n - 1.0) * deviation * math.sqrt(ahead * (1.0 + ahead / n))
    return ahead * mean - reach, ahead * mean + reach


def smallest_magnitude(low: float, high: float) -> float:
    """The smallest |r| in an interval: what a relative error has to be small against.

    >>> smallest_magnitude(-3.0, -2.0), smallest_magnitude(-1.0, 5.0)
    (2.0, 0.0)
    """
    return max(low, -high, 0.0)


def gev_fit(maxima: Any) -> tuple[float, float, float]:
    """Location, scale and shape of the generalised extreme value distribution of block maxima, sorted upwards.

    By probability-weighted moments (Hosking, Wallis and Wood 1985). The shape is Hosking's k: it is negative if large
    values have a heavy tail, and positive if there is a largest one. Equal maxima have scale 0.

    >>> import numpy as np
    >>> uniform = (np.arange(1, 3001) - 0.5) / 3000
    >>> location, scale, shape = gev_fit((10.0 - 2.0 * np.log(-np.log(uniform))).tolist())
    >>> round(location, 1), round(scale, 1), abs(round(shape, 1))
    (10.0, 2.0, 0.0)
    """
    n = len(maxima)
    b0 = b1 = b2 = 0.0
    for j in range(n):
        b0 += maxima[j] / n
        b1 += maxima[j] * j / (n * (n - 1.0))
        b2 += maxima[j] * j * (j - 1.0) / (n * (n - 1.0) * (n - 2.0))
    spread = 2.0 * b1 - b0
    if spread <= 1e-12 * abs(b0) or 3.0 * b2 - b0 <= 0.0:
        return b0, 0.0, 0.0
    c = spread / (3.0 * b2 - b0) - math.log(2.0) / math.log(3.0)
    shape = 7.8590 * c + 2.9554 * c * c
    if abs(shape) < 1e-6:
        scale = spread / math.log(2.0)
        return b0 - 0.5772156649015329 * scale, scale, 0.0
    gamma = math.gamma(1.0 + shape)
    scale = spread * shape / (gamma * (1.0 - 2.0**-shape))
    return b0 + scale * (gamma - 1.0) / shape, scale, shape


def gev_quantile(fit: tuple[float, float, float], p: float) -> float:
    """The quantile p of a fitted distribution.

    >>> gev_quantile((5.0, 0.0, 0.0), 0.3), round(gev_quantile((0.0, 1.0, 0.0), 0.5), 4)
    (5.0, 0.3665)
    """
    location, scale, shape = fit
    reduced = -math.log(p)
    if shape == 0.0:
        return location - scale * math.log(reduced)
    return location + scale * (1.0 - reduced**shape) / shape


def extreme_interval(maxima: Any, blocks: float, confidence: float) -> tuple[float, float]:
    """Where the maximum of a window of so many blocks lies, from sorted maxima of at least :data:`FEWEST` blocks.

    A value above it starts a bucket as well as a value inside: it is a maximum that was not predicted.

    >>> import numpy as np
    >>> low, high = extreme_interval(np.linspace(50.0, 60.0, 30).tolist(), 30.0, 0.95)
    >>> low > 58.0, high >= 60.0
    (True, True)
    """
    fit = gev_fit(maxima)
    beside = (1.0 - confidence) / 2.0
    return gev_quantile(fit, beside ** (1.0 / blocks)), gev_quantile(fit, (1.0 - beside) ** (1.0 / blocks))
