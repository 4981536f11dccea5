# SPDX-License-Identifier: Apache-2.0
"""Functions of whole windows that were compiled: one call of a kernel for many windows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from windrow.aggregates.whole import Extents, FunctionFailed, WholeWindow, read_only
from windrow.columns.arrow import Array

__all__ = ["CompiledWindows", "sample", "writing"]


@dataclass(frozen=True, kw_only=True)
class CompiledWindows(WholeWindow):
    """``kernel(columns, lo, hi, outs, ok, at)`` computes windows; ``at[0]`` is the one in work."""

    kernel: Any

    def compute(self, windows: Extents, out: Array, ok: NDArray[np.bool_]) -> None:
        at = np.zeros(1, np.int64)
        columns = tuple(read_only(column) for column in windows.columns)
        try:
            self.kernel(columns, windows.lo, windows.hi, _outs(out), ok, at)
        except Exception as cause:
            raise FunctionFailed(int(at[0]), cause) from cause


def sample(dtypes: Sequence[np.dtype[Any]], dtype: np.dtype[Any]) -> tuple[Any, ...]:
    """Arguments of the types that such a kernel is called with."""
    columns = tuple(read_only(np.empty(0, each)) for each in dtypes)
    bounds = np.empty(0, np.int64)
    return columns, bounds, bounds, _outs(np.empty(0, dtype)), np.empty(0, np.bool_), np.empty(1, np.int64)


def writing(dtype: np.dtype[Any]) -> list[str]:
    """The source of what writes ``value`` to ``out`` and ``ok``, unless it is null."""
    fields = range(len(dtype.names or ()))
    writes = [f"        out[{n}][w] = value[{n}]" for n in fields] or ["        out[0][w] = value"]
    return ["    if value is not None:", *writes, "        ok[w] = True"]


def _outs(out: Array) -> tuple[Array, ...]:
    """The arrays that results are written to: one for each field."""
    return tuple(out[name] for name in out.dtype.names) if out.dtype.names else (out,)
