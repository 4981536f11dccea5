# SPDX-License-Identifier: Apache-2.0
"""The keyed window operator that every engine drives: rows and watermarks in, finished windows out.

>>> import pyarrow as pa
>>> import windrow as wr
>>> query = wr.Query(by="plug", window=wr.TimeWindow("10us", "5us"), aggregates={"peak": wr.Max("load")})
>>> operator = wr.Operator(query)
>>> _ = operator.process(pa.table({"plug": ["a", "a", "b"], "ts": [1, 7, 8], "load": [3.0, 5.0, 2.0]}))
>>> operator.advance(10).to_pylist()        # no row before 10 will come any more
[{'plug': 'a', 'window_start': -5, 'window_end': 5, 'peak': 3.0}, {'plug': 'a', 'window_start': 0,
'window_end': 10, 'peak': 5.0}, {'plug': 'b', 'window_start': 0, 'window_end': 10, 'peak': 2.0}]
>>> operator.wake                           # nothing more will be due before
15
>>> operator.flush().num_rows
2
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Executor
from datetime import datetime
from functools import wraps
from threading import Lock
from typing import Any, TypeVar, cast

import numpy as np
import pyarrow as pa

from windrow.columns.arrow import read_rows
from windrow.columns.ipc import from_ipc, to_ipc
from windrow.columns.text import fitted
from windrow.columns.times import instant
from windrow.durations import Duration
from windrow.errors import CorruptSnapshot, OperatorBroken, OperatorBusy, QueryError, WindrowError
from windrow.kernels.slices.layout import FOREVER
from windrow.operator.assemble import How, assemble
from windrow.operator.idle import Idle, IdleFigures
from windrow.operator.late import LateRows
from windrow.operator.ordered import WaitInOrder
from windrow.operator.parts import Parts
from windrow.operator.plan import Ints
from windrow.operator.slicers import TimeSlicer
from windrow.operator.workers import ComputesWindows
from windrow.query import Query
from windrow.storage import snapshot
from windrow.storage.pages import Pages
from windrow.storage.paging import read_header

FEW = 1024
"""With fewer keys it is not worth while to look for those without state."""
MANY = 1 << 22
"""How many windows are made at a time at the end of a stream."""


Method = TypeVar("Method", bound=Callable[..., Any])
_ALONE = "give each thread an operator of its own, or put a lock around the calls"
_RESTORE = "rows or windows may be missing, so restore the operator from its last snapshot, or open it again from its store"


def _alone(method: Method) -> Method:
    """A method that no other thread may interrupt, and that needs a whole state."""

    @wraps(method)
    def called(self: Operator, *arguments: Any, **options: Any) -> Any:
        if not self._turn.acquire(blocking=False):
            raise OperatorBusy(
                f"{method.__name__}() was called while another thread uses this operator; {_ALONE}"
            )
        try:
            if self._broken:
                raise OperatorBroken(f"an earlier call failed ({self._broken}); {_RESTORE}")
            return method(self, *arguments, **options)
        finally:
            self._turn.release()

    return cast(Method, called)


class WaitForLate(LateRows):
    """What happens to rows by default, in any order: windows wait until they are ``lateness`` behind the watermark."""

    def __init__(self, parts: Parts) -> None:
        self.parts, self.behind = parts, parts.bound.query.lateness

    def accept(self, rows: pa.Table, times: Ints) -> pa.Table:
        self.parts.table.accept(rows, times)
        return self.parts.output.empty

    def accept_partials(self, partials: pa.Table, times: Ints) -> pa.Table:
        return self.parts.accept_partials(partials, times)

    def advance(self, watermark: int) -> pa.Table:
        reached = watermark - self.behind if watermark < FOREVER else FOREVER
        due = self.parts.table.slide(self.parts.keys.order, reached)
        return self.parts.output.table(due, "final")

    def unfinished(self, watermark: int) -> pa.Table:
        return self.parts.unfinished(watermark)


class Operator:
    """Sliding windows over a stream of rows with many keys.

    Feed it Arrow data with :meth:`process` and tell it with :meth:`advance` that no row before a time will
    come any more. Each call returns the windows that became final, sorted by window end, then key. What it
    returns does not depend on how rows are cut into batches. :meth:`flush` says that the stream has ended.
    :meth:`snapshot` is the whole state as bytes.

    query
        What to compute.
    schema
        The schema of the data, if it is known before the first row.
    compiled
        ``False`` runs the same code interpreted.
    threads
        How many threads share the work, or a pool that many operators share.
    workers
        How many threads or processes compute functions of whole windows, such as :class:`~windrow.Apply`.
    idle
        How long a key has to be silent, in event time, until its windows are frozen: a duration or an :class:`~windrow.Idle`.
    pages
        The store that holds the state. State that it already has is loaded.

    One thread at a time may call it. A call that fails half-way, because an aggregate raised or a result does not
    fit, leaves an operator that refuses every further call: restore it from its last snapshot or store.
    """

    def __init__(
        self,
        query: Query,
        schema: pa.Schema | None = None,
        *,
        compiled: bool = True,
        threads: int | Executor = 1,
        workers: int | ComputesWindows = 1,
        idle: Idle | Duration | None = None,
        pages: Pages | None = None,
    ) -> None:
        if not isinstance(query, Query):
            raise QueryError(f"an operator needs a windrow.Query, not {type(query).__name__}")
        self.query, self.compiled = query, compiled
        self.watermark = -FOREVER
        """No row before this time will come any more (microseconds)."""
        self.late_rows = 0
        """How many rows came too late for the query."""
        self._side: list[pa.Table] = []
        self._turn = Lock()
        self._broken = ""
        self._how = How.of(compiled, threads, pages, workers, idle)
        self._parts: Parts | None = None
        self._late: LateRows
        if schema is not None:
            self._bind(schema)
        if pages is not None and (header := read_header(pages, query)) is not None:
            self._load(header)

    @_alone
    def process(self, data: Any) -> pa.Table:
        """Take rows; returns the windows that they finish or correct."""
        table, times = read_rows(data, self.query.time, self.query.time_unit)
        parts = self._bind(table.schema)
        if table.schema != parts.bound.schema:
            table = fitted(table, parts.bound.schema)
        if parts.bound.calendar is not None:
            parts.bound.calendar.check(times)
        late = times < self._reached()
        if late.any():
            self.late_rows += int(late.sum())
            self._side += [table.filter(pa.array(late))] if self.query.late == "side" else []
            table, times = table.filter(pa.array(~late)), times[~late]
        if not len(times):
            return parts.output.empty
        if parts.bound.computes:
            table = parts.bound.with_computed(table)
        return self._wholly(self._late.accept, table, times)

    @_alone
    def process_partials(self, data: Any) -> pa.Table:
        """Take ready-made partials of slices instead of rows; the output is the same.

        Beside the keys, ``data`` has the time column with the start of each slice (a timestamp, or microseconds), and a column
        ``aggregate.field`` for every field of every aggregate's partial (null means the identity). A slice
        must not reach over the start or end of a window.
        """
        parts = self._parts
        if parts is None:
            raise QueryError(
                "process_partials() needs the schema of the rows: make the operator with Operator(query, schema)"
            )
        slicer = parts.table.slicer
        if not isinstance(slicer, TimeSlicer):
            raise QueryError("process_partials() needs time windows: call process() with rows instead")
        table, times = read_rows(data, self.query.time)
        late = times < slicer.slice_start(self._reached())
        self.late_rows += int(late.sum())
        table, times = table.filter(pa.array(~late)), times[~late]
        return self._wholly(self._late.accept_partials, table, times) if len(times) else parts.output.empty

    @_alone
    def advance(self, watermark: int | datetime | np.datetime64) -> pa.Table:
        """No row before this time will come any more; returns the windows that are final now.

        A time is a number of microseconds since the epoch, or a datetime. A watermark that is lower than an
        earlier one changes nothing.
        """
        parts = self._parts
        if parts is None:
            raise QueryError(
                "advance() was called before the first process(): create the operator with Operator(query, schema)"
            )
        time = watermark if type(watermark) is int else instant(watermark)
        before, self.watermark = self.watermark, max(self.watermark, min(time, FOREVER))
        final = self._wholly(self._late.advance, self.watermark)
        if parts.keys.count >= FEW and len(idle := parts.idle_keys()):
            self._late.forget(idle)
            parts.forget(idle)
        early = self.query.early
        if early is None or self.watermark >= FOREVER or self.watermark // early == before // early:
            return final
        return pa.concat_tables([final, self._wholly(self._late.unfinished, self.watermark)])

    def flush(self) -> pa.Table:
        """The stream has ended; returns all windows that are left."""
        return pa.table({}) if self._parts is None else pa.concat_tables(self.finish())

    def finish(self) -> Iterator[pa.Table]:
        """The stream has ended; all windows that are left, some millions at a time."""
        if self._parts is None:
            return
        table, keys = self._parts.table, self._parts.keys.order
        stages = [] if self.query.early is not None else table.slicer.stages(table, keys, MANY)
        for reached in stages:
            yield self.advance(reached + self.query.lateness)
        yield self.advance(FOREVER)

    def late(self) -> pa.Table:
        """The rows that came too late since the last call (``late="side"``)."""
        if self._parts is None:
            return pa.table({})
        rows, self._side = self._side, []
        if not rows:
            return self._parts.bound.no_rows
        return pa.concat_tables(rows, promote_options="permissive")

    @property
    def wake(self) -> int | None:
        """The earliest watermark at which a further window is due, as far as is known; ``None`` if there is none."""
        if self._parts is None:
            return None
        table, earliest, behind = self._parts.table, self._parts.buffer.earliest, self._late.behind
        due = [table.wake] if table.wake < FOREVER else []
        due += [] if earliest is None else [earliest + 1]
        early = self.query.early
        begun = bool(due) or (table.slicer.waits_for_rows and bool(table.slices.held.any()))
        reached = self.watermark if self.watermark > -FOREVER else min(table.earliest, earliest or FOREVER)
        if early is not None and begun and reached < FOREVER:
            due.append((reached // early + 1) * early - behind)
        return min([*(time + behind for time in due), *self._late.due()], default=None)

    @_alone
    def snapshot(self) -> bytes:
        """The whole state as bytes, under the fingerprint of the query; equal states give equal bytes."""
        image = self._header()
        if (parts := self._parts) is not None:
            image |= parts.image()
            image["waiting"] = parts.buffer.images(parts.keys)
            image |= {"shown": shown} if (shown := self._late.shown()) else {}
        return snapshot.write(image, self.query.fingerprint)

    @classmethod
    def restore(
        cls,
        query: Query,
        blob: bytes,
        *,
        compiled: bool = True,
        threads: int | Executor = 1,
        workers: int = 1,
        idle: Idle | Duration | None = None,
    ) -> Operator:
        """The operator that :meth:`snapshot` wrote. It goes on as if it had never stopped.

        Bytes of another query, of a newer format, truncated or changed are refused with an error that says which.
        """
        image = snapshot.read(blob, query.fingerprint, query.described)
        operator = cls(query, compiled=compiled, threads=threads, workers=workers, idle=idle)
        operator._load(image)
        return operator

    @classmethod
    def open(
        cls,
        query: Query,
        schema: pa.Schema,
        pages: Pages,
        *,
        compiled: bool = True,
        threads: int | Executor = 1,
        workers: int = 1,
        idle: Idle | Duration | None = None,
    ) -> Operator:
        """An operator whose state lives in a store: goes on from what is there, or starts with nothing."""
        return cls(query, schema, compiled=compiled, threads=threads, workers=workers, idle=idle, pages=pages)

    @_alone
    def commit(self) -> int:
        """Write what changed since the last commit to the store; returns how many bytes that were.

        If the store raises, commit again, or open the operator anew: the store holds the state of this commit or of the
        last one, and :attr:`commits` tells of which.
        """
        if self._parts is None:
            raise QueryError(
                "commit() was called before the first row: create the operator with Operator.open(query, schema, pages)"
            )
        return self._parts.commit(self._header(), self._late, self._reached())

    @property
    def commits(self) -> int:
        """The number of the last commit; 0 without a store. A job that replays its source goes on from there."""
        return 0 if self._parts is None or self._parts.paging is None else self._parts.paging.commits

    @property
    def idle(self) -> IdleFigures:
        """What of the state is frozen, and how often that was done."""
        return IdleFigures() if self._parts is None else self._parts.idle()

    @property
    def leaves(self) -> int:
        """How many slices the key with the most of them has. ``within=`` keeps them few."""
        return 0 if self._parts is None else int(self._parts.table.slices.held.max(initial=0))

    @property
    def exceeded(self) -> int:
        """How many windows, since the operator was made, may be further from the true result than ``within=`` promises."""
        return 0 if self._parts is None else self._parts.table.final.exceeded

    @property
    def lcs_tasks(self) -> int:
        """How many chunks an operator with the algorithm "PBA" has had computed by other threads."""
        return 0 if self._parts is None else self._parts.table.final.tasks

    def _wholly(self, work: Callable[..., pa.Table], *arguments: Any) -> pa.Table:
        """Do something that changes the state. If it fails half-way, the operator cannot go on."""
        self._broken = "it did not end"
        try:
            found = work(*arguments)
        except Exception as error:
            self._broken = f"{type(error).__name__}: {error}"
            raise
        self._broken = ""
        return found

    def _bind(self, schema: pa.Schema) -> Parts:
        """Put the operator together for the schema of the first batch; check that of later ones."""
        if self._parts is None:
            self._parts, corrections = assemble(self.query.bind(schema), self._how)
            waits = WaitInOrder if self._parts.ordered else WaitForLate
            self._late = corrections or waits(self._parts)
        elif schema != self._parts.bound.schema:
            self._parts.check(schema)
        return self._parts

    def _reached(self) -> int:
        """The time before which a row is too late."""
        return self.watermark - self.query.lateness

    def _header(self) -> dict[str, Any]:
        image: dict[str, Any] = {
            "query": self.query.described,
            "watermark": self.watermark,
            "late_rows": self.late_rows,
            "side": [to_ipc(table) for table in self._side],
        }
        if self._parts is not None:
            schema = self._parts.bound.schema.serialize().to_pybytes()
            image |= {"schema": schema, "wake": self._parts.table.wake}
        return image

    def _load(self, image: dict[str, Any]) -> None:
        """Load the state that a snapshot holds, or that the header of a store names."""
        self.watermark, self.late_rows = image["watermark"], image["late_rows"]
        self._side = [from_ipc(table) for table in image["side"]]
        known = image.get("schema")
        if known is None:
            return
        schema = pa.ipc.read_schema(pa.py_buffer(known))
        try:
            self.query.bind(schema)
        except WindrowError as cause:
            raise CorruptSnapshot(f"the columns of the state do not fit its query: {cause}") from cause
        if self._parts is not None:
            self._parts.check(schema, stored=True)
        self._bind(schema).load(image, self._late, self.watermark)
