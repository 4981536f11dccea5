# SPDX-License-Identifier: Apache-2.0
"""Which bucket a key belongs to: the same in every process, and spread evenly over Flink's key groups.

A bucket is a group of keys, and Flink sees it as one key. So there are few states instead of many. Each state costs a
crossing into Python.
"""

from __future__ import annotations

import zlib
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

import windrow  # noqa: F401  # whole, before its parts: see the package
from windrow.columns.encoding import encode_value
from windrow.errors import QueryError
from windrow.operator.keys import Keys
from windrow.query.query import Query

BUCKETS = 8
KEY_GROUPS = 128
"""The maximum parallelism of windrow's operators; fixed, so that a savepoint fits every parallelism up to it."""
REMEMBERED = 1 << 20


def checked(buckets: int | None, query: Query) -> int:
    """How many buckets a query has: one without keys, else what the user asked for."""
    if not query.by:
        return 1
    if buckets is None:
        return BUCKETS
    if isinstance(buckets, bool) or not isinstance(buckets, int) or not 1 <= buckets <= KEY_GROUPS:
        raise QueryError(f"buckets has to be a whole number from 1 to {KEY_GROUPS}, not {buckets!r}")
    return buckets


class Buckets:
    """Finds the Flink key of rows: one whole number per bucket.

    >>> buckets = Buckets([0, 1, 2])
    >>> buckets.of(("plug 7",)) == buckets.of(("plug 7",))
    True
    """

    def __init__(self, flink_keys: list[int]) -> None:
        self.flink_keys = flink_keys
        self._known: dict[tuple[Any, ...], int] = {}

    def __reduce__(self) -> tuple[type[Buckets], tuple[list[int]]]:
        return Buckets, (self.flink_keys,)

    def of(self, key: tuple[Any, ...]) -> int:
        """The Flink key for a key of the query."""
        for value in key:
            if getattr(
                value, "fold", 0
            ):  # Python takes both times of a repeated hour for equal; they are two keys
                return self._found(key)
        found = self._known.get(key)
        if found is None:
            if len(self._known) >= REMEMBERED:
                self._known.clear()
            found = self._known[key] = self._found(key)
        return found

    def _found(self, key: tuple[Any, ...]) -> int:
        return self.flink_keys[zlib.crc32(_encoded(key)) % len(self.flink_keys)]

    def split(self, data: pa.Table, by: tuple[str, ...]) -> list[tuple[int, pa.Table]]:
        """The rows of each bucket, in their order; buckets without rows are left out."""
        if len(self.flink_keys) == 1 or not by:
            return [(self.flink_keys[0], data)] if data.num_rows else []
        keys = Keys([data.schema.field(name) for name in by])
        numbers = keys.number(data)
        numbered = {flink_key: number for number, flink_key in enumerate(self.flink_keys)}
        bucket_of_key: NDArray[np.uint8] = np.array(
            [numbered[self.of(key)] for key in keys.plain(np.arange(keys.count))], dtype=np.uint8
        )
        bucket_of_row = bucket_of_key[numbers]
        ordered = data.take(
            pa.array(np.argsort(bucket_of_row, kind="stable"))
        )  # numpy sorts bytes by counting, which is fast
        counts = np.bincount(bucket_of_row, minlength=len(self.flink_keys)).tolist()
        ends = np.cumsum(counts).tolist()
        parts = zip(self.flink_keys, counts, ends, strict=True)
        return [(flink_key, ordered.slice(end - count, count)) for flink_key, count, end in parts if count]


@lru_cache
def spread(buckets: int) -> tuple[int, ...]:
    """A Flink key for each bucket, such that the buckets are evenly spaced over the key groups.

    >>> [key_group(key) for key in spread(4)]
    [0, 32, 64, 96]
    """
    wanted = {bucket * KEY_GROUPS // buckets: bucket for bucket in range(buckets)}
    found: dict[int, int] = {}
    candidate = 0
    while len(found) < buckets:
        bucket = wanted.get(key_group(candidate))
        if bucket is not None:
            found.setdefault(bucket, candidate)
        candidate += 1
    return tuple(found[bucket] for bucket in range(buckets))


def key_group(key: int) -> int:
    """The key group that Flink gives to a row with this number as its only field.

    It is the murmur hash of the row's hash code (``KeyGroupRangeAssignment`` in Flink). A worker process has no JVM to
    ask.
    """
    code = (62 + key) & _BITS  # the hash code of the row
    code = _rotated(code * 0xCC9E2D51 & _BITS, 15) * 0x1B873593 & _BITS
    code = (_rotated(code, 13) * 5 + 0xE6546B64) & _BITS ^ 4
    for shift, factor in ((16, 0x85EBCA6B), (13, 0xC2B2AE35), (16, 1)):
        code = (code ^ code >> shift) * factor & _BITS
    code -= (code & 1 << 31) << 1  # as a signed number
    return (abs(code) if code != -(1 << 31) else 0) % KEY_GROUPS


_BITS = (1 << 32) - 1


def _rotated(code: int, left: int) -> int:
    return (code << left | code >> (32 - left)) & _BITS


def _encoded(key: tuple[Any, ...]) -> bytes:
    canonical = tuple(value + 0.0 if isinstance(value, float) and value == value else value for value in key)
    return encode_value(tuple(float("nan") if value != value else value for value in canonical))
