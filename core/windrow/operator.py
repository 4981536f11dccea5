"""The keyed window operator that every engine drives: rows and watermarks in, finished windows out.

>>> import pyarrow as pa
>>> import windrow as wr
>>> query = wr.Query(by="plug", window=wr.TimeWindow("10us", "5us"), aggregates={"peak": wr.Max("load")})
>>> operator = wr.Operator(query)
>>> _ = operator.process(pa.table({"plug": ["a", "a", "b"], "ts": [1, 7, 8], "load": [3.0, 5.0, 2.0]}))
>>> operator.advance(10).to_pylist()        # no row before 10 will come any more
[{'plug': 'a', 'window_start': -5, 'window_end': 5, 'peak': 3.0}, {'plug': 'a', 'window_start': 0, 'window_end': 10, 'peak': 5.0}, {'plug': 'b', 'window_start': 0, 'window_end': 10, 'peak': 2.0}]
>>> operator.wake                           # nothing more will be due before
15
>>> operator.flush().num_rows
2
"""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pyarrow as pa

from windrow.answer import answer
from windrow.bound import BoundQuery
from windrow.disciplines import Rows, discipline
from windrow.errors import QueryError
from windrow.kernels.layout import FOREVER
from windrow.keys import Keys
from windrow.query import Query
from windrow.runs import Ints, State, Tower
from windrow.state import snapshot
from windrow.state.pages import HEADER, Pages
from windrow.state.image import from_ipc, image_of, load_image, to_ipc


class Operator:
    """Sliding windows over a stream of rows with many keys.

    Feed it Arrow data with :meth:`process` and tell it with :meth:`advance` that no row before a time will come any more. Each call
    returns the windows that became final, sorted by window end, then start, then key. What it returns does not depend on how
    rows are cut into batches. :meth:`flush` says that the stream has ended. :meth:`snapshot` is the whole state as bytes.

    ``compiled=False`` runs the same code interpreted. ``schema`` is that of the data, if it is known before the first row.
    """

    def __init__(
        self, query: Query, schema: pa.Schema | None = None, *, compiled: bool = True, threads: int = 1
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
        self._pool = ThreadPoolExecutor(threads) if threads > 1 else None
        self._pages: Pages | None = None
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
        if len(times):
            keys = self._keys.number(table)
            self._state.ensure_keys(len(self._keys))
            inputs = table.select(self._inputs)
            if self._ordered:
                self._pending.append((inputs, times, keys))
            else:
                self._take(self._grouped(inputs, times, keys))
        return self._empty()

    def process_partials(self, data: Any) -> pa.Table:
        """Take ready-made partials of slices instead of rows; the answer is the same.

        Beside the keys and the time column, which holds the start of each slice, there is a column ``aggregate.field`` for every
        field of every aggregate's partial. Slices must not cross the start or end of a window: :meth:`slice_at` tells where to cut.
        """
        raise NotImplementedError

    def advance(self, watermark: int) -> pa.Table:
        """No row before this time (microseconds since the epoch) will come any more; returns the windows that are final now."""
        if self._bound is None:
            raise QueryError("advance() before the first process(): give the operator the schema of the data, Operator(query, schema)")
        self.watermark = max(self.watermark, int(watermark))
        return self._finish()

    def flush(self) -> pa.Table:
        """The stream has ended; returns all windows that are left."""
        if self._bound is None:
            return pa.table({})
        return self.advance(FOREVER)

    def late(self) -> pa.Table:
        """The rows that came too late since the last call (``late="side"``)."""
        rows, self._side = self._side, []
        return pa.concat_tables(rows) if rows else self._schema().empty_table()

    def snapshot(self) -> bytes:
        """The whole state as bytes, under the fingerprint of the query; equal states give equal bytes."""
        image: dict[str, Any] = {
            "query": self.query.described,
            "watermark": self.watermark,
            "late_rows": self.late_rows,
            "side": [to_ipc(table) for table in self._side],
        }
        if self._bound is not None:
            image["schema"] = self._bound.schema.serialize().to_pybytes()
            image |= image_of(self._state, self._discipline, self._keys, self._pending)
        return snapshot.write(image, self.query.fingerprint)

    @classmethod
    def restore(cls, query: Query, blob: bytes, *, compiled: bool = True, threads: int = 1) -> Operator:
        """The operator that :meth:`snapshot` wrote. It goes on as if it had never stopped.

        Bytes of another query, of a newer format, truncated or changed are refused with an error that says which.
        """
        image = snapshot.read(blob, query.fingerprint, query.described)
        operator = cls(query, compiled=compiled, threads=threads)
        operator.watermark, operator.late_rows = image["watermark"], image["late_rows"]
        operator._side = [from_ipc(table) for table in image["side"]]
        if "schema" in image:
            operator._bind(pa.ipc.read_schema(pa.py_buffer(image["schema"])))
            operator._pending = load_image(image, operator._state, operator._discipline, operator._keys)
        return operator

    @classmethod
    def open(
        cls, query: Query, schema: pa.Schema, pages: Pages, *, compiled: bool = True, threads: int = 1
    ) -> Operator:
        """An operator whose state lives in a store: goes on from what is there, or starts with nothing."""
        header = pages.get([HEADER]).get(HEADER)
        if header is None:
            operator = cls(query, schema, compiled=compiled, threads=threads)
        else:
            operator = cls.restore(query, header, compiled=compiled, threads=threads)
            operator._bind(schema)
        operator._pages = pages
        return operator

    def commit(self) -> int:
        """Write what changed since the last commit to the store; returns how many bytes that were."""
        if self._pages is None:
            raise QueryError("commit() needs a store: make the operator with Operator.open(query, schema, pages)")
        blob = self.snapshot()
        self._pages.commit({HEADER: blob}, [])
        return len(blob)

    @property
    def wake(self) -> int | None:
        """The earliest watermark at which a further window is due, as far as is known; ``None`` if there is none."""
        if self._bound is None:
            return None
        times = [self._discipline.wake + self.query.lateness] if self._discipline.wake < FOREVER else []
        times += [int(times_.min()) + 1 + self.query.lateness for _, times_, _ in self._pending]
        return min(times, default=None)

    def _schema(self) -> pa.Schema:
        assert self._bound is not None
        return self._bound.schema

    def _bind(self, schema: pa.Schema) -> BoundQuery:
        if self._bound is None:
            self._bound = bound = self.query.bind(schema)
            self._discipline = discipline(bound)
            towers = [
                Tower(name, monoid, bound.inputs(name), self.compiled) for name, monoid in bound.monoids.items()
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
            self._keys = Keys([schema.field(name) for name in self.query.by])
            self._state.ensure_keys(len(self._keys))
            self._pending: list[tuple[pa.Table, Ints, Ints]] = []
            self._ordered = self._discipline.ordered or not all(m.commutative for m in bound.monoids.values())
            inputs = {name for names in map(bound.inputs, bound.monoids) for name in names}
            attribute = getattr(self.query.window, "attribute", None)
            self._inputs = sorted(inputs | {self.query.time} | ({attribute} if attribute else set()))
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
            grouped = np.empty(rows, dtype=np.int64)
            self._state.kernels.group_by_key(keys, np.zeros(len(self._keys) + 1, dtype=np.int64), order, grouped)
            order = grouped
        return Rows(data, times, keys, order)

    def _take(self, rows: Rows) -> None:
        slot = self._discipline.take(rows)
        mapped = map if self._pool is None or len(slot) < 100_000 else self._pool.map
        list(mapped(lambda tower: tower.absorb(rows.data, slot), self._state.towers))

    def _settle(self, reached: int) -> None:
        """Rows that no later row can come before, in their order."""
        if self._pending:
            data = pa.concat_tables([each for each, _, _ in self._pending])
            times = np.concatenate([each for _, each, _ in self._pending])
            keys = np.concatenate([each for _, _, each in self._pending])
            settled = times < reached
            if settled.all():
                self._pending = []
            else:
                left = pa.array(~settled)
                self._pending = [(data.filter(left), times[~settled], keys[~settled])]
                data, times, keys = data.filter(pa.array(settled)), times[settled], keys[settled]
            if len(times) > 1 and not (times[1:] >= times[:-1]).all():
                order = np.argsort(times, kind="stable")
                data, times, keys = data.take(pa.array(order)), times[order], keys[order]
        else:
            data, times, keys = self._schema().empty_table().select(self._inputs), *(np.empty(0, np.int64),) * 2
        self._take(self._grouped(data, times, keys))

    def _finish(self) -> pa.Table:
        reached = self._reached() if self.watermark < FOREVER else FOREVER
        if self._ordered:
            self._settle(reached)
        order = self._keys.order
        found = list(self._discipline.due(order, reached))
        self._discipline.evict(order, reached)
        assert self._bound is not None
        return answer(self._bound, self._keys, found, "final", self._state.kernels, self._pool)

    def _empty(self) -> pa.Table:
        assert self._bound is not None
        return self._bound.output_schema.empty_table()


def as_table(data: Any) -> pa.Table:
    """Anything that can be exported as Arrow, or a pandas frame, or a mapping of columns, as a table."""
    if isinstance(data, pa.Table):
        return data
    if isinstance(data, pa.RecordBatch):
        return pa.Table.from_batches([data])
    if hasattr(data, "__arrow_c_stream__") or hasattr(data, "__arrow_c_array__"):
        return pa.table(data)
    if hasattr(data, "columns") and hasattr(data, "dtypes"):
        return pa.Table.from_pandas(data, preserve_index=False)
    if isinstance(data, dict):
        return pa.table(data)
    raise QueryError(
        f"data has to be Arrow-exportable (pyarrow, Polars, DuckDB, pandas ≥ 2.2) or a dict of columns, not {type(data).__name__}"
    )


def _same_types(known: pa.Schema, schema: pa.Schema, names: Iterable[str]) -> None:
    for name in names:
        if known.field(name).type != schema.field(name).type:
            raise QueryError(
                f"column {name!r} was {known.field(name).type} in earlier batches and is {schema.field(name).type} now; cast it"
            )
