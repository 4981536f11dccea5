# SPDX-License-Identifier: Apache-2.0
"""The flattest distribution that has given moments, and its quantiles.

Among all densities on [-1, 1] with Chebyshev moments μ₁ … μₖ, the one of maximum entropy is exp(Σ λᵢTᵢ(u))
/ Z. Its λ minimise the convex function log Z(λ) - λ·μ, here by damped Newton steps on a grid of cells that
are finest at the ends. A little ridge (ε/2 · λ²) gives every moment sequence, also that of two points, a
solution which depends smoothly on it.

Everything is written in the subset that numba compiles.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

ORDER = 15
"""The largest number of moments that are used."""

CELLS = 128
RIDGE = 1e-5
FLOOR = 1e-4
"""The share of a uniform distribution that is mixed in, so that no cell is empty."""

_angles = np.linspace(np.pi, 0.0, 2 * CELLS + 1)
EDGES = np.cos(_angles[::2])
WIDTHS = np.diff(EDGES)
CHEBYSHEV = np.cos(np.outer(np.arange(2 * ORDER + 1), _angles[1::2]))
"""T₀ … T₂ₖ at the middles of the cells."""

COEFFICIENTS = np.array(
    [np.pad(np.polynomial.chebyshev.cheb2poly([0.0] * i + [1.0]), (0, ORDER - i)) for i in range(ORDER + 1)]
)
BINOMIALS = np.array([[float(math.comb(i, j)) for j in range(ORDER + 1)] for i in range(ORDER + 1)])


def fitted(sums: Any, n: Any, radius: float) -> Any:
    """The masses of the cells of [-1, 1], from the power sums Σu, Σu², … of n values in it, and the entropy of
    the values ``radius`` · u.

    All Newton steps are in this function, because each level of calls is compiled once more with its caller,
    and an aggregate's ``lower`` has many levels already.
    """
    mu = _chebyshev_moments(sums, n)
    k = mu.shape[0]
    weights, step, gradient, moments = np.zeros(k), np.zeros(k), np.zeros(k), np.zeros(2 * k + 1)
    masses = np.zeros(CELLS)
    log_z = _fill(masses, weights, step, 0.0)
    goal = log_z
    for _ in range(100):
        for i in range(2 * k + 1):
            moments[i] = (CHEBYSHEV[i] * masses).sum()
        worst = 0.0
        for i in range(k):
            gradient[i] = moments[i + 1] - mu[i] + RIDGE * weights[i]
            worst = max(worst, abs(gradient[i]))
        if worst < 1e-10:
            break
        _newton_step(moments, gradient, step)
        slope = _dot(gradient, step, k)
        length, reached = 2.0, math.inf
        while reached > goal - 1e-4 * length * slope and length > 1e-9:
            length *= 0.5
            log_z = _fill(masses, weights, step, length)
            reached = log_z
            for i in range(k):
                tried = weights[i] - length * step[i]
                reached += (0.5 * RIDGE * tried - mu[i]) * tried
        improved = goal - reached
        goal = reached
        for i in range(k):
            weights[i] -= length * step[i]
        if improved <= 1e-15 * max(1.0, abs(goal)):
            break
    entropy = log_z + math.log(radius)
    for i in range(k):
        entropy -= weights[i] * (CHEBYSHEV[i + 1] * masses).sum()
    return masses, entropy


def position(masses: Any, q: float) -> float:
    """The q-quantile of the cells, as a point of [-1, 1]."""
    below = 0.0
    for cell in range(CELLS):
        mass = (1.0 - FLOOR) * masses[cell] + FLOOR * 0.5 * WIDTHS[cell]
        if below + mass >= q:
            return EDGES[cell] + WIDTHS[cell] * (q - below) / mass
        below += mass
    return 1.0


def _chebyshev_moments(sums: Any, n: Any) -> Any:
    k = sums.shape[0]
    mu = np.zeros(k)
    for i in range(k):
        mu[i] = COEFFICIENTS[i + 1, 0]
        for j in range(1, i + 2):
            mu[i] += COEFFICIENTS[i + 1, j] * (sums[j - 1] / n)
        mu[i] = min(max(mu[i], -1.0), 1.0)
    return mu


def _fill(masses: Any, weights: Any, step: Any, length: float) -> float:
    """The masses of the cells for ``weights - length * step``; returns log Z."""
    masses[:] = 0.0
    for i in range(weights.shape[0]):
        masses += (weights[i] - length * step[i]) * CHEBYSHEV[i + 1]
    largest = -math.inf
    for mass in masses:
        largest = max(largest, mass)
    masses -= largest
    np.exp(masses, masses)  # in place: numba compiles that quickly, and a slice assignment slowly
    masses *= WIDTHS
    total = masses.sum()
    masses /= total
    return largest + math.log(total)


def _dot(a: Any, b: Any, length: int) -> float:
    total = 0.0
    for i in range(length):
        total += a[i] * b[i]
    return total


def _newton_step(moments: Any, gradient: Any, step: Any) -> None:
    """Solve H · step = gradient by Cholesky; H is the covariance of the polynomials, plus the ridge."""
    k = gradient.shape[0]
    factor = np.zeros((k, k))
    for i in range(k):
        for j in range(i + 1):
            value = 0.5 * (moments[i + j + 2] + moments[i - j]) - moments[i + 1] * moments[j + 1]
            if i == j:
                value += RIDGE
            value -= _dot(factor[i], factor[j], j)
            factor[i, j] = math.sqrt(max(value, 1e-14)) if i == j else value / factor[j, j]
        step[i] = (gradient[i] - _dot(factor[i], step, i)) / factor[i, i]
    for i in range(k - 1, -1, -1):
        for j in range(i + 1, k):
            step[i] -= factor[j, i] * step[j]
        step[i] /= factor[i, i]
