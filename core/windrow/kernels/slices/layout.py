# SPDX-License-Identifier: Apache-2.0
"""The arrays that hold the slices of all keys and the windows over them, by name.

The slices of one key are a doubly linked list of *slots*, oldest first. All keys share the arrays. A slot is
also the index of the slice's partial in every aggregate state.

A slice that was *folded* stands for a page of older slices in a store; see :mod:`windrow.storage.paging`.
"""

from __future__ import annotations

from typing import Any, NamedTuple

NONE = -1
"""No slot."""

UNFOLD = -2
"""A plan stopped because a window begins inside a folded slice: unfold it, then plan on."""

FOLD = 32
"""How many slices are folded into one."""

LEVEL = 48
"""A page is its level << 48 | its number + 1. A folded slice of level n stands for FOLD ** n slices."""

UNSET = -(2**62)
"""No window was planned for this key yet."""

LAST_ROW = "last row"
"""The counter with the time of each key's last row, plus FOREVER; 0 if it has none. Queries that forget keys have it."""

FOREVER = 2**62
"""The watermark at the end of a stream: no row can follow."""


class Slices(NamedTuple):
    """The slices of all keys."""

    stamp: Any  #: per slot: where the slice begins, on the axis of the window (time, row position, delta)
    stop: Any  #: per slot: the last stamp in it
    newer: Any  #: per slot: the next newer slice of the same key
    older: Any  #: per slot: the next older slice of the same key
    page: Any  #: per slot: 0, or the page that a folded slice stands for
    free: Any  #: a stack of unused slots
    unused: Any  #: [number of unused slots]
    first: Any  #: per key: its oldest slice
    last: Any  #: per key: its newest slice
    cursor: Any  #: per key: the slice that took the last row
    held: Any  #: per key: the number of its slices


class Slides(NamedTuple):
    """How far each window has slid over the slices of each key; indexed [window, key].

    The window's result is ``lcs`` of its first slice, which covers the slices up to ``front``, combined with
    ``csa``, which covers the slices after ``front`` up to ``back``.
    """

    following: Any  #: id of the next window to emit, or UNSET
    lo: Any  #: first slice of the last window planned
    front: Any  #: last slice that lcs covers
    back: Any  #: last slice that csa covers


class Treaps(NamedTuple):
    """The slices of each key as a search tree; see :mod:`windrow.kernels.slices.treap`."""

    left: Any  #: per slot: the child with older slices
    right: Any  #: per slot: the child with newer slices
    stale: Any  #: per slot: 1 if the aggregate of what is below it is out of date
    root: Any  #: per key


class Forest(NamedTuple):
    """The slices of each key as a forest; see :mod:`windrow.kernels.slices.forest`."""

    ring: Any  #: of all keys: the slots at their positions
    offset: Any  #: per key: where its ring begins
    room: Any  #: per key: the length of its ring, a power of two
    first: Any  #: per key: the position of its oldest slice
    head: Any  #: per key: the position of the first slice of its window
    tail: Any  #: per key: one past the position of its newest slice
    known: Any  #: per key: whether the ring holds its slices


class DueWindows(NamedTuple):
    """A list of due windows that a plan fills. An entry stands for ``repeat`` windows over the same slices."""

    key: Any
    which: Any  #: index of the window in the query
    start: Any
    end: Any
    lo: Any  #: first slice
    hi: Any  #: last slice
    back: Any  #: last slice that csa covers before this window
    flip: Any  #: the boundary moves: compute lcs from hi down to lo first
    repeat: Any  #: the number of windows, each one slide after the one before


class RowOrder(NamedTuple):
    """Rows grouped by key, the rows of a key in their order. ``keys`` and ``axis`` are in this order too."""

    order: Any  #: the row at each position
    keys: Any
    axis: Any  #: where the row lies on the axis of the window


class Cuts(NamedTuple):
    """Slices are cut at ``at + k·every``, for each pair of these and every integer k."""

    every: Any
    at: Any


class Cells(NamedTuple):
    """A cell for each key and each slice that dense rows may be in, key after key."""

    begin: Any  #: where the first slice begins
    every: Any  #: how long a slice is
    slices: Any  #: how many slices each key has
    slots: Any  #: per cell: the slot of its slice; NONE if no row is in it
    rows: Any  #: per row, in the order of arrival: its cell, and in the end its slot


class TimeSlides(NamedTuple):
    """A slide-by-time window: its row count, its slide and offset, and the fold of the store."""

    rows: Any
    slide: Any
    offset: Any
    fold: Any  #: how many slices a folded slice of level 1 stands for


class Partials(NamedTuple):
    """One aggregate's partials."""

    parts: Any  #: per slot: of the slice
    lcs: Any  #: per window and slot: of the slice and those up to the boundary
    csa: Any  #: per window and key: of the slices behind the boundary
    scratch: Any  #: of the window in work


class Results(NamedTuple):
    """The results of due windows; ``ok`` says which of them are not null."""

    out: Any
    ok: Any
