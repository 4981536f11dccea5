# SPDX-License-Identifier: Apache-2.0
"""AMTA: the amortised monoid tree aggregator, a forest kept as a queue per level.

Names are those of the thesis. Its pseudo-code is not followed where its own definitions contradict it: R₁
leaves out the leftmost tree (Algorithm 5 adds it), and R₀ is set up again when that tree is used up
(Algorithm 6 leaves it empty)."""

from __future__ import annotations

import sys
from functools import lru_cache
from types import SimpleNamespace
from typing import Any

import numpy as np

from windrow.aggregates.algebra import Monoid, Partial
from windrow.algorithms.base import HEAD, TAIL, State, out_rows, specialised, take
from windrow.algorithms.tree import Tree
from windrow.kernels.columns.layout import ColumnOutput, Input
from windrow.kernels.columns.lifted import fusible, row_slots
from windrow.kernels.partials import allocate, blank, clear, copy, merge
from windrow.kernels.specialise import specialise

TOP, END, DEPTH, LEAVES = 2, 3, 4, 5
"""The highest level, the position where the leftmost tree ends, the height of the stack, the capacity."""

R1 = 0


class AMTA(Tree):
    """A forest of binary trees that grows by carries, as a binary counter does; a stack of what evictions
    will leave.

    ::

        level 2    a b c d                              R₀ = b ⊕ c ⊕ d, the leftmost tree (a is evicted)
        level 1    a b     c d     e f     g h          R₁ = e ⊕ f ⊕ g ⊕ h ⊕ i
        level 0    ∅ b     c d     e f     g h     i    S  = (c ⊕ d, R₀): what is left without b, and R₀ on top

    Nodes come in pairs. A pair gets a parent, on the next level, only when another pair starts beside it, so
    a node is computed once and the last pair of each level is the root of a tree. Node k of level l covers
    the positions [k·2ˡ, (k + 1)·2ˡ), and the last node of level l is ⌊(tail + 1) / 2ˡ⌋ - 2, so that which
    nodes exist follows from two numbers. An eviction takes R₀ off the stack, and takes
    apart the node that it began with: the right halves are pushed, each with what follows it, so that the last is R₀
    now. The nodes above evicted positions go stale and are never read. A bulk eviction
    only finds the tree it ends in and sets up stack and R anew.

    - Order: FIFO, and insertion at any time that is already there; range queries; window slide policies.
      Operator: any monoid.
    - Combines per slide: at most 5 amortised; O(log n) worst. Over a column: 4.6, and 0.75 more where one selects. A bulk
      eviction: at most 4 log₂ n + 2.
    - Space: 2N partials, N being n rounded up to a power of two, and O(log n) for stack and R.
    - Paper: Villalba, Berral and Carrera, *Constant-Time Sliding Window Framework with Reduced Memory
      Footprint and Efficient Bulk Evictions*, TPDS 2018; Villalba's thesis (2019), Algorithms 3 to 9.

    >>> import windrow as wr
    >>> window = AMTA(wr.Max(), compiled=False)
    >>> for time, load in ((10, 3.0), (20, 7.0), (30, 5.0)):
    ...     window.insert_at(time, (load,))
    >>> window.range_query(25, 31)
    (5.0,)
    >>> window.enforce(valid=lambda largest: largest[0] < 6)
    2
    """

    @property
    def capacity(self) -> int:
        return len(self._state[1][0]) // 2

    @property
    def partials(self) -> int:
        head, tail = self._span()
        nodes = sum(
            last_of(tail, level) - (head >> level) + 1 for level in range(int(self._state[0][TOP]) + 1)
        )
        return nodes + int(self._state[0][DEPTH]) + 1

    def _allocate(self, capacity: int) -> State:
        meta = np.zeros(6, dtype=np.int64)
        meta[LEAVES] = capacity
        sizes = (capacity.bit_length() + 2, 1)
        return (meta, blank(self.monoid, 2 * capacity), *(allocate(self.monoid, size) for size in sizes))

    def run_over(self, rows: Input, range_: int, slide: int, out: ColumnOutput) -> None:
        from windrow.algorithms import amta_runs

        end = out_rows(len(out.values), range_, slide)
        long = range_ >= amta_runs.SHORTEST * amta_runs.LONG
        run = amta_runs.LONG if long else amta_runs.RUN
        whole = slide == 1 and amta_runs.SHORTEST * run <= range_ <= end
        if not (whole and fusible(self.monoid)):
            super().run_over(rows, range_, slide, out)
            return
        ahead = allocate(self.monoid, 3 * run)
        kernel = _in_runs(self.monoid, len(rows.valid) > 0, run, self.compiled)
        if self.monoid.defined is None:
            out.ok[:] = True
        kernel.slide_rows(self._state, ahead, rows, range_, end, out)

    def _leaves(self, positions: Any) -> Any:
        return positions & (self.capacity - 1)

    def _node(self, level: int, index: int) -> Partial:
        return take(self.monoid, self._state[1], int(at(self._state[0], level, index)))

    def _highest(self, begin: int) -> int:
        level = int(self._state[0][TOP])
        while level and begin >> level > last_of(int(self._state[0][TAIL]), level):
            level -= 1
        return level

    def _grow(self) -> None:
        old, small = self._state, self.capacity
        self._state = self._allocate(2 * small)
        meta = self._state[0]
        meta[:LEAVES] = old[0][:LEAVES]
        head, tail = self._span()
        for level in range(int(meta[TOP]) + 1):
            nodes = np.arange(head >> level, last_of(tail, level) + 1)
            for source, target in zip(old[1], self._state[1], strict=True):
                target[at(meta, level, nodes)] = source[at(old[0], level, nodes)]
        for before, after in zip(old[2:], self._state[2:], strict=True):
            for source, target in zip(before, after, strict=True):
                target[: len(source)] = source


@lru_cache(maxsize=256)
def _in_runs(monoid: Monoid, masked: bool, run: int, compiled: bool) -> SimpleNamespace:
    """The loop over a column, made of the operations below."""
    from windrow.algorithms import amta_runs

    tree = specialised(sys.modules[__name__], monoid, compiled)
    names = ("evict_run", "grow_left", "compute_left_result", "compute_right_result")
    seam = {**row_slots(monoid, masked), "RUN": run, "SELECTIVE": monoid.selective}
    bound = {name: getattr(tree, name).compiled if compiled else getattr(tree, name) for name in names}
    return specialise(amta_runs, {**seam, **bound}, compiled=compiled)


def insert(state: Any, parts: Any, i: int) -> None:
    meta, forest, stack, result = state
    tail = meta[TAIL]
    copy(forest, at(meta, 0, tail), parts, i)
    meta[TAIL] = tail + 1
    if meta[HEAD] == tail:
        meta[TOP], meta[END], meta[DEPTH] = 0, tail + 1, 1
        copy(stack, 0, parts, i)
        return
    if meta[END] == tail:
        copy(result, R1, parts, i)
    else:
        merge(result, R1, result, R1, parts, i)
    level, ready = 1, tail + 2  # the pairs that end before a position have parents
    while level <= meta[TOP] and ready & ((1 << level) - 1) == 0:
        raise_pair(meta, forest, level, (ready >> level) - 2)
        level += 1
    if level > meta[TOP]:
        grow_left(state)


def evict(state: Any) -> None:
    """R₀ leaves the stack. The node that it began with is taken apart, so that what follows the oldest leaf is R₀ now."""
    meta, forest, stack, _ = state
    head = meta[HEAD]
    if head + 1 >= meta[END]:
        evict_run(state, 1)
        return
    meta[HEAD] = head + 1
    meta[DEPTH] -= 1
    level = level_of(head, meta[TOP])
    while level > 0:  # the right halves of the nodes that begin here
        level -= 1
        push(meta, stack, forest, at(meta, level, (head >> level) + 1))


def evict_many(state: Any, n: int) -> None:
    if n <= state[0][TOP]:
        for _ in range(n):
            evict(state)
    else:
        evict_run(state, n)


def evict_run(state: Any, n: int) -> None:
    """Bulk eviction: find the tree that the window now begins in, and set up stack and R for it."""
    meta = state[0]
    meta[HEAD] += n
    if meta[HEAD] == meta[TAIL]:
        meta[TOP], meta[END], meta[DEPTH] = 0, meta[TAIL], 0
        return
    same_tree = meta[HEAD] < meta[END]
    while last_of(meta[TAIL], meta[TOP]) < meta[HEAD] >> meta[TOP]:
        meta[TOP] -= 1
    compute_left_result(state)
    if not same_tree:
        compute_right_result(state)


def update(state: Any, position: int, parts: Any, i: int) -> None:
    meta, forest, _, _ = state
    leaf = at(meta, 0, position)
    merge(forest, leaf, forest, leaf, parts, i)
    level = 1
    while level <= meta[TOP] and position >> level <= last_of(meta[TAIL], level):
        raise_pair(meta, forest, level, position >> level)
        level += 1
    compute_left_result(state)
    compute_right_result(state)


def extend(state: Any, parts: Any, i: int) -> None:
    """A partial is combined into the newest one, which has no parent yet: constant time."""
    meta, forest, _, result = state
    leaf = at(meta, 0, meta[TAIL] - 1)
    merge(forest, leaf, forest, leaf, parts, i)
    if meta[END] == meta[TAIL]:  # one pair of leaves is all there is
        compute_left_result(state)
    else:
        merge(result, R1, result, R1, parts, i)


def drop_leaves(state: Any) -> None:
    """Level eviction: the nodes of level 1 become the leaves. The newest leaves, which have no parent, become one.

    A node that has lost updates is computed anew first, as far up as there are levels.
    """
    meta, forest, stack, _ = state
    head, tail, top = meta[HEAD], meta[TAIL], meta[TOP]
    for level in range(1, top + 1):
        if head & ((1 << level) - 1) != 0:
            raise_pair(meta, forest, level, head >> level)
    parents, spare = last_of(tail, 1) + 1, len(stack[0]) - 1
    first = max(2 * parents, head)
    copy(stack, spare, forest, at(meta, 0, first))
    for position in range(first + 1, tail):
        merge(stack, spare, stack, spare, forest, at(meta, 0, position))
    for level in range(top):
        for node in range(head >> (level + 1), last_of(tail, level + 1) + 1):
            copy(forest, at(meta, level, node), forest, at(meta, level + 1, node))
    meta[HEAD], meta[TAIL], meta[TOP] = head >> 1, max(parents, head >> 1), max(top - 1, 0)
    if meta[HEAD] < meta[TAIL]:
        compute_left_result(state)
        compute_right_result(state)
    insert(state, stack, spare)


def query(state: Any, out: Any, i: int) -> None:
    meta, _, stack, result = state
    if meta[HEAD] == meta[TAIL]:
        clear(out, i)
    elif meta[END] == meta[TAIL]:
        copy(out, i, stack, meta[DEPTH] - 1)
    else:
        merge(out, i, stack, meta[DEPTH] - 1, result, R1)


def query_range(state: Any, begin: int, end: int, out: Any, i: int) -> None:
    """Hop over the largest nodes that fit, up the trees and down again."""
    meta, forest, _, _ = state
    level, started = 0, 0
    if begin >= end:
        clear(out, i)
    while begin < end:
        while level < meta[TOP] and begin & ((2 << level) - 1) == 0:
            level += 1
        while begin + (1 << level) > end or begin >> level > last_of(meta[TAIL], level):
            level -= 1
        node = at(meta, level, begin >> level)
        if started == 0:
            copy(out, i, forest, node)
        else:
            merge(out, i, out, i, forest, node)
        started = 1
        begin += 1 << level


def grow_left(state: Any) -> None:
    """The highest level has a new node, or needs a level above it: the leftmost tree may have grown."""
    meta, forest, _, _ = state
    ready, above = meta[TAIL] + 1, meta[TOP] + 1
    grown = ready & ((1 << above) - 1) == 0 and (ready >> above) - 2 >= meta[HEAD] >> above
    if grown:
        raise_pair(meta, forest, above, (ready >> above) - 2)
        meta[TOP] = above
    longer = end_of(meta) != meta[END]
    if grown or longer:
        compute_left_result(state)
    if longer:
        compute_right_result(state)


def compute_left_result(state: Any) -> None:
    """Set up the stack from the leftmost tree: R₀ is its top, and begins with the largest node that begins at the head."""
    meta, forest, stack, _ = state
    head, level = meta[HEAD], meta[TOP]
    meta[END], meta[DEPTH] = end_of(meta), 0
    while True:
        sibling = (head >> level) + 1
        if sibling & 1 == 1 and sibling << level < meta[END]:
            push(meta, stack, forest, at(meta, level, sibling))
        if head & ((1 << level) - 1) == 0:
            break
        level -= 1
    push(meta, stack, forest, at(meta, level, head >> level))


def compute_right_result(state: Any) -> None:
    """Set up R₁ from the roots of all trees but the leftmost."""
    meta, forest, _, result = state
    tail = meta[TAIL]
    for level in range(meta[TOP]):
        last = last_of(tail, level)
        if level == 0:
            copy(result, R1, forest, at(meta, level, last))
        else:
            merge(result, R1, forest, at(meta, level, last), result, R1)
        if last & 1 == 1:
            merge(result, R1, forest, at(meta, level, last - 1), result, R1)


def push(meta: Any, stack: Any, forest: Any, node: int) -> None:
    """Put a node, and all that the stack's top holds, onto the stack."""
    depth = meta[DEPTH]
    if depth == 0:
        copy(stack, 0, forest, node)
    else:
        merge(stack, depth, forest, node, stack, depth - 1)
    meta[DEPTH] = depth + 1


def raise_pair(meta: Any, forest: Any, level: int, node: int) -> None:
    """Compute a node from the pair below it, whose left member may have been evicted."""
    target, right = at(meta, level, node), at(meta, level - 1, 2 * node + 1)
    if 2 * node >= meta[HEAD] >> (level - 1):
        merge(forest, target, forest, at(meta, level - 1, 2 * node), forest, right)
    else:
        copy(forest, target, forest, right)


def end_of(meta: Any) -> int:
    """One past the last position of the leftmost tree."""
    return int((last_of(meta[TAIL], meta[TOP]) + 1) << meta[TOP])


def last_of(tail: int, level: int) -> int:
    """The last node of a level."""
    return ((tail + 1) >> level) - 2


def at(meta: Any, level: int, node: Any) -> Any:
    """The slot of a node. Every level is a ring, after that of the level below, which is twice as long."""
    size = ring(meta, level)
    return 2 * (meta[LEAVES] - size) + (node & (size - 1))


def ring(meta: Any, level: int) -> Any:
    """How many nodes a level has room for."""
    return meta[LEAVES] >> level


def level_of(begin: int, top: int) -> int:
    """The highest level at which a node begins at a position."""
    level = 0
    while level < top and begin & (1 << level) == 0:
        level += 1
    return level
