# SPDX-License-Identifier: Apache-2.0
"""A compiled function of whole windows, called for one window after the other.

``result(columns, lo, hi)`` and ``put(out, ok, w, value)`` are made for the number of columns and of fields; see
:mod:`windrow.aggregates.apply`.
"""

from windrow.kernels.extents.seam import put, result


def call(columns, lo, hi, out, ok, at):
    """The results of windows; ``at[0]`` is the window in work."""
    for w in range(len(lo)):
        at[0] = w
        if hi[w] > lo[w]:
            put(out, ok, w, result(columns, lo[w], hi[w]))
