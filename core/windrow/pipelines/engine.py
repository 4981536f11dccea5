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

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypedDict

import pyarrow as pa
import pyarrow.compute as pc

from windrow.expressions import Registered
from windrow.imports import Allow
from windrow.pipelines.changes import Change, changes_to_table
from windrow.pipelines.emissions import Emissions, reports_to_table
from windrow.pipelines.quotas import Quotas
from windrow.pipelines.runtime import Runtime
from windrow.storage.pages import Pages

__all__ = ["OUTPUT", "ROWS", "RuntimeOptions", "Settings", "change_rows", "feed", "update_rows"]

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


class RuntimeOptions(TypedDict, total=False):
    """What an adapter takes besides its own options: those of :class:`~windrow.pipelines.runtime.Runtime`."""

    order: Literal["event", "arrival"]
    functions: Mapping[str, Registered]
    sinks: Iterable[str]
    quotas: Quotas
    allow: Allow
    late: Literal["refuse", "now"]


@dataclass(frozen=True)
class Settings:
    """How the runtimes of a job run; see :class:`~windrow.pipelines.runtime.Runtime`."""

    order: Literal["event", "arrival"] = "event"
    functions: Mapping[str, Registered] = field(default_factory=dict)
    sinks: tuple[str, ...] = ()
    quotas: Quotas = field(default_factory=Quotas)
    allow: Allow = ()
    late: Literal["refuse", "now"] = "refuse"

    @classmethod
    def of(cls, options: RuntimeOptions) -> Settings:
        """The settings in the options of an adapter; wrong ones are refused here, before a job starts."""
        given: dict[str, Any] = {**options, "sinks": tuple(options.get("sinks", ()))}
        made = cls(**given)
        made.open(None)
        return made

    def open(self, pages: Pages | None) -> Runtime:
        """The runtime of a space over its store: it goes on from the last commit, or starts with nothing."""
        return Runtime(
            pages,
            order=self.order,
            functions=self.functions,
            sinks=self.sinks,
            quotas=self.quotas,
            allow=self.allow,
            late=self.late,
        )


def feed(runtime: Runtime, rows: pa.Table | None, watermark: int | None) -> pa.Table:
    """Give a runtime rows of :data:`ROWS` and the watermark that they met; returns rows of :data:`OUTPUT`.

    The watermark comes first: rows behind it are refused, wherever batches were cut. The caller commits.
    """
    out = Emissions()
    if watermark is not None:
        out.extend(runtime.advance(watermark))
    if rows is not None and rows.num_rows:
        is_update = pc.is_null(rows.column("operation"))
        updates, changes = rows.filter(is_update), _in_order(rows.filter(pc.invert(is_update)))
        out.extend(runtime.process(_renamed(updates, _UPDATE), _renamed(changes, _CHANGE)))
    return _output(runtime, out)


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
