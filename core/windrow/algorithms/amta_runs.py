# SPDX-License-Identifier: Apache-2.0
"""AMTA over a whole column: the same forest, stack and results, but in runs of :data:`RUN` rows.

An entry of the stack is the node that begins at its position, combined with the entry that follows that node. So the entries
of a run of evictions can be made together, level by level, and an eviction is then a step to the next of
them. The parents of a run of leaves are made together too. No loop has a branch that depends on a row's position, and
most of them work on neighbours in memory, many partials at once.
"""

from __future__ import annotations

from typing import Any

from windrow.algorithms.amta import DEPTH, END, R1, TOP, at, level_of, ring
from windrow.algorithms.base import (
    HEAD,
    TAIL,
    compute_left_result,
    compute_right_result,
    evict_run,
    grow_left,
)
from windrow.kernels.columns.layout import ColumnOutput, Input
from windrow.kernels.columns.lifted import emit, join, row, some, span
from windrow.kernels.partials import copy, load, merge, store

RUN = 64
"""How many positions a run has: a power of four. AMTA binds a longer one where the window has room for it."""
LONG = 1024
"""Fewer runs have fewer ends of loops, and longer loops over many partials at once."""
SELECTIVE = False
"""Whether a combine gives one of the two. AMTA binds it."""
SHORTEST = 4
"""Windows of fewer runs are not worth it. The oldest and the newest run do not touch."""


def slide_rows(state: Any, ahead: Any, rows: Input, range_: int, end: int, out: ColumnOutput) -> None:
    """Every window of so many rows, which slides by one, up to ``end``; on an empty state. See :func:`slide_on`."""
    fill(state, rows, range_, out)
    slide_on(state, ahead, some(rows, range_, end), end - range_, places(out, 1, end - range_ + 1))


def slide_on(state: Any, ahead: Any, rows: Input, count: int, out: ColumnOutput) -> None:
    """Before each of the first ``count`` rows the oldest leaf leaves; after it, the result goes to the row's place.

    ``ahead`` has 3 · RUN slots: the stack's entries for the positions of the run that the window begins in, and room.
    """
    meta, forest, stack, result = state
    enter_run(meta, forest, stack, ahead)
    done, head, tail, raised = 0, meta[HEAD], meta[TAIL], meta[TAIL] + 1
    while done < count:
        head += 1
        if head & (RUN - 1) == 0:
            raised = next_run(state, ahead, head, tail, raised)
        position = head & (RUN - 1)
        stop = done + min(count - done, RUN - position, RUN - ((tail + 1) & (RUN - 1)))
        take_rows(state, ahead, some(rows, done, stop), tail, position, places(out, done, stop))
        head += stop - done - 1
        tail += stop - done
        done = stop
        if (tail + 1) & (RUN - 1) == 0:
            raise_due(meta, forest, raised, tail + 1)
            raised = tail + 1
            if raised & ((1 << meta[TOP]) - 1) == 0:  # the leftmost tree may have grown
                leave_run(meta, stack, ahead, head, tail)
                grow_left(state)
                enter_run(meta, forest, stack, ahead)
                emit(out, done - 1, join(load(ahead, head & (RUN - 1)), load(result, R1)))
    raise_due(meta, forest, raised, tail + 1)
    leave_run(meta, stack, ahead, head, tail)


def insert_on(state: Any, rows: Input, count: int) -> None:
    """Insert the first ``count`` rows, and evict nothing. The leftmost tree has a run at least."""
    meta, forest, _, result = state
    done, raised = 0, meta[TAIL] + 1
    while done < count:
        tail = meta[TAIL]
        stop = done + min(
            count - done, RUN - ((tail + 1) & (RUN - 1)), ring(meta, 0) - (tail & (ring(meta, 0) - 1))
        )
        leaf = at(meta, 0, tail)
        leaves = span(forest, leaf, leaf + stop - done)
        lift_all(some(rows, done, stop), leaves)
        others = load(result, R1)
        for i in range(stop - done):
            others = join(others, load(leaves, i))
        store(result, R1, others)
        meta[TAIL] = tail + stop - done
        done = stop
        if (meta[TAIL] + 1) & (RUN - 1) == 0:
            raise_due(meta, forest, raised, meta[TAIL] + 1)
            raised = meta[TAIL] + 1
            if raised & ((1 << meta[TOP]) - 1) == 0:
                grow_left(state)
    raise_due(meta, forest, raised, meta[TAIL] + 1)


def fill(state: Any, rows: Input, range_: int, out: ColumnOutput) -> None:
    """The rows of the first window. Stack and R₁ are those of the leftmost tree when it grew last, and of the rows since then."""
    meta, forest, stack, result = state
    while (range_ + 1) >> (meta[TOP] + 2) > 0:
        meta[TOP] += 1
    raised = 1
    grown = ((range_ + 1) >> meta[TOP] << meta[TOP]) - 1
    for begin in range(0, grown, RUN):
        stop = min(begin + RUN, grown)
        lift_all(some(rows, begin, stop), span(forest, begin, stop))
        raise_due(meta, forest, raised, stop + 1)
        raised = stop + 1
    meta[TAIL] = grown
    compute_left_result(state)
    compute_right_result(state)
    others = load(result, R1)
    for place in range(grown, range_):
        leaf = row(rows, place)
        store(forest, at(meta, 0, place), leaf)
        others = join(others, leaf)
    store(result, R1, others)
    raise_due(meta, forest, raised, range_ + 1)
    meta[TAIL] = range_
    emit(out, 0, join(load(stack, meta[DEPTH] - 1), others))


def take_rows(state: Any, ahead: Any, rows: Input, tail: int, position: int, out: ColumnOutput) -> None:
    """Insert rows as leaves, each after an eviction within the run, and query."""
    meta, forest, _, result = state
    count, size = len(out.values), ring(meta, 0)
    rest = span(ahead, 2 * RUN, 2 * RUN + count)
    lift_all(rows, rest)
    fit, leaf = min(count, size - (tail & (size - 1))), at(meta, 0, tail)
    copy_all(span(forest, leaf, leaf + fit), rest, fit)
    if fit < count:
        leaf = at(meta, 0, tail + fit)
        copy_all(span(forest, leaf, leaf + count - fit), span(rest, fit, count), count - fit)
    store(result, R1, join_all(load(result, R1), rest))
    emit_all(out, span(ahead, position, position + count), rest)


def places(out: ColumnOutput, begin: int, end: int) -> ColumnOutput:
    """Some of the places for results."""
    return ColumnOutput(out.values[begin:end], out.ok[begin:end])


def lift_all(rows: Input, into: Any) -> None:
    """Rows as partials."""
    for i in range(len(into[0])):
        store(into, i, row(rows, i))


def copy_all(into: Any, source: Any, count: int) -> None:
    """So many partials, from one place to another."""
    for i in range(count):
        store(into, i, load(source, i))


def join_all(first: Any, parts: Any) -> Any:
    """Each partial becomes the combination of all up to it; the last is returned.

    A selective combine gives one of the two, however they are grouped. So there are four chains, which do not wait for each other.
    """
    part = len(parts[0]) // 4 if SELECTIVE else 0
    if part > 0:
        u, v, w = (
            span(parts, part, 2 * part),
            span(parts, 2 * part, 3 * part),
            span(parts, 3 * part, 4 * part),
        )
        a, b, c, d = join(first, load(parts, 0)), load(u, 0), load(v, 0), load(w, 0)
        store(parts, 0, a)
        for i in range(1, part):
            a, b, c, d = (
                join(a, load(parts, i)),
                join(b, load(u, i)),
                join(c, load(v, i)),
                join(d, load(w, i)),
            )
            store(parts, i, a)
            store(u, i, b)
            store(v, i, c)
            store(w, i, d)
        b = join(a, b)
        c = join(b, c)
        prepend(a, u)
        prepend(b, v)
        prepend(c, w)
        first = join(c, d)
    for i in range(4 * part, len(parts[0])):
        first = join(first, load(parts, i))
        store(parts, i, first)
    return first


def prepend(first: Any, parts: Any) -> None:
    """What came before is combined into each partial."""
    for i in range(len(parts[0])):
        store(parts, i, join(first, load(parts, i)))


def emit_all(out: ColumnOutput, first: Any, rest: Any) -> None:
    """Results of two partials each."""
    for i in range(len(out.values)):
        emit(out, i, join(load(first, i), load(rest, i)))


def next_run(state: Any, ahead: Any, head: int, tail: int, raised: int) -> int:
    """The window begins with another run: in the same tree, or in the next one. Returns for where parents are made."""
    meta, forest, stack, _ = state
    if head < meta[END]:
        meta[HEAD] = head
        make_run(meta, forest, stack, ahead)
        return raised
    raise_due(meta, forest, raised, tail + 1)
    leave_run(meta, stack, ahead, head - 1, tail)
    evict_run(state, 1)
    enter_run(meta, forest, stack, ahead)
    return tail + 1


def enter_run(meta: Any, forest: Any, stack: Any, ahead: Any) -> None:
    """The entries of the run that the window begins in leave the stack; ``ahead`` has them all."""
    head = meta[HEAD]
    begin, position = head - (head & (RUN - 1)), head
    while position < begin + RUN and position & (RUN - 1) != 0:
        meta[DEPTH] -= 1
        position += lowest_bit(position)
    if position == begin:  # R₀ begins with a node that has all of the run
        make_run(meta, forest, stack, ahead)
    else:
        fill_run(meta, forest, stack, ahead, begin)


def make_run(meta: Any, forest: Any, stack: Any, ahead: Any) -> None:
    """The stack's top is that of a position where a run begins: the node there is taken apart, down to this run."""
    begin = meta[HEAD]
    meta[DEPTH] -= 1
    copy(ahead, 0, stack, meta[DEPTH])
    level = level_of(begin, meta[TOP])
    while 1 << level > RUN:
        level -= 1
        node = at(meta, level, (begin >> level) + 1)
        if meta[DEPTH] == 0:
            copy(stack, 0, forest, node)
        else:
            merge(stack, meta[DEPTH], forest, node, stack, meta[DEPTH] - 1)
        meta[DEPTH] += 1
    fill_run(meta, forest, stack, ahead, begin)


def fill_run(meta: Any, forest: Any, stack: Any, ahead: Any, begin: int) -> None:
    """The entries of all positions of a run but the first. The stack has what follows the run.

    Level by level: those at multiples of a power of two are there, and the nodes between them give the others.
    """
    level = level_of(RUN, 62)
    while level > 0:
        level -= 1
        count, known, made = RUN >> level, ((level + 1) & 1) * RUN, (level & 1) * RUN
        first = at(meta, level, begin >> level)
        spread(
            span(ahead, known, known + count // 2),
            span(forest, first, first + count),
            span(ahead, made, made + count),
            span(ahead, 2 * RUN, 2 * RUN + count // 2),
            count // 2 - 1,
        )
        if meta[DEPTH] > 0:
            merge(ahead, made + count - 1, forest, first + count - 1, stack, meta[DEPTH] - 1)
        else:
            copy(ahead, made + count - 1, forest, first + count - 1)


def spread(known: Any, nodes: Any, made: Any, between: Any, last: int) -> None:
    """Entries at every second position are there. Between two of them is that of the node there and the one that follows."""
    for i in range(last):
        store(between, i, join(load(nodes, 2 * i + 1), load(known, i + 1)))
    for i in range(last):
        store(made, 2 * i, load(known, i))
        store(made, 2 * i + 1, load(between, i))
    store(made, 2 * last, load(known, last))


def leave_run(meta: Any, stack: Any, ahead: Any, head: int, tail: int) -> None:
    """The stack gets its entries for the window's beginning, and ``meta`` is that of the window."""
    size, chain, position = 1 << level_of(head, meta[TOP]), 1, head & (RUN - 1)
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


def raise_due(meta: Any, forest: Any, before: int, ready: int) -> None:
    """The parents that were due at ``ready`` and not yet at ``before``, level by level. Where none is due, none is above."""
    for level in range(1, meta[TOP] + 1):
        node, end = max((before >> level) - 1, 0), (ready >> level) - 1
        if node >= end:
            return
        size, below = ring(meta, level), ring(meta, level - 1)
        while node < end:
            count = min(end - node, size - (node & (size - 1)), (below - (2 * node & (below - 1))) // 2)
            upper, lower = at(meta, level, node), at(meta, level - 1, 2 * node)
            raise_pairs(span(forest, lower, lower + 2 * count), span(forest, upper, upper + count), count)
            node += count


def raise_pairs(pairs: Any, parents: Any, count: int) -> None:
    """The parents of pairs that lie side by side, and so do they."""
    for i in range(count):
        store(parents, i, join(load(pairs, 2 * i), load(pairs, 2 * i + 1)))


def lowest_bit(number: int) -> int:
    """The largest power of two that divides a number."""
    return number & -number
