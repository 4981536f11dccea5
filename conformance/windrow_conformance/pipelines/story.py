# SPDX-License-Identifier: Apache-2.0
"""A longer story of two spaces: streams of every kind, changes that come while updates flow, and all that has to come out.

Every kind of state is in it: latest values, windows of time and of count, a running total that one lost or doubled update
spoils for good, updates and changes that wait for their time. So it is what tests interrupt, cut into batches and spread
over tasks. What has to come out is computed in this process, in one piece.

>>> story = Story(100)
>>> len(story.updates), len(story.first), len(story.later)
(100, 12, 7)
>>> sorted({kind for _, kind, *_ in story.expected()})
['failed', 'refused', 'update']
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import pyarrow as pa

from windrow.pipelines import Change, Id
from windrow.pipelines.engine import Settings, change_rows, feed, update_rows

__all__ = ["DISORDER", "SPACES", "STEP", "Out", "Story"]

SPACES = ("city", "farm")
STEP = 10_000
"""Microseconds from one update to the next."""
DISORDER = 30_000
"""Updates come at most so many microseconds behind a later one."""
BEGIN = 1_000_000
Out = tuple[str, str, str, int, int, str]
"""Space, kind, stream, ts, sequence, and the values of an update; of a report there are none."""


@dataclass(frozen=True)
class Story:
    """So many updates of each space. All times depend only on their number, so a longer story changes later."""

    count: int
    apart: int = 300_000
    """How many microseconds of event time pass between the arrival of the later changes and the first of their times."""

    @property
    def middle(self) -> int:
        """The later changes come before the update with this number."""
        return self.count // 2

    @property
    def arrival(self) -> int:
        """The time until which updates have come when the later changes do."""
        return BEGIN + self.middle * STEP

    @cached_property
    def updates(self) -> list[tuple[str, int, int, str]]:
        """Stream, ts, sequence and JSON of the values, in the order in which they come."""
        known = self.arrival + self.apart
        return [self._update(number, known) for number in range(self.count)]

    def _update(self, number: int, known: int) -> tuple[str, int, int, str]:
        ts = BEGIN + number * STEP - number % 3 * STEP
        stream = ("o/a", "o/b", "o/a", "o/c")[number % 4 if ts >= known else number % 3]
        return stream, ts, number, f'{{"v": {number * 7919 % 50}}}'

    @cached_property
    def first(self) -> list[Change]:
        """The changes before all updates. They take effect at once."""
        made = [
            source("o/a"),
            source("o/b"),
            {"name": "o/end", "channels": {}},
            composite("p/double", {"a": "o/a"}, "a.v * 2"),
            composite("p/next", {"a": "o/a"}, "a.v + 1"),
            composite("p/meet", {"d": "p/double", "n": "p/next", "b": "o/b"}, "d.v * 1000 + n.v * 100 + b.v"),
            composite(
                "p/total", {"a": "o/a", "t": "p/total"}, "coalesce(t.v, 0) + a.v", types={"v": "bigint"}
            ),
            composite("p/big", {"a": "o/a"}, "a.v * 190000000000000000"),
            window("p/span", "p/next", {"kind": "time", "range": "500ms", "slide": "200ms"}),
            window("p/few", "o/b", {"kind": "count", "range": 5, "slide": 2}),
            {
                "name": "q/all",
                "inputs": {"m": {"matching": {"kind": "meter"}}},
                "latest": {"sum": {"kind": "Sum", "column": "v"}, "n": {"kind": "Count"}},
            },
            composite("q/peaks", {"w": "p/span"}, "w.v + w.n"),
        ]
        return [put(document, None) for document in made]

    @cached_property
    def later(self) -> list[Change]:
        """The changes that come in the middle, for times after it."""
        at = [Id(self.arrival + self.apart + each * 40_000, 0) for each in range(4)]
        return [
            put(source("o/c"), at[0]),
            put(composite("r/above", {"t": "p/total"}, "t.v - 1"), at[0]),
            put(composite("p/double", {"a": "o/a"}, "a.v * 3"), at[1]),
            Change.drop("p/none", by="p", at=at[1]),
            Change.drop("p/meet", by="p", at=at[2]),
            put(window("r/since", "p/total", {"kind": "time", "range": "300ms", "slide": "100ms"}), at[2]),
            Change.revoke("o/b", "read", "*", by="o", at=at[3]),
        ]

    def rows(self) -> pa.Table:
        """All changes and updates of a space, as an adapter hands them over."""
        return pa.concat_tables([change_rows(self.first), change_rows(self.later), update_rows(self.updates)])

    def expected(self) -> list[Out]:
        """What comes out of all spaces, sorted."""
        runtime = Settings().open(None)
        parts = [feed(runtime, self.rows(), None), feed(runtime, None, 1 << 60)]
        found = pa.concat_tables(parts).to_pylist()
        return self.found({**row, "space": space} for space in SPACES for row in found)

    def found(self, rows: Iterable[Mapping[str, Any]]) -> list[Out]:
        """What an engine gave out, sorted, without what only moves its watermark."""
        return sorted(
            (row["space"], row["kind"], row["stream"], row["ts"], row["sequence"], row.get("values") or "")
            for row in rows
            if row["stream"] != "o/end"
        )


def put(document: Mapping[str, Any], at: Id | None) -> Change:
    return Change.put(document, by=document["name"].split("/")[0], at=at)


def source(name: str) -> dict[str, Any]:
    return {"name": name, "channels": {"v": "bigint"}, "read": ["*"], "labels": {"kind": "meter"}}


def composite(name: str, inputs: Mapping[str, str], value: str, **more: Any) -> dict[str, Any]:
    return {"name": name, "inputs": dict(inputs), "channels": {"v": value}, "read": ["*"], **more}


def window(name: str, on: str, window: Mapping[str, Any]) -> dict[str, Any]:
    aggregates = {"v": {"kind": "Sum", "column": "v"}, "n": {"kind": "Count"}}
    query = {"time": "ts", "window": dict(window), "aggregates": aggregates}
    return {"name": name, "inputs": {"x": on}, "query": query, "read": ["*"]}
