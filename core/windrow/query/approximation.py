# SPDX-License-Identifier: Apache-2.0
"""What is expected of an approximate query: how slices are merged, how many leaves are left, what that saves.

>>> import windrow as wr
>>> query = wr.Query(
...     window=wr.CountWindow(2_592_000, 1), aggregates={"total": wr.Sum("kb")}, within=wr.Within(relative=0.01)
... )
>>> expected_leaves(query, 2_592_000)
678
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from windrow.aggregates.counting import Count
from windrow.aggregates.extremes import Max, Min
from windrow.aggregates.sums import Mean
from windrow.approximate.within import AtMost, Within
from windrow.errors import PropertyError, QueryError
from windrow.windows import CountWindow, PolicyWindow, TimeWindow

if TYPE_CHECKING:
    from windrow.query.query import Query

__all__ = ["check_within", "described", "expected_leaves"]

FILLED = 0.865
"""How full buckets are, on the average, as measured: they are between half full and full."""


def check_within(query: Query) -> None:
    """What a query with ``within`` cannot promise is an error that names it. Called when the query is built."""
    within = query.within
    if within is None:
        return
    if not isinstance(within, Within | AtMost):
        raise QueryError(f"within has to be a Within or an AtMost, not {within!r}")
    for _, window in query.windows:
        if isinstance(window, PolicyWindow):
            _check_policy(window)
            continue
        if not isinstance(window, TimeWindow | CountWindow):
            raise QueryError(
                "within works with TimeWindow, CountWindow and PolicyWindow, not with "
                f"{type(window).__name__}; leave within out"
            )
        if isinstance(window, TimeWindow) and window.calendar is not None:
            raise QueryError(
                "within needs windows of fixed length, but calendar days and months vary; leave within out"
            )
        if window.slide > window.range:
            raise QueryError("within needs windows that overlap: give a slide that is at most the range")
    if query.late == "update":
        raise QueryError(
            "within works with late='drop' or 'side' only: late='update' would correct rows that are already merged into "
            "buckets; set a longer lateness instead, and windows wait for late rows"
        )
    if query.algorithm != "auto":
        raise PropertyError("within merges slices itself, so it works with algorithm='auto' only")
    for name in query.aggregates:
        if f"{name}_error" in (*query.by, *query.aggregates):
            raise QueryError(
                f"output name '{name}_error' is reserved for the error of {name!r}; choose another"
            )


def _check_policy(window: PolicyWindow) -> None:
    if window.evict is not None:
        raise QueryError(
            "within works with a PolicyWindow that has only valid: evict needs the rows that would be evicted, and merged "
            "buckets no longer have them; leave evict or within out"
        )
    if not window.monotone:
        raise QueryError(
            "within works with a monotone PolicyWindow only: otherwise the results of whole buckets say nothing about the rows "
            "in them; leave monotone=False or within out"
        )


def described(query: Query, slices: int | None) -> str:
    """How slices are merged, how many leaves are expected, and what that saves; empty for an exact query."""
    if query.within is None:
        return ""
    leaves = expected_leaves(query, slices)
    if leaves is None or slices is None:
        return f"{_method(query)}; the number of leaves depends on the data"
    saved = 100.0 * (1.0 - leaves / max(slices, 1))
    return (
        f"{_method(query)}; about {leaves:,} leaves of {slices:,} slices, {saved:.2f} % of the memory saved"
    )


def expected_leaves(query: Query, slices: int | None) -> int | None:
    """About how many leaves a full window has, for values of one size; ``None`` if that depends on the data."""
    within = query.within
    if within is None or slices is None:
        return slices
    most = slices if within.leaves is None else min(slices, within.leaves)
    if not isinstance(within, Within):
        return most
    kinds = {type(aggregate) for aggregate in query.aggregates.values()}
    share = within.rows if within.rows is not None and within.rows < 1.0 else None
    if within.relative is not None:
        if kinds <= {Max, Min} or (kinds <= {Count} and isinstance(query.window, CountWindow)):
            return None  # steps of a staircase that the data makes; counts of rows are known
        uncertain = Mean in kinds and not isinstance(query.window, CountWindow)
        share = within.relative if uncertain else 2.0 * within.relative
        if within.confidence is not None:
            return min(most, math.ceil(1.0 / (share * FILLED)))
    if share is None or share * slices <= 1.0:
        return None if share is None else most
    return min(most, math.ceil((1.0 + math.log(share * slices) / FILLED) / share))


def _method(query: Query) -> str:
    within = query.within
    kinds = {type(aggregate) for aggregate in query.aggregates.values()}
    if not isinstance(within, Within):
        return "a fixed number of leaves of about equally many rows"
    if within.rows is not None:
        found = ["leaves of few rows against those that follow"]
    else:
        found = ["smooth histogram"] if kinds - {Max, Min} else []
        found += ["staircase of extremes"] if kinds & {Max, Min} else []
    if within.confidence is not None:
        found.append(f"predictions at {within.confidence:.0%}")
    if within.leaves is not None:
        found.append(f"at most {within.leaves:,} leaves")
    return ", ".join(found)
