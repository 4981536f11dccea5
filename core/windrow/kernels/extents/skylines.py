# SPDX-License-Identifier: Apache-2.0
"""Skylines of many windows over the rows of one key.

>>> import numpy as np
>>> price, volume = np.array([3.0, 1.0, 2.0, 2.0]), np.array([9.0, 5.0, 5.0, 7.0])
>>> cheap_and_large = Skylines([price.dtype, volume.dtype], ["min", "max"])
>>> rows, ends = cheap_and_large.run([price, volume], None, np.array([0, 1]), np.array([4, 3]))
>>> rows, ends
(array([0, 1, 3, 1]), array([3, 4]))
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from windrow.errors import AggregateError
from windrow.kernels.extents import skyline
from windrow.kernels.extents.ordering import keys_of, word_dtype
from windrow.kernels.specialise import specialise

Array = np.ndarray[Any, Any]


class Skylines:
    """Finds the rows of windows that no other row of the same window dominates."""

    def __init__(
        self, dtypes: Sequence[np.dtype[Any]], goals: Sequence[str], *, compiled: bool = True
    ) -> None:
        """``goals`` has ``"min"`` where small numbers are good, and ``"max"`` where large ones are."""
        for goal in goals:
            if goal not in ("min", "max"):
                raise AggregateError(f"the goal of a skyline column is {goal!r}; expected 'min' or 'max'")
        self.words = [word_dtype(dtype) for dtype in dtypes]
        self.goals = tuple(goals)
        self.kernels = specialise(skyline, {"LEAN": False}, compiled=compiled)

    def run(self, columns: Sequence[Array], valid: Array | None, lo: Array, hi: Array) -> tuple[Array, Array]:
        """Rows in the skylines, ascending in each window, and where each window ends among them.

        Called with one array per column. Rows that are not ``valid`` (``None``: all are), or NaN in a column, are not
        comparable and in no skyline.
        """
        usable = np.ones(len(columns[0]), dtype=np.bool_) if valid is None else valid.copy()
        keys = np.empty((len(columns), len(columns[0])), dtype=np.int64)
        for place, (column, word, goal) in enumerate(zip(columns, self.words, self.goals, strict=True)):
            if word.kind == "f":
                usable &= ~np.isnan(column)
            ascending = keys_of(column, word)
            keys[place] = ascending if goal == "min" else ~ascending
        ends = np.zeros(len(lo), dtype=np.int64)
        rows = np.empty(int(max((hi - lo).max(initial=0), 1024)), dtype=np.int64)
        first = self.kernels.fill(keys, usable, lo, hi, 0, rows, ends)
        while first < len(lo):
            more = np.empty(2 * len(rows), dtype=np.int64)
            more[: len(rows)] = rows
            rows = more
            first = self.kernels.fill(keys, usable, lo, hi, first, rows, ends)
        return rows[: ends[-1] if len(ends) else 0].copy(), ends
