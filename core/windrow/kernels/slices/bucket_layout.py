# SPDX-License-Identifier: Apache-2.0
"""What is known of a bucket, field by field, and what a query promises of its results.

A bucket is a slice that neighbouring slices were merged into. A window may begin inside it. Then some of its newest
slices belong to the window: a *suffix* of the bucket, neither empty nor the whole. Which one is not known, but between
which bounds its aggregate lies is.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

LOW, HIGH = 0, 1
"""The aggregate of all rows lies between these."""
LEAST, MOST = 2, 3
"""The aggregate of every suffix lies between these; LEAST > MOST if there is no suffix."""
SMALLEST, LARGEST = 4, 5
"""The values of rows lie between these."""
N, FEW, MANY = 6, 7, 8
"""How many rows there are, and how many in a suffix at the least and at the most."""
SAMPLED, MEAN, SQUARES, ROWS_MEAN, ROWS_SQUARES = 9, 10, 11, 12, 13
"""The windows that ended here: how many, the mean and squares of their results, and those of their rows."""

FIELDS = (
    ("low", "f8"), ("high", "f8"), ("least", "f8"), ("most", "f8"), ("smallest", "f8"), ("largest", "f8"),
    ("n", "i8"), ("few", "i8"), ("many", "i8"),
    ("sampled", "i8"), ("mean", "f8"), ("squares", "f8"), ("rows_mean", "f8"), ("rows_squares", "f8"),
)  # fmt: skip
FAR = 1 << 60
"""How many rows a suffix has at the least, if there is none."""
NOTHING = (np.inf, -np.inf, np.inf, -np.inf, 0, FAR, -1, 0, 0.0, 0.0, 0.0, 0.0)
"""A bucket without rows, from LEAST on."""

TOTAL, COUNT, AVERAGE, EXTREME, ROWS = 0, 1, 2, 3, 4
"""Kinds of aggregates: sums, counts, means, maxima (minima are those of negated values), and all others."""

NUMBER, NULL, UNKNOWN, SURE = 0, 1, 2, 3
"""The true result is a number; is null; is a number or null; is NaN for certain."""
BLOCKS = 30
"""Of how many blocks maxima are taken to predict that of a window."""


class Promise(NamedTuple):
    """What a query promises, for each aggregate; NaN where it promises nothing."""

    kind: Any
    whole: Any  #: results are whole numbers
    relative: Any  #: the largest error as a share of the result
    absolute: Any  #: the largest error
    rows: Any  #: how many rows may be missing: a share of the window's, or from 1 on a number
    counting: Any  #: slices lie on an axis of row positions, so that the number of rows in a suffix is known
    searched: Any  #: windows may begin anywhere in a bucket, also at its beginning and at its end
    confidence: Any  #: 0 if nothing may be predicted
    z: Any  #: the normal quantile of the confidence


class Rest(NamedTuple):
    """What follows a bucket, and what is expected, for each aggregate."""

    low: Any
    high: Any
    smallest: Any
    largest: Any
    n: Any
    expected: Any  #: the smallest |result| that is predicted, or the smallest maximum; NaN if nothing is
    expected_rows: (
        Any  #: the fewest rows of a window that are predicted; of an extreme the most rows of a bucket
    )
    maxima: Any  #: room for the maxima of blocks


class Bounds(NamedTuple):
    """What is known of due windows: the true result lies between two bounds."""

    low: Any
    high: Any
    missing: Any  #: how many rows the window has more than its whole slices, at most
    inside: Any  #: the window begins inside a bucket; otherwise its result is exact
    state: Any  #: what is known of a null or NaN, see NUMBER
