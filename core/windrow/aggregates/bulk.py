# SPDX-License-Identifier: Apache-2.0
"""Many rows into object partials at once.

A partial as large as its input is copied whenever it is combined. Row by row that is quadratic, so the rows of a
batch that share a slot become one partial first (``lift_many``), which is combined once.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from windrow.aggregates.monoid import Monoid
from windrow.columns.arrow import Array

FEW = 4
"""So many rows to a slot, on average, are worth sorting by slot."""


def absorb_many(monoid: Monoid, objects: Array, slots: Array, columns: Sequence[Array], valid: Array) -> bool:
    """Combine rows with the partials of their slots; those of one slot in their order.

    A row with a negative slot is left out, and so is one that is not ``valid`` (if that is empty, all are).
    Returns false, and does nothing, if the aggregate cannot lift many rows or slots have few rows each.
    """
    if monoid.lift_many is None:
        return False
    used = slots >= 0
    rows = np.flatnonzero(used & valid if len(valid) else used)
    rows = rows[np.argsort(slots[rows], kind="stable")]
    cuts = np.flatnonzero(np.diff(slots[rows])) + 1
    if len(rows) < FEW * (len(cuts) + 1):
        return False
    for group in np.split(rows, cuts):
        slot = slots[group[0]]
        lifted = monoid.lift_many(*(column[group] for column in columns))
        objects[slot] = monoid.combine(objects[slot], lifted)
    return True
