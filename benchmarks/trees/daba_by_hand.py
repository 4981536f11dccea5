# ruff: noqa: E741
"""DABA over a whole column, its pointers in registers: the fairest peer of AMTA's loop.

The registry's DABA is driven operation by operation, and keeps its pointers in an array. This is the same algorithm in the
form in which AMTA runs over columns: one compiled loop, rows lifted as they come, the sum of l_B in registers.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from windrow.aggregates.algebra import Monoid
from windrow.algorithms.base import power_of_two
from windrow.kernels.columns.layout import ColumnOutput, Input
from windrow.kernels.columns.lifted import emit, join, row, row_slots
from windrow.kernels.partials import blank, copy, load, merge, store
from windrow.kernels.specialise import specialise


def sliding(values: Any, aggregate: Any, size: int) -> Any:
    """Every window of so many values that slides by one."""
    monoid = aggregate.bind_dense()
    out = ColumnOutput(np.zeros(len(values) - size + 1), np.ones(len(values) - size + 1, dtype=np.bool_))
    parts = tuple(blank(monoid, power_of_two(size)) for _ in range(2))
    _kernel(monoid).slide_rows(*parts, Input((values,), np.ones(0, dtype=np.bool_)), size, out)
    return out.values


@lru_cache
def _kernel(monoid: Monoid) -> Any:
    import sys

    return specialise(sys.modules[__name__], row_slots(monoid, False))


def slide_rows(values, aggs, rows, size, out):  # type: ignore[no-untyped-def]
    mask = len(values[0]) - 1
    front = l = r = a = b = 0
    back = row(rows, 0)
    for end in range(len(rows.columns[0])):
        if end - front == size:
            front += 1
            l, r, a, b = fix(values, aggs, front, l, r, a, b, end, mask)
        value = row(rows, end)
        store(values, end & mask, value)
        back = value if end == b else join(back, value)
        store(aggs, end & mask, back)
        l, r, a, b = fix(values, aggs, front, l, r, a, b, end + 1, mask)
        if end >= size - 1:
            first = load(aggs, front & mask)
            emit(out, end - size + 1, first if b == end + 1 else join(first, back))


def fix(values, aggs, front, l, r, a, b, end, mask):  # type: ignore[no-untyped-def]
    if front == b:
        return end, end, end, end
    if l == b:
        l, a, b = front, end, end
    if l == r:
        return l + 1, r + 1, a + 1, b
    left, right = l & mask, (a - 1) & mask
    merge(aggs, left, aggs, left, aggs, right)
    if a == b:
        copy(aggs, right, values, right)
    else:
        first = a & mask
        merge(aggs, left, aggs, left, aggs, first)
        merge(aggs, right, values, right, aggs, first)
    return l + 1, r, a - 1, b
