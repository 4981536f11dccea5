# SPDX-License-Identifier: Apache-2.0
"""FlatFAT: a flat fixed-sized aggregator, the reactive aggregator's tree."""

from __future__ import annotations

from typing import Any

import numpy as np

from windrow.aggregates.algebra import Partial
from windrow.algorithms.base import HEAD, TAIL, State, take
from windrow.algorithms.tree import Tree
from windrow.kernels.partials import allocate, clear, copy, merge


class FlatFAT(Tree):
    """A complete binary tree in an array, whose leaves are a ring of partials; empty leaves hold the
    identity.

    Node k has the children 2k and 2k + 1; the leaves are the second half of the array. When the ring has
    wrapped around, the window is a suffix and then a prefix of the leaves, so order is kept.

    - Order: FIFO, and insertion at any time that is already there; range queries. Operator: any monoid.
    - Combines, N being n rounded up to a power of two: log₂ N per insertion, log₂ N per eviction, at most 2
      log₂ N + 1 per query; a bulk eviction at most 4 log₂ N.
    - Space: 2N partials.
    - Paper: Tangwongsan et al., *General Incremental Sliding-Window Aggregation*, VLDB 2015.

    >>> import windrow as wr
    >>> window = FlatFAT(wr.Max(), compiled=False)
    >>> for time, load in ((10, 3.0), (20, 7.0), (30, 5.0)):
    ...     window.insert_at(time, (load,))
    >>> window.insert_at(10, (9.0,))
    >>> window.query(), window.range_query(15, 31)
    ((9.0,), (7.0,))
    """

    @property
    def capacity(self) -> int:
        return len(self._state[1][0]) // 2

    @property
    def partials(self) -> int:
        return 2 * self.capacity + 1

    def _allocate(self, capacity: int) -> State:
        return np.zeros(2, dtype=np.int64), allocate(self.monoid, 2 * capacity), allocate(self.monoid, 1)

    def _leaves(self, positions: Any) -> Any:
        return self.capacity + (positions & (self.capacity - 1))

    def _node(self, level: int, index: int) -> Partial:
        nodes = self.capacity >> level
        return take(self.monoid, self._state[1], nodes + (index & (nodes - 1)))

    def _highest(self, begin: int) -> int:
        return self.capacity.bit_length() - 1

    def _grow(self) -> None:
        positions = np.arange(*self._span())
        meta, tree, _ = self._state
        old = self._leaves(positions)
        held = tuple(array[old] for array in tree)
        self._state = self._allocate(2 * self.capacity)
        self._state[0][:] = meta
        for source, target in zip(held, self._state[1], strict=True):
            target[self._leaves(positions)] = source
        self._kernel.build(self._state)


def insert(state: Any, parts: Any, i: int) -> None:
    meta, tree, _ = state
    leaf = leaf_of(tree, meta[TAIL])
    copy(tree, leaf, parts, i)
    climb(tree, leaf)
    meta[TAIL] += 1


def evict(state: Any) -> None:
    meta, tree, _ = state
    leaf = leaf_of(tree, meta[HEAD])
    clear(tree, leaf)
    climb(tree, leaf)
    meta[HEAD] += 1


def evict_many(state: Any, n: int) -> None:
    meta, tree, _ = state
    first, last = leaf_of(tree, meta[HEAD]), leaf_of(tree, meta[HEAD] + n - 1)
    if first <= last:
        empty(tree, first, last)
    else:
        empty(tree, first, len(tree[0]) - 1)
        empty(tree, len(tree[0]) // 2, last)
    meta[HEAD] += n


def update(state: Any, position: int, parts: Any, i: int) -> None:
    tree = state[1]
    leaf = leaf_of(tree, position)
    merge(tree, leaf, tree, leaf, parts, i)
    climb(tree, leaf)


def query(state: Any, out: Any, i: int) -> None:
    meta, tree, _ = state
    if meta[HEAD] == meta[TAIL]:
        clear(out, i)
    elif leaf_of(tree, meta[HEAD]) <= leaf_of(tree, meta[TAIL] - 1):
        copy(out, i, tree, 1)
    else:
        query_range(state, meta[HEAD], meta[TAIL], out, i)


def query_range(state: Any, begin: int, end: int, out: Any, i: int) -> None:
    _, tree, acc = state
    if begin >= end:
        clear(out, i)
        return
    first, last = leaf_of(tree, begin), leaf_of(tree, end - 1)
    if first <= last:
        fold(tree, first, last, out, i, acc)
        return
    copy(out, i, tree, first)  # to the last leaf
    while first > 1:
        if first & 1 == 0:
            merge(out, i, out, i, tree, first + 1)
        first >>= 1
    copy(acc, 0, tree, last)  # from the first leaf
    while last > 1:
        if last & 1 == 1:
            merge(acc, 0, tree, last - 1, acc, 0)
        last >>= 1
    merge(out, i, out, i, acc, 0)


def leaf_of(tree: Any, position: int) -> int:
    leaves = len(tree[0]) // 2
    return leaves + (position & (leaves - 1))


def climb(tree: Any, node: int) -> None:
    """Recompute what is above a node."""
    node >>= 1
    while node >= 1:
        merge(tree, node, tree, 2 * node, tree, 2 * node + 1)
        node >>= 1


def empty(tree: Any, first: int, last: int) -> None:
    """Clear the leaves from first to last; above them only the ends of each level need a combine."""
    for leaf in range(first, last + 1):
        clear(tree, leaf)
    first, last = first >> 1, last >> 1
    while first >= 1:
        merge(tree, first, tree, 2 * first, tree, 2 * first + 1)
        for node in range(first + 1, last):
            clear(tree, node)
        if last > first:
            merge(tree, last, tree, 2 * last, tree, 2 * last + 1)
        first, last = first >> 1, last >> 1


def fold(tree: Any, first: int, last: int, out: Any, i: int, acc: Any) -> None:
    """The aggregate of the leaves from first to last."""
    if first == last:
        copy(out, i, tree, first)
        return
    copy(out, i, tree, first)
    copy(acc, 0, tree, last)
    while first >> 1 != last >> 1:
        if first & 1 == 0:
            merge(out, i, out, i, tree, first + 1)
        if last & 1 == 1:
            merge(acc, 0, tree, last - 1, acc, 0)
        first, last = first >> 1, last >> 1
    merge(out, i, out, i, acc, 0)


def build(state: Any) -> None:
    """Compute every inner node from the leaves."""
    tree = state[1]
    for node in range(len(tree[0]) // 2 - 1, 0, -1):
        merge(tree, node, tree, 2 * node, tree, 2 * node + 1)
