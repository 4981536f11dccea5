# SPDX-License-Identifier: Apache-2.0
"""The extent of a window in place of a function of its rows: what an emitter computes, whose workers are elsewhere.

>>> import windrow as wr
>>> from windrow.aggregates.extent import Extent
>>> Extent("middle", wr.Median("load")).bind().output
StructType(struct<lo: int64, hi: int64>)
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from windrow.aggregates.algebra import Aggregate, Monoid
from windrow.aggregates.whole import Extents, WholeWindow, results_dtype
from windrow.columns.arrow import Array

__all__ = ["EXTENT", "Extent", "Positions"]

EXTENT = pa.struct([pa.field("lo", pa.int64()), pa.field("hi", pa.int64())])
"""The rows ``lo`` to ``hi``, without ``hi``."""


@dataclass(frozen=True)
class Extent(Aggregate, builtin=False):
    """Where the rows of a window are, for the aggregate of this output name that is computed elsewhere."""

    name: str
    of: Aggregate

    @property
    def columns(self) -> tuple[str, ...]:
        return self.of.columns

    @property
    def arity(self) -> int:
        return self.of.arity

    def dense(self, types: Sequence[pa.DataType]) -> Monoid:
        return dataclasses.replace(self.of.dense(types), output=EXTENT)

    def whole(self, types: Sequence[pa.DataType], *, compiled: bool = True) -> Positions:
        whole = self.of.whole(types, compiled=False)
        assert whole is not None, "only functions of whole windows are computed elsewhere"
        return Positions(whole.stored, results_dtype(EXTENT), whole.keeps_nulls, name=self.name)

    def described(self) -> dict[str, Any]:
        """The rows and extents of an aggregate are the same wherever it is computed, so its state is that of the other."""
        return self.of.described()


@dataclass(frozen=True, kw_only=True)
class Positions(WholeWindow):
    """The extents themselves."""

    name: str
    """The output name of the aggregate."""

    def compute(self, windows: Extents, out: Array, ok: NDArray[np.bool_]) -> None:
        out["lo"], out["hi"], ok[:] = windows.lo, windows.hi, True
