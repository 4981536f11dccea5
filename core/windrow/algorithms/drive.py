# SPDX-License-Identifier: Apache-2.0
"""A whole column through any algorithm: the loop over rows, slices and windows, compiled with the algorithm.

Slicing is Cutty's: a slice is ``slide`` rows, and a window W[range, slide] is ⌊range/slide⌋ slices and, if
the slide does not divide the range, a fragment, the first ``range mod slide`` rows of the slice that follows
them. The slice in progress is in slot 0 of ``scratch``; when it has grown to a fragment it completes a window
without joining the state.

Carbone et al., *Cutty: Aggregate Sharing for User-Defined Windows*, CIKM 2016.
"""

from __future__ import annotations

from typing import Any

from windrow.algorithms.base import HEAD, TAIL, evict, insert, query
from windrow.kernels.columns.layout import ColumnOutput, Input
from windrow.kernels.partials import add, clear, defined, lower, merge


def run(
    state: Any, scratch: Any, rows: Input, begin: int, end: int, range_: int, slide: int, out: ColumnOutput
) -> None:
    """Absorb the rows from ``begin``, where a slice begins, to ``end``; put every window that ends there into
    its place. ``scratch`` has 2 slots.
    """
    slices, fragment = range_ // slide, range_ % slide
    meta = state[0]
    columns, valid = rows
    masked = len(valid) > 0
    row, ordinal = begin, begin // slide
    while row < end:
        clear(scratch, 0)
        stop = min(row + slide, end)
        cut = row + fragment if fragment > 0 else -1
        while row < stop:
            if not masked or valid[row]:
                add(scratch, 0, row, columns)
            row += 1
            if row == cut and ordinal >= slices:
                if slices == 0:
                    emit(scratch, 0, ordinal, out)
                else:
                    query(state, scratch, 1)
                    merge(scratch, 1, scratch, 1, scratch, 0)
                    emit(scratch, 1, ordinal - slices, out)
        if row == (ordinal + 1) * slide and slices > 0:
            if meta[TAIL] - meta[HEAD] == slices:
                evict(state)
            insert(state, scratch, 0)
            if fragment == 0 and ordinal >= slices - 1:
                query(state, scratch, 1)
                emit(scratch, 1, ordinal - slices + 1, out)
        ordinal += 1


def emit(parts: Any, i: int, window: int, out: ColumnOutput) -> None:
    """Lower the partial of a window into its place in the output, unless the output has none for it."""
    if window < len(out.values):
        out.ok[window] = defined(parts, i)
        if out.ok[window]:
            out.values[window] = lower(parts, i)


def combine_often(parts: Any, times: int) -> None:
    """Merge neighbours around a ring of 1024 slots, to find out how long a combine takes."""
    for step in range(times):
        here = step & 1023
        merge(parts, here, parts, here, parts, (here + 1) & 1023)
