# SPDX-License-Identifier: Apache-2.0
"""The ids and the bounds of windows that repeat at a fixed distance.

Window k covers [k·slide + offset, k·slide + offset + range) on its axis, for every integer k. The axis is time in
microseconds for time windows, and the position of a row for count windows. All arguments are integers or int64
arrays that broadcast against each other, so one call can serve many times, many windows, or both.

>>> first_window(3, range=4, slide=2, offset=0), last_window(3, slide=2, offset=0)
(0, 1)
>>> window_start(1, slide=2, offset=0)
2
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple, Protocol, TypeAlias, overload

import numpy as np
from numpy.typing import NDArray

__all__ = ["Grid", "first_window", "last_window", "window_start"]

Ints: TypeAlias = NDArray[np.int64]


@overload
def first_window(time: int, range: int, slide: int, offset: int) -> int: ...
@overload
def first_window(time: Ints, range: int | Ints, slide: int | Ints, offset: int | Ints) -> Ints: ...
@overload
def first_window(time: int | Ints, range: Ints, slide: Ints, offset: Ints) -> Ints: ...
def first_window(time: int | Ints, range: int | Ints, slide: int | Ints, offset: int | Ints) -> int | Ints:
    """The id of the first window that contains ``time``, which is the first that ends after it.

    In a gap between windows no window contains ``time``, and the id is that of the next window: one more
    than :func:`last_window`.

    >>> first_window(np.array([-1, 0, 1, 2]), range=4, slide=2, offset=0)
    array([-2, -1, -1,  0])
    >>> first_window(3, range=2, slide=5, offset=0)         # in a gap
    1
    """
    return (time - offset - range) // slide + 1


@overload
def last_window(time: int, slide: int, offset: int) -> int: ...
@overload
def last_window(time: Ints, slide: int | Ints, offset: int | Ints) -> Ints: ...
@overload
def last_window(time: int | Ints, slide: Ints, offset: Ints) -> Ints: ...
def last_window(time: int | Ints, slide: int | Ints, offset: int | Ints) -> int | Ints:
    """The id of the last window that contains ``time``, which is the last that starts at or before it.

    In a gap between windows no window contains ``time``, and the id is that of the window before.

    >>> last_window(np.array([-1, 0, 1, 2]), slide=2, offset=0)
    array([-1,  0,  0,  1])
    >>> last_window(3, slide=5, offset=0)                   # in a gap, if the range is 2
    0
    """
    return (time - offset) // slide


@overload
def window_start(k: int, slide: int, offset: int) -> int: ...
@overload
def window_start(k: Ints, slide: int | Ints, offset: int | Ints) -> Ints: ...
@overload
def window_start(k: int | Ints, slide: Ints, offset: Ints) -> Ints: ...
def window_start(k: int | Ints, slide: int | Ints, offset: int | Ints) -> int | Ints:
    """Where window ``k`` starts. It ends before this plus its range.

    >>> window_start(np.array([-1, 0, 1]), slide=2, offset=1)
    array([-1,  1,  3])
    """
    return k * slide + offset


class Repeating(Protocol):
    """A window specification with a range, a slide and an offset on one axis."""

    @property
    def range(self) -> int: ...

    @property
    def slide(self) -> int: ...

    @property
    def offset(self) -> int: ...


class Grid(NamedTuple):
    """The ranges, slides and offsets of the windows of one query, as int64 arrays with one entry per window.

    The methods take a number and return one entry per window. They also take an array with one entry per
    window, or any array that broadcasts against that: a column of times gives one row of ids per time.

    >>> from windrow.windows import TimeWindow
    >>> grid = Grid.of([TimeWindow("4us", "2us"), TimeWindow("6us", "3us", offset="1us")])
    >>> grid.first_window(3), grid.last_window(3)
    (array([ 0, -1]), array([1, 0]))
    >>> grid.start(grid.last_window(3)), grid.end(grid.last_window(3))
    (array([2, 1]), array([6, 7]))
    >>> grid.last_window(np.array([[3], [4]]))
    array([[1, 0],
           [2, 1]])
    """

    range: Ints
    slide: Ints
    offset: Ints

    @classmethod
    def of(cls, windows: Iterable[Repeating]) -> Grid:
        """The grid of these windows, in the given order. Time windows and count windows have one."""
        found = [(window.range, window.slide, window.offset) for window in windows]
        return cls(*np.array(found, dtype=np.int64).reshape(-1, 3).T.copy())

    def first_window(self, time: int | Ints) -> Ints:
        """Per window of the query, the id of the first window that contains ``time``; see :func:`first_window`."""
        return first_window(time, self.range, self.slide, self.offset)

    def last_window(self, time: int | Ints) -> Ints:
        """Per window of the query, the id of the last window that contains ``time``; see :func:`last_window`."""
        return last_window(time, self.slide, self.offset)

    def start(self, k: int | Ints) -> Ints:
        """Per window of the query, where the window with the id ``k`` starts."""
        return window_start(k, self.slide, self.offset)

    def end(self, k: int | Ints) -> Ints:
        """Per window of the query, where the window with the id ``k`` ends; this point is outside of it."""
        return self.start(k) + self.range
