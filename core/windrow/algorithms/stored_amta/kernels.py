# SPDX-License-Identifier: Apache-2.0
"""Where a stored tree keeps its local nodes, and the loop over rows between two requests to the store.

Every level has two rings of two batches: one for the nodes near the head, which were read, and one for the newest, which
are not written yet. ``meta[SPLIT + level]`` is the first node of the second ring.
"""

from __future__ import annotations

from typing import Any

from windrow.algorithms.amta import LEAVES
from windrow.algorithms.base import HEAD, TAIL, evict, insert, query
from windrow.kernels.partials import add, clear, defined, lower

SPLIT = 6
LEVELS = 62


def at(meta: Any, level: int, node: int) -> int:
    """The slot of a node. ``meta[LEAVES]`` is the length of a ring."""
    ring = meta[LEAVES]
    return 2 * ring * level + (node & (ring - 1)) + (ring if node >= meta[SPLIT + level] else 0)


def run(state: Any, scratch: Any, columns: Any, row: int, range_: int, out: Any, stop: Any) -> int:
    """Slide a window of so many rows over a column, as far as no node has to be read or written.

    ``stop`` is one past the last row, the position that must not be inserted, and the one that must not be evicted.
    """
    meta = state[0]
    while row < stop[0] and meta[TAIL] < stop[1]:
        if meta[TAIL] - meta[HEAD] == range_:
            if meta[HEAD] >= stop[2]:
                return row
            evict(state)
        clear(scratch, 0)
        add(scratch, 0, row, columns)
        insert(state, scratch, 0)
        if meta[TAIL] - meta[HEAD] == range_:
            query(state, scratch, 1)
            out.ok[row] = defined(scratch, 1)
            if out.ok[row]:
                out.values[row] = lower(scratch, 1)
        row += 1
    return row
