# SPDX-License-Identifier: Apache-2.0
"""Since when keys are silent: rows that end a silence, and the keys whose silence is long."""

from __future__ import annotations

from windrow.kernels.slices.layout import FOREVER, NONE


def hear(keys, times, last, refused, edges, closed, lengths):
    """Rows of these keys came, the latest of each at one of these times. Counts the silences that they end.

    ``closed`` and ``lengths`` have an entry for each edge, for silences up to it, and one for longer ones. Without edges
    nothing is counted. Returns how many silences ended, and the earliest time.
    """
    count = 0
    earliest = FOREVER
    for n in range(len(keys)):
        key = keys[n]
        time = times[n]
        earliest = min(earliest, time)
        refused[key] = False
        if time > last[key]:
            silence = time - last[key]
            last[key] = time
            if len(edges) > 0 and silence < FOREVER:
                at = place_among(edges, silence)
                closed[at] += 1
                lengths[at] += silence
                count += 1
    return count, earliest


def place_among(edges, value):
    """How many edges are less than a value."""
    low = 0
    high = len(edges)
    while low < high:
        middle = (low + high) // 2
        if edges[middle] < value:
            low = middle + 1
        else:
            high = middle
    return low


def count_lasting(held, of, last, watermark, edges, counts, lengths):
    """Count the silences of all keys with slices, hot or cold, that last at a watermark, as :func:`hear` does."""
    for key in range(len(of)):
        if held[key] > 0 or of[key] != NONE:
            silence = max(watermark - last[key], 0)
            at = place_among(edges, silence)
            counts[at] += 1
            lengths[at] += silence


def find_idle(held, of, refused, last, weights, since, cohort, step, coming, idle):
    """List the hot keys with slices whose last row is not after ``since``.

    Returns how many these are, how much they weigh together, and the earliest time that ``since`` can be when a cohort is
    idle. ``coming`` is room for the weight of keys whose last row is up to so many ``step`` after ``since``.
    """
    count = 0
    weight = 0
    for key in range(len(of)):
        if held[key] > 0 and of[key] == NONE and not refused[key]:
            if last[key] <= since:
                idle[count] = key
                count += 1
                weight += weights[key]
            else:
                coming[min((last[key] - since - 1) // step, len(coming) - 1)] += weights[key]
    together = 0 if weight >= cohort else weight
    for at in range(len(coming)):
        together += coming[at]
        if together >= cohort:
            return count, weight, since + 1 + at * step
    return count, weight, FOREVER
