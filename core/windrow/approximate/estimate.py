# SPDX-License-Identifier: Apache-2.0
"""Results in the middle of their bounds, and how far the true ones may be away."""

from __future__ import annotations

from typing import Any

import numpy as np

from windrow.approximate.bucket import Bucket
from windrow.kernels.slices.bucket_layout import NULL, NUMBER, ROWS, SURE, UNKNOWN, Bounds
from windrow.kernels.slices.layout import Results

__all__ = ["BOUNDS", "with_error"]

ROUNDING = 4.0 * float(np.finfo(np.float64).eps)
"""How much a sum or a mean of floats is rounded at the most, as a share of itself."""
BOUNDS = {"low": np.float64, "high": np.float64, "missing": np.int64, "inside": np.bool_, "state": np.int8}
"""The types of the arrays of :class:`~windrow.kernels.slices.bucket_layout.Bounds`."""


def with_error(bucket: Bucket, results: Results, known: Bounds) -> tuple[Results, Any]:
    """Results in the middle of their bounds, and how far the true ones may be away."""
    error = np.zeros(len(known.low))
    inside = np.flatnonzero(known.inside)
    if not len(inside):
        return results, error
    if bucket.kind == ROWS:
        error[inside] = known.missing[inside]
        return results, error
    state, low, high = known.state[inside], known.low[inside], known.high[inside]
    if bucket.negated:
        low, high = -high, -low
        known.low[inside], known.high[inside] = low, high
    value, off = _middle(low, high, results.out.dtype)
    if bucket.rounded:
        off = np.where(off == 0.0, 0.0, off + ROUNDING * np.maximum(np.abs(low), np.abs(high)))
    off = np.where(state == SURE, 0.0, np.where(np.isnan(off) | (state == UNKNOWN), np.inf, off))
    results.out[inside] = value
    results.ok[inside] = (state == NUMBER) | (state == SURE) | (state == UNKNOWN)
    error[inside] = np.where(state == NULL, 0.0, off)
    return results, error


def _middle(low: Any, high: Any, dtype: np.dtype[Any]) -> tuple[Any, Any]:
    """The value of a type that is nearest to the middle of two bounds, and the distance of the farther one."""
    with np.errstate(all="ignore"):
        middle = np.where(low == high, low, low + (high - low) / 2.0)
        if dtype.kind in "iu":
            limits = np.iinfo(dtype)
            most = np.nextafter(float(limits.max), 0.0) if limits.max > 2**53 else float(limits.max)
            value = np.clip(np.nan_to_num(np.rint(middle)), float(limits.min), most).astype(dtype)
        else:
            value = middle.astype(dtype)
        near = value.astype(np.float64)
        off = np.maximum(np.nextafter(high - near, np.inf), np.nextafter(near - low, np.inf))
        exact = (high - near == near - low) & (high - near == np.rint(high - near)) & (np.abs(high) < 2.0**52)
        off = np.where(exact & (np.abs(low) < 2.0**52), high - near, off)
    return value, np.where(low == high, np.where(near == low, 0.0, off), off)
