# SPDX-License-Identifier: Apache-2.0
"""The rows of a window that no other row dominates: its skyline.

A row dominates another if it is at least as good in every column and better in one (Börzsönyi, Kossmann and Stocker,
*The Skyline Operator*, ICDE 2001). Equal rows do not dominate each other, so all of them are in the skyline.

With two columns, rows are sorted by the first; then one pass keeps the best of the second: O(n log n) (Kung, Luccio and
Preparata, *On Finding the Maxima of a Set of Vectors*, 1975). With one or with more than two, each row is compared with
the skyline so far. Rows are sorted by the first column then too, so a row can only be dominated by later ones that are
equal in it (Chomicki, Godfrey, Gryz and Liang, *Skyline with Presorting*, ICDE 2003): O(n · rows in the skyline).
"""

from __future__ import annotations

from typing import Any

import numpy as np


def fill(keys: Any, usable: Any, lo: Any, hi: Any, first: Any, out: Any, ends: Any) -> Any:
    """The skylines of the windows from ``first`` on, one after the other in ``out``; window w ends at ``ends[w]``.

    ``keys`` has a row for each column; small keys are good. Rows that are not ``usable`` are left out. Returns the first
    window for which there may be too little room, or the number of windows.
    """
    used = ends[first - 1] if first > 0 else 0
    for w in range(first, len(lo)):
        if used + hi[w] - lo[w] > len(out):
            return w
        if hi[w] > lo[w]:
            order = np.argsort(keys[0, lo[w] : hi[w]], kind="mergesort") + lo[w]
            begin = used
            used = (
                two(keys, usable, order, out, used)
                if len(keys) == 2
                else many(keys, usable, order, out, used)
            )
            out[begin:used].sort()
        ends[w] = used
    return len(lo)


def two(keys: Any, usable: Any, order: Any, out: Any, used: Any) -> Any:
    """The skyline of rows in the order of the first column. Among those equal in it, the best in the second count."""
    at, empty = 0, True
    best = np.int64(0)
    while at < len(order):
        end = at
        least, some = np.int64(0), False
        while end < len(order) and keys[0, order[end]] == keys[0, order[at]]:
            if usable[order[end]]:
                least = min(least, keys[1, order[end]]) if some else keys[1, order[end]]
                some = True
            end += 1
        if some and (empty or least < best):
            best, empty = least, False
            for i in range(at, end):
                if usable[order[i]] and keys[1, order[i]] == least:
                    out[used] = order[i]
                    used += 1
        at = end
    return used


def many(keys: Any, usable: Any, order: Any, out: Any, used: Any) -> Any:
    """The skyline of rows in the order of the first column."""
    begin = used
    for row in order:
        if not usable[row]:
            continue
        beaten = False
        kept = begin
        for i in range(begin, used):
            beaten = beaten or dominates(keys, out[i], row)
            if beaten or not dominates(keys, row, out[i]):
                out[kept] = out[i]
                kept += 1
        used = kept
        if not beaten:
            out[used] = row
            used += 1
    return used


def dominates(keys: Any, one: Any, other: Any) -> Any:
    """Is a row as good as another in every column, and better in one?"""
    better = False
    for column in range(len(keys)):
        if keys[column, one] > keys[column, other]:
            return False
        better = better or keys[column, one] < keys[column, other]
    return better
