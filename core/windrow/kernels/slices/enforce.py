# SPDX-License-Identifier: Apache-2.0
"""Where policy windows begin, compiled: the search of :mod:`windrow.operator.policy_search`, row after row.

It is specialised for all aggregates of a query together: ``parts`` and ``above`` hold the fields of all of them, and
``outcome`` makes of a slot what the user's functions take. It stops at a row for which a result is null or a slice
has to be unfolded: that row is left to the interpreted search.
"""

from __future__ import annotations

from windrow.kernels.partials import copy, defined, merge
from windrow.kernels.slices.combine import fold_nodes
from windrow.kernels.slices.forest import largest, node_at, slot_at
from windrow.kernels.slices.seam import evict, outcome, valid

BEFORE, GONE, CANDIDATE, AFTER, REST = 0, 1, 2, 3, 4
"""Slots of ``work``: the whole window; what is certain to go; that and the next node; what stays; that and a node."""
SUFFIX = 5
"""From here on: what follows each node of the cover. 128 nodes cover any window."""
STUCK = -1


def enforce_rows(slices, forest, parts, above, work, cover, keys, left, heads, evicts):
    """The first position of the window of each row, from row ``cover[0]`` on. Returns the row that it has come to.

    ``left`` is how many new rows of its key there are from each row on.
    """
    for row in range(cover[0], len(keys)):
        key = keys[row]
        head, end = forest.head[key], forest.tail[key] - left[row] + 1
        if not forest.known[key]:
            return row
        if end - head > 1:
            head = beginning(slices, forest, parts, above, work, cover, key, head, end, evicts)
            if head == STUCK:
                return row
            forest.head[key] = head
        heads[row] = head
    return len(keys)


def beginning(slices, forest, parts, above, work, cover, key, head, end, evicts):
    """The first position of one window."""
    fold_nodes(parts, above, forest, key, head, end, work, BEFORE)
    if not defined(work, BEFORE):
        return STUCK
    if valid(outcome(work, BEFORE)):
        if not evicts:
            return head
        slot = slot_at(forest, key, head)
        fold_nodes(parts, above, forest, key, head + 1, end, work, AFTER)
        if slices.page[slot] != 0 or not defined(parts, slot) or not defined(work, AFTER):
            return STUCK
        if not evict(outcome(parts, slot), outcome(work, AFTER), outcome(work, BEFORE)):
            return head
    return search(slices, forest, parts, above, work, cover, key, head, end, evicts)


def search(slices, forest, parts, above, work, cover, key, head, end, evicts):
    """The first position that stays, if the oldest does not."""
    count, position = 0, head
    while position < end - 1:  # cover[1 + i] is where node i begins
        cover[1 + count] = position
        position += 1 << largest(position, end - 1)
        count += 1
    copy(work, SUFFIX + count - 1, parts, slot_at(forest, key, end - 1))
    for i in range(count - 1, 0, -1):
        begin = cover[1 + i]
        join(forest, parts, above, key, largest(begin, end - 1), begin, work, SUFFIX + i - 1, SUFFIX + i)
    started = False
    for i in range(count):
        begin = cover[1 + i]
        level = largest(begin, end - 1)
        extend(forest, parts, above, key, level, begin, work, started)
        goes = all_go(work, SUFFIX + i)
        if goes == STUCK:
            return STUCK
        if goes == 0:
            copy(work, AFTER, work, SUFFIX + i)
            return descend(slices, forest, parts, above, work, key, level, begin, started, evicts)
        copy(work, GONE, work, CANDIDATE)
        started = True
    return end - 1


def descend(slices, forest, parts, above, work, key, level, begin, started, evicts):
    """The first position of a node that stays, or one past its end."""
    while level > 0:
        level -= 1
        extend(forest, parts, above, key, level, begin, work, started)
        join(forest, parts, above, key, level, begin + (1 << level), work, REST, AFTER)
        goes = all_go(work, REST)
        if goes == STUCK:
            return STUCK
        if goes == 1:
            copy(work, GONE, work, CANDIDATE)
            started = True
            begin += 1 << level
        else:
            copy(work, AFTER, work, REST)
    folded = slices.page[slot_at(forest, key, begin)] != 0
    join(forest, parts, above, key, 0, begin, work, REST, AFTER)
    if not defined(work, REST):
        return STUCK
    if not valid(outcome(work, REST)):
        return STUCK if folded else begin + 1
    if not evicts:
        return begin
    extend(forest, parts, above, key, 0, begin, work, started)
    if folded or not defined(work, CANDIDATE) or not defined(work, AFTER):
        return STUCK
    return (
        begin + 1 if evict(outcome(work, CANDIDATE), outcome(work, AFTER), outcome(work, BEFORE)) else begin
    )


def all_go(work, after):
    """1 if all of the candidate has to be evicted, as far as can be seen without looking into it; else 0."""
    if not defined(work, after):
        return STUCK
    if not valid(outcome(work, after)):
        return 1
    if not defined(work, CANDIDATE):
        return STUCK
    return 1 if evict(outcome(work, CANDIDATE), outcome(work, after), outcome(work, BEFORE)) else 0


def extend(forest, parts, above, key, level, begin, work, started):
    """The candidate is what goes, and the next node."""
    if level == 0:
        slot = slot_at(forest, key, begin)
        if started:
            merge(work, CANDIDATE, work, GONE, parts, slot)
        else:
            copy(work, CANDIDATE, parts, slot)
    else:
        slot = node_at(forest, key, level, begin >> level)
        if started:
            merge(work, CANDIDATE, work, GONE, above, slot)
        else:
            copy(work, CANDIDATE, above, slot)


def join(forest, parts, above, key, level, begin, work, into, newer):
    """Put a node before what follows it."""
    if level == 0:
        merge(work, into, parts, slot_at(forest, key, begin), work, newer)
    else:
        merge(work, into, above, node_at(forest, key, level, begin >> level), work, newer)
