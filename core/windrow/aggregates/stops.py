# SPDX-License-Identifier: Apache-2.0
"""How often a vehicle stopped."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from windrow.aggregates.algebra import Aggregate, Field, Monoid, dtype_of


@dataclass(frozen=True)
class Stops(Aggregate):
    """The number of stops: longest runs of reports with speed 0, between moving ones or at either end of
    the window.

    Two neighbouring partials may each hold a part of one stop, so a partial knows whether it begins and
    ends standing. A report whose speed is NaN counts as moving.

    >>> import windrow as wr
    >>> wr.sliding([0.0, 0.0, 30.0, 0.0, 25.0, 0.0], wr.Stops(), range=5)
    array([2, 3])
    """

    speed: str | None = None
    inputs: ClassVar[tuple[str, ...]] = ("speed",)

    def dense(self, types: Sequence[pa.DataType]) -> Monoid:
        dtype_of(types[0], self)
        names = ("n", "first_is_zero", "last_is_zero", "runs")
        return Monoid(
            name=self.label,
            fields=tuple(Field(name, np.dtype(np.int64)) for name in names),
            identity=(0, 0, 0, 0),
            lift=_lift,
            combine=_combine,
            lower=_runs,
            defined=_some,
            output=pa.int64(),
            inputs=tuple(types),
            commutative=False,
        )


def _lift(speed: Any) -> Any:
    zero = int(speed == 0)
    return 1, zero, zero, zero


def _combine(a: Any, b: Any) -> Any:
    first = a[1] if a[0] > 0 else b[1]
    last = b[2] if b[0] > 0 else a[2]
    return a[0] + b[0], first, last, a[3] + b[3] - (a[2] & b[1])


def _runs(p: Any) -> int:
    return p[3]


def _some(p: Any) -> bool:
    return p[0] > 0
