# SPDX-License-Identifier: Apache-2.0
"""Floats that are rounded to one side, so that a bound stays a bound; and extremes that NaN wins."""

from __future__ import annotations

from typing import Any

import numpy as np

WHOLE = 9007199254740992.0
"""Every whole number up to here, 2⁵³, is a float."""


def down(a: float, b: float) -> float:
    """The largest float that is not above a + b, or the one before it. An exact sum stays exact."""
    s = a + b
    t = s - a
    e = (a - (s - t)) + (b - t)
    return np.nextafter(s, -np.inf) if e < 0.0 else s


def up(a: float, b: float) -> float:
    """The smallest float that is not below a + b, or the one after it. An exact sum stays exact."""
    s = a + b
    t = s - a
    e = (a - (s - t)) + (b - t)
    return np.nextafter(s, np.inf) if e > 0.0 else s


def below(x: Any) -> float:
    """A float that is not above a whole number; the number itself, if it is small."""
    f = float(x)
    return f if not abs(f) > WHOLE else np.nextafter(f, -np.inf)


def above(x: Any) -> float:
    """A float that is not below a whole number; the number itself, if it is small."""
    f = float(x)
    return f if not abs(f) > WHOLE else np.nextafter(f, np.inf)


def smaller(a: float, b: float) -> float:
    """The smaller one; NaN if one is NaN."""
    return a if a < b or a != a else b


def larger(a: float, b: float) -> float:
    """The larger one; NaN if one is NaN."""
    return a if a > b or a != a else b
