# SPDX-License-Identifier: Apache-2.0
"""What an engine's adapter sends to the runtime of a space, and what it gets back: two tables, the same on every engine.

Updates and changes travel as one stream of rows, :data:`ROWS`, so that they keep their order. What comes out is
:data:`OUTPUT`: emitted updates, and reports of what failed, was refused or came late.

>>> from windrow.pipelines.changes import Change
>>> source = Change.put({"kind": "source", "name": "council/t1", "channels": {"f": "double"}}, by="council")
>>> rows = pa.concat_tables([change_rows([source]), update_rows([("council/t1", 7, 0, '{"f": 50.0}')])])
>>> runtime = Settings(order="arrival").open(None)
>>> feed(runtime, rows, watermark=None).select(["kind", "stream", "ts", "values"]).to_pylist()
[{'kind': 'update', 'stream': 'council/t1', 'ts': 7, 'values': '{"f":50.0}'}]
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import pyarrow as pa
import pyarrow.compute as pc

from windrow.expressions import Registered
from windrow.imports import Allow
from windrow.pipelines.changes import FARTHEST, Change, changes_to_table
from windrow.pipelines.emissions import Emissions, reports_to_table
from windrow.pipelines.options import RuntimeOptions
from windrow.pipelines.quotas import Quotas
from windrow.pipelines.runtime import Runtime
from windrow.pipelines.state import encode
from windrow.pipelines.waiting import Imported
from windrow.storage.pages import Pages

__all__ = [
    "END",
    "JOINED",
    "OUTPUT",
    "ROWS",
    "RuntimeOptions",
    "Settings",
    "change_rows",
    "exported",
    "feed",
    "run_all",
    "update_rows",
]

ROWS = pa.schema(
    [
        ("operation", pa.string()),
        ("name", pa.string()),
        ("ts", pa.int64()),
        ("sequence", pa.int64()),
        ("text", pa.string()),
    ]
)
"""Updates and changes. An update has no ``operation``, its ``name`` is the stream and its ``text`` the values, as JSON.
Of a change, ``name`` is the actor and ``text`` the document; ``ts`` may be null, which means at once."""

JOINED = pa.schema([*ROWS, ("home", pa.string()), ("origin", pa.string())])
"""Rows, and updates that other spaces have emitted: only these have a ``home``, which is that space, and an ``origin``, the
source of the event. Nobody but :func:`exported` fills these columns."""

OUTPUT = pa.schema(
    [
        ("kind", pa.string()),
        ("stream", pa.string()),
        ("ts", pa.int64()),
        ("sequence", pa.int64()),
        ("values", pa.string()),
        ("sink", pa.string()),
        ("message", pa.string()),
    ]
)
"""``kind`` is ``update``, or that of a report: ``failed``, ``refused`` or ``late``. ``sink`` is where the composite sends
its updates to, if it named one."""


END = FARTHEST
"""The watermark after the last update."""


@dataclass(frozen=True)
class Settings:
    """How the runtimes of a job run; see :class:`~windrow.pipelines.runtime.Runtime`."""

    order: Literal["event", "arrival"] = "event"
    functions: Mapping[str, Registered] = field(default_factory=dict)
    sinks: tuple[str, ...] = ()
    quotas: Quotas = field(default_factory=Quotas)
    allow: Allow = ()
    late: Literal["refuse", "now"] = "refuse"
    rounds: Mapping[str, int] = field(default_factory=dict)

    @classmethod
    def of(cls, options: RuntimeOptions) -> Settings:
        """The settings in the options of an adapter; wrong ones are refused here, before a job starts."""
        given: dict[str, Any] = {**options, "sinks": tuple(options.get("sinks", ()))}
        made = cls(**given)
        made.open(None)
        return made

    @property
    def last_round(self) -> int:
        """How often rows are keyed by space: a space of round 1 comes after one of round 0."""
        return max(self.rounds.values(), default=0)

    def open(self, pages: Pages | None, space: str = "") -> Runtime:
        """The runtime of a space over its store: it goes on from the last commit, or starts with nothing."""
        return Runtime(
            pages,
            space=space,
            rounds=self.rounds,
            order=self.order,
            functions=self.functions,
            sinks=self.sinks,
            quotas=self.quotas,
            allow=self.allow,
            late=self.late,
        )


def feed(runtime: Runtime, rows: pa.Table | None, watermark: int | None) -> pa.Table:
    """Give a runtime rows of :data:`ROWS` and the watermark that they met; returns rows of :data:`OUTPUT`.

    The watermark comes first: rows behind it are refused, wherever batches were cut. Only what other spaces have emitted
    comes before: the same watermark released it there. The caller hands on what :func:`exported` has, and commits.
    """
    out = Emissions()
    if rows is not None and "home" in rows.column_names:
        imported = pc.is_valid(rows.column("home"))
        runtime.take(_imported(rows.filter(imported)))
        rows = rows.filter(pc.invert(imported))
    if watermark is not None:
        out.extend(runtime.advance(watermark))
    if rows is not None and rows.num_rows:
        is_update = pc.is_null(rows.column("operation"))
        updates, changes = rows.filter(is_update), _in_order(rows.filter(pc.invert(is_update)))
        out.extend(runtime.process(_renamed(updates, _UPDATE), _renamed(changes, _CHANGE)))
    return _output(runtime, out)


def run_all(settings: Settings, rows: Mapping[str, pa.Table]) -> dict[str, pa.Table]:
    """Everything that spaces emit for all their rows, from the first to the last: what a batch is. Rows are by space."""
    found: dict[str, pa.Table] = {}
    waiting: dict[str, list[pa.Table]] = {}
    for space in sorted(rows, key=lambda space: settings.rounds.get(space, 0)):
        runtime = settings.open(None, space)
        given = pa.concat_tables([rows[space], *waiting.get(space, ())], promote_options="default")
        found[space] = pa.concat_tables([feed(runtime, given, None), feed(runtime, None, END)])
        for other, sent in exported(runtime).items():
            waiting.setdefault(other, []).append(sent)
    return found


def exported(runtime: Runtime) -> dict[str, pa.Table]:
    """What other spaces import, as rows by space. They go there before the watermark that was fed here."""
    found = {space: _exported(updates) for space, updates in runtime.exports().items()}
    runtime.sent()
    return found


def _exported(updates: Iterable[Imported]) -> pa.Table:
    rows = [
        (None, each.stream, each.ts, each.sequence, encode(each.named), each.home, each.origin)
        for each in updates
    ]
    columns = [pa.array(values, f.type) for values, f in zip(zip(*rows, strict=True), JOINED, strict=True)]
    return pa.table(columns, schema=JOINED)


def _imported(rows: pa.Table) -> Iterator[Imported]:
    names = ("ts", "sequence", "origin", "text", "name", "home")
    for ts, sequence, origin, text, stream, home in zip(
        *(rows.column(name).to_pylist() for name in names), strict=True
    ):
        yield Imported(ts, sequence, origin, json.loads(text), stream, home)


def update_rows(updates: Iterable[tuple[str, int, int, str]]) -> pa.Table:
    """Updates (stream, ts, sequence, JSON of the values) as rows."""
    rows = [
        {"name": stream, "ts": ts, "sequence": sequence, "text": values}
        for stream, ts, sequence, values in updates
    ]
    return pa.Table.from_pylist(rows, ROWS)


def change_rows(changes: Iterable[Change]) -> pa.Table:
    """Changes as rows."""
    names = {old: new for new, old in _CHANGE.items()}
    return _renamed(changes_to_table(changes), names).select(ROWS.names)


_UPDATE = {"name": "stream", "text": "values"}
_CHANGE = {"name": "actor", "text": "document"}


def _in_order(changes: pa.Table) -> pa.Table:
    """Changes that take effect at once come first, by their number; engines may have mixed them up."""
    at_once = pc.is_null(changes.column("ts"))
    by = [("ts", "ascending"), ("sequence", "ascending")]
    parts = [changes.filter(mask) for mask in (at_once, pc.invert(at_once))]
    return pa.concat_tables([part.take(pc.sort_indices(part, by)) for part in parts])


def _renamed(rows: pa.Table, names: Mapping[str, str]) -> pa.Table:
    return rows.rename_columns([names.get(name, name) for name in rows.column_names])


def _output(runtime: Runtime, out: Emissions) -> pa.Table:
    updates, plans = out.to_table(), runtime.graph.plans
    streams = updates.column("stream")
    names = pc.unique(streams)
    sinks = [plans[name].stream.sink if name in plans else None for name in names.to_pylist()]
    sink = pa.array(sinks, pa.string()).take(pc.index_in(streams, names).combine_chunks())
    updates = updates.append_column("kind", pa.repeat(pa.scalar("update", pa.string()), len(streams)))
    updates = updates.append_column("sink", sink)
    reports = reports_to_table(runtime.reports())
    return pa.concat_tables([_filled(updates), _filled(reports)] if reports.num_rows else [_filled(updates)])


def _filled(rows: pa.Table) -> pa.Table:
    """The rows with all columns of the output."""
    known = set(rows.column_names)
    columns = [
        rows.column(each.name) if each.name in known else pa.nulls(rows.num_rows, each.type)
        for each in OUTPUT
    ]
    return pa.table(columns, schema=OUTPUT)
