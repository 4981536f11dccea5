"""The slices of each key as a search tree in which a late row finds its place: the structure, without any aggregate.

The trees are treaps (Seidel and Aragon, *Randomized Search Trees*, Algorithmica 1996): searched by the stamps of
slices, heaps by a number that follows from the stamp. So the shape of a tree follows from the slices alone, not from
the order in which they came, and its depth is O(log n). A node is a slot of the runs; all keys share the arrays.

A node is to hold the aggregate of what is below it. Nodes of the *right spine*, from the root to the right, hold
none: everything new comes below all of them, so an aggregate there would be renewed with every slice. Nor is that of
a node of the left spine ever read, so slices are evicted without renewing anything. A query needs neither.

``plant`` and ``uproot`` mark the nodes above a change as stale; ``stale_below`` then lists the marked ones, children
before parents, for :func:`windrow.kernels.slide.renew`.
"""

from __future__ import annotations

from windrow.kernels.layout import NONE


def rank(stamp):
    """The number by which the tree is a heap: the bits of the stamp, mixed."""
    mixed = (stamp ^ (stamp >> 31)) & 0x7FFFFFFF
    mixed = ((mixed ^ (mixed >> 16)) * 0x45D9F3B) & 0x7FFFFFFF
    mixed = ((mixed ^ (mixed >> 15)) * 0x2C1B3C6D) & 0x7FFFFFFF
    return mixed ^ (mixed >> 14)


def above(runs, a, b):
    """Does slot a belong above slot b?"""
    first, second = rank(runs.stamp[a]), rank(runs.stamp[b])
    return first > second or (first == second and runs.stamp[a] > runs.stamp[b])


def mark(trees, slot):
    """A node's aggregate is out of date; 1 if that is news."""
    if trees.stale[slot]:
        return 0
    trees.stale[slot] = 1
    return 1


def hang(trees, key, parent, to_the_right, slot):
    """Let a slot be a child, or the root if there is no parent."""
    if parent == NONE:
        trees.root[key] = slot
    elif to_the_right:
        trees.right[parent] = slot
    else:
        trees.left[parent] = slot


def plant(runs, trees, keys, slots):
    """Slots, new ones and ones whose partial has changed, each in the tree of its key; how many nodes were marked."""
    marked = 0
    for n in range(len(slots)):
        marked += plant_one(runs, trees, keys[n], slots[n])
    return marked


def plant_one(runs, trees, key, slot):
    stamp = runs.stamp[slot]
    marked = 0
    parent, node = NONE, trees.root[key]
    while node != NONE and node != slot and above(runs, node, slot):
        marked += mark(trees, node)
        parent = node
        node = trees.right[node] if runs.stamp[node] < stamp else trees.left[node]
    if node != slot:
        hang(trees, key, parent, parent != NONE and runs.stamp[parent] < stamp, slot)
        trees.left[slot] = NONE
        trees.right[slot] = NONE
        older = newer = slot  # what was here is split in two, along the way to where the slot belongs
        while node != NONE:
            marked += mark(trees, node)
            if runs.stamp[node] < stamp:
                hang(trees, key, older, older != slot, node)
                older = node
                node = trees.right[node]
            else:
                hang(trees, key, newer, newer == slot, node)
                newer = node
                node = trees.left[node]
        if older != slot:
            trees.right[older] = NONE
        if newer != slot:
            trees.left[newer] = NONE
    return marked + mark(trees, slot)


def uproot(runs, trees, key, slots):
    """Slots out of the tree of a key; how many nodes were marked at the most."""
    marked = 0
    for n in range(len(slots)):
        slot = slots[n]
        parent, node, to_the_right = NONE, trees.root[key], False
        while node != slot:
            marked += mark(trees, node)
            parent = node
            to_the_right = runs.stamp[node] < runs.stamp[slot]
            node = trees.right[node] if to_the_right else trees.left[node]
        older, newer = trees.left[slot], trees.right[slot]
        while older != NONE and newer != NONE:
            to_the_left = above(runs, newer, older)
            upper = newer if to_the_left else older
            marked += mark(trees, upper)
            hang(trees, key, parent, to_the_right, upper)
            parent, to_the_right = upper, not to_the_left
            if to_the_left:
                newer = trees.left[upper]
            else:
                older = trees.right[upper]
        hang(trees, key, parent, to_the_right, newer if older == NONE else older)
        trees.stale[slot] = 0
    return marked


def stale_below(trees, keys, stale, stack):
    """The marked nodes of these keys that hold an aggregate, children before parents; how many. No mark is left."""
    count = 0
    for n in range(len(keys)):
        spine = trees.root[keys[n]]
        while spine != NONE:
            trees.stale[spine] = 0
            stack[0] = trees.left[spine]
            depth = 1 if stack[0] != NONE and trees.stale[stack[0]] else 0
            while depth:
                node = stack[depth - 1]
                left, right = trees.left[node], trees.right[node]
                if left != NONE and trees.stale[left]:
                    stack[depth] = left
                    depth += 1
                elif right != NONE and trees.stale[right]:
                    stack[depth] = right
                    depth += 1
                else:
                    trees.stale[node] = 0
                    stale[count] = node
                    count += 1
                    depth -= 1
            spine = trees.right[spine]
    return count


def cut(runs, trees, keys, bound):
    """Slices before a bound out of the trees of these keys; those that stand for a page stay until all of it is before."""
    for n in range(len(keys)):
        key = keys[n]
        if runs.first[key] == NONE or runs.stamp[runs.first[key]] >= bound:
            continue
        parent, node = NONE, trees.root[key]
        while node != NONE:
            if runs.stamp[node] < bound and (runs.page[node] == 0 or runs.stop[node] < bound):
                node = trees.right[node]
            else:
                hang(trees, key, parent, False, node)
                parent = node
                node = trees.left[node]
        hang(trees, key, parent, False, NONE)


def latest_before(runs, trees, key, stamp):
    """The newest slice of a key before a stamp."""
    found, node = NONE, trees.root[key]
    while node != NONE:
        if runs.stamp[node] < stamp:
            found = node
            node = trees.right[node]
        else:
            node = trees.left[node]
    return found


def seek(runs, trees, keys, times):
    """Let the cursor of each key, with its times in order, be where the first of them belongs."""
    for n in range(len(keys)):
        if n == 0 or keys[n] != keys[n - 1]:
            found = latest_before(runs, trees, keys[n], times[n] + 1)
            runs.cursor[keys[n]] = runs.first[keys[n]] if found == NONE else found


def page_at(runs, trees, keys, starts):
    """A slice that stands for a page, inside which one of some windows begins; NONE if there is none."""
    for n in range(len(keys)):
        found = latest_before(runs, trees, keys[n], starts[n])
        if found != NONE and runs.page[found] != 0 and runs.stop[found] >= starts[n]:
            return found
    return NONE
