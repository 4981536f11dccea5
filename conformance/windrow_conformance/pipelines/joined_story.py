# SPDX-License-Identifier: Apache-2.0
"""The story of two spaces, and a third one that imports streams of both: what tests kill.

The region imports a running total and a time window of the city, and a transformed stream and a count window of the farm. One
of them is replaced while it is imported. It has a source of its own, joins all of them, and makes windows of the result.

>>> story = JoinedStory(100)
>>> [len(story.first(space)) for space in SPACES], [len(story.later(space)) for space in SPACES]
([12, 12, 10], [7, 7, 3])
>>> sorted({stream for space, _, stream, *_ in story.expected() if space == "region" and stream[0] == "q"})
['q/both', 'q/few', 'q/late', 'q/span', 'q/while']
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import pyarrow as pa

from windrow.pipelines import Change, Id
from windrow.pipelines.engine import Settings, change_rows, run_all, update_rows
from windrow_conformance.pipelines import story as parts
from windrow_conformance.pipelines.story import Out, Story

__all__ = ["ROUNDS", "SPACES", "JoinedStory"]

SPACES = ("city", "farm", "region")
ROUNDS = {"region": 1}
_EXPORTED = {"city": ("p/total", "p/span"), "farm": ("p/double", "p/few")}


class JoinedStory:
    """So many updates of each space."""

    def __init__(self, count: int, apart: int = 300_000) -> None:
        """``apart`` is as in :class:`Story`."""
        self.story = Story(count, apart)
        self.count, self.middle = count, self.story.middle

    def updates(self, space: str) -> list[tuple[str, int, int, str]]:
        """Stream, ts, sequence and JSON of the values, in the order in which they come."""
        if space in ROUNDS:
            return [("o/r", ts, sequence, values) for _, ts, sequence, values in self.story.updates]
        return self.story.updates

    def first(self, space: str) -> list[Change]:
        """The changes before all updates."""
        return _region() if space in ROUNDS else [_exporting(space, each) for each in self.story.first]

    def later(self, space: str) -> list[Change]:
        """The changes that come in the middle."""
        if space not in ROUNDS:
            return [_exporting(space, each) for each in self.story.later]
        at = [Id(self.story.arrival + self.story.apart + each * 40_000, 0) for each in range(4)]
        late = parts.window("q/late", "p/double", {"kind": "time", "range": "300ms", "slide": "100ms"})
        return [
            parts.put(late, at[1]),
            Change.drop("q/few", by="q", at=at[2]),
            Change.revoke("p/span", "read", "*", by="p", at=at[3]),
        ]

    def expected(self) -> list[Out]:
        """What comes out of all spaces, sorted."""
        rows = {
            space: pa.concat_tables(
                [change_rows([*self.first(space), *self.later(space)]), update_rows(self.updates(space))]
            )
            for space in SPACES
        }
        found = run_all(Settings(rounds=ROUNDS), rows)
        return self.found({**row, "space": s} for s, table in found.items() for row in table.to_pylist())

    def found(self, rows: Iterable[Mapping[str, Any]]) -> list[Out]:
        """What an engine gave out, sorted, without what only moves its watermark."""
        return self.story.found(rows)


def _exporting(space: str, change: Change) -> Change:
    """The change, with the region among the spaces that import the stream."""
    form = json.loads(change.document)
    if change.operation != "put" or form["name"] not in _EXPORTED[space]:
        return change
    return replace(change, document=json.dumps({**form, "export": list(ROUNDS)}))


def _region() -> list[Change]:
    windows = {"window_start": "bigint", "window_end": "bigint", "v": "bigint", "n": "bigint"}
    imported = {"p/total": {"v": "bigint"}, "p/span": windows, "p/double": {"v": "bigint"}, "p/few": windows}
    homes = {stream: space for space, streams in _EXPORTED.items() for stream in streams}
    made = [
        {"name": stream, "channels": channels, "space": homes[stream], "read": ["*"]}
        for stream, channels in imported.items()
    ]
    made += [
        {"name": "o/r", "channels": {"v": "bigint"}, "read": ["*"]},
        {"name": "o/end", "channels": {}},
        parts.composite(
            "q/both",
            {"t": "p/total", "d": "p/double", "s": "p/span", "r": "o/r"},
            "coalesce(t.v, 0) * 100 + coalesce(d.v, 0) * 10 + coalesce(s.n, 0) + coalesce(r.v, 0)",
        ),
        parts.composite("q/few", {"w": "p/few"}, "w.v + w.n"),
        parts.composite("q/span", {"w": "p/span"}, "w.v + w.n"),
        parts.window("q/while", "q/both", {"kind": "time", "range": "400ms", "slide": "200ms"}),
    ]
    return [parts.put(document, None) for document in made]
