# SPDX-License-Identifier: Apache-2.0
"""A composite that is a window: its updates become rows of an :class:`~windrow.Operator`, its windows become updates.

Rows are gathered, and handed to the operator when a window may be due, or at a commit: an operator takes a thousand rows
in the time of a few.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping
from typing import Any

import pyarrow as pa

from windrow.errors import TimeUnitWarning
from windrow.operator import Operator
from windrow.pipelines.plan import CompositePlan
from windrow.storage.pages import Pages
from windrow.windows import SessionWindow, TimeWindow

__all__ = ["Shared", "WindowedStream"]


class Shared:
    """A part of a store: pages under a prefix. What is committed here goes into the runtime's one commit."""

    def __init__(self, pages: Pages, prefix: str, put: dict[str, bytes], gone: dict[str, None]) -> None:
        self.pages, self.prefix, self.put, self.gone = pages, prefix, put, gone
        self.known: dict[str, None] = {}
        """The pages that were read or written here, with the prefix."""

    def get(self, names: Iterable[str]) -> dict[str, bytes]:
        prefix = self.prefix
        found: dict[str, bytes] = {}
        missing = []
        for name in names:
            if (page := self.put.get(prefix + name)) is not None:
                found[name] = page
            elif prefix + name not in self.gone:
                missing.append(prefix + name)
        stored = self.pages.get(missing) if missing else {}
        self.known |= dict.fromkeys(stored)
        return found | {name.removeprefix(prefix): page for name, page in stored.items()}

    def commit(self, put: Mapping[str, bytes], delete: Iterable[str]) -> None:
        for name, page in put.items():
            self.put[self.prefix + name] = page
            self.known[self.prefix + name] = None
            self.gone.pop(self.prefix + name, None)
        for name in delete:
            self.put.pop(self.prefix + name, None)
            self.known.pop(self.prefix + name, None)
            self.gone[self.prefix + name] = None

    def forget(self) -> None:
        """The pages that were used are of no use any more."""
        for page in self.known:
            self.put.pop(page, None)
        self.gone |= dict.fromkeys(self.known)
        self.known.clear()


class WindowedStream:
    """The windows of one composite."""

    def __init__(self, plan: CompositePlan, pages: Shared) -> None:
        assert plan.query is not None
        self.plan, self.query, self.pages = plan, plan.query, pages
        self.operator = Operator.open(plan.query, plan.schema, pages)
        self.rows: list[tuple[Any, ...]] = []
        self.wake: int | None = self._operator_wake
        """As of the operator, with rows that were not handed over yet."""
        self.latest = 0
        """The time of the last row that was taken."""
        self.dirty = False

    @property
    def reached(self) -> int:
        """A row before this time is too late."""
        return self.operator.watermark

    def add(self, row: tuple[Any, ...]) -> None:
        """Take a row: the columns of the plan's schema. Its time is not before that of an earlier one."""
        self.rows.append(row)
        self.dirty = True
        if not self.plan.per_update:
            self.latest = row[0]
            earliest = self.earliest_end(row[0])
            self.wake = earliest if self.wake is None else min(self.wake, earliest)

    def add_columns(self, table: pa.Table) -> None:
        """Take many rows at once, in order."""
        self._hand_over()
        self.dirty = True
        self._process(table)
        self.wake = self._operator_wake

    def step(self, order: int) -> list[dict[str, Any]]:
        """The windows that are due after the row with this order (count windows)."""
        self._hand_over()
        found = self.operator.advance(order + 1)
        return found.to_pylist() if found.num_rows else []

    def advance(self, watermark: int) -> list[tuple[int, dict[str, Any]]]:
        """The windows that are final at the watermark: since when each is, and its channels.

        That is the end of a window of time. A session takes updates at its end too, so it is final a microsecond later.
        """
        self._hand_over()
        self.dirty = True
        found = self.operator.advance(watermark)
        self.wake = self._operator_wake
        rows = found.to_pylist() if found.num_rows else []
        timed = all(isinstance(window, TimeWindow) for _, window in self.query.windows)
        return [(min(int(row["window_end"]), watermark) if timed else watermark, row) for row in rows]

    def commit(self) -> None:
        """Write what changed into the runtime's commit."""
        if self.dirty:
            self._hand_over()
            self.operator.commit()
            self.dirty = False

    def _process(self, table: pa.Table) -> None:
        """Hand rows to the operator. Their times are microseconds, whatever they look like."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", TimeUnitWarning)
            self.operator.process(table)

    def _hand_over(self) -> None:
        if self.rows:
            schema = self.plan.schema
            columns = [
                pa.array(column, f.type)
                for column, f in zip(zip(*self.rows, strict=True), schema, strict=True)
            ]
            self.rows = []
            self._process(pa.Table.from_arrays(columns, schema=schema))
            self.wake = self._operator_wake

    @property
    def _operator_wake(self) -> int | None:
        """Windows that are due after an update wait for no time: what their operator has is the number of a row."""
        return None if self.plan.per_update else self.operator.wake

    def earliest_end(self, time: int) -> int:
        """No window that a row at this time takes part in is due before."""
        lateness = self.query.lateness
        ends = []
        for _, window in self.query.windows:
            if isinstance(window, TimeWindow):
                ends.append(window.bounds(window.first_window(time))[1])
            else:
                ends.append(time + (window.gap if isinstance(window, SessionWindow) else 1))
        return min(ends) + lateness
