"""Rows into slices, slices into window results: what an aggregate does once the structure of runs is known.

The final aggregation is the boundary aggregator's: the slices of a window are ``lcs`` of its first slice,
right-to-left up to a boundary, combined with ``csa``, left-to-right from there (Zhang, Akbarinia, Toumani,
KDD 2021). The boundary moves to the window's end when the window has slid past it, so a slide costs fewer
than three combines, amortised, for windows of any shape.
"""

from __future__ import annotations

from windrow.kernels.layout import NONE
from windrow.kernels.slots import add, clear, copy, defined, lower, merge


def absorb(parts, slot, columns, valid, rows):
    """Rows into their slices, in the order of arrival; a row with a null input or without a slice is
    ignored."""
    if len(valid) == 0:
        for row in range(rows):
            if slot[row] != NONE:
                add(parts, slot[row], row, columns)
    else:
        for row in range(rows):
            if slot[row] != NONE and valid[row]:
                add(parts, slot[row], row, columns)


def absorb_partials(parts, slot, incoming):
    """Ready-made partials into their slices."""
    for row in range(len(slot)):
        if slot[row] != NONE:
            merge(parts, slot[row], parts, slot[row], incoming, row)


def slide(parts, lcs, csa, scratch, runs, due, slots, keys, out, ok, begin, end, cover):
    """The results of due windows, in the order in which they were planned; ``cover`` says that their lcs is
    still to be computed."""
    follower, leader, lo, hi, back, flip = runs.follower, runs.leader, due.lo, due.hi, due.back, due.flip
    for w in range(begin, end):
        base = due.which[w] * slots
        c = due.which[w] * keys + due.key[w]
        if flip[w]:
            if cover:
                fill_lcs(parts, lcs, leader, lo[w], hi[w], base)
            clear(csa, c)
        else:
            s = back[w]
            while s != hi[w]:
                s = follower[s]
                merge(csa, c, csa, c, parts, s)
        merge(scratch, 0, lcs, base + lo[w], csa, c)
        ok[w] = defined(scratch, 0)
        if ok[w]:
            out[w] = lower(scratch, 0)


def cover(parts, lcs, leader, due, slots, begin, end):
    """The lcs of those windows at which a boundary moves. They read slices and write to slots of their own, so
    any number of threads may do this side by side."""
    for w in range(begin, end):
        if due.flip[w]:
            fill_lcs(parts, lcs, leader, due.lo[w], due.hi[w], due.which[w] * slots)


def fill_lcs(parts, lcs, leader, lo, hi, base):
    """The lcs of the slices lo … hi, right to left."""
    s = hi
    copy(lcs, base + s, parts, s)
    while s != lo:
        older = leader[s]
        merge(lcs, base + older, parts, older, lcs, base + s)
        s = older


def renew(parts, below, trees, stale, count):
    """The aggregates of what is below some nodes of search trees, children before parents."""
    for n in range(count):
        slot = stale[n]
        left, right = trees.left[slot], trees.right[slot]
        copy(below, slot, parts, slot)
        if left != NONE:
            merge(below, slot, below, left, below, slot)
        if right != NONE:
            merge(below, slot, below, slot, below, right)


def search(parts, below, scratch, trees, stamp, key, start, end, out, ok):
    """The results of windows, each from the slices of its key between a start and an end: from the topmost one of them
    down to both sides."""
    for w in range(len(key)):
        node = trees.root[key[w]]
        while node != NONE and not start[w] <= stamp[node] < end[w]:
            node = trees.right[node] if stamp[node] < start[w] else trees.left[node]
        clear(scratch, 0)
        if node != NONE:
            copy(scratch, 0, parts, node)
            older, newer = trees.left[node], trees.right[node]
            while older != NONE:
                if stamp[older] < start[w]:
                    older = trees.right[older]
                    continue
                if trees.right[older] != NONE:
                    merge(scratch, 0, below, trees.right[older], scratch, 0)
                merge(scratch, 0, parts, older, scratch, 0)
                older = trees.left[older]
            while newer != NONE:
                if stamp[newer] >= end[w]:
                    newer = trees.left[newer]
                    continue
                if trees.left[newer] != NONE:
                    merge(scratch, 0, scratch, 0, below, trees.left[newer])
                merge(scratch, 0, scratch, 0, parts, newer)
                newer = trees.right[newer]
        ok[w] = defined(scratch, 0)
        if ok[w]:
            out[w] = lower(scratch, 0)


def wipe(parts, slots, begin, end):
    """Freed slots become the identity again."""
    for n in range(begin, end):
        clear(parts, slots[n])


def rebuild(parts, lcs, csa, follower, leader, lo, front, back, slots, keys, numbers):
    """lcs and csa of every window over the runs of these keys, as they were, from the slices."""
    for which in range(lo.shape[0]):
        for key in numbers:
            s = front[which, key]
            if s == NONE:
                continue
            base = which * slots
            copy(lcs, base + s, parts, s)
            while s != lo[which, key]:
                older = leader[s]
                merge(lcs, base + older, parts, older, lcs, base + s)
                s = older
            at = which * keys + key
            clear(csa, at)
            s = front[which, key]
            while s != back[which, key]:
                s = follower[s]
                merge(csa, at, csa, at, parts, s)


def fold(parts, slots):
    """The first of these slots becomes the aggregate of them all."""
    for n in range(1, len(slots)):
        merge(parts, slots[0], parts, slots[0], parts, slots[n])


def unfold(parts, lcs, slots, newer, base):
    """lcs of slices that took the place of one: right-to-left, on top of the lcs of the next newer slice, if
    that is covered."""
    s = slots[len(slots) - 1]
    if newer == NONE:
        copy(lcs, base + s, parts, s)
    else:
        merge(lcs, base + s, parts, s, lcs, base + newer)
    for n in range(len(slots) - 2, -1, -1):
        merge(lcs, base + slots[n], parts, slots[n], lcs, base + slots[n + 1])
