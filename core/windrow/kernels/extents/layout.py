# SPDX-License-Identifier: Apache-2.0
"""What the kernels over extents read and keep, by name."""

from __future__ import annotations

from typing import Any, NamedTuple

BLOCK = 256
"""How many keys a block has room for."""

USED, HELD, LO, HI, SORTED, ORDER, COUNTS, HIGHS, KEYS, FINGERS = range(10)
"""Places in ``SortedRows.state``: blocks in use, keys in them, the extent of the last window, and whether the keys are
its rows; then where the regions begin, see there."""


class KeyExtents(NamedTuple):
    """Windows over the rows of one key. Window w has the rows ``lo[w]`` to ``hi[w] - 1``, which are none if that is
    before ``lo[w]``.
    """

    words: Any  #: per row: its value, as the 64 bits of an integer or a float
    valid: Any  #: per row: whether it has a value; empty if all have
    lo: Any
    hi: Any


class SortedRows(NamedTuple):
    """The values of a window as ascending keys, in blocks.

    All numbers are in one array, because a function that gets one array is compiled into its caller, and one that gets
    many is not. After the ten places above come the regions

    =========  ========================================================================================
    FINGERS    per quantile: a place in the order, near the block that its rank is in, and how many keys
               are in blocks before it
    ORDER      the blocks, smallest keys first; after those in use, the unused ones
    COUNTS     per block: how many keys are in it
    HIGHS      per place in the order: the largest key of the block
    KEYS       BLOCK places for each block
    =========  ========================================================================================
    """

    state: Any
    scratch: Any  #: room for the keys of one window
