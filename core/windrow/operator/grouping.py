"""Rows grouped by key."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from windrow.columns import arrow
from windrow.kernels.slices.layout import RowOrder
from windrow.operator.plan import Ints


def by_key(times: Ints, keys: Ints, count: int, group_by_key: Callable[..., Any]) -> RowOrder:
    """The order of rows by key, each key's rows by time, then arrival. ``count`` is how many keys there are."""
    rows = len(times)
    in_order = rows < 2 or bool((times[1:] >= times[:-1]).all())
    order = np.arange(rows) if in_order else np.argsort(times, kind="stable")
    if count <= 1:
        return RowOrder(order, keys, times if in_order else times[order])
    if 16 * rows < count:
        order = order[np.argsort(keys[order], kind="stable")]
        return RowOrder(order, keys[order], times[order])
    grouped = RowOrder(*(arrow.blank(rows, np.int64) for _ in RowOrder._fields))
    group_by_key(keys, times, np.zeros(count + 1, dtype=np.int64), order, grouped)
    return grouped
