# SPDX-License-Identifier: Apache-2.0
"""Where A²MTA keeps what it knows of its buckets.

Steps take it as ``known``, four arrays, because a call from Python takes longer with every array that it hands over:

- ``meta`` and ``settings``: whole numbers and floats, by the names below;
- ``fields``: a row per field of :mod:`windrow.kernels.slices.bucket_layout`, whole numbers as floats too. Its columns are
  the buckets, in the slots from BEGIN on, with the newest update in slot END; some columns to work in; and the forest, the
  stack and R₁ of an AMTA of the *closed* buckets, which are all but the last;
- ``starts``: the number of each bucket's first update.
"""

from __future__ import annotations

from typing import Any

from windrow.algorithms.amta import LEAVES
from windrow.kernels.slices.bucket_layout import Bounds, Promise, Rest

# Indices of meta.
BEGIN, END, FIRST, SEEN = 0, 1, 2, 3
"""Slots, and numbers of updates: the first that is or may be in the window, and how many there were."""
INSIDE, CERTAIN, LOST, CUT_LENGTH = 4, 5, 6, 7
"""Does the window begin inside the cut? Is it known where? Is nothing known any more? How many updates had the cut?"""
CONSTRAINED, THINNED, SINCE, KEPT = 8, 9, 10, 11
"""Was a level evicted? How many buckets did the last merge leave? How long ago? Is this result in the sample?"""
ROOM, MOST, MERGES, HOP, SAMPLING = 12, 13, 14, 15, 16
"""Slots for buckets; leaves at most, or 0; what of this is done."""
KIND, WHOLE, ROUNDED, NEGATED = 17, 18, 19, 20
"""The kind of the aggregate, and what its results are."""
AFTER, MISSING, BEGINS_INSIDE, STATE, FOUND = 21, 22, 23, 24, 25
"""Rows that follow a bucket; what is known of a result, see :class:`Bounds`; and where it is, see OF_SLOT."""
CLOSED, META = 26, 32
"""The meta data of the AMTA of closed buckets begins here. How many numbers there are."""

# Indices of settings.
RELATIVE, ABSOLUTE, MISSING_ROWS, CONFIDENCE, Z = 0, 1, 2, 3, 4
"""What is promised, see :class:`Promise`."""
REST, EXPECTED, EXPECTED_ROWS = 5, 9, 10
"""What follows a bucket, in four numbers, and what is expected, see :class:`Rest`."""
BELOW, ABOVE, VALUE, ERROR = 11, 12, 13, 14
"""The bounds of a result, its value, and its error."""
HOPS, MAXIMA, SETTINGS = 15, 21, 51
"""The moments of evictions and room for the maxima of blocks begin here. How many numbers there are."""

CUT, BLANK, FOLLOWING, WORK = 0, 1, 2, 3
"""Columns to work in, counted from ROOM on: the bucket that the window begins in, one without updates, what follows the cut; how many."""
STACK = 64
"""How high a stack may be."""
OF_SLOT, OF_BOUNDS, NOTHING = 0, 1, 2
"""Where a result is: in the slot, in the middle of its bounds, or it is null."""


def columns_for(room: int) -> int:
    """How many columns there are, for so many slots for buckets."""
    return 3 * room + WORK + STACK + 1


def closed(known: Any) -> Any:
    """The state of the AMTA of closed buckets."""
    meta, fields, _, _ = known
    begin = meta[ROOM] + WORK
    stack = begin + 2 * meta[ROOM]
    return (
        meta[CLOSED : CLOSED + LEAVES + 1],
        fields[:, begin:stack],
        fields[:, stack : stack + STACK],
        fields[:, stack + STACK :],
    )


def promise_of(known: Any) -> Promise:
    meta, _, _, settings = known
    return Promise(
        meta[KIND:WHOLE], meta[WHOLE:ROUNDED], settings[RELATIVE:ABSOLUTE], settings[ABSOLUTE:MISSING_ROWS],
        settings[MISSING_ROWS:CONFIDENCE], False, True, settings[CONFIDENCE], settings[Z],
    )  # fmt: skip


def rest_of(known: Any) -> Rest:
    meta, _, _, settings = known
    return Rest(
        settings[REST : REST + 1], settings[REST + 1 : REST + 2], settings[REST + 2 : REST + 3],
        settings[REST + 3 : EXPECTED], meta[AFTER:MISSING], settings[EXPECTED:EXPECTED_ROWS],
        settings[EXPECTED_ROWS:BELOW], settings[MAXIMA:SETTINGS],
    )  # fmt: skip


def bounds_of(known: Any) -> Bounds:
    meta, _, _, settings = known
    return Bounds(
        settings[BELOW:ABOVE], settings[ABOVE:VALUE], meta[MISSING:BEGINS_INSIDE],
        meta[BEGINS_INSIDE:STATE], meta[STATE:FOUND],
    )  # fmt: skip
