# SPDX-License-Identifier: Apache-2.0
"""The nodes of FiBA's tree: how they are linked, found, and used again. Nothing here looks at a partial.

``links`` is a tuple of four arrays: ``node`` with the columns below; ``spine`` with the rows below; and
``time`` and ``child``, the entries of each node. An entry of a leaf has a time and a partial. An entry of an
inner node has a child, and the least time that may be below that child; for the first child it is not kept.
"""

from __future__ import annotations

from typing import Any

from windrow.algorithms.base import HEAD, TAIL

HEIGHT, USED, FREE, SPARE, MU = 2, 3, 4, 5, 6
"""The root's level; nodes ever used; the first free node, and how many are in that list; the least arity."""

ARITY, PARENT, LEVEL, SIZE, NEXT_FREE, NEXT_WORK, TOUCHED = range(7)
"""The columns of ``node``. SIZE, how many partials are below, is kept for nodes off the spines only."""

LEFT, RIGHT, WORK = range(3)
"""The rows of ``spine``: per level, the first node, the last node, and a list of nodes whose aggregate is out
of date.
"""


def newest(links: Any) -> int:
    """The time of the newest partial; -1 if there is none."""
    node, spine, time, _ = links
    leaf = spine[RIGHT, 0]
    return int(time[leaf, node[leaf, ARITY] - 1]) if node[leaf, ARITY] > 0 else -1


def child_at(links: Any, here: int, moment: int) -> int:
    """Which child of an inner node a moment belongs to."""
    node, _, time, _ = links
    j = node[here, ARITY] - 1
    while j > 0 and time[here, j] > moment:
        j -= 1
    return int(j)


def entry_at(links: Any, leaf: int, moment: int) -> int:
    """The first entry of a leaf that is not before a moment."""
    node, _, time, _ = links
    j = 0
    while j < node[leaf, ARITY] and time[leaf, j] < moment:
        j += 1
    return int(j)


def leaf_of(meta: Any, links: Any, moment: int) -> int:
    """Search from both fingers upwards until the moment is below, then down: O(log d) for d partials in
    between.
    """
    node, spine, time, child = links
    level, here = 0, spine[LEFT, meta[HEIGHT]]
    while level < meta[HEIGHT]:
        upper = spine[RIGHT, level + 1]
        if moment >= time[upper, node[upper, ARITY] - 1]:
            here = spine[RIGHT, level]
            break
        if moment < time[spine[LEFT, level + 1], 1]:
            here = spine[LEFT, level]
            break
        level += 1
    while level > 0:
        here, level = child[here, child_at(links, here, moment)], level - 1
    return int(here)


def time_of(meta: Any, links: Any, n: int) -> int:
    """The time of the partial that has n before it."""
    node, spine, time, child = links
    here, level = spine[LEFT, 0], 0
    if n < node[here, ARITY]:
        return int(time[here, n])
    n -= node[here, ARITY]
    j = 0
    while j == 0:  # up the left spine, to a node that has it below a child other than the first
        level += 1
        here = spine[LEFT, level]
        j = 1
        while (
            j < node[here, ARITY]
            and child[here, j] != spine[RIGHT, level - 1]
            and n >= node[child[here, j], SIZE]
        ):
            n -= node[child[here, j], SIZE]
            j += 1
        if j == node[here, ARITY]:
            j = 0
    here, level = child[here, j], level - 1
    while level > 0:
        j = 0
        while j < node[here, ARITY] - 1 and n >= node[child[here, j], SIZE]:
            n -= node[child[here, j], SIZE]
            j += 1
        here, level = child[here, j], level - 1
    return int(time[here, n])


def size_of(links: Any, here: int, level: int) -> int:
    """How many partials are below a node that is not on the right spine."""
    node, spine, _, child = links
    if here != spine[LEFT, level]:
        return int(node[here, SIZE])
    size = node[spine[LEFT, 0], ARITY]
    for lower in range(1, level + 1):
        for j in range(1, node[spine[LEFT, lower], ARITY]):
            size += node[child[spine[LEFT, lower], j], SIZE]
    return int(size)


def size_below(links: Any, here: int, level: int) -> int:
    """How many partials are below a node, from the sizes of its children."""
    node, _, _, child = links
    size = node[here, ARITY]
    if level > 0:
        size = 0
        for j in range(node[here, ARITY]):
            size += node[child[here, j], SIZE]
    return int(size)


def touch(links: Any, here: int) -> None:
    """The aggregate of a node is out of date: put it on the list of its level, unless it is there."""
    node, spine, _, _ = links
    if node[here, TOUCHED] == 0:
        node[here, TOUCHED] = 1
        node[here, NEXT_WORK] = spine[WORK, node[here, LEVEL]]
        spine[WORK, node[here, LEVEL]] = here


def adopt(links: Any, parent: int, j: int, here: int, least: int) -> None:
    """Make a node the j-th child of another."""
    node, _, time, child = links
    child[parent, j] = here
    time[parent, j] = least
    node[here, PARENT] = parent


def fresh(meta: Any, links: Any, level: int) -> int:
    """A node that is not in use."""
    node, _, _, child = links
    here = meta[FREE]
    if here >= 0:
        meta[FREE] = node[here, NEXT_FREE]
        meta[SPARE] -= 1
        if node[here, LEVEL] > 0:  # the head of a dropped subtree: now its children are free
            for j in range(node[here, ARITY]):
                release(meta, node, child[here, j])
    else:
        here = meta[USED]
        meta[USED] += 1
    node[here, ARITY] = 0
    node[here, LEVEL] = level
    node[here, PARENT] = -1
    return int(here)


def release(meta: Any, node: Any, here: int) -> None:
    """Put a node on the list of free ones; what is below it stays with it until it is used again."""
    node[here, NEXT_FREE] = meta[FREE]
    meta[FREE] = here
    meta[SPARE] += 1


def unfold_free(meta: Any, links: Any, wanted: int) -> None:
    """Free the nodes of dropped subtrees until so many are in the list, or all are. Children are linked behind
    their parent, so this loop comes to them next.
    """
    node, _, _, child = links
    here = meta[FREE]
    while here >= 0 and meta[SPARE] < wanted:
        if node[here, LEVEL] > 0:
            for j in range(node[here, ARITY]):
                below = child[here, j]
                node[below, NEXT_FREE] = node[here, NEXT_FREE]
                node[here, NEXT_FREE] = below
                meta[SPARE] += 1
            node[here, ARITY] = 0
        here = node[here, NEXT_FREE]


def lower_root(meta: Any, links: Any) -> None:
    """A root with one child gives way to it."""
    node, spine, _, child = links
    while meta[HEIGHT] > 0 and node[spine[LEFT, meta[HEIGHT]], ARITY] == 1:
        root = spine[LEFT, meta[HEIGHT]]
        meta[HEIGHT] -= 1
        level = meta[HEIGHT]
        spine[LEFT, level] = spine[RIGHT, level] = child[root, 0]
        node[child[root, 0], PARENT] = -1
        node[root, ARITY] = 0
        release(meta, node, root)
        touch(links, child[root, 0])
        if level > 0:
            touch(links, spine[LEFT, level - 1])
            touch(links, spine[RIGHT, level - 1])


def reset(meta: Any, links: Any) -> None:
    """Empty the tree."""
    node, spine, _, _ = links
    meta[HEAD] = meta[TAIL]
    meta[HEIGHT], meta[USED], meta[FREE], meta[SPARE] = 0, 1, -1, 0
    spine[LEFT, 0] = spine[RIGHT, 0] = 0
    node[0, ARITY], node[0, LEVEL], node[0, PARENT] = 0, 0, -1
