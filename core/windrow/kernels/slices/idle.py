# SPDX-License-Identifier: Apache-2.0
"""Since when keys are silent: rows that end a silence, and the keys whose silence is long."""

from __future__ import annotations

from windrow.kernels.slices.layout import FOREVER, NONE


def hear(keys, times, last, refused, counted, coming, since, shift, silences):
    """Rows of these keys came, the latest of each at one of these times. Counts the silences that they end.

    A key that :func:`find_idle` has counted leaves ``coming``. ``silences`` are edges, and for each how many silences are up to
    it, and their sum, with one more entry for longer ones. Without edges nothing is counted. Returns how many silences
    ended, and the earliest time.
    """
    edges, closed, lengths = silences
    count = 0
    earliest = FOREVER
    for n in range(len(keys)):
        key = keys[n]
        time = times[n]
        earliest = min(earliest, time)
        refused[key] = False
        if time > last[key]:
            if counted[key] > 0:
                coming[part_of(last[key], since, shift, coming)] -= counted[key]
                counted[key] = 0
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


def part_of(last, since, shift, coming):
    """Which entry of ``coming`` counts a key: the first if its last row is not after ``since``, then one for each part of D."""
    if last <= since:
        return 0
    return min(1 + ((last - since - 1) >> shift), len(coming) - 1)


def count_lasting(held, of, last, watermark, stride, edges, counts, lengths):
    """Count the silences of keys with slices, hot or cold, that last at a watermark, as :func:`hear` does.

    One key in ``stride`` stands for all of them.
    """
    for key in range(0, len(of), stride):
        if held[key] > 0 or of[key] != NONE:
            silence = max(watermark - last[key], 0)
            at = place_among(edges, silence)
            counts[at] += stride
            lengths[at] += silence * stride


def find_idle(of, refused, last, weights, since, shift, cohort, counted, coming, idle):
    """List the hot keys with slices whose last row is not after ``since``.

    Returns how many these are, and how much they weigh together. ``coming`` becomes what the hot keys weigh by the time of
    their last row, in parts of ``1 << shift``; see :func:`part_of`. ``counted`` is what each key weighs there: the cohort at
    most, and nothing once it is listed with a cohort.
    """
    count = 0
    weight = 0
    for key in range(len(of)):
        counted[key] = 0
        if weights[key] > 0 and of[key] == NONE and not refused[key]:
            counted[key] = min(weights[key], cohort)
            coming[part_of(last[key], since, shift, coming)] += counted[key]
            if last[key] <= since:
                idle[count] = key
                count += 1
                weight += weights[key]
    if weight >= cohort:
        coming[0] = 0
        for n in range(count):
            counted[idle[n]] = 0
    return count, weight
