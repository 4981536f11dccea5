# SPDX-License-Identifier: Apache-2.0
"""``wr.Skyline``: the rows of a window that no other row beats in every column."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from windrow.aggregates.algebra import Aggregate, dtype_of
from windrow.aggregates.of_rows import OfRows
from windrow.aggregates.whole import Extents, WholeWindow
from windrow.columns.arrow import Array
from windrow.errors import AggregateError
from windrow.imports import Allow
from windrow.kernels.extents.skylines import Skylines

__all__ = ["Skyline"]


@dataclass(frozen=True, init=False, repr=False)
class Skyline(OfRows):
    """The rows that no other row dominates, as a list of structs in the order of rows.

    One row dominates another if it is at least as good in every column, and better in one. ``goals`` says for each
    column whether small (``"min"``, the default) or large numbers (``"max"``) are good. Rows with a null or NaN are
    left out. Equal rows do not dominate each other. Two columns take O(n log n), more take up to O(n²).

    >>> import windrow as wr
    >>> query = wr.Query(
    ...     window=wr.CountWindow(4), aggregates={"best": wr.Skyline("price", "volume", goals=("min", "max"))}
    ... )
    >>> rows = {"ts": [1, 2, 3, 4], "price": [3, 1, 2, 2], "volume": [9, 5, 5, 7]}
    >>> wr.aggregate(rows, query).column("best").to_pylist()
    [[{'price': 3, 'volume': 9}, {'price': 1, 'volume': 5}, {'price': 2, 'volume': 7}]]
    """

    goals: tuple[str, ...]

    def __init__(self, *columns: str, goals: Sequence[str] | None = None) -> None:
        wanted = ("min",) * len(columns) if goals is None else tuple(goals)
        if len(wanted) != len(columns) or not set(wanted) <= {"min", "max"}:
            raise AggregateError(
                f"goals of Skyline has to be 'min' or 'max' for each of {len(columns)} columns, not {goals!r}"
            )
        if len(set(columns)) < len(columns):
            raise AggregateError(f"columns of Skyline have to differ, and {columns!r} do not")
        self.assign(columns, pa.null(), goals=wanted)

    @property
    def label(self) -> str:
        return f"Skyline({', '.join(self.reads)})"

    def functions(self) -> dict[str, Callable[..., Any]]:
        return {}

    def output(self, types: Sequence[pa.DataType]) -> pa.DataType:
        for type_ in types:
            dtype_of(type_, self)
        return pa.list_(pa.struct(list(zip(self.reads, types, strict=True))))

    def of_window(self, *columns: Array) -> Any:
        windows = Extents(columns, np.zeros(1, np.int64), np.array([len(columns[0])]))
        (found,) = _skylines(windows, self.reads, self.goals, compiled=False)
        return found

    def whole(self, types: Sequence[pa.DataType], *, compiled: bool = True) -> WholeWindow:
        stored = self.stored(types)
        return SkylineWindows(
            stored, np.dtype(object), names=self.reads, goals=self.goals, interpreted=not compiled
        )

    def described(self) -> dict[str, Any]:
        return self._form()

    def _form(self) -> dict[str, Any]:
        return {"kind": "Skyline", "columns": list(self.reads), "goals": list(self.goals)}

    @classmethod
    def from_parameters(cls, parameters: dict[str, Any], allow: Allow) -> Aggregate:
        columns = parameters.pop("columns", None)
        if not isinstance(columns, list | tuple) or not all(isinstance(column, str) for column in columns):
            raise AggregateError(f"columns of Skyline has to be a list of columns, not {columns!r}")
        return cls(*columns, **parameters)


@dataclass(frozen=True, kw_only=True)
class SkylineWindows(WholeWindow):
    """The skylines of windows, as lists of dicts."""

    names: tuple[str, ...]
    goals: tuple[str, ...]
    interpreted: bool = False

    def compute(self, windows: Extents, out: Array, ok: NDArray[np.bool_]) -> None:
        for place, found in enumerate(_skylines(windows, self.names, self.goals, not self.interpreted)):
            out[place] = found
        ok[:] = windows.hi > windows.lo


def _skylines(
    windows: Extents, names: Sequence[str], goals: Sequence[str], compiled: bool
) -> list[list[dict[str, Any]]]:
    low, high = int(windows.lo.min(initial=0)), int(windows.hi.max(initial=0))
    columns = [column[low:high] for column in windows.columns]
    skylines = Skylines([column.dtype for column in columns], goals, compiled=compiled)
    rows, ends = skylines.run(columns, None, windows.lo - low, windows.hi - low)
    values = [column[rows].tolist() for column in columns]
    structs = [dict(zip(names, row, strict=True)) for row in zip(*values, strict=True)]
    return [structs[begin:end] for begin, end in zip([0, *ends[:-1].tolist()], ends.tolist(), strict=True)]
