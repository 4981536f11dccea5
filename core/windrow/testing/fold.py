# SPDX-License-Identifier: Apache-2.0
"""Folding rows into partials: the kernels by which the laws compare compiled with interpreted code.

Only :mod:`windrow.testing.laws` and tests run them. They call every function of the seam with as little else as
possible, so that a difference is the aggregate's.

>>> import numpy as np
>>> import windrow as wr
>>> from windrow.testing import fold
>>> from windrow.kernels.partials import allocate, slots
>>> from windrow.kernels.specialise import specialise
>>> monoid = wr.Max().bind()
>>> out, valid = np.zeros(3), np.zeros(3, dtype=np.bool_)
>>> run = specialise(fold, slots(monoid), compiled=False)
>>> run.prefixes(allocate(monoid, 2), (np.array([1.0, 3.0, 2.0]),), out, valid)
>>> out
array([1., 3., 3.])
"""

from __future__ import annotations

from typing import Any

import numpy as np

from windrow.kernels.partials import add, clear, defined, lower, merge, unmerge


def absorb(parts: Any, columns: Any, first: int, last: int) -> None:
    """Rows ``first`` … ``last - 1`` into slot 0."""
    for row in range(first, last):
        add(parts, 0, row, columns)


def prefixes(parts: Any, columns: Any, out: Any, valid: Any) -> None:
    """The result of every prefix of the rows. Every other row is added, the rest are merged. Needs 2 slots."""
    whole, single = np.intp(0), np.intp(1)
    clear(parts, whole)
    for row in range(out.shape[0]):
        if row % 2 == 0:
            add(parts, whole, row, columns)
        else:
            clear(parts, single)
            add(parts, single, row, columns)
            merge(parts, whole, parts, whole, parts, single)
        valid[row] = defined(parts, whole)
        if valid[row]:
            out[row] = lower(parts, whole)


def suffixes(parts: Any, columns: Any, out: Any, valid: Any) -> None:
    """The result of every proper suffix of the rows, shortest last, by taking rows back. Needs 2 slots."""
    clear(parts, 0)
    for row in range(out.shape[0]):
        add(parts, 0, row, columns)
    for row in range(out.shape[0]):
        clear(parts, 1)
        add(parts, 1, row, columns)
        unmerge(parts, 0, parts, 0, parts, 1)
        valid[row] = defined(parts, 0)
        if valid[row]:
            out[row] = lower(parts, 0)
