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

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from operator import index
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from windrow.aggregates import arrow
from windrow.answer import answer
from windrow.bound import BoundQuery
from windrow.disciplines import InTime, Rows, discipline
from windrow.draft import Draft
from windrow.errors import QueryError
from windrow.kernels.layout import FOREVER
from windrow.keys import Keys
from windrow.parallel import Parallel
from windrow.query import Query
from windrow.revisions import Revised
from windrow.runs import Due, Ints, State, Tower
from windrow.state import snapshot
from windrow.state.codec import decompress
from windrow.state.image import from_ipc, image_of, is_live, live_keys, load_image, to_ipc
from windrow.state.pages import HEADER, Pages
from windrow.state.paging import Paging
from windrow.tables import as_table
from windrow.waiting import Waiting, batch_image, load_batch

if TYPE_CHECKING:
    from windrow.chosen import Chosen

FEW = 1024
"""With fewer keys it is not worth while to look for those without state."""

PIECE = 1 << 20
"""So many rows are worked on at a time: what is in work stays in reach of the caches."""

MANY = 1 << 22
"""How many windows are made at a time at the end of a stream."""


class Operator:
    """Sliding windows over a stream of rows with many keys.

    Feed it Arrow data with :meth:`process` and tell it with :meth:`advance` that no row before a time will
    come any more. Each call returns the windows that became final, sorted by window end, then key. What it
    returns does not depend on how rows are cut into batches. :meth:`flush` says that the stream has ended.
    :meth:`snapshot` is the whole state as bytes.

    ``compiled=False`` runs the same code interpreted. ``schema`` is that of the data, if it is known before
    the first row. ``threads`` is how many threads share the work, or the pool that many operators share.
    """

    def __init__(
        self,
        query: Query,
        schema: pa.Schema | None = None,
        *,
        compiled: bool = True,
        threads: int | Executor = 1,
    ) -> None:
        if not isinstance(query, Query):
            raise QueryError(f"an operator needs a windrow.Query, not {type(query).__name__}")
        self.query = query
        self.compiled = compiled
        self.watermark = -FOREVER
        """No row before this time will come any more (microseconds)."""
        self.late_rows = 0
        """How many rows came too late for the query."""
        self._side: list[pa.Table] = []
        self._pool = _executor(threads)
        self._parallel: Parallel | None = None
        self._paging: Paging | None = None
        self._chosen: Chosen | None = None
        self._draft: Draft | None = None
        self._bound: BoundQuery | None = None
        if schema is not None:
            self._bind(schema)

    def process(self, data: Any) -> pa.Table:
        """Take rows; returns the windows that they finish or correct."""
        table = as_table(data)
        bound = self._bind(table.schema)
        times = bound.times(table)
        late = times < self._reached()
        if late.any():
            self._set_aside(table, late)
            table, times = table.filter(pa.array(~late)), times[~late]
        if isinstance(self._discipline, Revised) and len(times):
            rows = self._numbered(table, times)
            self._state.ensure_keys(len(self._keys))
            self._touch(rows.keys)
            corrected = self._discipline.revise(
                rows, self.watermark, lambda tower, slot: tower.absorb(rows.data, slot)
            )
            return self._answer(corrected, "update")
        if self._ordered and len(times):
            keys = self._keys.number(table)
            self._state.ensure_keys(len(self._keys))
            self._waiting.add(table.select(self._inputs), times, keys)
            if self._draft is not None and len(late_keys := np.unique(keys[times < self.watermark])):
                return self._draft.correct(late_keys)
        elif len(times):
            pieces = [slice(begin, begin + PIECE) for begin in range(0, len(times), PIECE)]
            for rows in self._ahead(lambda piece: self._numbered(table[piece], times[piece]), pieces):
                self._take(rows)
        return self._empty()

    def process_partials(self, data: Any) -> pa.Table:
        """Take ready-made partials of slices instead of rows; the answer is the same.

        Beside the keys, ``data`` has the time column with the start of each slice, and a column
        ``aggregate.field`` for every field of every aggregate's partial (null means the identity). A slice
        must not reach over the start or end of a window.
        """
        bound = self._bound
        if bound is None:
            raise QueryError(
                "process_partials() needs the schema of the rows: make the operator with Operator(query, schema)"
            )
        discipline = self._discipline
        if not isinstance(discipline, InTime):
            raise QueryError("process_partials() needs time windows: give it rows")
        if isinstance(discipline, Revised) and not discipline.whole_slices:
            raise QueryError(
                "process_partials() with late='update' needs aggregates to which order does not matter: give it rows"
            )
        table = as_table(data)
        times = bound.times(table)
        late = times < discipline.cut(self._reached())
        self.late_rows += int(late.sum())
        table, times = table.filter(pa.array(~late)), times[~late]
        if len(times):
            rows = self._grouped(table, times, self._keys.number(table))
            self._state.ensure_keys(len(self._keys))
            self._touch(rows.keys)
            if isinstance(discipline, Revised):
                corrected = discipline.revise(
                    rows, self.watermark, lambda tower, slot: tower.absorb_partials(table, slot)
                )
                return self._answer(corrected, "update")
            slot = discipline.take(rows)
            for tower in self._state.towers:
                tower.absorb_partials(table, slot)
        return self._empty()

    def advance(self, watermark: int | datetime | np.datetime64) -> pa.Table:
        """No row before this time will come any more; returns the windows that are final now.

        A time is a number of microseconds since the epoch, or a datetime. A watermark that is lower than an earlier one changes nothing.
        """
        if self._bound is None:
            raise QueryError(
                "advance() before the first process(): give the operator the schema of the data, Operator(query, schema)"
            )
        before, self.watermark = self.watermark, max(self.watermark, _microseconds(watermark))
        final = self._finish()
        early = self.query.early
        if early is None or self.watermark >= FOREVER or self.watermark // early == before // early:
            return final
        return pa.concat_tables([final, self._unfinished()])

    def flush(self) -> pa.Table:
        """The stream has ended; returns all windows that are left."""
        if self._bound is None:
            return pa.table({})
        return pa.concat_tables(self.finish())

    def finish(self) -> Iterator[pa.Table]:
        """The stream has ended; all windows that are left, some millions at a time."""
        for watermark in self._stages():
            yield self.advance(watermark)
        if self._bound is not None:
            yield self.advance(FOREVER)

    def _stages(self) -> list[int]:
        """Watermarks on the way to the end, so many that not too many windows are due at each."""
        if self._bound is None or type(self._discipline) is not InTime or self.query.early is not None:
            return []
        first, last = self._discipline.span(self._keys.order)
        count = len(self._keys.order) * sum(
            (last - first) // every for every in self._discipline.every.tolist()
        )
        stages = min(count // MANY, 1 << 10)
        return [
            first + (last - first) * stage // (stages + 1) + self.query.lateness
            for stage in range(1, stages + 1)
        ]

    def late(self) -> pa.Table:
        """The rows that came too late since the last call (``late="side"``)."""
        rows, self._side = self._side, []
        return pa.concat_tables(rows) if rows else self._schema().empty_table()

    def snapshot(self) -> bytes:
        """The whole state as bytes, under the fingerprint of the query; equal states give equal bytes."""
        image = self._header()
        if self._bound is not None:
            if self._paging is not None:
                self._paging.unfold_all()
            live = live_keys(self._state, self._discipline, self._keys)
            image |= image_of(self._state, self._discipline, self._keys, live)
            image["waiting"] = [batch_image(batch, self._keys) for batch in self._waiting.batches]
        return snapshot.write(image, self.query.fingerprint)

    @classmethod
    def restore(
        cls, query: Query, blob: bytes, *, compiled: bool = True, threads: int | Executor = 1
    ) -> Operator:
        """The operator that :meth:`snapshot` wrote. It goes on as if it had never stopped.

        Bytes of another query, of a newer format, truncated or changed are refused with an error that says
        which.
        """
        image = snapshot.read(blob, query.fingerprint, query.described)
        operator = cls(query, compiled=compiled, threads=threads)
        operator._load_header(image)
        if operator._bound is not None:
            load_image(image, operator._state, operator._discipline, operator._keys)
            operator._waiting.batches = [load_batch(each, operator._keys) for each in image["waiting"]]
            operator._loaded()
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
    ) -> Operator:
        """An operator whose state lives in a store: goes on from what is there, or starts with nothing."""
        operator = cls(query, schema, compiled=compiled, threads=threads)
        state, found, keys = operator._state, operator._discipline, operator._keys
        operator._paging = paging = Paging(pages, query.fingerprint, state, found, keys)
        if operator._draft is not None:
            operator._draft.paging = paging
        header = pages.get([HEADER]).get(HEADER)
        if header is not None:
            image = snapshot.read(decompress(header), query.fingerprint, query.described)
            operator._load_header(image)
            paging.load(image)
            operator._waiting.batches = [
                load_batch(each, keys, name) for name, each in paging.read(image["waiting"])
            ]
            operator._loaded()
        return operator

    def commit(self) -> int:
        """Write what changed since the last commit to the store; returns how many bytes that were.

        If the store raises, commit again, or open the operator anew: the store holds the state of one commit or of the other,
        and :attr:`commits` tells of which.
        """
        if self._paging is None:
            raise QueryError(
                "commit() needs a store: make the operator with Operator.open(query, schema, pages)"
            )
        more = {}
        for position, batch in enumerate(self._waiting.batches):
            if not batch.name:
                name = f"rows.{self._paging.commits + 1}.{position}"
                self._waiting.batches[position] = batch._replace(name=name)
        for batch in self._waiting.batches:
            if batch.name.startswith(f"rows.{self._paging.commits + 1}."):
                more[batch.name] = self._paging.written(batch.name, batch_image(batch, self._keys))
        header = {**self._header(), "waiting": [batch.name for batch in self._waiting.batches]}
        count = self._paging.commit(header, more, self._waiting.gone, self._reached())
        self._waiting.gone = []
        return count

    @property
    def commits(self) -> int:
        """The number of the last commit; 0 without a store. A job that replays its source goes on from there."""
        return 0 if self._paging is None else self._paging.commits

    @property
    def lcs_tasks(self) -> int:
        """How many chunks an operator with the algorithm "PBA" has had computed by other threads."""
        return 0 if self._parallel is None else self._parallel.tasks

    def _header(self) -> dict[str, Any]:
        image: dict[str, Any] = {
            "query": self.query.described,
            "watermark": self.watermark,
            "late_rows": self.late_rows,
            "side": [to_ipc(table) for table in self._side],
        }
        if self._bound is not None:
            image |= {"schema": self._bound.schema.serialize().to_pybytes(), "wake": self._discipline.wake}
        return image

    def _load_header(self, image: dict[str, Any]) -> None:
        self.watermark, self.late_rows = image["watermark"], image["late_rows"]
        self._side = [from_ipc(table) for table in image["side"]]
        if "schema" in image:
            self._bind(pa.ipc.read_schema(pa.py_buffer(image["schema"])))
            self._discipline.wake = image["wake"]

    def _loaded(self) -> None:
        self._state.ensure_keys(len(self._keys))
        self._discipline.restored()
        if self._draft is not None:
            self._draft.resume(self.watermark)

    @property
    def wake(self) -> int | None:
        """The earliest watermark at which a further window is due, as far as is known; ``None`` if there is
        none."""
        if self._bound is None:
            return None
        behind = self._behind()
        due = [self._discipline.wake] if self._discipline.wake < FOREVER else []
        due += [] if self._waiting.earliest is None else [self._waiting.earliest + 1]
        early = self.query.early
        begun = bool(due) or (self._discipline.waits_for_rows and bool(self._state.runs.held.any()))
        if early is not None and begun and -FOREVER < self.watermark < FOREVER:
            due.append((self.watermark // early + 1) * early - behind)
        drafted = [] if self._draft is None else self._draft.due()
        return min([*(time + behind for time in due), *drafted], default=None)

    def _schema(self) -> pa.Schema:
        assert self._bound is not None
        return self._bound.schema

    def _bind(self, schema: pa.Schema) -> BoundQuery:
        if self._bound is None:
            self._bound = bound = self.query.bind(schema)
            self._discipline = discipline(bound)
            updated = self.query.late == "update"
            if updated and isinstance(self._discipline, InTime):
                self._discipline = Revised(bound, [window for _, window in self.query.windows])
            towers = [
                Tower(name, monoid, bound.inputs(name), self.compiled)
                for name, monoid in bound.monoids.items()
            ]
            self._state = State(
                towers,
                self._discipline.windows,
                compiled=self.compiled,
                stamps=self._discipline.stamps,
                first_window=self._discipline.first_window,
            )
            self._state.pool = self._pool
            self._discipline.attach(self._state)
            if updated:
                pass  # with any algorithm: state that a late row changes has a form of its own
            elif self.query.algorithm == "PBA":
                self._parallel = Parallel(self._pool)
                self._state.slide = self._parallel.slide
            elif self.query.algorithm != "auto":
                from windrow.chosen import Chosen  # only a query that names an algorithm loads them all

                self._chosen = Chosen(self.query.algorithm)
                self._state.slide = self._chosen.slide
            self._keys = Keys([schema.field(name) for name in self.query.by])
            self._state.ensure_keys(len(self._keys))
            in_any_order = all(m.commutative for m in bound.monoids.values()) or updated
            self._ordered = self._discipline.ordered or not in_any_order
            inputs = {name for names in map(bound.inputs, bound.monoids) for name in names}
            attribute = getattr(self.query.window, "attribute", None)
            self._inputs = sorted(inputs | {self.query.time} | ({attribute} if attribute else set()))
            self._waiting = Waiting(pa.schema([schema.field(name) for name in self._inputs]))
            if updated and not isinstance(self._discipline, Revised):
                drafted = replace(self.query, late="drop", lateness=0, algorithm="auto")
                self._draft = Draft(self, Operator(drafted, schema, compiled=self.compiled))
                self._draft.ahead._pool = self._pool
        elif schema != self._bound.schema and not schema.equals(self._bound.schema):
            self.query.bind(schema)
            _same_types(self._bound.schema, schema, [*self.query.by, self.query.time, *self._inputs])
        return self._bound

    def _reached(self) -> int:
        """The time before which a row is late and at which windows are final."""
        return self.watermark - self.query.lateness

    def _set_aside(self, table: pa.Table, late: Any) -> None:
        self.late_rows += int(late.sum())
        if self.query.late == "side":
            self._side.append(table.filter(pa.array(late)))

    def _grouped(self, data: pa.Table, times: Ints, keys: Ints) -> Rows:
        rows = len(times)
        sorted_already = rows < 2 or bool((times[1:] >= times[:-1]).all())
        order = np.arange(rows) if sorted_already else np.argsort(times, kind="stable")
        if len(self._keys) > 1:
            starts = np.zeros(len(self._keys) + 1, dtype=np.int64)
            grouped, grouped_keys, grouped_times = (arrow.blank(rows, np.int64) for _ in range(3))
            self._state.kernels.group_by_key(keys, times, starts, order, grouped, grouped_keys, grouped_times)
            return Rows(data, times, keys, grouped, grouped_keys, grouped_times)
        return Rows(data, times, keys, order, keys, times if sorted_already else times[order])

    def _touch(self, keys: Ints) -> None:
        if self._paging is not None:
            self._paging.touch(np.unique(keys).tolist())

    def _numbered(self, table: pa.Table, times: Ints) -> Rows:
        """Rows with the numbers of their keys, grouped by them."""
        return self._grouped(table.select(self._inputs), times, self._keys.number(table))

    def _ahead(self, make: Callable[[slice], Rows], pieces: list[slice]) -> Iterator[Rows]:
        """What is made of each piece; the next is made by another thread while one is in use."""
        if self._pool is None or len(pieces) == 1:
            yield from map(make, pieces)
            return
        coming = self._pool.submit(make, pieces[0])
        for piece in pieces[1:]:
            rows = coming.result()
            coming = self._pool.submit(make, piece)
            yield rows
        yield coming.result()

    def _take(self, rows: Rows) -> None:
        self._state.ensure_keys(len(self._keys))
        self._touch(rows.keys)
        slot = self._discipline.take(rows)
        mapped = map if self._pool is None or len(slot) < 100_000 else self._pool.map
        list(mapped(lambda tower: tower.absorb(rows.data, slot), self._state.towers))

    def _finish(self) -> pa.Table:
        reached = self.watermark - self._behind() if self.watermark < FOREVER else FOREVER
        drafted = None if self._draft is None else self._draft.advance(self.watermark)
        if self._ordered:
            settled = self._waiting.settle(reached)
            self._take(self._grouped(settled.data, settled.times, settled.keys))
        found = self._slide(self._keys.order, reached)
        for due in found:
            self._touch(due.key)
        if self._draft is not None:
            self._draft.settle(found)
        table = self._answer(found, "final") if drafted is None else drafted
        self._forget_idle_keys()
        return table

    def _behind(self) -> int:
        """How far behind the watermark windows are final; those that can be corrected in place do not wait."""
        return 0 if self._bound is not None and isinstance(self._discipline, Revised) else self.query.lateness

    def _slide(self, keys: Ints, reached: int) -> list[Due]:
        """The windows that are due at a time; slices that no other window needs go."""
        found = list(self._discipline.due(keys, reached))
        self._discipline.evict(keys, reached)
        return found

    def _forget_idle_keys(self) -> None:
        """Keys without any state are forgotten, once they are the most: a stream may have ever new keys."""
        order = self._keys.order
        if len(order) < FEW or not self.query.by:
            return
        live = is_live(self._state, self._discipline)
        for batch in self._waiting.batches:
            live[batch.keys] = True
        idle = order[~live[order]]
        if 2 * len(idle) > len(order):
            if self._paging is not None:
                self._paging.forget(idle)
            self._discipline.forget(idle)
            if self._draft is not None:
                self._draft.forget(idle)
            self._keys.forget(idle.tolist())

    def _unfinished(self) -> pa.Table:
        """Results so far of the windows that have begun and are not final."""
        if self._draft is not None:
            return self._draft.unfinished()
        begun = list(self._discipline.begun(self._keys.order, self.watermark))
        if self._chosen is not None:
            self._chosen.held.clear()  # it has seen slices that may still change
        return self._answer(begun, "early")

    def _answer(self, found: list[Due], emission: str) -> pa.Table:
        assert self._bound is not None
        return answer(self._bound, self._keys, found, emission, self._state.kernels, self._pool)

    def _empty(self) -> pa.Table:
        assert self._bound is not None
        return self._bound.output_schema.empty_table()


def _executor(threads: int | Executor) -> Executor | None:
    if isinstance(threads, Executor):
        return threads
    return ThreadPoolExecutor(threads) if threads > 1 else None


def _microseconds(time: int | datetime | np.datetime64) -> int:
    if isinstance(time, datetime):
        epoch = datetime(1970, 1, 1, tzinfo=UTC if time.tzinfo else None)
        return (time - epoch) // timedelta(microseconds=1)
    if isinstance(time, np.datetime64):
        return int(time.astype("datetime64[us]").astype(np.int64))
    try:
        return index(time)
    except TypeError:
        raise QueryError(
            f"a watermark has to be whole microseconds since the epoch, or a datetime, not {time!r}"
        ) from None


def _same_types(known: pa.Schema, schema: pa.Schema, names: Iterable[str]) -> None:
    for name in names:
        if known.field(name).type != schema.field(name).type:
            raise QueryError(
                f"column {name!r} was {known.field(name).type} in earlier batches and is {schema.field(name).type} now; cast it"
            )
