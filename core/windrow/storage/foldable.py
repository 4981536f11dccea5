# SPDX-License-Identifier: Apache-2.0
"""Which slices of a key can be folded: those that no window leaves soon, side by side, as many as a page has."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from windrow.operator.plan import Ints

if TYPE_CHECKING:
    from windrow.operator.slices import SliceTable

__all__ = ["among", "groups_of", "in_use"]


def in_use(table: SliceTable, key: int, slots: Ints, fold: int) -> Any:
    """Which slices windows will leave next: a fold after the beginning of each, and what lies before all."""
    begins = np.flatnonzero(among(slots, table.slides.lo[:, key]))
    used = np.arange(len(slots)) < (begins[0] if len(begins) else fold)
    for begin in begins.tolist():
        used[begin : begin + fold] = True
    return used


def among(slots: Ints, few: Ints) -> Any:
    """Which slots are among a few others."""
    return (slots[:, None] == few).any(axis=1)


def groups_of(places: Ints, numbers: Ints, fold: int) -> list[Ints]:
    """Which places can be folded: ``fold`` side by side, whose pages, if they stand for any, are numbered likewise.

    >>> side_by_side = np.arange(70) + 5
    >>> [(int(group[0]), len(group)) for group in groups_of(side_by_side, np.full(70, -1), 32)]
    [(5, 32), (37, 32)]
    >>> [(int(group[0]), len(group)) for group in groups_of(side_by_side, np.arange(70) + 20, 32)]
    [(17, 32)]
    """
    groups = []
    for stretch in np.split(np.arange(len(places)), np.flatnonzero(np.diff(places) != 1) + 1):
        number = numbers[stretch] if (numbers[stretch] >= 0).all() else np.arange(len(stretch))
        for begin in np.flatnonzero(number[: max(len(number) - fold + 1, 0)] % fold == 0).tolist():
            if number[begin + fold - 1] - number[begin] == fold - 1:
                groups.append(places[stretch[begin : begin + fold]])
    return groups
