# SPDX-License-Identifier: Apache-2.0
"""The slices of each key as a search tree, in which a late row finds its place. No aggregate takes part here.

The trees are treaps (Seidel and Aragon, *Randomized Search Trees*, Algorithmica 1996). They are searched by the
stamps of slices and are heaps by a number that follows from the stamp. So the shape of a tree follows from its
slices alone, not from the order in which they came, and its depth is O(log n). A node is a slot of the slice
table. All keys share the arrays.

A node holds the aggregate of what is below it, with two exceptions. Nodes of the *right spine*, from the root to
the right, hold none: every new slice comes below all of them, so an aggregate there would be renewed every time.
Nodes of the left spine may hold an outdated one: it is never read, so eviction renews nothing.

``plant`` and ``uproot`` mark the nodes above a change as stale. ``stale_below`` then lists the marked nodes,
children before parents, for :func:`windrow.kernels.slices.combine.renew`.
"""

from __future__ import annotations

from windrow.kernels.slices.layout import NONE


def rank(stamp):
    """The number by which the tree is a heap: the bits of the stamp, mixed."""
    mixed = (stamp ^ (stamp >> 31)) & 0x7FFFFFFF
    mixed = ((mixed ^ (mixed >> 16)) * 0x45D9F3B) & 0x7FFFFFFF
    mixed = ((mixed ^ (mixed >> 15)) * 0x2C1B3C6D) & 0x7FFFFFFF
    return mixed ^ (mixed >> 14)


def above(slices, a, b):
    """Whether slot a belongs above slot b."""
    first, second = rank(slices.stamp[a]), rank(slices.stamp[b])
    return first > second or (first == second and slices.stamp[a] > slices.stamp[b])


def mark(treaps, slot):
    """Mark a node whose aggregate is out of date. Returns 1 if it was not marked before, else 0."""
    if treaps.stale[slot]:
        return 0
    treaps.stale[slot] = 1
    return 1


def hang(treaps, key, parent, to_the_right, slot):
    """Make a slot the child of a parent, or the root if there is no parent."""
    if parent == NONE:
        treaps.root[key] = slot
    elif to_the_right:
        treaps.right[parent] = slot
    else:
        treaps.left[parent] = slot


def plant(slices, treaps, keys, slots):
    """Put slots that are new or have changed into the trees of their keys. Returns how many nodes were marked."""
    marked = 0
    for n in range(len(slots)):
        marked += plant_one(slices, treaps, keys[n], slots[n])
    return marked


def plant_one(slices, treaps, key, slot):
    """Put one slot into the tree of its key."""
    stamp = slices.stamp[slot]
    marked = 0
    parent, node = NONE, treaps.root[key]
    while node != NONE and node != slot and above(slices, node, slot):
        marked += mark(treaps, node)
        parent = node
        node = treaps.right[node] if slices.stamp[node] < stamp else treaps.left[node]
    if node != slot:
        hang(treaps, key, parent, parent != NONE and slices.stamp[parent] < stamp, slot)
        treaps.left[slot] = NONE
        treaps.right[slot] = NONE
        older = newer = slot  # what was here is split in two, along the way to where the slot belongs
        while node != NONE:
            marked += mark(treaps, node)
            if slices.stamp[node] < stamp:
                hang(treaps, key, older, older != slot, node)
                older = node
                node = treaps.right[node]
            else:
                hang(treaps, key, newer, newer == slot, node)
                newer = node
                node = treaps.left[node]
        if older != slot:
            treaps.right[older] = NONE
        if newer != slot:
            treaps.left[newer] = NONE
    return marked + mark(treaps, slot)


def uproot(slices, treaps, key, slots):
    """Take slots out of the tree of a key. Returns how many nodes were marked, at most."""
    marked = 0
    for n in range(len(slots)):
        slot = slots[n]
        parent, node, to_the_right = NONE, treaps.root[key], False
        while node != slot:
            marked += mark(treaps, node)
            parent = node
            to_the_right = slices.stamp[node] < slices.stamp[slot]
            node = treaps.right[node] if to_the_right else treaps.left[node]
        older, newer = treaps.left[slot], treaps.right[slot]
        while older != NONE and newer != NONE:
            to_the_left = above(slices, newer, older)
            upper = newer if to_the_left else older
            marked += mark(treaps, upper)
            hang(treaps, key, parent, to_the_right, upper)
            parent, to_the_right = upper, not to_the_left
            if to_the_left:
                newer = treaps.left[upper]
            else:
                older = treaps.right[upper]
        hang(treaps, key, parent, to_the_right, newer if older == NONE else older)
        treaps.stale[slot] = 0
    return marked


def stale_below(treaps, keys, stale, stack):
    """List the marked nodes of these keys that hold an aggregate, children before parents, and unmark them. Returns
    their number."""
    count = 0
    for n in range(len(keys)):
        spine = treaps.root[keys[n]]
        while spine != NONE:
            treaps.stale[spine] = 0
            stack[0] = treaps.left[spine]
            depth = 1 if stack[0] != NONE and treaps.stale[stack[0]] else 0
            while depth:
                node = stack[depth - 1]
                left, right = treaps.left[node], treaps.right[node]
                if left != NONE and treaps.stale[left]:
                    stack[depth] = left
                    depth += 1
                elif right != NONE and treaps.stale[right]:
                    stack[depth] = right
                    depth += 1
                else:
                    treaps.stale[node] = 0
                    stale[count] = node
                    count += 1
                    depth -= 1
            spine = treaps.right[spine]
    return count


def cut(slices, treaps, keys, bound):
    """Cut slices before a bound off the trees of these keys. A folded one stays until all of it lies before."""
    for n in range(len(keys)):
        key = keys[n]
        if slices.first[key] == NONE or slices.stamp[slices.first[key]] >= bound:
            continue
        parent, node = NONE, treaps.root[key]
        while node != NONE:
            if slices.stamp[node] < bound and (slices.page[node] == 0 or slices.stop[node] < bound):
                node = treaps.right[node]
            else:
                hang(treaps, key, parent, False, node)
                parent = node
                node = treaps.left[node]
        hang(treaps, key, parent, False, NONE)


def latest_before(slices, treaps, key, stamp):
    """The newest slice of a key before a stamp."""
    found, node = NONE, treaps.root[key]
    while node != NONE:
        if slices.stamp[node] < stamp:
            found = node
            node = treaps.right[node]
        else:
            node = treaps.left[node]
    return found


def seek(slices, treaps, keys, times):
    """Set the cursor of each key to where its first row belongs. Keys and times are in the order of keys, then times."""
    for n in range(len(keys)):
        if n == 0 or keys[n] != keys[n - 1]:
            found = latest_before(slices, treaps, keys[n], times[n] + 1)
            slices.cursor[keys[n]] = slices.first[keys[n]] if found == NONE else found


def holds(slices, treaps, keys, starts, ends, found):
    """For each window, whether its key has a slice from its start to its end; a folded one counts if it reaches in."""
    for n in range(len(keys)):
        slot = latest_before(slices, treaps, keys[n], ends[n])
        found[n] = slot != NONE and slices.stop[slot] >= starts[n]


def page_at(slices, treaps, keys, starts):
    """A folded slice inside which one of these windows begins; NONE if there is none."""
    for n in range(len(keys)):
        found = latest_before(slices, treaps, keys[n], starts[n])
        if found != NONE and slices.page[found] != 0 and slices.stop[found] >= starts[n]:
            return found
    return NONE
