# SPDX-License-Identifier: Apache-2.0
"""Which keys got no row for long: one pass over all keys, at every watermark."""

from __future__ import annotations

from windrow.kernels.slices.layout import FOREVER, NONE


def find_idle(held, of, refused, last, since, idle):
    """List the hot keys with slices whose last row is not after ``since``.

    Returns how many these are, how many slices they have, and the earliest last row of the others.
    """
    count = 0
    slices = 0
    earliest = FOREVER
    for key in range(len(of)):
        if held[key] > 0 and of[key] == NONE and not refused[key]:
            if last[key] <= since:
                idle[count] = key
                count += 1
                slices += held[key]
            else:
                earliest = min(earliest, last[key])
    return count, slices, earliest
