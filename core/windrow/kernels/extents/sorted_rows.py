# SPDX-License-Identifier: Apache-2.0
"""A sorted multiset of keys that rows enter and leave: blocks of a constant size, in a sorted order.

To insert or remove a key, its block is searched among the largest keys of all blocks, its place in the block, and the
keys behind it move by one: O(log n), because a block's size is constant. A full block is split. Two neighbours that
are together at most half full become one, and an empty block is dropped. So neighbours are not both nearly empty, and
n keys take at most ``8 n / BLOCK + 3`` blocks (:func:`blocks_needed`).

The k-th smallest key is found from a *finger*, a block with a known number of keys before it. The rank that a quantile
needs changes by at most one when a row enters or leaves, so the finger seldom moves.

``s`` is the state (:class:`windrow.kernels.extents.layout.SortedRows`).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from windrow.kernels.extents.layout import (
    BLOCK,
    COUNTS,
    FINGERS,
    HELD,
    HI,
    HIGHS,
    KEYS,
    LO,
    ORDER,
    SORTED,
    USED,
    SortedRows,
)

HALF, QUARTER = BLOCK // 2, BLOCK // 4
ONE: Any = np.uint64(1)


def blocks_needed(most: int) -> int:
    """Room for so many keys at a time."""
    return 8 * most // BLOCK + 3


def sorted_rows(most: int, quantiles: int) -> SortedRows:
    """Room for windows of at most so many rows, and a finger for each quantile."""
    blocks = blocks_needed(most)
    fingers = FINGERS + 1
    order = fingers + 2 * quantiles
    counts, highs, keys = order + blocks, order + 2 * blocks, order + 3 * blocks
    state = np.empty(keys + blocks * BLOCK, dtype=np.int64)
    state[[ORDER, COUNTS, HIGHS, KEYS, FINGERS]] = order, counts, highs, keys, fingers
    state[order:counts] = np.arange(blocks)
    clear(state)
    return SortedRows(state, np.empty(max(most, 1), dtype=np.int64))


def clear(s: Any) -> None:
    """No keys: one empty block."""
    s[USED], s[HELD] = 1, 0
    s[LO], s[HI], s[SORTED] = 0, 0, 0
    s[s[COUNTS] + s[s[ORDER]]] = 0
    for f in range(s[FINGERS], s[ORDER]):
        s[f] = 0


def lower_bound(s: Any, base: Any, count: Any, key: Any) -> Any:
    """Where the first of ``count`` ascending keys is that is not less than ``key``; ``base + count`` if none is.

    Which half goes on is computed, not branched on: nobody can guess it.
    """
    while count > 0:
        half = (count + 1) >> 1
        base += half & -np.int64(s[np.uint64(base + half - 1)] < key)
        count -= half
    return base


def insert(s: Any, key: Any) -> None:
    place = lower_bound(s, s[HIGHS], s[USED] - 1, key) - s[HIGHS]
    block = s[s[ORDER] + place]
    if s[s[COUNTS] + block] == BLOCK:
        split(s, place)
        place += 1 if s[s[HIGHS] + place] < key else 0
        block = s[s[ORDER] + place]
    base, count = s[KEYS] + block * BLOCK, s[s[COUNTS] + block]
    at = lower_bound(s, base, count, key)
    end = np.uint64(base + count)
    for i in range(np.uint64(base + count - at)):
        s[end - i] = s[end - i - ONE]
    s[at] = key
    s[s[COUNTS] + block] = count + 1
    if at == base + count:
        s[s[HIGHS] + place] = key
    s[HELD] += 1
    for f in range(s[FINGERS], s[ORDER], 2):
        s[f + 1] += 1 if place < s[f] else 0


def remove(s: Any, key: Any) -> None:
    """Take out one of the keys, which has to be there."""
    place = lower_bound(s, s[HIGHS], s[USED] - 1, key) - s[HIGHS]
    block = s[s[ORDER] + place]
    base, count = s[KEYS] + block * BLOCK, s[s[COUNTS] + block] - 1
    at = lower_bound(s, base, count + 1, key)
    for i in range(np.uint64(at), np.uint64(base + count)):
        s[i] = s[i + ONE]
    s[s[COUNTS] + block] = count
    if at == base + count and count > 0:
        s[s[HIGHS] + place] = s[at - 1]
    s[HELD] -= 1
    for f in range(s[FINGERS], s[ORDER], 2):
        s[f + 1] -= 1 if place < s[f] else 0
    if count < QUARTER:
        shrunk(s, place)


def split(s: Any, place: Any) -> None:
    """The upper half of a full block becomes the next block."""
    order, highs, used = s[ORDER], s[HIGHS], s[USED]
    block, fresh = s[order + place], s[order + used]
    for i in range(used, place + 1, -1):
        s[order + i], s[highs + i] = s[order + i - 1], s[highs + i - 1]
    s[order + place + 1], s[highs + place + 1] = fresh, s[highs + place]
    base, new = s[KEYS] + block * BLOCK, s[KEYS] + fresh * BLOCK
    for i in range(BLOCK - HALF):
        s[new + i] = s[base + HALF + i]
    s[s[COUNTS] + block], s[s[COUNTS] + fresh] = HALF, BLOCK - HALF
    s[highs + place] = s[base + HALF - 1]
    s[USED] = used + 1
    for f in range(s[FINGERS], s[ORDER], 2):
        s[f] += 1 if place < s[f] else 0


def shrunk(s: Any, place: Any) -> None:
    """A block has few keys left: join it with a neighbour if both have few."""
    if place + 1 < s[USED] and join(s, place):
        return
    if place > 0:
        join(s, place - 1)


def join(s: Any, place: Any) -> bool:
    """A block and the next become one, if they are together at most half full or one is empty."""
    order, highs, used = s[ORDER], s[HIGHS], s[USED]
    block, other = s[order + place], s[order + place + 1]
    count, more = s[s[COUNTS] + block], s[s[COUNTS] + other]
    if count > 0 and more > 0 and count + more > HALF:
        return False
    base, source = s[KEYS] + block * BLOCK, s[KEYS] + other * BLOCK
    for i in range(more):
        s[base + count + i] = s[source + i]
    s[s[COUNTS] + block] = count + more
    if more > 0:
        s[highs + place] = s[highs + place + 1]
    for i in range(place + 1, used - 1):
        s[order + i], s[highs + i] = s[order + i + 1], s[highs + i + 1]
    s[order + used - 1] = other
    s[USED] = used - 1
    for f in range(s[FINGERS], s[ORDER], 2):
        if s[f] == place + 1:
            s[f + 1] -= count
        s[f] -= 1 if place < s[f] else 0
    return True


def at_rank(s: Any, q: Any, rank: Any) -> Any:
    """The key with so many keys before it, from the finger of quantile ``q``."""
    order, counts, finger = s[ORDER], s[COUNTS], s[FINGERS] + 2 * q
    place, before = s[finger], s[finger + 1]
    while rank < before:
        place -= 1
        before -= s[counts + s[order + place]]
    while rank >= before + s[counts + s[order + place]]:
        before += s[counts + s[order + place]]
        place += 1
    s[finger], s[finger + 1] = place, before
    return s[s[KEYS] + s[order + place] * BLOCK + rank - before]


def highest(s: Any) -> Any:
    """The largest key; there is at least one."""
    block = s[s[ORDER] + s[USED] - 1]
    return s[s[KEYS] + block * BLOCK + s[s[COUNTS] + block] - 1]
