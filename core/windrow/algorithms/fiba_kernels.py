# SPDX-License-Identifier: Apache-2.0
"""The kernels of FiBA: its window operations, how the tree changes, and how aggregates are renewed.

The state is ``meta``, ``links`` (the tree, see :mod:`windrow.algorithms.finger_tree`), ``values`` (the partials
in the leaves: entry j of leaf n in slot n · width + j), ``aggs`` (one per node), and one slot for scratch.
"""

from __future__ import annotations

from typing import Any

from windrow.algorithms.base import HEAD, TAIL
from windrow.algorithms.finger_tree import (
    ARITY,
    HEIGHT,
    LEFT,
    LEVEL,
    MU,
    NEXT_WORK,
    PARENT,
    RIGHT,
    SIZE,
    TOUCHED,
    WORK,
    adopt,
    child_at,
    entry_at,
    fresh,
    leaf_of,
    lower_root,
    newest,
    release,
    reset,
    size_below,
    size_of,
    time_of,
    touch,
)
from windrow.kernels.partials import clear, copy, merge


def insert(state: Any, parts: Any, i: int) -> None:
    insert_at(state, newest(state[1]) + 1, parts, i)


def insert_at(state: Any, moment: int, parts: Any, i: int) -> None:
    meta, links, values, aggs, _ = state
    node, spine, time, _ = links
    leaf = spine[RIGHT, 0]
    arity, last = node[leaf, ARITY], newest(links)
    if arity == 0 or moment < last or (moment > last and arity == 2 * meta[MU]):
        join(state, moment, parts, i)
        repair(state, meta[HEIGHT])
        return
    entry = leaf * time.shape[1] + arity - 1
    if moment == last:
        merge(values, entry, values, entry, parts, i)
    else:
        copy(values, entry + 1, parts, i)
        time[leaf, arity] = moment
        node[leaf, ARITY] += 1
        meta[TAIL] += 1
    merge(aggs, leaf, aggs, leaf, parts, i)  # the last leaf's aggregate ends with the newest partial


def insert_many(state: Any, moments: Any, parts: Any) -> None:
    for i in range(len(moments)):
        join(state, moments[i], parts, i)
    repair(state, state[0][HEIGHT])


def evict(state: Any) -> None:
    meta, links, values, _, _ = state
    leaf, height = links[1][LEFT, 0], meta[HEIGHT]
    drop(links, values, leaf, 0, 1)
    touch(links, leaf)
    meta[HEAD] += 1
    refill(state, 0)
    repair(state, height)


def evict_many(state: Any, n: int) -> None:
    meta, links, _, _, _ = state
    if n == meta[TAIL] - meta[HEAD]:
        reset(meta, links)
    else:
        evict_before(state, time_of(meta, links, n))


def evict_before(state: Any, moment: int) -> None:
    """Cut the tree along the path to a moment, drop what is left of it, and fill up the nodes on it: the new
    left spine.
    """
    meta, links, values, _, _ = state
    node, spine, time, child = links
    height, cut = meta[HEIGHT], 0
    if meta[HEAD] == meta[TAIL] or moment > newest(links):
        reset(meta, links)
        return
    while cut < height and moment >= time[spine[LEFT, cut + 1], 1]:
        cut += 1
    here = spine[LEFT, cut]
    for level in range(cut, 0, -1):
        j = child_at(links, here, moment)
        for k in range(j):
            meta[HEAD] += size_of(links, child[here, k], level - 1)
            release(meta, node, child[here, k])
        drop(links, values, here, 0, j)
        touch(links, here)
        spine[LEFT, level] = here
        here = child[here, 0]
    spine[LEFT, 0] = here
    early = entry_at(links, here, moment)
    meta[HEAD] += early
    drop(links, values, here, 0, early)
    touch(links, here)
    refill(state, cut)
    repair(state, height)


def query(state: Any, out: Any, i: int) -> None:
    meta, links, _, aggs, _ = state
    node, spine, _, _ = links
    root = spine[LEFT, meta[HEIGHT]]
    if meta[HEAD] == meta[TAIL]:
        clear(out, i)
    elif meta[HEIGHT] == 0:
        copy(out, i, aggs, root)
    else:
        copy(out, i, aggs, spine[LEFT, 0])
        if node[root, ARITY] > 2:
            merge(out, i, out, i, aggs, root)
        merge(out, i, out, i, aggs, spine[RIGHT, 0])


def range_query(state: Any, lo: int, hi: int, out: Any, i: int) -> None:
    """Go down to where the paths to both ends part; then prepend what is right of one, append what is left of
    the other.
    """
    meta, links, _, _, acc = state
    node, spine, _, child = links
    clear(out, i)
    clear(acc, 0)
    if lo >= hi:
        return
    level = meta[HEIGHT]
    left = right = spine[LEFT, level]
    while level > 0:
        begin, end = child_at(links, left, lo), child_at(links, right, hi - 1)
        if left == right:
            append(state, left, begin + 1, end, out, i)
        else:
            prepend(state, left, begin + 1, node[left, ARITY], out, i)
            append(state, right, 0, end, acc, 0)
        left, right, level = child[left, begin], child[right, end], level - 1
    if left == right:
        append(state, left, entry_at(links, left, lo), entry_at(links, left, hi), out, i)
    else:
        prepend(state, left, entry_at(links, left, lo), node[left, ARITY], out, i)
        append(state, right, 0, entry_at(links, right, hi), acc, 0)
        merge(out, i, out, i, acc, 0)


# Changing the tree. Nodes whose aggregate goes out of date are touched; repair renews them.


def join(state: Any, moment: int, parts: Any, i: int) -> None:
    """Put a partial into its leaf, and split what is too full."""
    meta, links, values, _, _ = state
    node, _, time, _ = links
    leaf = leaf_of(meta, links, moment)
    j, width = entry_at(links, leaf, moment), time.shape[1]
    touch(links, leaf)
    if j < node[leaf, ARITY] and time[leaf, j] == moment:
        merge(values, leaf * width + j, values, leaf * width + j, parts, i)
        return
    drop(links, values, leaf, j, -1)
    time[leaf, j] = moment
    copy(values, leaf * width + j, parts, i)
    meta[TAIL] += 1
    here = leaf
    while node[here, ARITY] > 2 * meta[MU]:
        here = split(state, here)


def split(state: Any, here: int) -> int:
    """Move the upper half of a node to a new one beside it; returns the parent."""
    meta, links, values, _, _ = state
    node, spine, time, child = links
    level, keep = node[here, LEVEL], meta[MU] + 1
    if level == meta[HEIGHT]:
        root = fresh(meta, links, level + 1)
        adopt(links, root, 0, here, time[here, 0])
        node[root, ARITY] = 1
        spine[LEFT, level + 1] = spine[RIGHT, level + 1] = root
        meta[HEIGHT] = level + 1
    parent, beside = node[here, PARENT], fresh(meta, links, level)
    for j in range(keep, node[here, ARITY]):
        move(links, values, here, j, beside, j - keep)
    node[beside, ARITY] = node[here, ARITY] - keep
    node[here, ARITY] = keep
    j = 0
    while child[parent, j] != here:
        j += 1
    drop(links, values, parent, j + 1, -1)
    adopt(links, parent, j + 1, beside, time[beside, 0])
    if spine[RIGHT, level] == here:
        spine[RIGHT, level] = beside
    touch(links, here)
    touch(links, beside)
    touch(links, parent)
    return int(parent)


def refill(state: Any, cut: int) -> None:
    """Give the nodes of the left spine their least arity again, up to ``cut`` where anything may be missing,
    above it at most one child. Below ``cut``, a node is given one more than that, so that its child may take
    one from it.
    """
    meta, links, _, _, _ = state
    node, spine = links[0], links[1]
    level, least = cut, meta[MU] + min(cut, 1)
    while level < meta[HEIGHT] and node[spine[LEFT, level], ARITY] < least and fill(state, level, least):
        level, least = level + 1, meta[MU]
    lower_root(meta, links)
    for level in range(min(cut, meta[HEIGHT]) - 1, -1, -1):
        least = meta[MU] + min(level, 1)
        if level < meta[HEIGHT] and node[spine[LEFT, level], ARITY] < least:
            fill(state, level, least)
            lower_root(meta, links)


def fill(state: Any, level: int, least: int) -> bool:
    """Merge a node of the left spine with its sibling, or take some children from it; says whether they were
    merged.
    """
    meta, links, values, _, _ = state
    node, spine, time, child = links
    here = spine[LEFT, level]
    parent = node[here, PARENT]
    sibling, held = child[parent, 1], node[here, ARITY]
    both = held + node[sibling, ARITY]
    merged = both <= 2 * meta[MU]
    taken = (both if merged else max(both // 2, least)) - held
    if level > 0:
        time[sibling, 0] = time[parent, 1]
    for j in range(taken):
        move(links, values, sibling, j, here, held + j)
    node[here, ARITY] = held + taken
    touch(links, here)
    touch(links, parent)
    if merged:
        node[sibling, ARITY] = 0
        release(meta, node, sibling)
        drop(links, values, parent, 1, 1)
        if spine[RIGHT, level] == sibling:
            spine[RIGHT, level] = here
    else:
        drop(links, values, sibling, 0, taken)
        time[parent, 1] = time[sibling, 0]
        touch(links, sibling)
    return bool(merged)


def repair(state: Any, height: int) -> None:
    """Renew the aggregates of touched nodes: inside the tree from below, on the spines from above."""
    meta, links, _, aggs, _ = state
    node, spine, _, _ = links
    left = right = -1
    for level in range(max(height, meta[HEIGHT]) + 1):
        here = spine[WORK, level]
        spine[WORK, level] = -1
        while here >= 0:
            node[here, TOUCHED] = 0
            if here == spine[LEFT, level] and level < meta[HEIGHT]:
                left = level
            elif here == spine[RIGHT, level] and level < meta[HEIGHT]:
                right = level
            elif level == meta[HEIGHT]:
                inner = min(level, 1)
                fold(state, here, inner, node[here, ARITY] - inner)
            elif node[here, ARITY] > 0:
                fold(state, here, 0, node[here, ARITY])
                node[here, SIZE] = size_below(links, here, level)
                touch(links, node[here, PARENT])
            here = node[here, NEXT_WORK]
    for level in range(left, -1, -1):
        here = spine[LEFT, level]
        fold(state, here, min(level, 1), node[here, ARITY])
        if level + 1 < meta[HEIGHT]:
            merge(aggs, here, aggs, here, aggs, spine[LEFT, level + 1])
    for level in range(right, -1, -1):
        here = spine[RIGHT, level]
        fold(state, here, 0, node[here, ARITY] - min(level, 1))
        if level + 1 < meta[HEIGHT]:
            merge(aggs, here, aggs, spine[RIGHT, level + 1], aggs, here)


def fold(state: Any, here: int, begin: int, end: int) -> None:
    """Aggregate entries of a node as the node's aggregate."""
    _, links, values, aggs, _ = state
    node, _, time, child = links
    if begin >= end:
        clear(aggs, here)
    elif node[here, LEVEL] == 0:
        copy(aggs, here, values, here * time.shape[1] + begin)
    else:
        copy(aggs, here, aggs, child[here, begin])
    append(state, here, begin + 1, end, aggs, here)


def append(state: Any, here: int, begin: int, end: int, out: Any, i: int) -> None:
    """Combine entries of a node to the right of slot i."""
    _, links, values, aggs, _ = state
    node, _, time, child = links
    for j in range(begin, end):
        if node[here, LEVEL] == 0:
            merge(out, i, out, i, values, here * time.shape[1] + j)
        else:
            merge(out, i, out, i, aggs, child[here, j])


def prepend(state: Any, here: int, begin: int, end: int, out: Any, i: int) -> None:
    """Combine entries of a node to the left of slot i."""
    _, links, values, aggs, _ = state
    node, _, time, child = links
    for j in range(end - 1, begin - 1, -1):
        if node[here, LEVEL] == 0:
            merge(out, i, values, here * time.shape[1] + j, out, i)
        else:
            merge(out, i, aggs, child[here, j], out, i)


def move(links: Any, values: Any, a: int, i: int, b: int, j: int) -> None:
    """Copy entry i of a node to entry j of one on the same level."""
    node, _, time, child = links
    if node[a, LEVEL] > 0:
        adopt(links, b, j, child[a, i], time[a, i])
    else:
        time[b, j] = time[a, i]
        copy(values, b * time.shape[1] + j, values, a * time.shape[1] + i)


def drop(links: Any, values: Any, here: int, at: int, n: int) -> None:
    """Remove n entries of a node; for n = -1, make room for one."""
    node = links[0]
    arity = node[here, ARITY]
    if n > 0:
        for j in range(at + n, arity):
            move(links, values, here, j, here, j - n)
    elif n < 0:
        for j in range(arity - 1, at - 1, -1):
            move(links, values, here, j, here, j + 1)
    node[here, ARITY] = arity - n
