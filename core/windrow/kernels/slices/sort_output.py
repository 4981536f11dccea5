# SPDX-License-Identifier: Apache-2.0
"""Sorting windows by end, then key, in time that follows their number: a counting sort over window ends.

Entries come in the order of keys, and an entry stands for several windows. The place of a window in the
output is known from how many windows end before it.
"""

from __future__ import annotations

from typing import Any, NamedTuple


class Entries(NamedTuple):
    """Entries of one batch, in the order of keys."""

    first: Any  #: the index of the end of each entry's first window
    repeat: Any  #: how many windows an entry stands for
    begins: Any  #: where the entries of each key begin, and their number
    cursor: Any  #: per key: the next entry to write


class Four(NamedTuple):
    """Up to four columns that are written side by side; unused ones repeat the first."""

    a: Any
    b: Any
    c: Any
    d: Any


def extent(end, repeat, slide):
    """The earliest and the latest end of the windows that some entries stand for."""
    least, most = end[0], end[0]
    for entry in range(len(end)):
        least = min(least, end[entry])
        most = max(most, end[entry] + (repeat[entry] - 1) * slide)
    return least, most


def tally(end, repeat, least, slide, first, counts):
    """``first`` becomes the index of each entry's first end. ``counts`` becomes, for every end, how many more
    windows end there than at the end before."""
    for entry in range(len(end)):
        index = (end[entry] - least) // slide
        first[entry] = index
        counts[index] += 1
        counts[index + repeat[entry]] -= 1


def bounds(places, low, high, least, slide, length, starts, ends):
    """The starts and ends of the windows from end ``low`` to end ``high``.

    ``places`` is where the windows of each end begin in the output.
    """
    for position in range(low, high):
        end = least + slide * position
        for n in range(places[position], places[position + 1]):
            starts[n] = end - length
            ends[n] = end


def spread(entries, following, low, high, block, columns, sources, targets):
    """Write the values of entries to all their windows, from end ``low`` to end ``high``.

    ``following`` is the next place of each end. ``block`` ends are done at a time, so that the places written
    to stay in the cache. Up to four columns are written at a time, since finding a place takes longer than
    writing to it.
    """
    first, repeat, begins, cursor = entries.first, entries.repeat, entries.begins, entries.cursor
    keys = len(begins) - 1
    for key in range(keys):
        cursor[key] = begins[key]
    for begin in range(low, high, block):
        stop = min(begin + block, high)
        for key in range(keys):
            entry = cursor[key]
            while entry < begins[key + 1] and first[entry] < stop:
                until = first[entry] + repeat[entry]
                if until > begin:
                    earliest, latest = max(first[entry], begin), min(until, stop)
                    if columns == 1:
                        write_one(entry, earliest, latest, following, sources.a, targets.a)
                    else:
                        write_some(entry, earliest, latest, following, columns, sources, targets)
                if until > stop:
                    break
                entry += 1
            cursor[key] = entry


def write_one(entry, begin, stop, following, source, target):
    """One value of an entry, to each of its ends."""
    value = source[entry]
    for end in range(begin, stop):
        target[following[end]] = value
        following[end] += 1


def write_some(entry, begin, stop, following, columns, sources, targets):
    """Two to four values of an entry, to each of its ends."""
    first, second = sources.a[entry], sources.b[entry]
    third = sources.c[entry] if columns > 2 else second
    fourth = sources.d[entry] if columns > 3 else second
    for end in range(begin, stop):
        place = following[end]
        following[end] = place + 1
        targets.a[place] = first
        targets.b[place] = second
        if columns > 2:
            targets.c[place] = third
        if columns > 3:
            targets.d[place] = fourth
