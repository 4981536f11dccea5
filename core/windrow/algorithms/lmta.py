# SPDX-License-Identifier: Apache-2.0
"""LMTA: the logarithmic monoid tree aggregator, a binary tree kept as a queue per level."""

from __future__ import annotations

from typing import Any

import numpy as np

from windrow.aggregates.algebra import Partial
from windrow.algorithms.base import HEAD, TAIL, State, take
from windrow.algorithms.tree import Tree
from windrow.kernels.partials import allocate, clear, copy, merge

ROOT = 2


class LMTA(Tree):
    """The levels of a binary tree as queues: insertion renews the right side, eviction of any number the left
    side.

    Node k of level l aggregates the positions [k·2ˡ, (k + 1)·2ˡ) that are in the window, so the pairs of the
    paper are the nodes 2k and 2k + 1, and an evicted or missing sibling (∅) is one whose number lies outside
    the level's queue. Levels are kept up to ``ROOT``, the first with at most two nodes; these two are the
    result.

    - Order: FIFO, and insertion at any time that is already there; range queries; window slide policies.
      Operator: any monoid.
    - Combines: at most log₂ n + 2 per insertion and log₂ n per eviction, single or bulk; 1 per query.
    - Space: up to 3N partials, N being n rounded up to a power of two.
    - Paper: Villalba, Berral and Carrera, *Constant-Time Sliding Window Framework with Reduced Memory
      Footprint and Efficient Bulk Evictions*, TPDS 2018; Villalba's thesis (2019), Algorithms 1 and 2.

    >>> import windrow as wr
    >>> window = LMTA(wr.Max(), compiled=False)
    >>> for time, load in ((10, 3.0), (20, 7.0), (30, 5.0)):
    ...     window.insert_at(time, (load,))
    >>> window.range_query(25, 31)
    (5.0,)
    >>> window.enforce(valid=lambda largest: largest[0] < 6)
    2
    """

    @property
    def capacity(self) -> int:
        return len(self._state[1][0]) // 3

    @property
    def partials(self) -> int:
        head, last = self._span()[0], self._span()[1] - 1
        root = int(self._state[0][ROOT])
        return sum((last >> level) - (head >> level) + 1 for level in range(root + 1)) + 1

    def _allocate(self, capacity: int) -> State:
        return np.zeros(3, dtype=np.int64), allocate(self.monoid, 3 * capacity), allocate(self.monoid, 1)

    def _leaves(self, positions: Any) -> Any:
        return positions & (self.capacity - 1)

    def _node(self, level: int, index: int) -> Partial:
        return take(self.monoid, self._state[1], at(self.capacity, level, index))

    def _highest(self, begin: int) -> int:
        return int(self._state[0][ROOT])

    def _grow(self) -> None:
        old, small = self._state, self.capacity
        self._state = self._allocate(2 * small)
        self._state[0][:] = old[0]
        head, tail = self._span()
        for level in range(int(old[0][ROOT]) + 1):
            for node in range(head >> level, ((tail - 1) >> level) + 1):
                for source, target in zip(old[1], self._state[1], strict=True):
                    target[at(2 * small, level, node)] = source[at(small, level, node)]


def insert(state: Any, parts: Any, i: int) -> None:
    meta, tree, _ = state
    head, last = meta[HEAD], meta[TAIL]
    leaves = len(tree[0]) // 3
    copy(tree, at(leaves, 0, last), parts, i)
    meta[TAIL] = last + 1
    root = root_of(head, last)
    for level in range(1, root + 1):
        renew(tree, leaves, level, last >> level, head, last)
    if root > meta[ROOT]:  # a level is added: its left node is new as well
        renew(tree, leaves, root, head >> root, head, last)
    meta[ROOT] = root


def evict(state: Any) -> None:
    evict_many(state, 1)


def evict_many(state: Any, n: int) -> None:
    meta, tree, _ = state
    meta[HEAD] += n
    head, last = meta[HEAD], meta[TAIL] - 1
    leaves = len(tree[0]) // 3
    meta[ROOT] = root_of(head, last) if head <= last else 0
    for level in range(1, meta[ROOT] + 1):
        if head & ((1 << level) - 1) != 0:  # else the node has lost nothing
            renew(tree, leaves, level, head >> level, head, last)


def update(state: Any, position: int, parts: Any, i: int) -> None:
    meta, tree, _ = state
    head, last = meta[HEAD], meta[TAIL] - 1
    leaves = len(tree[0]) // 3
    leaf = at(leaves, 0, position)
    merge(tree, leaf, tree, leaf, parts, i)
    for level in range(1, meta[ROOT] + 1):
        renew(tree, leaves, level, position >> level, head, last)


def query(state: Any, out: Any, i: int) -> None:
    meta, tree, _ = state
    head, last, root = meta[HEAD], meta[TAIL] - 1, meta[ROOT]
    leaves = len(tree[0]) // 3
    if head > last:
        clear(out, i)
    elif head == last:
        copy(out, i, tree, at(leaves, 0, head))
    else:
        merge(out, i, tree, at(leaves, root, head >> root), tree, at(leaves, root, last >> root))


def query_range(state: Any, begin: int, end: int, out: Any, i: int) -> None:
    meta, tree, acc = state
    leaves, root = len(tree[0]) // 3, meta[ROOT]
    left, right, level = 0, 0, 0
    while begin < end:
        if begin & 1 == 1 or level == root:
            node = at(leaves, level, begin)
            if left == 0:
                copy(out, i, tree, node)
            else:
                merge(out, i, out, i, tree, node)
            left = 1
            begin += 1
        if begin < end and end & 1 == 1:
            end -= 1
            node = at(leaves, level, end)
            if right == 0:
                copy(acc, 0, tree, node)
            else:
                merge(acc, 0, tree, node, acc, 0)
            right = 1
        if level < root:
            begin, end, level = begin >> 1, end >> 1, level + 1
    if left == 0 and right == 0:
        clear(out, i)
    elif left == 0:
        copy(out, i, acc, 0)
    elif right == 1:
        merge(out, i, out, i, acc, 0)


def root_of(head: int, last: int) -> int:
    """The first level with at most two nodes."""
    level = 0
    while (last >> level) - (head >> level) > 1:
        level += 1
    return level


def renew(tree: Any, leaves: int, level: int, node: int, head: int, last: int) -> None:
    """Compute a node from those of its two children that are in the window."""
    target, below = at(leaves, level, node), level - 1
    left, right = 2 * node >= head >> below, 2 * node + 1 <= last >> below
    if left and right:
        merge(tree, target, tree, at(leaves, below, 2 * node), tree, at(leaves, below, 2 * node + 1))
    elif left:
        copy(tree, target, tree, at(leaves, below, 2 * node))
    else:
        copy(tree, target, tree, at(leaves, below, 2 * node + 1))


def at(leaves: int, level: int, node: int) -> int:
    """The slot of a node. Level 0 is a ring of ``leaves`` slots; level l, after those below it, one of 2 ·
    leaves / 2ˡ.
    """
    if level == 0:
        return node & (leaves - 1)
    return 3 * leaves - ((4 * leaves) >> level) + (node & (((2 * leaves) >> level) - 1))
