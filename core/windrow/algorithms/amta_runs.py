# SPDX-License-Identifier: Apache-2.0
"""AMTA over a whole column: the same forest, stack and combines, but in runs of :data:`RUN` rows.

An entry of the stack is the node that begins at its position, combined with the entry that follows that node. So the entries
of a run of evictions can be made together, from the newest to the oldest, and an eviction is then a step to the next of
them. The parents of a run of leaves are made together too. Both loops have no branch that depends on a row's position.
"""

from __future__ import annotations

from typing import Any

from windrow.algorithms.amta import DEPTH, END, LEAVES, R1, TOP
from windrow.algorithms.base import (
    HEAD,
    TAIL,
    compute_left_result,
    compute_right_result,
    evict_run,
    grow_left,
)
from windrow.kernels.columns.layout import ColumnOutput, Input
from windrow.kernels.columns.lifted import emit, join, row
from windrow.kernels.partials import copy, load, merge, store

RUN = 64
"""How many positions a run has: a power of two. AMTA binds a longer one where that is faster."""
LONG = 256
"""A run of partials that take longer to combine than a comparison: fewer runs have fewer ends of loops."""
SHORTEST = 4
"""Windows of fewer runs are not worth it. The oldest and the newest run do not touch."""


def slide_rows(state: Any, ahead: Any, rows: Input, range_: int, end: int, out: ColumnOutput) -> None:
    """Every window of so many rows, which slides by one, up to ``end``; on an empty state.

    ``ahead`` has RUN slots: the stack's entries for the positions of the run that the window begins in.
    """
    meta, forest, stack, result = state
    mask = 2 * meta[LEAVES] - 1
    fill(state, rows, range_, mask, out)
    enter_run(meta, forest, stack, ahead, mask)
    head, tail, raised = meta[HEAD], range_, range_ + 1
    while tail < end:
        head += 1
        if head & (RUN - 1) == 0:
            raised = next_run(state, ahead, head, tail, raised, mask)
        position = head & (RUN - 1)
        stop = min(end, tail + RUN - position, tail + RUN - ((tail + 1) & (RUN - 1)))
        take_rows(state, ahead, rows, tail, stop, position, range_, out)
        head += stop - tail - 1
        tail = stop
        if (tail + 1) & (RUN - 1) == 0:
            raise_due(forest, raised, tail + 1, 1 << meta[TOP], mask)
            raised = tail + 1
            if raised & ((1 << meta[TOP]) - 1) == 0:  # the leftmost tree may have grown
                leave_run(meta, stack, ahead, head, tail)
                grow_left(state)
                enter_run(meta, forest, stack, ahead, mask)
                emit(out, tail - range_, join(load(ahead, head & (RUN - 1)), load(result, R1)))
    raise_due(forest, raised, tail + 1, 1 << meta[TOP], mask)
    leave_run(meta, stack, ahead, head, tail)


def fill(state: Any, rows: Input, range_: int, mask: int, out: ColumnOutput) -> None:
    """The rows of the first window. Stack and R₁ are those of the leftmost tree when it grew last, and of the rows since then."""
    meta, forest, stack, result = state
    while (range_ + 1) >> (meta[TOP] + 2) > 0:
        meta[TOP] += 1
    largest, raised = 1 << meta[TOP], 1
    grown = (range_ + 1) // largest * largest - 1
    for begin in range(0, grown, RUN):
        stop = min(begin + RUN, grown)
        for place in range(begin, stop):
            store(forest, (2 * place) & mask, row(rows, place))
        raise_due(forest, raised, stop + 1, largest, mask)
        raised = stop + 1
    meta[TAIL] = grown
    compute_left_result(state)
    compute_right_result(state)
    others = load(result, R1)
    for place in range(grown, range_):
        leaf = row(rows, place)
        store(forest, (2 * place) & mask, leaf)
        others = join(others, leaf)
    store(result, R1, others)
    raise_due(forest, raised, range_ + 1, largest, mask)
    meta[TAIL] = range_
    emit(out, 0, join(load(stack, meta[DEPTH] - 1), others))


def take_rows(
    state: Any, ahead: Any, rows: Input, tail: int, stop: int, position: int, range_: int, out: ColumnOutput
) -> None:
    """Insert rows as leaves, each after an eviction within the run, and query."""
    _, forest, _, result = state
    mask, others = len(forest[0]) - 1, load(result, R1)
    for place in range(tail, stop):
        leaf = row(rows, place)
        store(forest, (2 * place) & mask, leaf)
        others = join(others, leaf)
        emit(out, place - range_ + 1, join(load(ahead, position + place - tail), others))
    store(result, R1, others)


def next_run(state: Any, ahead: Any, head: int, tail: int, raised: int, mask: int) -> int:
    """The window begins with another run: in the same tree, or in the next one. Returns for where parents are made."""
    meta, forest, stack, _ = state
    if head < meta[END]:
        meta[HEAD] = head
        make_run(meta, forest, stack, ahead, mask)
        return raised
    raise_due(forest, raised, tail + 1, 1 << meta[TOP], mask)
    leave_run(meta, stack, ahead, head - 1, tail)
    evict_run(state, 1)
    enter_run(meta, forest, stack, ahead, mask)
    return tail + 1


def enter_run(meta: Any, forest: Any, stack: Any, ahead: Any, mask: int) -> None:
    """The entries of the run that the window begins in leave the stack; ``ahead`` has them all."""
    head = meta[HEAD]
    begin, position = head - (head & (RUN - 1)), head
    while position < begin + RUN and position & (RUN - 1) != 0:
        meta[DEPTH] -= 1
        position += lowest_bit(position)
    if position == begin:  # R₀ begins with a node that has all of the run
        make_run(meta, forest, stack, ahead, mask)
    else:
        fill_run(meta, forest, stack, ahead, begin, mask)


def make_run(meta: Any, forest: Any, stack: Any, ahead: Any, mask: int) -> None:
    """The stack's top is that of a position where a run begins: the node there is taken apart, down to this run."""
    begin, size = meta[HEAD], lowest_bit(meta[HEAD] | (1 << meta[TOP]))
    meta[DEPTH] -= 1
    copy(ahead, 0, stack, meta[DEPTH])
    while size > RUN:
        size >>= 1
        node = (2 * begin + 3 * size - 1) & mask
        if meta[DEPTH] == 0:
            copy(stack, 0, forest, node)
        else:
            merge(stack, meta[DEPTH], forest, node, stack, meta[DEPTH] - 1)
        meta[DEPTH] += 1
    fill_run(meta, forest, stack, ahead, begin, mask)


def fill_run(meta: Any, forest: Any, stack: Any, ahead: Any, begin: int, mask: int) -> None:
    """The entries of all positions of a run but the first. The stack has what follows the run. Level by level: no branch."""
    depth, size = meta[DEPTH], RUN >> 1
    first = (2 * begin) & mask  # the nodes below a run lie side by side
    while size > 0:
        position = RUN - size
        node = first + 2 * position + size - 1
        if depth > 0:
            merge(ahead, position, forest, node, stack, depth - 1)
        else:
            copy(ahead, position, forest, node)
        position -= 2 * size
        while position > 0:
            merge(ahead, position, forest, first + 2 * position + size - 1, ahead, position + size)
            position -= 2 * size
        size >>= 1


def leave_run(meta: Any, stack: Any, ahead: Any, head: int, tail: int) -> None:
    """The stack gets its entries for the window's beginning, and ``meta`` is that of the window."""
    size, chain, position = lowest_bit(head | (1 << meta[TOP])), 1, head & (RUN - 1)
    while size > RUN:  # a node that was taken apart is whole again
        meta[DEPTH] -= 1
        size >>= 1
    while 0 < position < RUN - size:  # the entries that later evictions come to, up to the end of the run
        position += size
        size = lowest_bit(position)
        chain += 1
    meta[HEAD], meta[TAIL], meta[DEPTH] = head, tail, meta[DEPTH] + chain
    position = head & (RUN - 1)
    for above in range(chain):
        copy(stack, meta[DEPTH] - 1 - above, ahead, position)
        position += lowest_bit(position)


def raise_due(forest: Any, before: int, ready: int, largest: int, mask: int) -> None:
    """The parents that were due at ``ready`` and not yet at ``before``, level by level. Where none is due, none is above."""
    level, size = 1, 2
    while size <= largest:
        end, half = max((before >> level) + 1, 2) << level, size >> 1
        if end > ready:
            return
        while end <= ready:
            node = (2 * end - 3 * size - 1) & mask
            merge(forest, node, forest, (node - half) & mask, forest, (node + half) & mask)
            end += size
        level, size = level + 1, 2 * size


def lowest_bit(number: int) -> int:
    """The largest power of two that divides a number."""
    return number & -number
