# SPDX-License-Identifier: Apache-2.0
"""What slicers and the slice table hand to each other: rows, plans, and the windows that are due.

A plan is a kernel and its arguments. A slicer makes plans and the slice table runs them, in one loop each.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from windrow.errors import WindrowError
from windrow.kernels.slices.layout import Cells, Results, RowOrder

Ints = NDArray[np.int64]


class GroupedRows(NamedTuple):
    """Rows on their way into slices. ``by_key`` groups them by key, each key's rows by time, then arrival."""

    data: pa.Table
    """The input columns, in the order of arrival."""
    by_key: RowOrder
    """Its axis is time."""


class DenseRows(NamedTuple):
    """Many rows for each slice, which need no order: each goes straight to the cell of its key and slice."""

    data: pa.Table
    """The input columns, in the order of arrival."""
    cells: Cells
    used: int
    """How many cells have rows."""
    latest: Ints
    """For each key the time of its last row, if idle keys are frozen."""


class Placing(NamedTuple):
    """How rows get their slots: ``kernel(slices, begin, rows, slots, *arguments)``, which returns how far it came."""

    kernel: Callable[..., int]
    rows: RowOrder
    """Its axis is that of the window."""
    arguments: tuple[Any, ...] = ()


class Plan(NamedTuple):
    """Which windows are due: ``kernel(slices, slides, due, begin, through, *arguments)``.

    The kernel returns ``(reached, count, wake)``; see :mod:`windrow.kernels.slices.slide`.
    """

    kernel: Callable[..., tuple[int, int, int]]
    through: Ints
    """What the kernel goes through: keys, in the order of the output, or rows, in their own order."""
    arguments: tuple[Any, ...]
    shareable: bool = False
    """Several threads may do some of the keys each."""
    room: int = 0
    """For how many entries there is room in the list; 0 if the table is to choose."""
    refusal: Callable[[int], WindrowError] | None = None
    """The error for a row, by its position, that the kernel does not accept."""
    computed: list[Due] | None = None
    """The windows, if they were computed while they were planned."""
    last_begin: int | None = None
    """Where the last due window begins, if windows begin in every page before that. So all these pages will be unfolded."""


class Eviction(NamedTuple):
    """Which slices no window needs any more: ``kernel(slices, slides, *arguments)`` frees them."""

    kernel: Callable[..., None]
    arguments: tuple[Any, ...]


class Due(NamedTuple):
    """Windows that are due, with the results of every aggregate.

    An entry stands for ``repeat`` windows in a row, each one slide later, with the same result.
    """

    key: Any
    which: Any
    start: Any
    end: Any
    repeat: Any
    results: Mapping[str, Results]

    def cut(self, repeat: Any) -> Due:
        """Only the first so many windows of each entry."""
        some = repeat > 0
        results = {name: Results(out[some], ok[some]) for name, (out, ok) in self.results.items()}
        return Due(self.key[some], self.which[some], self.start[some], self.end[some], repeat[some], results)


def joined(found: list[Due]) -> Due:
    """The entries of several lists, at least one, one after the other."""
    if len(found) == 1:
        return found[0]
    key, which, start, end, repeat = map(np.concatenate, zip(*(due[:5] for due in found), strict=True))
    results = {
        name: Results(*map(np.concatenate, zip(*(due.results[name] for due in found), strict=True)))
        for name in found[0].results
    }
    return Due(key, which, start, end, repeat, results)


def in_key_order(found: list[Due], ranks: Ints) -> list[Due]:
    """Entries of several lists as one, in the order of keys; those of a key in the order of the lists."""
    found = [due for due in found if len(due.key)]
    if len(found) < 2:
        return found
    every = joined(found)
    order = np.argsort(ranks[every.key], kind="stable")
    key, which, start, end, repeat = (column[order] for column in every[:5])
    results = {name: Results(out[order], ok[order]) for name, (out, ok) in every.results.items()}
    return [Due(key, which, start, end, repeat, results)]
