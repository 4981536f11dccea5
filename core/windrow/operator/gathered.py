# SPDX-License-Identifier: Apache-2.0
"""Partials that are the values themselves, such as those of Collect: a window is the values of its slices, one after the other.

The boundary aggregator would keep ``lcs``, which for a list of values is every suffix of the window: memory that grows with the
square of the range. To list the values of a window takes as long as the window has values, whatever is kept. So nothing is.
"""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING

import numpy as np

from windrow.aggregates.algebra import Monoid
from windrow.kernels.slices.layout import DueWindows, Results
from windrow.operator.partials import AggregateState
from windrow.operator.plan import Ints

if TYPE_CHECKING:
    from windrow.operator.slices import SliceTable


class GatheredState(AggregateState):
    """The values of every slice. Nothing is kept for windows."""

    def __init__(self, name: str, monoid: Monoid, columns: tuple[str, ...], compiled: bool) -> None:
        super().__init__(name, monoid, columns, 0, compiled)

    def results(self, table: SliceTable, due: DueWindows, count: int) -> Results:
        results, lower = self.room(count), self.monoid.lower
        results.ok[:] = True
        keys = np.unique(due.key[:count])
        lengths = np.zeros(len(keys), np.int64)
        slots = np.empty(int(table.slices.held[keys].sum()), np.int64)
        table.kernels.walk(table.slices, keys, lengths, slots)
        sorter = np.argsort(slots)
        begins, lasts = (
            sorter[np.searchsorted(slots, each[:count], sorter=sorter)] for each in (due.lo, due.hi)
        )
        values = self.partials.parts[0][slots].tolist()
        for window, (begin, last) in enumerate(zip(begins.tolist(), lasts.tolist(), strict=True)):
            results.out[window] = lower(chain.from_iterable(values[begin : last + 1]))
        return results

    def rebuild(self, table: SliceTable, numbers: Ints) -> None:
        """Nothing is kept for windows."""

    def unfold(self, slots: Ints, newer: int, base: int) -> None:
        """Nothing is kept for windows."""
