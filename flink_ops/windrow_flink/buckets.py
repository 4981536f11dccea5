"""Which bucket a key belongs to: the same in every process, and spread evenly over Flink's key groups.

Many keys share a bucket, and a bucket is what Flink sees as a key: few states instead of many, each of which
pays its crossing.
"""

from __future__ import annotations

import zlib
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyflink.java_gateway import get_gateway

from windrow.aggregates.encoding import encode_value
from windrow.errors import QueryError
from windrow.keys import Keys
from windrow.query import Query

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
        found = self._known.get(key)
        if found is None:
            if len(self._known) >= REMEMBERED:
                self._known.clear()
            found = self._known[key] = self.flink_keys[zlib.crc32(_encoded(key)) % len(self.flink_keys)]
        return found

    def split(self, data: pa.Table, by: tuple[str, ...]) -> list[tuple[int, pa.Table]]:
        """The rows of each bucket, in their order; buckets without rows are left out."""
        if len(self.flink_keys) == 1 or not by:
            return [(self.flink_keys[0], data)] if data.num_rows else []
        keys = Keys([data.schema.field(name) for name in by])
        numbers = keys.number(data)
        numbered = {flink_key: number for number, flink_key in enumerate(self.flink_keys)}
        bucket_of_key: NDArray[np.uint8] = np.array(
            [numbered[self.of(key)] for key in keys.values], dtype=np.uint8
        )
        bucket_of_row = bucket_of_key[numbers]
        ordered = data.take(
            pa.array(np.argsort(bucket_of_row, kind="stable"))
        )  # bytes are sorted by counting
        counts = np.bincount(bucket_of_row, minlength=len(self.flink_keys)).tolist()
        ends = np.cumsum(counts).tolist()
        parts = zip(self.flink_keys, counts, ends, strict=True)
        return [(flink_key, ordered.slice(end - count, count)) for flink_key, count, end in parts if count]


@lru_cache
def spread(buckets: int) -> tuple[int, ...]:
    """A Flink key for each bucket, such that the buckets are evenly spaced over the key groups."""
    jvm = get_gateway().jvm
    assign = jvm.org.apache.flink.runtime.state.KeyGroupRangeAssignment.assignToKeyGroup
    row_of = jvm.org.apache.flink.types.Row
    wanted = {bucket * KEY_GROUPS // buckets: bucket for bucket in range(buckets)}
    found: dict[int, int] = {}
    candidate = 0
    while len(found) < buckets:
        row = row_of(1)
        row.setField(0, candidate)
        bucket = wanted.get(assign(row, KEY_GROUPS))
        if bucket is not None:
            found.setdefault(bucket, candidate)
        candidate += 1
    return tuple(found[bucket] for bucket in range(buckets))


def _encoded(key: tuple[Any, ...]) -> bytes:
    canonical = tuple(value + 0.0 if isinstance(value, float) and value == value else value for value in key)
    return encode_value(tuple(float("nan") if value != value else value for value in canonical))
