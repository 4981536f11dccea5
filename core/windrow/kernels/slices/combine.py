# SPDX-License-Identifier: Apache-2.0
"""Slices into window results: what one aggregate does once a plan has listed the due windows.

The final aggregation is the boundary aggregator's (Zhang, Akbarinia, Toumani, KDD 2021). The slices of a
window are ``lcs`` of its first slice, combined right to left up to a boundary, and ``csa``, combined left to
right from there. When the window has slid past the boundary, the boundary moves to the window's end. So a
slide costs fewer than three combines, amortised, for windows of any shape.
:mod:`windrow.kernels.columns.boundary` says why this algorithm exists several times.

Every function is specialised for one aggregate: ``parts``, ``lcs`` and ``csa`` hold its partials.
"""

from __future__ import annotations

from windrow.kernels.partials import clear, copy, defined, lower, merge
from windrow.kernels.slices.forest import largest, node_at, slot_at
from windrow.kernels.slices.layout import NONE


def finish(results, w, scratch):
    """The partial in scratch is that of window w."""
    results.ok[w] = defined(scratch, 0)
    if results.ok[w]:
        results.out[w] = lower(scratch, 0)


def slide(partials, slices, due, slots, keys, results, begin, end, covered):
    """The results of some due windows, in the order in which they were planned.

    ``slots`` and ``keys`` are how many there is room for. ``covered`` says that lcs was computed before.
    """
    parts, lcs, csa, scratch = partials.parts, partials.lcs, partials.csa, partials.scratch
    for w in range(begin, end):
        base = due.which[w] * slots
        at = due.which[w] * keys + due.key[w]
        lo, hi = due.lo[w], due.hi[w]
        if due.flip[w]:
            if not covered:
                fill_lcs(parts, lcs, slices.older, lo, hi, base)
            clear(csa, at)
        else:
            extend_csa(parts, csa, at, slices.newer, due.back[w], hi)
        # also with an empty csa: windows over the same slices are then alike bit by bit, however they are planned
        merge(scratch, 0, lcs, base + lo, csa, at)
        finish(results, w, scratch)


def cover(parts, lcs, older, due, slots, begin, end):
    """The lcs of those windows at which the boundary moves.

    It reads slices and writes to slots of its own. So any number of threads may do this side by side.
    """
    for w in range(begin, end):
        if due.flip[w]:
            fill_lcs(parts, lcs, older, due.lo[w], due.hi[w], due.which[w] * slots)


def fill_lcs(parts, lcs, older, lo, hi, base):
    """The lcs of the slices lo to hi, right to left."""
    slot = hi
    copy(lcs, base + slot, parts, slot)
    while slot != lo:
        before = older[slot]
        merge(lcs, base + before, parts, before, lcs, base + slot)
        slot = before


def extend_csa(parts, csa, at, newer, slot, last):
    """The csa takes the slices after one slot, up to the last."""
    while slot != last:
        slot = newer[slot]
        merge(csa, at, csa, at, parts, slot)


def rebuild(partials, slices, slides, slots, keys, numbers):
    """lcs and csa of every window over the slices of some keys, grouped as they were, from the slices."""
    parts, lcs, csa = partials.parts, partials.lcs, partials.csa
    for which in range(slides.lo.shape[0]):
        for key in numbers:
            front = slides.front[which, key]
            if front == NONE:
                continue
            fill_lcs(parts, lcs, slices.older, slides.lo[which, key], front, which * slots)
            at = which * keys + key
            clear(csa, at)
            extend_csa(parts, csa, at, slices.newer, front, slides.back[which, key])


def wipe(parts, slots, begin, end):
    """Freed slots become the identity again."""
    for n in range(begin, end):
        clear(parts, slots[n])


def fold(parts, slots):
    """The first of these slots becomes the aggregate of them all."""
    for n in range(1, len(slots)):
        merge(parts, slots[0], parts, slots[0], parts, slots[n])


def merge_slices(parts, into, gone):
    """Slices become part of the next older ones, in this order."""
    for n in range(len(into)):
        merge(parts, into[n], parts, into[n], parts, gone[n])


def unfold(parts, lcs, slots, newer, base):
    """lcs of slices that took the place of a folded one: on top of that of the next newer slice, if lcs covers it."""
    slot = slots[len(slots) - 1]
    if newer == NONE:
        copy(lcs, base + slot, parts, slot)
    else:
        merge(lcs, base + slot, parts, slot, lcs, base + newer)
    for n in range(len(slots) - 2, -1, -1):
        merge(lcs, base + slots[n], parts, slots[n], lcs, base + slots[n + 1])


def renew(parts, below, treaps, stale, count):
    """The aggregates of what is below some nodes of treaps, children before parents."""
    for n in range(count):
        slot = stale[n]
        left, right = treaps.left[slot], treaps.right[slot]
        copy(below, slot, parts, slot)
        if left != NONE:
            merge(below, slot, below, left, below, slot)
        if right != NONE:
            merge(below, slot, below, slot, below, right)


def search(partials, treaps, stamp, key, start, end, results):
    """The results of windows, each from the slices of its key between a start and an end."""
    parts, below, scratch = partials.parts, partials.lcs, partials.scratch
    for w in range(len(key)):
        node = treaps.root[key[w]]
        while node != NONE and not start[w] <= stamp[node] < end[w]:
            node = treaps.right[node] if stamp[node] < start[w] else treaps.left[node]
        clear(scratch, 0)
        if node != NONE:  # the topmost slice of the window; the others are below it, on both sides
            copy(scratch, 0, parts, node)
            add_older(scratch, parts, below, treaps, stamp, treaps.left[node], start[w])
            add_newer(scratch, parts, below, treaps, stamp, treaps.right[node], end[w])
        finish(results, w, scratch)


def add_older(scratch, parts, below, treaps, stamp, node, start):
    """Combine the slices of a subtree from ``start`` on with what comes after them."""
    while node != NONE:
        if stamp[node] < start:
            node = treaps.right[node]
            continue
        if treaps.right[node] != NONE:
            merge(scratch, 0, below, treaps.right[node], scratch, 0)
        merge(scratch, 0, parts, node, scratch, 0)
        node = treaps.left[node]


def add_newer(scratch, parts, below, treaps, stamp, node, end):
    """Combine what comes before them with the slices of a subtree before ``end``."""
    while node != NONE:
        if stamp[node] >= end:
            node = treaps.left[node]
            continue
        if treaps.left[node] != NONE:
            merge(scratch, 0, scratch, 0, below, treaps.left[node])
        merge(scratch, 0, scratch, 0, parts, node)
        node = treaps.right[node]


def raise_nodes(parts, above, forest, keys, begin):
    """The aggregates of the nodes that new slices complete; see :mod:`windrow.kernels.slices.forest`."""
    for g in range(len(keys)):
        key = keys[g]
        for position in range(begin[g], forest.tail[key]):
            level = 1
            while (position + 1) & ((1 << level) - 1) == 0:
                index = position >> level
                if index << level < forest.first[key]:
                    break
                into = node_at(forest, key, level, index)
                if level == 1:
                    older, newer = slot_at(forest, key, position - 1), slot_at(forest, key, position)
                    merge(above, into, parts, older, parts, newer)
                else:
                    older = node_at(forest, key, level - 1, 2 * index)
                    newer = node_at(forest, key, level - 1, 2 * index + 1)
                    merge(above, into, above, older, above, newer)
                level += 1


def fold_nodes(parts, above, forest, key, begin, end, out, i):
    """Slot i of ``out`` becomes the aggregate of the positions from begin to end, of which there is one at least."""
    started = False
    while begin < end:
        level = largest(begin, end)
        if level == 0:
            slot = slot_at(forest, key, begin)
            if started:
                merge(out, i, out, i, parts, slot)
            else:
                copy(out, i, parts, slot)
        else:
            slot = node_at(forest, key, level, begin >> level)
            if started:
                merge(out, i, out, i, above, slot)
            else:
                copy(out, i, above, slot)
        started = True
        begin += 1 << level


def between(partials, forest, keys, begin, end, results):
    """The results of windows, each from the positions of its key between a begin and an end."""
    parts, above, scratch = partials.parts, partials.lcs, partials.scratch
    for w in range(len(keys)):
        fold_nodes(parts, above, forest, keys[w], begin[w], end[w], scratch, 0)
        finish(results, w, scratch)


def gather(partials, forest, keys, begin, end, out):
    """The partials of windows, each from the positions of its key between a begin and an end."""
    for w in range(len(keys)):
        fold_nodes(partials.parts, partials.lcs, forest, keys[w], begin[w], end[w], out, w)
