"""Rows sorted by key, then time, through the operator: what a task of a batch job does.

Spark sorts, on disk if it has to. Of most keys all rows are in one chunk, and many keys go through one operator at
once. A key that fills a chunk has an operator of its own, whose watermark follows its rows: memory holds a chunk
and a window, never a key.

>>> import pyarrow as pa
>>> import windrow as wr
>>> query = wr.Query(by="k", window=wr.TimeWindow("2us"), aggregates={"n": wr.Count()})
>>> rows = pa.table({"k": ["a", "a", "b", "b", "b"], "ts": [0, 1, 0, 1, 2]})
>>> sorted_rows = SortedRows(query, rows.schema)
>>> for windows in sorted_rows.windows(rows.to_batches(max_chunksize=2)):
...     print(windows.to_pydict())
{'k': ['a'], 'window_start': [0], 'window_end': [2], 'n': [2]}
{'k': ['b', 'b'], 'window_start': [0, 2], 'window_end': [2, 4], 'n': [2, 1]}
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from windrow import Operator, Query

FEWEST_ROWS, FIRST_ROWS, MOST_ROWS = 1 << 12, 1 << 14, 1 << 17
WINDOWS_AT_ONCE = 1 << 20


class SortedRows:
    """All windows of rows that come sorted by key, then time.

    ``schema`` is that of the rows. With ``partials``, a schema too, what comes are partials of slices.
    How many rows are a chunk depends on how many windows come out of it, so that the answer fits in memory as well.
    """

    def __init__(self, query: Query, schema: pa.Schema, partials: pa.Schema | None = None) -> None:
        self.query, self.schema, self.partials = query, schema, partials
        self.bound = query.bind(schema)
        self.chunk_rows = FIRST_ROWS
        self._large: Operator | None = None  # of the key with which the next chunk goes on
        self._large_key: list[Any] = []

    def windows(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
        """Finished windows, as they come; no order among keys is promised."""
        held = (self.partials or self.schema).empty_table()  # the last key's rows: more of them may come
        for fresh in self._chunks(batches):
            table = pa.concat_tables([held, fresh]) if held.num_rows else fresh
            held = held.slice(0, 0)
            if self._large is not None:
                mine = _rows_of(table, self.query.by, self._large_key)
                if mine == table.num_rows:
                    yield self._advanced(table)
                    continue
                yield self._finished(table.slice(0, mine))
                table = table.slice(mine)
            last = [table.column(name)[-1] for name in self.query.by]
            whole = table.num_rows - _rows_of(table, self.query.by, last)
            if whole:
                yield self._answer(table.slice(0, whole))
                held = table.slice(whole)
            else:
                self._large, self._large_key = Operator(self.query, self.schema), last
                yield self._advanced(table)
        if self._large is not None:
            yield self._finished(held)
        elif held.num_rows:
            yield self._answer(held)

    def _chunks(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
        schema = self.partials or self.schema
        waiting: list[pa.RecordBatch] = []
        rows = 0
        for batch in batches:
            waiting.append(batch)
            rows += batch.num_rows
            if rows >= self.chunk_rows:
                yield pa.Table.from_batches(waiting).rename_columns(schema.names).cast(schema)
                waiting, rows = [], 0
        if rows:
            yield pa.Table.from_batches(waiting).rename_columns(schema.names).cast(schema)

    def _answer(self, table: pa.Table) -> pa.Table:
        """Keys of which all rows are here."""
        operator = Operator(self.query, self.schema)
        self._take(operator, table)
        return self._measured(table, operator.flush())

    def _advanced(self, table: pa.Table) -> pa.Table:
        assert self._large is not None
        self._take(self._large, table)
        newest = self.bound.times(table.slice(table.num_rows - 1).select([self.query.time]))
        windows = self._large.advance(int(newest[0]))
        if self.query.early is not None:  # a batch has no use for results of unfinished windows
            windows = windows.filter(pc.equal(windows.column("emission"), "final"))
        return self._measured(table, windows)

    def _finished(self, table: pa.Table) -> pa.Table:
        assert self._large is not None
        self._take(self._large, table)
        operator, self._large = self._large, None
        return operator.flush()

    def _take(self, operator: Operator, table: pa.Table) -> None:
        if self.partials is None:
            operator.process(table)
        else:
            operator.process_partials(table)

    def _measured(self, table: pa.Table, windows: pa.Table) -> pa.Table:
        each = max(windows.num_rows / table.num_rows, 1e-9)
        self.chunk_rows = int(min(max(WINDOWS_AT_ONCE / each, FEWEST_ROWS), MOST_ROWS))
        return windows


def _rows_of(table: pa.Table, by: tuple[str, ...], key: list[Any]) -> int:
    """How many rows have this key. Keys are sorted, so they are the first or the last ones."""
    same = None
    for name, value in zip(by, key, strict=True):
        column = table.column(name)
        if not value.is_valid:
            mine = pc.is_null(column)
        elif pa.types.is_floating(column.type) and value.as_py() != value.as_py():
            mine = pc.fill_null(pc.is_nan(column), False)
        else:
            mine = pc.fill_null(pc.equal(column, value), False)
        same = mine if same is None else pc.and_(same, mine)
    return table.num_rows if same is None else int(pc.sum(same).as_py() or 0)
