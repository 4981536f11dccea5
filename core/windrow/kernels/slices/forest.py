# SPDX-License-Identifier: Apache-2.0
"""The slices of each key as a forest of binary trees, for windows whose beginning is searched. No aggregate takes part here.

The slices of a key have positions, counted from its first row on. Node k of level l covers the positions [k·2ˡ, (k + 1)·2ˡ).
A leaf is a slice. The aggregate of a higher node is kept with the slice at the end of the node's left half: that slice has
no other node, and it is in the window whenever the whole node is. So the trees need no memory of their own but a ring for each
key, from positions to slots. All keys share one array of rings.

The tree is that of the MTA thesis (Villalba, 2019, chapter 4), with nodes at fixed positions: which nodes a window is made
of follows from its first and last position alone, so a restored window is grouped as it was.
"""

from __future__ import annotations

from windrow.kernels.slices.layout import NONE


def slot_at(forest, key, position):
    """The slot of the slice at a position."""
    return forest.ring[forest.offset[key] + (position & (forest.room[key] - 1))]


def node_at(forest, key, level, index):
    """The slot that keeps a node above the leaves."""
    return slot_at(forest, key, (index << level) + (1 << (level - 1)) - 1)


def largest(begin, end):
    """The level of the largest node that starts at one position and ends at or before another."""
    level = 0
    while begin & ((2 << level) - 1) == 0 and begin + (2 << level) <= end:
        level += 1
    return level


def enrol(slices, forest, group, keys, counts, slots, begin):
    """Give positions to the new slices of some keys; ``slots`` has them key after key.

    ``begin[g]`` becomes the first position that is new: that of the first slice, if the forest of a key does not match its
    slices and was made anew. Returns how many groups were done: the next one needs a larger ring.
    """
    at = 0
    for g in range(group):
        at += counts[g]
    for g in range(group, len(keys)):
        key = keys[g]
        if slices.held[key] > forest.room[key]:
            return g
        mask, offset = forest.room[key] - 1, forest.offset[key]
        known = forest.known[key] and forest.tail[key] - forest.first[key] + counts[g] == slices.held[key]
        if known:
            begin[g] = forest.tail[key]
            for n in range(counts[g]):
                forest.ring[offset + ((begin[g] + n) & mask)] = slots[at + n]
            forest.tail[key] += counts[g]
        else:
            position, slot = forest.first[key], slices.first[key]
            begin[g] = position
            while slot != NONE:
                forest.ring[offset + (position & mask)] = slot
                position += 1
                slot = slices.newer[slot]
            forest.tail[key], forest.known[key] = position, True
        at += counts[g]
    return len(keys)
