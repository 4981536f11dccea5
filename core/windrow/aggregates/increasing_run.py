# SPDX-License-Identifier: Apache-2.0
"""The longest increasing run of a window: how long it is, and where it lies."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from windrow.aggregates.algebra import Aggregate, Field, Monoid, dtype_of
from windrow.aggregates.extremes import ordered_dtype

COUNT = np.dtype(np.int64)


@dataclass(frozen=True)
class LongestIncreasingRun(Aggregate):
    """How many rows the longest run has in which every value is larger than the one before.

    A run may cross from one partial into the next, so a partial knows its first and last value, and how
    long the runs at its two ends are.

    >>> import windrow as wr
    >>> wr.sliding([3.0, 1.0, 2.0, 5.0, 4.0], wr.LongestIncreasingRun(), range=4)
    array([3, 3])

    With ``at``, a column of times or numbers, the result is a struct (rows, start, end): ``start`` and ``end`` are
    what ``at`` has in the first and the last row of the run. Of several runs of the same length it is the oldest.

    >>> where = wr.LongestIncreasingRun("load", at="ts").bind()
    >>> where.result(where.fold([(3.0, 10), (1.0, 20), (2.0, 30), (5.0, 40), (4.0, 50)]))
    (3, 20, 40)
    """

    column: str | None = None
    at: str | None = None
    inputs: ClassVar[tuple[str, ...]] = ("column", "at")

    @property
    def arity(self) -> int:
        return 1 if self.at is None else 2

    def dense(self, types: Sequence[pa.DataType]) -> Monoid:
        dtype = ordered_dtype(types[0], self)
        objects = dtype.kind == "O"
        located = self.at is not None
        names = ("n", "first", "last", "prefix", "suffix", "best")
        fields = tuple(Field(name, dtype if name in ("first", "last") else COUNT) for name in names)
        if located:
            places = _places(types[1], self)
            fields += tuple(Field(name, places) for name in _PLACES)
        nothing = (0, None, None, 0, 0, 0) if objects else (0, 0, 0, 0, 0, 0)
        return Monoid(
            name=self.label,
            fields=None if objects else fields,
            identity=(*nothing, 0, 0, 0, 0, 0, 0) if located else nothing,
            lift=_located if located else _run,
            combine=_joined_located if located else _joined,
            lower=_best_located if located else _best,
            defined=_nonempty,
            output=_where(types[1]) if located else pa.int64(),
            record=located,
            inputs=tuple(types),
            commutative=False,
        )


_PLACES = ("first_at", "last_at", "prefix_end", "suffix_start", "best_start", "best_end")


def _places(type_: pa.DataType, aggregate: Aggregate) -> np.dtype[Any]:
    temporal = pa.types.is_temporal(type_) and type_ != pa.month_day_nano_interval()
    return dtype_of(type_, aggregate, numeric=not temporal)


def _where(at: pa.DataType) -> pa.DataType:
    return pa.struct([("rows", pa.int64()), ("start", at), ("end", at)])


# (n, first, last, prefix, suffix, best)


def _run(x: Any) -> Any:
    return 1, x, x, 1, 1, 1


def _joined(a: Any, b: Any) -> Any:
    if a[0] == 0:
        return b
    if b[0] == 0:
        return a
    across = a[4] + b[3] if b[1] > a[2] else 0
    prefix = across if across > 0 and a[3] == a[0] else a[3]
    suffix = across if across > 0 and b[4] == b[0] else b[4]
    return a[0] + b[0], a[1], b[2], prefix, suffix, max(a[5], b[5], across)


def _best(p: Any) -> int:
    return p[5]


def _nonempty(p: Any) -> bool:
    return p[0] > 0


# (n, first, last, prefix, suffix, best, and where: the first row, the last, the end of the prefix, the start of the
# suffix, the start and the end of the best)


def _located(x: Any, at: Any) -> Any:
    return 1, x, x, 1, 1, 1, at, at, at, at, at, at


def _joined_located(a: Any, b: Any) -> Any:
    if a[0] == 0:
        return b
    if b[0] == 0:
        return a
    across = a[4] + b[3] if b[1] > a[2] else 0
    prefix, prefix_end = a[3], a[8]
    if across > 0 and a[3] == a[0]:
        prefix, prefix_end = across, b[8]
    suffix, suffix_start = b[4], b[9]
    if across > 0 and b[4] == b[0]:
        suffix, suffix_start = across, a[9]
    best, start, end = a[5], a[10], a[11]
    if across > best:
        best, start, end = across, a[9], b[8]
    if b[5] > best:
        best, start, end = b[5], b[10], b[11]
    return (
        a[0] + b[0], a[1], b[2], prefix, suffix, best,
        a[6], b[7], prefix_end, suffix_start, start, end,
    )  # fmt: skip


def _best_located(p: Any) -> Any:
    return p[5], p[10], p[11]
