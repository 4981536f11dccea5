# SPDX-License-Identifier: Apache-2.0
"""The k-th smallest of keys that nobody needs sorted afterwards: for windows that share few rows with their neighbours.

Quickselect (Hoare, *Algorithm 65: Find*, 1961) with the median of three as pivot. If it does not get on, what is left is
sorted by heapsort, so no order of rows takes more than O(n log n) (Musser, *Introspective Sorting and Selection
Algorithms*, 1997).
"""

from __future__ import annotations

from typing import Any


def select(keys: Any, count: Any, rank: Any) -> Any:
    """The key of a rank among the first ``count`` keys; smaller ones are then before it, and larger ones after."""
    low, high = 0, count - 1
    rounds = 8
    while count > 0:
        count >>= 1
        rounds += 2
    while high > low:
        if rounds == 0:
            heapsort(keys, low, high + 1)
            break
        rounds -= 1
        pivot = middle(keys[low], keys[(low + high) >> 1], keys[high])
        i, j = low, high
        while i <= j:
            while keys[i] < pivot:
                i += 1
            while pivot < keys[j]:
                j -= 1
            if i <= j:
                keys[i], keys[j] = keys[j], keys[i]
                i += 1
                j -= 1
        if rank <= j:
            high = j
        elif rank >= i:
            low = i
        else:
            break
    return keys[rank]


def middle(a: Any, b: Any, c: Any) -> Any:
    """The median of three."""
    return max(min(a, b), min(max(a, b), c))


def heapsort(keys: Any, begin: Any, end: Any) -> None:
    """Keys ``begin`` to ``end - 1`` in ascending order."""
    count = end - begin
    for root in range(count // 2 - 1, -1, -1):
        sift(keys, begin, root, count)
    for last in range(count - 1, 0, -1):
        keys[begin], keys[begin + last] = keys[begin + last], keys[begin]
        sift(keys, begin, 0, last)


def sift(keys: Any, begin: Any, root: Any, count: Any) -> None:
    """The key at ``root`` sinks to its place in a heap whose largest key is first."""
    key = keys[begin + root]
    child = 2 * root + 1
    while child < count:
        if child + 1 < count and keys[begin + child] < keys[begin + child + 1]:
            child += 1
        if keys[begin + child] <= key:
            break
        keys[begin + root] = keys[begin + child]
        root, child = child, 2 * child + 1
    keys[begin + root] = key
