# SPDX-License-Identifier: Apache-2.0
"""State that is carried from window to window: rows that left are evicted, rows that came are inserted.

``insert(state, columns, row)``, ``evict(state, columns, row)``, ``initial()`` and ``put(out, ok, w, state)`` are made
for the number of columns and of fields; see :mod:`windrow.aggregates.slider`.
"""

from __future__ import annotations

from windrow.kernels.extents.seam import evict, initial, insert, put


def carry(columns, lo, hi, out, ok, at):
    """The results of windows; ``at[0]`` is the window in work. A window that does not follow the last one starts anew."""
    state = initial()
    begin = end = 0
    for w in range(len(lo)):
        at[0] = w
        if lo[w] < begin or hi[w] < end or lo[w] >= end:
            state = initial()
            begin = end = lo[w]
        while begin < lo[w]:
            state = evict(state, columns, begin)
            begin += 1
        while end < hi[w]:
            state = insert(state, columns, end)
            end += 1
        if hi[w] > lo[w]:
            put(out, ok, w, state)
