# SPDX-License-Identifier: Apache-2.0
"""Rows from outside as events and changes."""

from __future__ import annotations

import json
from typing import Any

from windrow.columns import arrow
from windrow.errors import PipelineError
from windrow.pipelines.changes import FARTHEST, Change, Id, changes_from_table
from windrow.pipelines.emissions import Report

__all__ = ["Event", "changes_of", "events_of", "name_of"]

Event = tuple[int, int, str, Any]
"""ts, sequence, stream, and channels as a dict."""


def changes_of(changes: Any) -> list[Change]:
    if changes is None:
        return []
    if isinstance(changes, Change):
        return [changes]
    return list(changes) if isinstance(changes, list | tuple) else changes_from_table(changes)


def events_of(updates: Any, reports: list[Report]) -> list[Event]:
    """Updates as events. A row whose values are no JSON object is refused."""
    if updates is None:
        return []
    if isinstance(updates, list | tuple):
        return [event for event in updates if _ordered(event, reports)]
    table = arrow.as_table(updates)
    columns = [table.column(name).to_pylist() for name in ("ts", "sequence", "stream", "values")]
    events: list[Event] = []
    for ts, sequence, stream, text in zip(*columns, strict=True):
        if not _ordered((ts, sequence, stream, text), reports):
            continue
        try:
            found = json.loads(text)
        except (ValueError, TypeError, RecursionError) as error:
            reports.append(
                Report("refused", str(stream), Id(ts, sequence), f"the values are no JSON: {error}")
            )
            continue
        events.append((ts, sequence, stream, found))
    return events


def _ordered(event: Any, reports: list[Report]) -> bool:
    """Whether an update has a time, a number and a name, so that it has a place in the order."""
    ts, sequence, stream, _ = event
    if type(stream) is str and all(type(n) is int and -FARTHEST < n < FARTHEST for n in (ts, sequence)):
        return True
    reports.append(
        Report(
            "refused",
            str(stream),
            None,
            f"ts and sequence are whole numbers below 2**61, not {ts!r}, {sequence!r}",
        )
    )
    return False


def id_of(row: Any) -> tuple[int, int, str]:
    """Time, number and source of an update that comes from a page."""
    ts, sequence, stream, values = row
    if not (type(ts) is type(sequence) is int and type(stream) is str and isinstance(values, dict)):
        raise ValueError(f"{row!r} is not an update")
    return ts, sequence, stream


def name_of(change: Change) -> str:
    try:
        return str(change.form["name"])
    except PipelineError:
        return ""
