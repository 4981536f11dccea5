# SPDX-License-Identifier: Apache-2.0
"""How a query's rows are cut into slices, whether an engine may aggregate them, and which columns are read.

A slice is the time between two neighbouring boundaries of windows. All rows of a key in one slice belong to the
same windows, so one partial per slice is all that the windows need. *Push-down* means that an engine computes
these partials in its own SQL, and only they reach the operator.

>>> import windrow as wr
>>> windows = [wr.TimeWindow("10us", "4us"), wr.TimeWindow("8us", offset="1us")]
>>> cuts(windows)
((4, 0), (4, 2), (8, 1))
>>> slice_start(cuts(windows), 13)
12
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, NamedTuple, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from windrow.aggregates.algebra import Monoid, SliceSql
from windrow.errors import QueryError
from windrow.query.bound import BoundQuery
from windrow.query.inputs import columns_of
from windrow.query.query import Query
from windrow.windows import DeltaWindow, TimeWindow, Window, pane

__all__ = [
    "ENGINES",
    "Panes",
    "PushDown",
    "columns_sent",
    "copies_in_sql",
    "cuts",
    "obstacle",
    "panes",
    "push_down_option",
    "slice_start",
    "sql_forms",
    "time_windows",
    "why_not_pushed_down",
]

ENGINES = {"spark": "Spark", "flink": "Flink"}
"""The engines that can aggregate slices, and their names in messages."""

PushDown: TypeAlias = bool | Literal["auto"]
Times = TypeVar("Times", int, NDArray[np.int64])


# Where slices are cut.


def cuts(windows: Iterable[Window]) -> tuple[tuple[int, int], ...]:
    """Sorted pairs (every, at): slices are cut at ``at + k · every``, for each pair and every integer k.

    The windows have a range and a slide on one axis, and possibly an offset. Each is cut where it starts and
    where it ends.
    """
    found: set[tuple[int, int]] = set()
    for window in windows:
        length, slide, offset = _measures(window)
        found |= {(slide, offset % slide), (slide, (offset + length) % slide)}
    return tuple(sorted(found))


def _measures(window: Any) -> tuple[int, int, int]:
    return window.range, window.slide, getattr(window, "offset", 0)


def slice_start(cuts: Sequence[tuple[int, int]], times: Times) -> Times:
    """Where the slice begins that holds a time: the latest cut that is not after it. Takes arrays.

    >>> import numpy as np
    >>> slice_start([(4, 0), (4, 2)], np.array([-1, 0, 5, 6, 7]))
    array([-2,  0,  4,  6,  6])
    """
    starts = [times - (times - at) % every for every, at in cuts]
    latest: Times = max(starts) if isinstance(times, int) else np.maximum.reduce(starts)
    return latest


class Panes(NamedTuple):
    """Equal slices: pane k begins at ``offset + k · length``, in microseconds."""

    length: int
    offset: int


def panes(windows: Sequence[TimeWindow]) -> Panes:
    """The longest equal slices that no boundary of these windows crosses.

    >>> panes([TimeWindow("1m", "10s", offset="15s")])
    Panes(length=10000000, offset=5000000)
    """
    length = pane(windows)
    return Panes(length, windows[0].offset % length)


def time_windows(query: Query) -> list[TimeWindow]:
    """The windows of a query if all of them are time windows; otherwise none."""
    windows = [window for _, window in query.windows]
    found = [window for window in windows if isinstance(window, TimeWindow)]
    return found if len(found) == len(windows) else []


# Whether an engine may aggregate the slices.


def obstacle(bound: BoundQuery, engine: str, *, stream: bool = False) -> str:
    """Why an engine ("spark" or "flink") cannot aggregate the slices of a query; empty if it can.

    ``stream`` says that rows may come late. The engine then drops them by its own rule, and knows no early results.
    """
    query, name = bound.query, ENGINES[engine]
    found = why_not_pushed_down(query, bound.monoids, engine)
    for output in bound.monoids:
        if not found and bound.sql_inputs(output, "spark" if engine == "spark" else "flink") is None:
            return f"what aggregate {output!r} reads has no SQL form for {name}"
    if not found and stream and (query.late != "drop" or query.lateness or query.early is not None):
        return (
            f"in a stream {name} decides which rows are late, so push-down needs late='drop', no lateness and "
            "no early results"
        )
    return found


def why_not_pushed_down(query: Query, monoids: Mapping[str, Monoid], engine: str | None = None) -> str:
    """As :func:`obstacle`, for monoids that are bound already. Without an engine: why none can."""
    if query.late == "update":
        return "late='update' corrects windows row by row, and push-down gives only partials of slices"
    if query.within is not None:
        return "within= states errors, for which it needs rows, and push-down gives only partials of slices"
    if not time_windows(query):
        return f"push-down needs time windows, and the query has a {type(query.window).__name__}"
    if any(window.calendar is not None for window in time_windows(query)):
        return "the slices of a calendar are not of equal length, which push-down needs"
    for name, monoid in monoids.items():
        if monoid.sql is None or (engine is not None and monoid.sql.on(engine) is None):
            whose = "" if engine is None else f" for {ENGINES[engine]}"
            return f"aggregate {name!r} ({monoid.name}) has no SQL form{whose}"
    return ""


def sql_forms(bound: BoundQuery, *, rounded: bool = False) -> dict[str, SliceSql] | None:
    """The SQL of each aggregate, by output name; none if one rounds more than windrow does, unless that is accepted.

    Called for queries that can be pushed down.
    """
    plain = {name: monoid.sql for name, monoid in bound.monoids.items() if monoid.sql is not None}
    if rounded:
        return plain
    found = {name: sql if sql.exact else sql.unrounded for name, sql in plain.items()}
    whole = {name: sql for name, sql in found.items() if sql is not None}
    return whole if len(whole) == len(plain) else None


def copies_in_sql(bound: BoundQuery, forms: Mapping[str, SliceSql]) -> int | None:
    """In how many windows a row is, if SQL alone can compute the windows of a query; otherwise none.

    It can if each slice belongs to the same number of windows.

    >>> import pyarrow as pa
    >>> import windrow as wr
    >>> schema = pa.schema({"ts": pa.int64(), "load": pa.float64()})
    >>> def copies(window, aggregate, rounded=False):
    ...     bound = wr.Query(window=window, aggregates={"x": aggregate}).bind(schema)
    ...     return copies_in_sql(bound, sql_forms(bound, rounded=rounded))
    >>> copies(wr.TimeWindow("1m"), wr.Max("load")), copies(wr.TimeWindow("1m", "10s"), wr.Max("load"))
    (1, 6)
    >>> copies(wr.TimeWindow("1m"), wr.Mean("load")), copies(wr.TimeWindow("1m"), wr.Mean("load"), rounded=True)
    (None, 1)
    """
    query, windows = bound.query, time_windows(bound.query)
    if len(windows) != 1 or query.labelled or query.early is not None or windows[0].range % windows[0].slide:
        return None
    whole = all(form.windows is not None for form in forms.values())
    return windows[0].range // windows[0].slide if whole else None


def push_down_option(push_down: PushDown, pushdown: PushDown | None) -> PushDown:
    """The value of the option ``push_down=``, which may also be spelt ``pushdown=``.

    >>> push_down_option("auto", True), push_down_option(False, None)
    (True, False)
    >>> push_down_option(True, True)
    Traceback (most recent call last):
    windrow.errors.QueryError: push_down and pushdown are the same option; leave pushdown out
    """
    if pushdown is not None and push_down != "auto":
        raise QueryError("push_down and pushdown are the same option; leave pushdown out")
    asked = push_down if pushdown is None else pushdown
    if asked not in (True, False, "auto"):
        raise QueryError(f"push_down has to be True, False or 'auto', not {asked!r}")
    return asked


# Which columns are read.


def columns_sent(query: Query, known: Iterable[str] | None = None) -> list[str]:
    """The columns that an engine has to send: the keys, the time, what aggregates read, and a delta attribute, each once.

    ``known`` are the columns that there are. Without it, an input that reads as an expression is one.

    >>> from windrow import Count, Max
    >>> columns_sent(Query("plug", window=TimeWindow("1h"), aggregates={"peak": Max("load"), "n": Count()}))
    ['plug', 'ts', 'load']
    """
    names = None if known is None else list(known)
    inputs = [column for aggregate in query.aggregates.values() for column in columns_of(aggregate, names)]
    attribute = [query.window.attribute] if isinstance(query.window, DeltaWindow) else []
    return list(dict.fromkeys([*query.by, query.time, *inputs, *attribute]))
