# SPDX-License-Identifier: Apache-2.0
"""Changes of a graph, as rows: who puts, drops, grants or revokes what, and from when on.

The log of changes is the truth: the graph is what they make of it, in their order. A change is data that can be written
as JSON or TOML, sent through a queue, or be a row of a stream. Nobody is authenticated here: ``actor`` is what whoever
guards the log has written there.

>>> change = Change.put({"name": "council/t1", "channels": {"f": "double"}}, by="council")
>>> Change.from_row(change.to_row()) == change
True
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal, NamedTuple

import pyarrow as pa

from windrow.columns import arrow, times
from windrow.errors import PipelineError, WindrowError

__all__ = [
    "AFTER_WINDOWS",
    "BEFORE",
    "CHANGES",
    "FARTHEST",
    "RIGHTS",
    "Change",
    "Id",
    "changes_from_table",
    "changes_to_table",
    "instant",
]


class Id(NamedTuple):
    """What orders updates and changes: an event time in microseconds, a number among those with equal times, and the
    source, so that updates of two sources with equal times and numbers both count.
    """

    ts: int
    sequence: int
    origin: str = ""

    def after_windows(self) -> Id:
        """This id, but not before the updates of windows that end at its time."""
        return self if self.sequence >= AFTER_WINDOWS else Id(self.ts, AFTER_WINDOWS)


FARTHEST = 1 << 61
"""Times and sequences of updates are nearer to zero: windows that are due have numbers of their own beyond."""
AFTER_WINDOWS = -FARTHEST
"""The smallest sequence after those of windows that end at a time, and before those of all other updates."""

BEFORE = Id(-(1 << 62), -(1 << 62))
"""Before everything."""

RIGHTS = ("read", "subscribe", "write", "grant")
"""What an owner can grant. To read includes to subscribe."""

Operation = Literal["put", "drop", "grant", "revoke"]

CHANGES = pa.schema(
    [
        ("operation", pa.string()),
        ("actor", pa.string()),
        ("document", pa.string()),
        ("ts", pa.int64()),
        ("sequence", pa.int64()),
    ]
)
"""Changes as rows. ``document`` is JSON. ``ts`` is from when on, in microseconds; null means at once. Then ``sequence``
orders the changes that come together: rows may lose their order on the way."""


@dataclass(frozen=True)
class Change:
    """One change of a graph. Made by :meth:`put`, :meth:`drop`, :meth:`grant` and :meth:`revoke`."""

    operation: Operation
    actor: str
    document: str
    """JSON: the stream, or what is dropped, granted or revoked."""
    at: Id | None = None
    """From when on: before the first update with this id or a later one. None is at once."""

    def __post_init__(self) -> None:
        if self.operation not in ("put", "drop", "grant", "revoke"):
            raise PipelineError(
                f"the operation of a change is put, drop, grant or revoke, not {self.operation!r}"
            )
        if not isinstance(self.actor, str) or not self.actor:
            raise PipelineError(f"{self.operation}: by= has to be the name of a user, not {self.actor!r}")
        try:
            f"{self.actor}{self.document}".encode()
        except UnicodeEncodeError as error:
            raise PipelineError(
                f"{self.operation}: by= or the document has characters that are no Unicode text: {error}"
            ) from None

    @classmethod
    def put(cls, stream: Mapping[str, Any], *, by: str, at: Id | None = None) -> Change:
        """Add a stream, or replace it. ``stream`` is its document."""
        return cls("put", by, _text(stream), at)

    @classmethod
    def drop(cls, name: str, *, by: str, at: Id | None = None, cascade: bool = False) -> Change:
        """Remove a stream; with ``cascade``, also the actor's own streams that depend on it."""
        return cls("drop", by, _text({"name": name, **({"cascade": True} if cascade else {})}), at)

    @classmethod
    def grant(cls, name: str, right: str, to: str, *, by: str, at: Id | None = None) -> Change:
        """Give somebody a right on a stream; ``to="*"`` is everybody."""
        return cls("grant", by, _text({"name": name, "right": right, "to": to}), at)

    @classmethod
    def revoke(cls, name: str, right: str, to: str, *, by: str, at: Id | None = None) -> Change:
        """Take a right away."""
        return cls("revoke", by, _text({"name": name, "right": right, "to": to}), at)

    @property
    def form(self) -> dict[str, Any]:
        """The document, read."""
        try:
            found = json.loads(self.document)
        except (ValueError, RecursionError) as error:
            raise PipelineError(f"{self.operation}: the document is not JSON: {error}") from None
        if not isinstance(found, dict) or not isinstance(found.get("name"), str):
            raise PipelineError(f"{self.operation}: the document has to be an object with a 'name'")
        return found

    def to_row(self) -> dict[str, Any]:
        """A row of :data:`CHANGES`."""
        ts, sequence = (None, None) if self.at is None else self.at[:2]
        return {
            "operation": self.operation,
            "actor": self.actor,
            "document": self.document,
            "ts": ts,
            "sequence": sequence,
        }

    @classmethod
    def from_row(cls, row: Mapping[str, Any]) -> Change:
        if not isinstance(row, Mapping):
            raise PipelineError(f"a change is a row with the columns {', '.join(CHANGES.names)}, not {row!r}")
        ts, sequence = row.get("ts"), row.get("sequence")
        document = row.get("document")
        text = document if isinstance(document, str) else _text(document or {})
        try:
            number = BEFORE.sequence if sequence is None else int(sequence)
        except (TypeError, ValueError, OverflowError):
            raise PipelineError(f"the sequence of a change is a whole number, not {sequence!r}") from None
        at = None if ts is None else Id(instant(ts, "ts"), number)
        return cls(row.get("operation", "put"), row.get("actor", ""), text, at)


def changes_to_table(changes: Iterable[Change]) -> pa.Table:
    """Changes as a table of :data:`CHANGES`. Those without a time are numbered, so that they keep their order."""
    rows = [change.to_row() for change in changes]
    for number, row in enumerate(rows):
        if row["ts"] is None:
            row["sequence"] = number
    return pa.Table.from_pylist(rows, CHANGES)


def changes_from_table(data: Any) -> list[Change]:
    """The changes in a table."""
    return [Change.from_row(row) for row in arrow.as_table(data).to_pylist()]


def instant(time: Any, role: str = "at") -> int:
    """A time as microseconds: an integer, a datetime, or text such as ``2026-01-01T00:00Z``.

    >>> instant("1970-01-01T00:00:01Z")
    1000000
    """
    if isinstance(time, str):
        try:
            time = datetime.fromisoformat(time)
        except ValueError as error:
            raise PipelineError(f"{role}: {error}; write a time as 2026-01-01T00:00Z") from None
    try:
        return int(time) if type(time) is int else times.instant(time)
    except WindrowError:
        raise
    except (TypeError, ValueError) as error:
        raise PipelineError(f"{role}: cannot read {time!r} as a time: {error}") from None


def _text(document: Any) -> str:
    try:
        return json.dumps(document, ensure_ascii=False)
    except (TypeError, ValueError) as error:
        raise PipelineError(f"the document cannot be written as JSON: {error}") from None
