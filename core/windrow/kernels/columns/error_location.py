# SPDX-License-Identifier: Apache-2.0
"""Which element made a user's function raise: the windows are computed again, interpreted, until it raises."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from windrow.aggregates.algebra import Monoid
from windrow.errors import AggregateError
from windrow.kernels.columns.layout import ColumnOutput, Input, RowSegments
from windrow.kernels.columns.runner import Runner

Array = np.ndarray[Any, Any]


BUDGET = 200_000
"""How many combines the search for one element may cost."""


def blamed(
    monoid: Monoid, rows: Input, segments: RowSegments, range_: int, slide: int, cause: Exception
) -> AggregateError:
    """The error that names the aggregate, its function, its arguments, and the element."""
    position = _Position()
    watched = replace(
        monoid,
        lift=position.told(monoid.name, "lift", monoid.lift),
        combine=position.told(monoid.name, "combine", monoid.combine),
        lower=position.told(monoid.name, "lower", monoid.lower),
        add=None,
        merge=None,
        inner=None,
    )
    rows = rows._replace(columns=tuple(_Watched(column, position) for column in rows.columns))
    count = segments.places[-1]
    out = ColumnOutput(np.empty(count, dtype=object), np.ones(count, dtype=np.bool_))
    try:
        Runner(watched, len(rows.valid) > 0, compiled=False).run(rows, segments, out, range_, slide)
    except AggregateError as found:
        return _nearest(watched, rows, segments, range_, slide, position.row) or found
    except Exception:
        pass  # something outside of the functions raised: the message says what is known
    return AggregateError(f"aggregate {monoid.name!r} raised {type(cause).__name__}: {cause}")


def _nearest(
    monoid: Monoid, rows: Input, segments: RowSegments, range_: int, slide: int, near: int
) -> AggregateError | None:
    """The kernel had read the row ``near``: fold the windows around it, one by one, until one raises."""
    offsets, places = segments.offsets, segments.places
    segment = int(np.searchsorted(offsets, near, side="right")) - 1
    first = max((near - 2 * range_ - offsets[segment]) // slide, 0)
    windows = min(places[segment + 1] - places[segment], first + BUDGET // range_ + 1)
    for window in range(first, windows):
        partial = monoid.identity
        begin = int(offsets[segment] + window * slide)
        try:
            for row in range(begin, begin + range_):
                if len(rows.valid) == 0 or rows.valid[row]:
                    partial = monoid.combine(partial, monoid.lift(*(column[row] for column in rows.columns)))
            if monoid.defined is None or monoid.defined(partial):
                monoid.lower(partial)
        except AggregateError as found:
            return found
    return None


class _Position:
    """The row that was read last."""

    row: int = 0

    def read(self, row: int) -> None:
        self.row = row

    def told(self, name: str, role: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any) -> Any:
            try:
                return function(*arguments)
            except Exception as problem:
                shown = AggregateError.raised(name, role, arguments, problem)
                raise AggregateError(f"{shown}, at element {self.row}") from problem

        return call


class _Watched:
    """A column that notes which row is read."""

    def __init__(self, values: Array, position: _Position) -> None:
        self.values, self.position = values, position

    def __getitem__(self, row: Any) -> Any:
        self.position.read(int(row))
        return self.values[row]

    def tolist(self) -> _Watched:
        return _Watched(self.values.astype(object), self.position)
