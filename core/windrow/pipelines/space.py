# SPDX-License-Identifier: Apache-2.0
"""A space: the streams of many owners in this process, changed while updates flow.

>>> from windrow.pipelines import Composite, Source, Space
>>> space = Space("city")
>>> space.put(Source("council/t1", channels={"f": "double"}, read="*"), by="council")
>>> space.put(
...     Composite("ann/frozen", inputs={"t": "council/t1"}, channels={"c": "(t.f - 32) / 1.8"}, where="c < 0"),
...     by="ann",
... )
>>> _ = space.push([{"stream": "council/t1", "ts": 1, "f": 50.0}, {"stream": "council/t1", "ts": 2, "f": 14.0}])
>>> space.latest("ann/frozen")
{'ts': 2, 'c': -10.0}
>>> space.drop("council/t1", by="council")
Traceback (most recent call last):
windrow.errors.PipelineError: 'council/t1' cannot be dropped: 'ann/frozen' depend(s) on it; drop them first, ...
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from math import inf, isfinite
from operator import index
from typing import Any, Literal, Unpack

import numpy as np
import pyarrow as pa

from windrow.columns import arrow
from windrow.errors import PipelineError, SnapshotError, StoreError, WindrowError
from windrow.expressions import Expression
from windrow.pipelines.changes import BEFORE, Change, Id, instant
from windrow.pipelines.documents import stream_documents
from windrow.pipelines.emissions import Emissions, Report, Update
from windrow.pipelines.options import SpaceOptions
from windrow.pipelines.rows import Event
from windrow.pipelines.runtime import Runtime
from windrow.pipelines.shape import explained, novelty, sources
from windrow.pipelines.streams import Stream, computes, owner_of, stream_from_dict
from windrow.pipelines.trial import try_later
from windrow.pipelines.waiting import Imported
from windrow.storage.pages import MemoryPages, Pages

__all__ = ["Box", "Space", "store_of"]

Box = tuple[str, str, float, float, float, float]
"""Two channels, latitude and longitude, and south, west, north and east."""

MANY = 256
"""From so many updates of one source on, columns are handed over as columns."""


class Space:
    """Streams on top of each other's streams.

    ``store`` is where the state is: nothing for this process, ``"rocksdb:folder"``, ``"redis://host"`` (pages begin with
    the name of the space), or any store of pages. Every call that changes something commits before it returns. If the
    store fails in one, the space goes on from the last commit, so make the call again. If its updates have a ``sequence``,
    none runs twice, even if that commit had been made.

    ``by=`` says who asks. Whoever runs the process is trusted to say the truth. Without it, :meth:`push`,
    :meth:`latest` and :meth:`history` ask in the name of whoever runs the space, who may do everything.

    ``sinks`` are functions by name that updates of composites with ``sink=`` are given to, after the commit.
    ``functions`` are Python functions that expressions may call. See :class:`~windrow.pipelines.runtime.Runtime` for the
    other parameters: ``quotas``, ``allow``, ``late`` and ``rounds``. :class:`~windrow.pipelines.Joined` joins spaces.
    """

    def __init__(
        self,
        name: str,
        store: str | Pages | None = None,
        *,
        order: Literal["arrival", "event"] = "arrival",
        sinks: Mapping[str, Callable[[Update], Any]] | None = None,
        **options: Unpack[SpaceOptions],
    ) -> None:
        self.name = name
        self._pages = store_of(store, name) or MemoryPages()
        self._sinks = dict(sinks or {})
        self._open = partial(Runtime, self._pages, order=order, sinks=self._sinks, space=name, **options)
        self._runtime: Runtime | None = self._open()
        self._allow = options.get("allow", ())
        self._reports: list[Report] = []

    @property
    def runtime(self) -> Runtime:
        """What runs the streams. If the store has failed, it goes on from the last commit."""
        if self._runtime is None:
            self._runtime = self._open()
        return self._runtime

    # Changes.

    def put(self, *streams: Stream | Mapping[str, Any], by: str, at: Any = None) -> None:
        """Add streams, or replace those of the same names, at once or at a time."""
        when = _at(at)
        for stream in streams:
            document = stream if isinstance(stream, Mapping) else stream.to_dict()
            self.apply(Change.put(document, by=by, at=when))

    def drop(self, name: str, *, by: str, at: Any = None, cascade: bool = False) -> None:
        """Remove a stream. Refused if streams depend on it, unless all are the owner's and ``cascade`` is true."""
        self.apply(Change.drop(name, by=by, at=_at(at), cascade=cascade))

    def grant(self, name: str, right: str, to: str, *, by: str, at: Any = None) -> None:
        """Give somebody (``"*"``: everybody) a right on a stream: read, subscribe, write or grant."""
        self.apply(Change.grant(name, right, to, by=by, at=_at(at)))

    def revoke(self, name: str, right: str, to: str, *, by: str, at: Any = None) -> None:
        """Take a right away. Composites of theirs on it get no update of it any more, nor its latest value."""
        self.apply(Change.revoke(name, right, to, by=by, at=_at(at)))

    def apply(self, change: Change, *, position: str | None = None) -> Emissions:
        """Apply a change, or keep it until its time; returns what a replay emitted.

        One that is kept is refused now if it would be refused at its time, as far as is known. ``position`` is as in
        :meth:`push`; it is not committed with a refusal.
        """
        out = Emissions()
        if change.at is not None:
            waiting = (row for row in self.runtime.log() if row["status"] == "scheduled")
            try_later(self.runtime.graph, map(Change.from_row, waiting), change, change.at)
        with self._whole():
            try:
                self.runtime.change(change, out)
            except (StoreError, SnapshotError):
                raise
            except WindrowError:
                self._finish(Emissions())  # the log has the refusal
                raise
            self._finish(out, position)
        return out

    def diff(self, documents: Any) -> list[dict[str, str]]:
        """What putting these streams would do: TOML or JSON text, a list of documents, or streams.

        Each is ``added``, ``unchanged``, ``changed`` (it keeps its state) or ``restarted`` (it is computed differently,
        so its values and windows begin anew). State of other streams is never touched, unless they would have values of
        another type.
        """
        found = []
        for document in stream_documents(documents):
            stream = stream_from_dict(document, allow=self._allow)
            before = self.runtime.graph.streams.get(stream.name)
            if before is None:
                effect = "added"
            elif before.to_dict() == stream.to_dict():
                effect = "unchanged"
            else:
                effect = "changed" if computes(before) == computes(stream) else "restarted"
            found.append({"stream": stream.name, "effect": effect})
        return found

    # Updates.

    def push(
        self, updates: Any, *, stream: str | None = None, by: str | None = None, position: str | None = None
    ) -> Emissions:
        """Take updates; returns everything that was emitted.

        ``updates`` are dicts with ``ts`` and channels, and ``stream`` unless it is given once for all, or Arrow data with
        such columns. ``sequence`` orders updates of equal time; without it, that is the order in which they come.
        ``position`` is committed with what the updates did: how far their source was read.
        """
        with self._whole():
            if isinstance(updates, Mapping):
                updates = [updates]
            if isinstance(updates, list | tuple):
                events = self._events(updates, stream)
                self._may_write({event[2] for event in events}, by)
                out = self.runtime.process(events)
            else:
                out = self._push_table(arrow.as_table(updates), stream, by)
            self._finish(out, position)
        return out

    def take(self, imported: Iterable[Imported]) -> None:
        """Take updates of streams of other spaces; they wait for the watermark. Not committed yet."""
        self.runtime.take(imported)

    def advance(self, watermark: Any) -> Emissions:
        """No update before this time will come any more: emit the windows that this finishes."""
        with self._whole():
            out = self.runtime.advance(instant(watermark, "watermark"))
            self._finish(out)
        return out

    @contextmanager
    def _whole(self) -> Iterator[None]:
        """If the store fails half-way, nothing of it has happened: what was not committed is forgotten."""
        try:
            yield
        except (StoreError, SnapshotError):
            self._runtime = None
            raise

    def _events(self, rows: Iterable[Mapping[str, Any]], stream: str | None) -> list[Event]:
        rows = list(rows)
        first = self.runtime.number(len(rows))
        return [_event(row, stream, number) for number, row in enumerate(rows, first)]

    def _push_table(self, table: pa.Table, stream: str | None, by: str | None) -> Emissions:
        if stream is None or table.num_rows < MANY:
            events = self._events(table.to_pylist(), stream)
            self._may_write({event[2] for event in events}, by)
            return self.runtime.process(events)
        self._may_write({stream}, by)
        ts = arrow.event_times(table, "ts", "us")
        if "sequence" in table.column_names:
            sequence = np.asarray(table.column("sequence"), np.int64)
        else:
            first = self.runtime.number(table.num_rows)
            sequence = np.arange(first, first + table.num_rows, dtype=np.int64)
        channels = [name for name in table.column_names if name not in ("ts", "sequence", "stream")]
        return self.runtime.process_columns(stream, ts, sequence, table.select(channels))

    def _may_write(self, streams: Iterable[str], by: str | None) -> None:
        for name in streams:
            if self.runtime.graph.device(name) is None:
                raise PipelineError(f"there is no source {name!r} to push to")
            self.runtime.graph.check(by, "write", name)

    def _finish(self, out: Emissions, position: str | None = None) -> None:
        self.runtime.commit(position)
        self._reports += self.runtime.reports()
        graph = self.runtime.graph
        wanted = (
            {name: s for name, plan in graph.plans.items() if (s := plan.stream.sink)} if self._sinks else {}
        )
        for update in out if wanted else ():
            if (sink := wanted.get(update.stream)) is not None:
                try:
                    self._sinks[sink](update)
                except Exception as error:
                    message = f"sink {sink!r}: {type(error).__name__}: {error}"
                    self._reports.append(Report("failed", update.stream, update.at, message))

    # Queries.

    def latest(self, name: str, *, by: str | None = None, provenance: bool = False) -> dict[str, Any] | None:
        """The latest update of a stream; None if there was none.

        ``provenance`` adds what it was computed from: sources, their owners, the stream whose update made it, and the
        version of the graph.
        """
        graph = self.runtime.graph
        graph.check(by, "read", name)
        state = self.runtime.state(name)
        if state.values is None or state.last is None:
            return None
        found = {"ts": state.last.ts, **dict(zip(graph.channels(name) or (), state.values, strict=True))}
        if provenance:
            reached = sorted(sources(graph)[name])
            found["provenance"] = {
                "sources": reached,
                "owners": sorted({owner_of(each) for each in (name, *reached)}),
                "trigger": state.trigger,
                "sequence": state.last.sequence,
                "version": state.version,
            }
        return found

    def history(
        self,
        name: str,
        *,
        since: Any = None,
        until: Any = None,
        last: int | None = None,
        where: str | None = None,
        box: Box | None = None,
        by: str | None = None,
    ) -> pa.Table:
        """The updates of a stream that are kept: from ``since`` to before ``until``, those for which ``where`` holds,
        those in a ``box`` of latitude and longitude, the ``last`` so many.
        """
        graph = self.runtime.graph
        graph.check(by, "read", name)
        kinds = dict(graph.channels(name) or {})
        low = BEFORE.ts if since is None else instant(since, "since")
        high = -BEFORE.ts if until is None else instant(until, "until")
        rows = [(at, values) for at, values in self.runtime.state(name).history if low <= at.ts < high]
        names = ["ts", "sequence", *kinds]
        types = [pa.int64(), pa.int64(), *kinds.values()]
        columns = list(zip(*((*at[:2], *values) for at, values in rows), strict=True)) or [()] * len(names)
        table = pa.Table.from_arrays(
            [pa.array(c, t) for c, t in zip(columns, types, strict=True)], names=names
        )
        conditions = [where] if where is not None else []
        if box is not None:
            conditions.append(_inside(box))
        for condition in conditions:
            table = table.filter(Expression(condition).bind(table.schema, condition=True).batch(table))
        return table if last is None else table.slice(max(0, table.num_rows - last))

    def reports(self) -> list[Report]:
        """What failed, was refused or came late since the last call, with the update that it was about."""
        found, self._reports = self._reports, []
        return found

    def figures(self) -> list[dict[str, Any]]:
        """Of every stream: how often it emitted, filtered, discarded, failed, was blocked; its rank and novelty.

        ``rate`` is updates per second of event time, over the history that is kept; None if that has no two times.
        """
        graph = self.runtime.graph
        new = novelty(graph)
        return [
            {
                "stream": name,
                "kind": stream.kind,
                "rank": graph.rank[name],
                "novelty": new[name],
                "inputs": list(graph.plans[name].inputs) if name in graph.plans else [],
                "rate": self.runtime.state(name).rate,
                **vars(self.runtime.state(name).figures),
            }
            for name, stream in graph.streams.items()
        ]

    def explain(self, name: str) -> str:
        """What a stream is, what it is computed from, and what depends on it, in words."""
        return explained(self.runtime.graph, name)

    def log(self) -> list[dict[str, Any]]:
        """All changes with actor and time, and what came of them."""
        return self.runtime.log()

    def close(self) -> None:
        """Let go of the store."""
        close = getattr(self._pages, "close", None)
        if close is not None:
            close()

    def __enter__(self) -> Space:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def store_of(store: str | Pages | None, name: str) -> Pages | None:
    """The store that a text names."""
    if not isinstance(store, str):
        return store
    if store.startswith("rocksdb:"):
        from windrow.storage.rocksdb import RocksDBPages

        # The position in the source is part of each commit, so an earlier one is as good after a loss of power.
        return RocksDBPages(store.removeprefix("rocksdb:"), sync=False)
    if store.startswith(("redis://", "rediss://", "unix://")):
        from windrow.storage.redis import RedisPages

        return RedisPages(store, prefix=name)
    raise PipelineError(
        f"store: expected 'rocksdb:folder', 'redis://host' or a store of pages, not {store!r}"
    )


def _event(row: Any, stream: str | None, number: int) -> Event:
    """The event of a row: its time, its sequence or this number, its stream, and its channels."""
    values = dict(row) if isinstance(row, Mapping) else {}
    name = values.pop("stream", stream)
    if not isinstance(name, str) or "ts" not in values:
        raise PipelineError(f"an update is an object with 'ts' and 'stream', not {str(row)[:200]}")
    ts, sequence = instant(values.pop("ts"), "ts"), values.pop("sequence", number)
    try:
        return ts, index(sequence), name, values
    except TypeError:
        raise PipelineError(
            f"sequence of an update of {name!r} is a whole number, not {str(sequence)[:80]!r}"
        ) from None


def _at(at: Any) -> Id | None:
    if at is None or isinstance(at, Id):
        return at
    return Id(*at) if isinstance(at, tuple) else Id(instant(at), BEFORE.sequence)


def _inside(box: Box) -> str:
    """The condition that an update is in a box."""
    try:
        latitude, longitude, *bounds = box
        south, west, north, east = (float(bound) for bound in bounds)
    except (TypeError, ValueError):
        south = west = north = east = inf
    if not all(isfinite(bound) for bound in (south, west, north, east)):
        raise PipelineError(
            f"box= is two channels, latitude and longitude, and four numbers, south, west, north and east; not {box!r}"
        )
    return f"{south} <= {latitude} <= {north} and {west} <= {longitude} <= {east}"
