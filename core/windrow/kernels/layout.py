"""The arrays that run kernels work on, by name.

A *run* is the sequence of slices of one key, oldest first, a doubly linked list of slots. All keys share the
arrays. A slot is also the index of the slice's partial in every aggregate's parts.
"""

from __future__ import annotations

from typing import Any, NamedTuple

NONE = -1
"""No slot."""

UNFOLD = -2
"""A plan stopped because a window begins inside a slice that stands for a page: unfold it, and plan on."""


LEVEL = 48
"""A page is its level << 48 | its number + 1. One of level n stands for FOLD ** n slices."""


class Runs(NamedTuple):
    """The slices of all keys."""

    stamp: Any  #: per slot: where the slice begins, on the axis of the window (time, row position, delta)
    stop: Any  #: per slot: the last stamp in it (sessions grow)
    follower: Any  #: per slot: the next newer slice of the same key
    leader: Any  #: per slot: the next older slice of the same key
    page: Any  #: per slot: 0, or the page in the store whose slices this one stands for (see windrow.state.paging)
    free: Any  #: a stack of unused slots
    meta: Any  #: [number of unused slots]
    first: Any  #: per key: its oldest slice
    last: Any  #: per key: its newest slice
    cursor: Any  #: per key: the slice that took the last row
    held: Any  #: per key: how many slices it has here


class Slides(NamedTuple):
    """How far each window has slid over each key's run; indexed [window, key].

    The window's result is ``lcs`` of its first slice (which covers the slices up to ``front``) combined with
    ``csa`` (the slices after ``front`` up to ``back``).
    """

    following: Any  #: id of the next window to emit, or UNSET
    lo: Any  #: first slice of the last window planned
    front: Any  #: last slice that lcs covers
    back: Any  #: last slice that csa covers


class Trees(NamedTuple):
    """The slices of each key as a search tree (see :mod:`windrow.kernels.trees`)."""

    left: Any  #: per slot: the child with older slices
    right: Any  #: per slot: the child with newer slices
    stale: Any  #: per slot: 1 if the aggregate of what is below it is out of date
    root: Any  #: per key


class Windows(NamedTuple):
    """Windows that are due: a list that is filled. An entry stands for ``times`` windows in a row over the
    same slices."""

    key: Any
    which: Any  #: index of the window specification
    start: Any
    end: Any
    lo: Any  #: first slice
    hi: Any  #: last slice
    back: Any  #: last slice that csa covers before this window
    flip: Any  #: recompute lcs from hi down to lo first
    times: Any  #: how many windows, each one slide after the one before


UNSET = -(2**62)
"""No window was planned for this key yet."""

FOREVER = 2**62
"""A watermark behind which nothing can come: the end of the stream."""
