# SPDX-License-Identifier: Apache-2.0
"""Integers in as few bytes as they need: the loops under :mod:`windrow.storage.cold_block`.

A column is written as ``base + step · n``, with ``n`` in the narrowest unsigned integer. It holds the values themselves
or, if those lie closer together, the difference of each value to the one before it. A codec comes after this, so it is not
the farthest value alone that counts: rows of one key that lie close together, and far from those of the next key, are
better written as differences, although a few of them are large.
"""

from __future__ import annotations

import math

import numpy as np


def spread(values, found):
    """The least and the largest value, then the least and the largest difference to the one before, into ``found``.

    Returns whether differences are small beside values: less than half, on average, of the distance to the least value.
    """
    least = values[0]
    most = values[0]
    nearest = np.int64(0)
    farthest = np.int64(0)
    away = 0.0
    apart = 0.0
    for n in range(1, len(values)):
        value = values[n]
        step = value - values[n - 1]
        if n == 1:
            nearest = step
            farthest = step
        least = min(least, value)
        most = max(most, value)
        nearest = min(nearest, step)
        farthest = max(farthest, step)
        away += float(value)
        apart += abs(float(step))
    found[0] = least
    found[1] = most
    found[2] = nearest
    found[3] = farthest
    return 2.0 * apart < away - float(least) * (len(values) - 1)


def common_step(values, differences, base):
    """The greatest common divisor of what is to be written, at least 1."""
    step = np.int64(0)
    for n in range(1 if differences else 0, len(values)):
        rest = values[n] - base
        if differences:
            rest = values[n] - values[n - 1] - base
        while rest != 0:
            step, rest = rest, step % rest
        if step == 1:
            break
    return max(step, np.int64(1))


def squeeze(values, differences, base, step, out):
    """Write a column into integers that are wide enough."""
    if not differences:
        for n in range(len(values)):
            out[n] = (values[n] - base) // step
        return
    if len(values):
        out[0] = 0
    for n in range(1, len(values)):
        out[n] = (values[n] - values[n - 1] - base) // step


def stretch(written, differences, first, base, step, out):
    """Read a column that :func:`squeeze` wrote. Whatever the bytes say, nothing but ``out`` is written to."""
    if not differences:
        for n in range(len(out)):
            out[n] = base + step * np.int64(written[n])
        return
    if len(out):
        out[0] = first
    for n in range(1, len(out)):
        out[n] = out[n - 1] + base + step * np.int64(written[n])


def decimals(values, scale, out):
    """Write floats times a scale as integers; false if some would not come back bit by bit."""
    for n in range(len(values)):
        scaled = values[n] * scale
        if not abs(scaled) < 9007199254740992.0:
            return False
        whole = np.rint(scaled)
        if whole / scale != values[n] or (whole == 0.0 and math.copysign(1.0, values[n]) < 0.0):
            return False
        out[n] = np.int64(whole)
    return True
