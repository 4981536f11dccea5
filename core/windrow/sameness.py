"""Are two results, or two partials, the same? And how are they shown when they are not?"""

from __future__ import annotations

import math
from numbers import Number
from typing import Any

import numpy as np

__all__ = ["same", "shortened"]


def same(x: Any, y: Any, tolerance: float = 0.0, scale: float = 0.0) -> bool:
    """Equal, NaN included; floats may differ by ``tolerance`` times the largest of both and ``scale``.

    >>> same((1, [float("nan")]), (1, [float("nan")])), same(1.0, 1.0 + 1e-12), same(1.0, 1.0 + 1e-12, 1e-9)
    (True, False, True)
    """
    if isinstance(x, np.ndarray) or isinstance(y, np.ndarray):
        if np.shape(x) != np.shape(y):
            return False
        pairs = zip(np.ravel(x).tolist(), np.ravel(y).tolist(), strict=True)
        return bool(np.array_equal(x, y)) or all(same(a, b, tolerance, scale) for a, b in pairs)
    if isinstance(x, Number) and isinstance(y, Number):
        if x == y or (x != x and y != y):
            return True
        if not tolerance or not (math.isfinite(x) and math.isfinite(y)):  # type: ignore[arg-type]
            return False
        return float(abs(x - y)) <= tolerance * float(max(abs(x), abs(y), scale))  # type: ignore[operator, arg-type]
    if isinstance(x, tuple | list) and isinstance(y, tuple | list):
        return len(x) == len(y) and all(same(a, b, tolerance, scale) for a, b in zip(x, y, strict=True))
    if isinstance(x, dict) and isinstance(y, dict):
        return x.keys() == y.keys() and all(same(x[key], y[key], tolerance, scale) for key in x)
    return bool(x == y)


def shortened(value: Any, limit: int = 100) -> str:
    """How a value is shown in a message."""
    if isinstance(value, tuple):
        text = (
            "("
            + ", ".join(shortened(entry, limit) for entry in value)
            + ("," if len(value) == 1 else "")
            + ")"
        )
    else:
        text = repr(value.item() if isinstance(value, np.generic) else value)
    return text if len(text) <= limit else text[: limit - 1] + "…"
