# SPDX-License-Identifier: Apache-2.0
"""The rows of one key in ranges, so that several tasks of a batch can share its windows.

Time windows need only the times of rows, so any cut will do. Other windows count rows: which window a row is in depends
on all rows before it. So an engine first counts the rows of a key in small *cells* of time. That tells how many rows
there are before each cell, and a range can begin at any cell with rows. Rows of one time are never parted.

A range owns the windows that its own rows complete. For those it also gets some rows before its own, the *halo*:

============== ================================================= ======================================================
window         is owned by the range of                          needs from before
============== ================================================= ======================================================
count          its last row                                      the rows of the first owned window
slide by tuple the row that triggers it                          its range in time, from a multiple of the slide on
slide by time  a row of its last slide; ranges end with slides   its range in rows
session        all its rows; ranges begin after a gap            nothing
============== ================================================= ======================================================

With ``forget_after``, every kind is cut like sessions: a key starts anew after a silence.

A range starts to count at its first row. That changes nothing but the bounds of count windows, to which its *base* is
added: the position of that row among all rows of the key.

>>> import numpy as np
>>> import windrow as wr
>>> query = wr.Query(window=wr.CountWindow(4, 2), aggregates={"n": wr.Count()})
>>> cells = RowCounts(first=np.array([0, 10, 20, 30]), last=np.array([9, 19, 29, 39]), rows=np.array([3, 3, 3, 3]))
>>> first, second = cut_key(query, cells, 2)
>>> first.last                      # its last window ends with the sixth row
19
>>> second.begin, second.base       # its first window begins with the fifth row …
(20, 4)
>>> second.sent, second.skipped     # … the second one of those that are sent
(10, 1)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from windrow.query.query import Query
from windrow.windows import CountWindow, SessionWindow, SlideByTime, SlideByTuple

__all__ = [
    "WHOLE",
    "CellGrid",
    "KeyRange",
    "Ranges",
    "RowCounts",
    "SkippedRows",
    "coarse",
    "cut_key",
    "cuttable",
    "grids",
]

Ints = NDArray[np.int64]

EARLIEST, LATEST = -(1 << 63), (1 << 63) - 1
CELLS, GAP_CELLS = 1 << 12, 1 << 14
"""Into how many cells the time of a key is divided, or more. Where ranges begin at gaps only, more cells show more gaps."""
CELLS_A_RANGE = 16
"""Into how many cells a range is divided, or more, if rows come evenly. A quarter of them would do."""
LEAST_RATIO = 4
"""How many times as many rows of their own as in their halos ranges have, if it is ours to choose how many there are."""


class RowCounts(NamedTuple):
    """The rows of a key, counted in cells of time. Cells have rows, and are in order."""

    first: Ints
    """The earliest time in each cell."""
    last: Ints
    """The latest time in each cell."""
    rows: Ints


class CellGrid(NamedTuple):
    """Where cells begin: at ``origin + k · width``, in microseconds."""

    origin: int
    width: int


class KeyRange(NamedTuple):
    """A range of a key. Times are in microseconds, and all of them are included."""

    sent: int
    """Rows from this time on are sent to the range …"""
    begin: int
    """… and from this time on they are its own …"""
    last: int
    """… up to this one."""
    skipped: int
    """How many of the first rows that are sent are not needed."""
    base: int
    """The position of the first row that is needed, among all rows of the key."""


WHOLE = KeyRange(EARLIEST, EARLIEST, LATEST, 0, 0)
"""All rows of a key that is not cut."""


def cuttable(query: Query) -> bool:
    """Whether the rows of a key can be cut here. Time windows need no counting; delta and policy windows cannot be cut,
    because each begins where the one before it says.
    """
    return isinstance(query.window, CountWindow | SlideByTuple | SlideByTime | SessionWindow)


def grids(query: Query, spans: Sequence[tuple[int, int]], ranges: int) -> list[CellGrid]:
    """The cells in which to count, for each span between the earliest and the latest time of some rows.

    >>> import windrow as wr
    >>> query = wr.Query(window=wr.SlideByTime(3, "10us", "4us"), aggregates={"n": wr.Count()})
    >>> grids(query, [(5, 100_000)], ranges=2)
    [CellGrid(origin=4, width=30)]
    """
    unit, offset = _unit(query)
    cells = max(CELLS if _gap(query) is None else GAP_CELLS, CELLS_A_RANGE * ranges)
    each = max(cells // max(len(spans), 1), CELLS_A_RANGE) * unit
    origins = [earliest - (earliest - offset) % unit for earliest, _ in spans]
    return [
        CellGrid(origin, -(-(latest - origin + 1) // each) * unit)
        for origin, (_, latest) in zip(origins, spans, strict=True)
    ]


def coarse(query: Query, cells: RowCounts, ranges: int) -> NDArray[np.bool_]:
    """Which cells have so many rows that they should be counted again, in cells of their own.

    One row that is far from all others makes cells so wide that they do not tell the others apart.
    """
    unit, offset = _unit(query)
    many = cells.rows * (CELLS_A_RANGE // 4 * ranges) > cells.rows.sum()
    apart = (cells.first - offset) // unit < (cells.last - offset) // unit
    found: NDArray[np.bool_] = many & apart
    return found


def cut_key(query: Query, cells: RowCounts, ranges: int, *, worth: bool = False) -> list[KeyRange]:
    """Ranges with about equally many rows: as many as asked for, or fewer if there are not so many places to cut.

    With ``worth``, also fewer if the halos would be long: then a row is sent to not much more than one range.
    """
    before = np.append(0, np.cumsum(cells.rows))
    begins = _begins(query, cells, before, ranges)
    found = _ranges(query, cells, before, begins)
    while worth and len(found) > 1 and not _worth(before, begins, found):
        ranges = min(ranges, len(found)) // 2
        begins = _begins(query, cells, before, ranges)
        found = _ranges(query, cells, before, begins)
    return found


class Ranges:
    """Numbered ranges of some keys: what the task of an engine does with their rows and their windows.

    Number 0 is :data:`WHOLE`, for keys that are not cut; any number of keys can have it. Every other number is a range of
    one key. A query of these keys and numbers computes the windows.
    """

    def __init__(self, query: Query, ranges: Sequence[KeyRange]) -> None:
        self.ranges = [WHOLE, *ranges]
        self._window, self._anew = query.window, _gap(query) is not None
        columns = np.array([tuple(each) for each in self.ranges], np.int64).T
        _, self._begin, self._last, self._skipped, self._base = columns

    def skipped_rows(self) -> SkippedRows:
        """For one pass over sorted rows."""
        return SkippedRows(self._skipped)

    def owned(self, windows: pa.Table, number: str) -> pa.Table:
        """The windows that are their ranges' own, as the whole key has them, without the column of numbers."""
        numbers = windows.column(number).to_numpy()
        windows = windows.drop_columns([number])
        if self._anew:
            return windows
        if isinstance(self._window, CountWindow):  # the first window that a range can compute is its own
            base = pa.array(self._base[numbers])
            for name in ("window_start", "window_end"):
                place = windows.column_names.index(name)
                windows = windows.set_column(place, name, pc.add(windows.column(name), base))
            return windows
        ends = windows.column("window_end").cast(pa.int64()).to_numpy()
        if isinstance(self._window, SlideByTime):
            ends = ends - 1  # a time in the last slide
        return windows.filter(pa.array((ends >= self._begin[numbers]) & (ends <= self._last[numbers])))


class SkippedRows:
    """Which rows are needed, of rows that come in batches, those of a range one after another in order of time."""

    def __init__(self, skipped: Ints) -> None:
        self._skipped = skipped
        self._number, self._seen = 0, 0

    def needed(self, numbers: Ints) -> NDArray[np.bool_]:
        """Whether each row is needed, given the number of its range.

        >>> import numpy as np
        >>> skipped = SkippedRows(np.array([0, 0, 3]))
        >>> skipped.needed(np.array([1, 1, 2])), skipped.needed(np.array([2, 2, 2]))
        (array([ True,  True, False]), array([False, False,  True]))
        """
        if not len(numbers):
            return np.zeros(0, np.bool_)
        starts = np.flatnonzero(np.append(True, numbers[1:] != numbers[:-1]))
        lengths = np.diff(np.append(starts, len(numbers)))
        position = np.arange(len(numbers)) - np.repeat(starts, lengths)
        if numbers[0] == self._number:
            position[: lengths[0]] += self._seen
        self._number, self._seen = int(numbers[-1]), int(position[-1]) + 1
        needed: NDArray[np.bool_] = position >= self._skipped[numbers]
        return needed


# Where ranges begin.


def _unit(query: Query) -> tuple[int, int]:
    """Ranges may begin at ``offset + k · unit``: the last slide of a window is not parted."""
    window = query.window
    return (window.slide, window.offset) if isinstance(window, SlideByTime) else (1, 0)


def _gap(query: Query) -> int | None:
    """The silence after which nothing depends on earlier rows, if ranges begin after such silences only."""
    return query.window.gap if isinstance(query.window, SessionWindow) else query.forget_after


def _begins(query: Query, cells: RowCounts, before: Ints, ranges: int) -> Ints:
    """The cells at which ranges begin: those nearest to equal shares of the rows."""
    places = np.arange(1, len(cells.rows))
    gap = _gap(query)
    if gap is not None:
        places = places[cells.first[1:] - cells.last[:-1] > gap]
    if ranges < 2 or not len(places):
        return np.zeros(1, np.int64)
    shares = np.arange(1, ranges) * (int(before[-1]) / ranges)
    after = np.searchsorted(before[places], shares).clip(1, max(len(places) - 1, 1))
    near, far = places[after - 1], places[np.minimum(after, len(places) - 1)]
    nearest = np.where(shares - before[near] <= before[far] - shares, near, far)
    return np.unique(np.append(0, nearest))


def _ranges(query: Query, cells: RowCounts, before: Ints, begins: Ints) -> list[KeyRange]:
    found = []
    for which, begin in enumerate(begins.tolist()):
        needed = _first_needed(query, cells, before, begin)
        sent = min(int(np.searchsorted(before, needed, side="right")) - 1, begin)
        last = which == len(begins) - 1
        found.append(
            KeyRange(
                int(cells.first[sent]) if sent else EARLIEST,
                int(cells.first[begin]) if begin else EARLIEST,
                LATEST if last else int(cells.first[begins[which + 1]]) - 1,
                needed - int(before[sent]),
                needed,
            )
        )
    return found


def _first_needed(query: Query, cells: RowCounts, before: Ints, begin: int) -> int:
    """The position of the first row that a range needs, if its own rows begin with a cell."""
    window: Any = query.window
    own = int(before[begin])
    if _gap(query) is not None or not begin:
        return own
    if isinstance(window, CountWindow):  # the first window whose last row is at `own` or later
        return max(-(-(own - window.range + 1) // window.slide), 0) * window.slide
    if isinstance(window, SlideByTime):
        return max(own - window.range + 1, 0)
    since = int(cells.first[begin]) - window.range  # a window does not have the rows of this time
    return int(before[np.flatnonzero(cells.last[: begin + 1] > since)[0]]) // window.slide * window.slide


def _worth(before: Ints, begins: Ints, found: Sequence[KeyRange]) -> bool:
    """Whether the halos are short, compared with the ranges' own rows."""
    own = before[begins]
    halos = sum(max(int(at) - each.base, 0) for at, each in zip(own, found, strict=True))
    return LEAST_RATIO * halos <= int(before[-1])
