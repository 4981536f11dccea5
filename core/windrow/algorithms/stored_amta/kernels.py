# SPDX-License-Identifier: Apache-2.0
"""Where a stored tree keeps its local nodes, and the loop over rows between two requests to the store.

Every level has two rings of two batches: one for the nodes near the head, which were read, and one for the newest, which
are not written yet. ``meta[SPLIT + level]`` is the first node of the second ring. A page of leaves has no other nodes:
those above them, up to the one that covers the page, are made again when it is read.
"""

from __future__ import annotations

from typing import Any

from windrow.algorithms.amta import LEAVES
from windrow.algorithms.base import HEAD, TAIL, evict, insert, query
from windrow.kernels.partials import add, clear, defined, lower, merge

SPLIT = 6
LEVELS = 62


def at(meta: Any, level: int, node: int) -> int:
    """The slot of a node. ``meta[LEAVES]`` is the length of a ring."""
    size = meta[LEAVES]
    return 2 * size * level + (node & (size - 1)) + (size if node >= meta[SPLIT + level] else 0)


def ring(meta: Any, level: int) -> int:
    """How many nodes of a level lie side by side."""
    return int(meta[LEAVES])


def raise_cached(forest: Any, batch: int, block: int) -> None:
    """A batch of leaves is in the first ring. Make the nodes above them, but for the one that covers all."""
    size, level, count = 2 * batch, 1, batch // 2
    while count > 1:
        upper = 2 * size * level + ((block * count) & (size - 1))
        lower_ = 2 * size * (level - 1) + ((2 * block * count) & (size - 1))
        raise_side_by_side(forest, lower_, upper, count)
        level, count = level + 1, count // 2


def raise_alone(parts: Any, batch: int) -> None:
    """The same for leaves in slots 0, 1, …: the nodes of a level follow those of the level below."""
    lower_, count = 0, batch // 2
    while count > 1:
        raise_side_by_side(parts, lower_, lower_ + 2 * count, count)
        lower_, count = lower_ + 2 * count, count // 2


def raise_side_by_side(parts: Any, first: int, into: int, count: int) -> None:
    """So many parents of pairs that lie side by side."""
    for i in range(count):
        merge(parts, into + i, parts, first + 2 * i, parts, first + 2 * i + 1)


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
