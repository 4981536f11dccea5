# SPDX-License-Identifier: Apache-2.0
"""How many different values windows have: a hash table of counts that follows a window as rows enter and leave it."""

from __future__ import annotations

from windrow.kernels.slices.layout import NONE


def distinct(words, places, lo, hi, keys, counts, out):
    """``out[w]`` becomes the number of different words among the rows ``lo[w]`` to ``hi[w] - 1``.

    ``places`` says where in the table the search for a word begins. The table is ``keys`` and ``counts``, at least four
    times as long as the longest window, a power of two; a count of NONE is a free place. A word that has left keeps its
    place until the table is cleared, which happens when it is half full.
    """
    begin = end = used = found = 0
    mask = len(keys) - 1
    for w in range(len(lo)):
        apart = lo[w] < begin or hi[w] < end or lo[w] > end
        if w == 0 or apart or 2 * (used + hi[w] - end) > len(keys):
            counts[:] = NONE
            begin = end = lo[w]
            used = found = 0
        for row in range(end, hi[w]):
            place = places[row]
            while counts[place] != NONE and keys[place] != words[row]:
                place = (place + 1) & mask
            if counts[place] == NONE:
                keys[place] = words[row]
                counts[place] = 0
                used += 1
            if counts[place] == 0:
                found += 1
            counts[place] += 1
        for row in range(begin, lo[w]):
            place = places[row]
            while keys[place] != words[row] or counts[place] == NONE:
                place = (place + 1) & mask
            counts[place] -= 1
            if counts[place] == 0:
                found -= 1
        begin = lo[w]
        end = hi[w]
        out[w] = found
