"""The error of a bucket: how far a sum may be off if a window begins inside the bucket.

A bucket holds the sum of neighbouring updates and is evicted whole. Kept too long, it adds updates that should be gone:
its oldest ones, without the newest. Evicted too soon, it takes updates away that should be there: its newest ones,
without the oldest. The larger of both errors counts (Villalba, doctoral thesis, UPC 2019, section 5.3.1). Both are
known in O(1) for each update.

A bucket is the tuple ``(updates, total, kept, high, low)``. All functions are in the subset that numba compiles.

>>> bucket = EMPTY
>>> for update in (1.0, 1.0, -1.0, -1.0):
...     bucket = extended(bucket, update)
>>> total(bucket), kept_too_long(bucket), gone_too_soon(bucket), error(bucket)
(0.0, 2.0, 2.0, 2.0)
"""

from __future__ import annotations

__all__ = ["EMPTY", "Bucket", "error", "extended", "gone_too_soon", "kept_too_long", "total"]

Bucket = tuple[int, float, float, float, float]
"""How many updates; their sum; the largest |sum| of oldest ones; the highest and lowest sum of newest ones."""

EMPTY: Bucket = (0, 0.0, 0.0, 0.0, 0.0)


def extended(bucket: Bucket, update: float) -> Bucket:
    """The bucket with one more update at its end."""
    updates, before, kept, high, low = bucket
    if updates == 0:
        return 1, update, 0.0, 0.0, 0.0
    kept = max(kept, abs(before))
    if updates == 1:  # no sum of newest updates begins at the first one
        return 2, before + update, kept, update, update
    return updates + 1, before + update, kept, max(update, high + update), min(update, low + update)


def total(bucket: Bucket) -> float:
    """The sum of all updates."""
    return bucket[1]


def kept_too_long(bucket: Bucket) -> float:
    """The false-positive error: the largest |sum| of oldest updates, without the newest one."""
    return bucket[2]


def gone_too_soon(bucket: Bucket) -> float:
    """The false-negative error: the largest |sum| of newest updates, without the oldest one."""
    return max(abs(bucket[3]), abs(bucket[4]))


def error(bucket: Bucket) -> float:
    """The error of the bucket: the larger one of both."""
    return max(kept_too_long(bucket), gone_too_soon(bucket))
