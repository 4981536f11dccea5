# SPDX-License-Identifier: Apache-2.0
"""Keys that leave the slice table and come back: what happens in the table.

:mod:`windrow.operator.cold` says which keys are frozen, and keeps the blocks.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from windrow.columns import arrow
from windrow.columns.arrow import Array
from windrow.kernels.slices.layout import FOREVER, NONE, UNFOLD, DueWindows
from windrow.operator.extents import ExtentState
from windrow.operator.plan import Due, Ints, Plan, joined

if TYPE_CHECKING:
    from windrow.operator.slices import SliceTable

ROOM = 1 << 13
"""How many windows are planned at a time."""


def future(table: SliceTable, keys: Ints, *, first: bool = False) -> Due | None:
    """The windows of these keys that the watermark alone will make due, with their results; none if rows make them due.

    With ``first``, only the first entry of each key and window. Slides move on, and ``lcs`` and ``csa`` are used.
    """
    plan = table.slicer.future(table, keys)
    if plan is None:
        return None
    found = []
    for due, _ in _planned(table, plan):
        chosen = _first_of_each(due) if first else slice(None)
        some = DueWindows(*(column[chosen] for column in due))
        results = table.final.results(table, some, len(some.key), None)
        found.append(Due(some.key, some.which, some.start, some.end, some.repeat, results))
    if not found:
        return None
    every = joined(found)
    if (
        first and len(found) > 1
    ):  # a key whose entries lie in two pieces has a first one in each: the earlier counts
        chosen = np.zeros(len(every.key), np.int64)
        chosen[_first_of_each(every)] = 1
        every = every.cut(chosen * every.repeat)
    return every


def catch_up(table: SliceTable, keys: Ints) -> int:
    """Slide the windows of these keys, which are as they were frozen, to where the table is; no window comes out.

    Returns the earliest watermark at which a further window is due. ``lcs`` and ``csa`` are still to be rebuilt.
    """
    wake, reached = FOREVER, table.slid
    if reached == -FOREVER or not len(keys):
        return wake
    by_time = table.slicer.future(table, keys[:0]) is not None
    if by_time:
        for _, end in _planned(table, table.slicer.plan(table, keys, reached)):
            wake = min(wake, table.slicer.time_at(end))
    if by_time or table.slicer.evicts_by_time:
        table.evict(table.slicer.eviction(table, keys, reached))
    return wake


def catch_up_all(table: SliceTable) -> None:
    """As :func:`catch_up`, for all keys with slices."""
    catch_up(table, np.flatnonzero(table.slices.held))
    rebuild(table, np.flatnonzero(table.slices.held))


def rebuild(table: SliceTable, keys: Ints) -> None:
    """What follows from the slices of these keys."""
    for state in table.aggregates:
        state.rebuild(table, keys)
    table.final.thawed(table, keys)


def take_out(table: SliceTable, keys: Ints) -> None:
    """The slices of these keys leave the table, and the keys their leaves. The ids of their next windows stay."""
    table.release(keys)
    if table.paging is not None:
        table.paging.forget(keys)  # also that their slices were freed
    slides = table.slides
    slides.lo[:, keys] = slides.front[:, keys] = slides.back[:, keys] = NONE
    table.final.forget(keys)
    for state in table.aggregates:
        state.take_out(keys)


def put_slides(table: SliceTable, keys: Ints, slides: list[Array]) -> None:
    """How far the windows of these keys have slid, as it was before."""
    for array, columns in zip(table.slides, slides, strict=True):
        array[:, keys] = columns


def weights(table: SliceTable) -> Ints:
    """How many slices and stored rows each key with slices has, by its number. May be what the table itself holds."""
    held: Ints = table.slices.held
    found = held
    for state in table.aggregates:
        if isinstance(state, ExtentState):
            found = found + np.where(held > 0, state.rows.end - state.rows.begin, 0)
    return found


def weight(table: SliceTable, keys: Ints) -> Ints:
    """How many slices and stored rows these keys have, which have slices."""
    found: Ints = table.slices.held[keys]
    for state in table.aggregates:
        if isinstance(state, ExtentState):
            found = found + state.rows.end[keys] - state.rows.begin[keys]
    return found


def folded(table: SliceTable, keys: Ints) -> Array:
    """Which keys have folded slices: these stand for pages of a store, and stay in the table."""
    found = np.zeros(len(keys), np.bool_)
    if table.paging is not None and table.slices.page.any():
        for place, key in enumerate(keys.tolist()):
            found[place] = bool(table.slices.page[table.slots_of(key)].any())
    return found


def nbytes(table: SliceTable) -> int:
    """The size of the arrays of a table, with the room that is unused."""
    arrays = [*table.slices, *table.slides, *table.slicer.counters.values()]
    return sum(array.nbytes for array in arrays) + sum(state.nbytes for state in table.aggregates)


def _planned(table: SliceTable, plan: Plan) -> Iterator[tuple[DueWindows, int]]:
    """The entries that a plan lists, piece after piece, and the earliest end of a window that is not due."""
    begin = 0
    while begin < len(plan.through):
        due = arrow.blanks(DueWindows, ROOM, table.due_types)
        begin, count, end = plan.kernel(table.slices, table.slides, due, begin, plan.through, *plan.arguments)
        assert begin != UNFOLD, "a key with folded slices was frozen"
        yield DueWindows(*(column[:count] for column in due)), int(end)


def _first_of_each(due: DueWindows | Due) -> Ints:
    """The entries that are the first of their key and window. Those of one key and window lie side by side."""
    other = (due.key[1:] != due.key[:-1]) | (due.which[1:] != due.which[:-1])
    return np.flatnonzero(np.append(True, other)[: len(due.key)])
