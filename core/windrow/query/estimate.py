# SPDX-License-Identifier: Apache-2.0
"""How many windows a query has over some rows at the least: reason to refuse what could never end, or fit memory.

>>> import pyarrow as pa
>>> import windrow as wr
>>> query = wr.Query(window=wr.TimeWindow("3000d", "1us"), aggregates={"n": wr.Count()})
>>> windows_per_row(query)
259200000000000
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pyarrow as pa

from windrow.query.bound import BoundQuery
from windrow.query.query import Query
from windrow.query.slicing import time_windows
from windrow.windows import TimeWindow

__all__ = ["bytes_per_window", "fewest_windows", "windows_per_row"]

SAMPLE = 1 << 14
"""So many rows are looked at, evenly spread."""
TEXT = 16
"""Bytes of a value whose type does not tell its size: an offset and a short text."""


def windows_per_row(query: Query) -> int:
    """How many time windows a row is in at the least; 0 for windows that are not time windows.

    Every other kind of window has at most one window that ends at a row or at a boundary after it.
    """
    return sum(window.range // window.slide for window in time_windows(query))


def fewest_windows(bound: BoundQuery, rows: pa.Table, enough: int) -> int:
    """A number of windows that these rows have at the least, if that is more than ``enough``; otherwise 0.

    It is cheap where rows and windows are so few that there cannot be more than ``enough``. Otherwise it looks at
    some rows. Each key has the windows of one of its rows. All keys together have the windows of all times.
    """
    windows = time_windows(bound.query)
    most = sum(window.range // window.slide + 1 for window in windows)
    if rows.num_rows * most <= enough or not windows:
        return 0
    sample = _spread(rows.select([bound.query.time, *bound.query.by]))
    times, keys = np.sort(bound.times(sample)), _keys(sample, bound.query)
    least = sum(max(_ends(window, times), keys * (window.range // window.slide)) for window in windows)
    return least if least > enough else 0


def bytes_per_window(schema: pa.Schema) -> int:
    """About how many bytes a row of the result takes."""
    return sum(_width(field.type) for field in schema)


def _ends(window: TimeWindow, times: Iterable[int]) -> int:
    """How many windows hold at least one of these times, which are sorted."""
    found = np.asarray(times, dtype=np.int64)
    last = window.last_window(found)
    first = np.maximum(window.first_window(found), np.append(window.first_window(found[:1]), last[:-1] + 1))
    return int(np.maximum(last - first + 1, 0).sum(dtype=np.float64))


def _spread(rows: pa.Table) -> pa.Table:
    """Rows at equal distances, the first among them; all rows if they are few."""
    if rows.num_rows <= SAMPLE:
        return rows
    return rows.take(pa.array(np.linspace(0, rows.num_rows - 1, SAMPLE, dtype=np.int64)))


def _keys(rows: pa.Table, query: Query) -> int:
    """How many keys these rows have; 1 if Arrow cannot group by their type."""
    try:
        return rows.group_by(list(query.by)).aggregate([]).num_rows if query.by else 1
    except pa.ArrowNotImplementedError:
        return 1


def _width(kind: pa.DataType) -> int:
    try:
        return max(1, kind.bit_width // 8)
    except ValueError:  # of varying length
        return TEXT
