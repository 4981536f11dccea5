# SPDX-License-Identifier: Apache-2.0
"""What is promised of each aggregate, as kernels read it, and what cannot be promised."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from windrow.aggregates.algebra import Monoid
from windrow.approximate.bucket import Bucket
from windrow.approximate.prediction import normal_quantile
from windrow.approximate.within import AtMost, Within
from windrow.errors import QueryError
from windrow.kernels.slices.bucket_layout import AVERAGE, BLOCKS, ROWS, Promise, Rest

__all__ = ["check_promise", "no_rest", "promise_of"]


def check_promise(
    name: str, bucket: Bucket, monoid: Monoid, within: Within | AtMost, *, counting: bool
) -> None:
    """An error if this cannot be promised of an aggregate. ``counting`` says that the number of rows of windows is known."""
    if not isinstance(within, Within):
        return
    if within.rows is None and bucket.kind == ROWS:
        raise QueryError(
            f"aggregate {name!r}: the error of {monoid.name} over {', '.join(map(str, monoid.inputs))} "
            "cannot be bounded by value; use Within(rows=…), which bounds the number of missing rows, or AtMost(leaves=…)"
        )
    if within.absolute is not None and bucket.kind == AVERAGE and not counting:
        raise QueryError(
            f"aggregate {name!r}: a mean over an unknown number of rows has no certain absolute error, because "
            "later values may have any size; use Within(relative=…), or compute Sum and Count"
        )


def promise_of(
    within: Within | AtMost, buckets: Sequence[Bucket], *, counting: bool, searched: bool = False
) -> Promise:
    """What is promised of each aggregate. See :class:`~windrow.kernels.slices.bucket_layout.Promise`."""

    def each(name: str) -> Any:
        value = getattr(within, name, None)
        return np.full(len(buckets), np.nan if value is None else float(value))

    confidence = getattr(within, "confidence", None) or 0.0
    return Promise(
        kind=np.array([bucket.kind for bucket in buckets], dtype=np.int64),
        whole=np.array([bucket.whole for bucket in buckets], dtype=np.bool_),
        relative=each("relative"),
        absolute=each("absolute"),
        rows=each("rows"),
        counting=counting,
        searched=searched,
        confidence=float(confidence),
        z=normal_quantile(confidence) if confidence else 0.0,
    )


def no_rest(count: int) -> Rest:
    """Room for what follows a bucket, for so many aggregates. Nothing is expected yet."""
    return Rest(
        low=np.zeros(count), high=np.zeros(count), smallest=np.zeros(count), largest=np.zeros(count),
        n=np.zeros(count, dtype=np.int64), expected=np.full(count, np.nan), expected_rows=np.full(count, np.nan),
        maxima=np.zeros(BLOCKS),
    )  # fmt: skip
