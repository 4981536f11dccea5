# SPDX-License-Identifier: Apache-2.0
"""Whether two results, or two partials, are the same, and how they are shown when they are not."""

from __future__ import annotations

import math
from numbers import Number
from typing import Any

import numpy as np
import pyarrow as pa

__all__ = ["comparable", "same", "shortened"]


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


def comparable(column: pa.Array | pa.ChunkedArray) -> list[Any]:
    """Values that are equal in Python if and only if they are equal in Arrow, null and NaN included.

    >>> comparable(pa.array([1, 2], pa.time64("ns"))), comparable(pa.array([0.5, float("nan"), None]))
    ([1, 2], [0.5, 'NaN', None])
    """
    type_ = column.type
    if isinstance(type_, pa.BaseExtensionType):
        return comparable(column.cast(type_.storage_type))
    if pa.types.is_dictionary(type_):
        return comparable(column.cast(type_.value_type))
    if pa.types.is_temporal(type_) and type_ != pa.month_day_nano_interval():
        column = column.cast(pa.int32() if type_.bit_width == 32 else pa.int64())
    return ["NaN" if value != value else value for value in column.to_pylist()]


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
