# SPDX-License-Identifier: Apache-2.0
"""Rows sorted by key, then time, go through the operator: what a task of a batch job does.

Spark sorts the rows, on disk if it has to. They are taken in chunks. Most keys have all their rows in one chunk, and
many such keys go through one operator at once. A key that fills a chunk gets an operator of its own, whose watermark
follows the rows. So memory holds a chunk and a window, never all rows of a key.

>>> import pyarrow as pa
>>> import windrow as wr
>>> query = wr.Query(by="k", window=wr.TimeWindow("2us"), aggregates={"n": wr.Count()})
>>> rows = pa.table({"k": ["a", "a", "b", "b", "b"], "ts": [0, 1, 0, 1, 2]})
>>> sorted_rows = SortedRowWindows(query, rows.schema)
>>> for windows in sorted_rows.windows(rows.to_batches(max_chunksize=2)):
...     print(windows.to_pydict())
{'k': ['a', 'b', 'b'], 'window_start': [0, 0, 2], 'window_end': [2, 2, 4], 'n': [2, 2, 1]}
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from windrow import Operator, Query
from windrow.columns.arrow import event_times
from windrow.columns.batching import gather
from windrow_spark.null_times import refuse_null_times

FEWEST_ROWS, FIRST_ROWS, MOST_ROWS = 1 << 12, 1 << 14, 1 << 17
WINDOWS_AT_ONCE = 1 << 20


class SortedRowWindows:
    """All windows of rows that come sorted by key, then time.

    ``schema`` is the schema of the rows. With ``partials``, the schema of partials, the input is partials of slices
    instead of rows. The size of a chunk follows the number of windows per row, so that the output fits in memory too.
    """

    def __init__(self, query: Query, schema: pa.Schema, partials: pa.Schema | None = None) -> None:
        self.query, self.schema, self.partials = query, schema, partials
        self.bound = query.bind(schema)
        self.chunk_rows = FIRST_ROWS
        self._large: Operator | None = None  # the operator of a key that goes on in the next chunk
        self._large_key: list[Any] = []

    def windows(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
        """Finished windows, as they come; keys are in no particular order."""
        held = (self.partials or self.schema).empty_table()  # rows of the last key: more may come
        for fresh, more in _with_more(self._chunks(batches)):
            table = pa.concat_tables([held, fresh]) if held.num_rows else fresh
            held = held.slice(0, 0)
            if self._large is not None:
                mine = _rows_of(table, self.query.by, self._large_key)
                if mine == table.num_rows:
                    yield self._advanced(table)
                    continue
                yield self._finished(table.slice(0, mine))
                table = table.slice(mine)
            if not more:  # all keys end here
                yield self._windows_of(table)
                continue
            last = [table.column(name)[-1] for name in self.query.by]
            whole = table.num_rows - _rows_of(table, self.query.by, last)
            if whole:
                yield self._windows_of(table.slice(0, whole))
                held = table.slice(whole)
            else:
                self._large, self._large_key = Operator(self.query, self.schema), last
                yield self._advanced(table)
        if self._large is not None:
            yield self._finished(held)

    def _chunks(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
        schema = self.partials or self.schema
        filled = (batch for batch in batches if batch.num_rows)
        for table in gather(filled, lambda: self.chunk_rows):
            yield table.rename_columns(schema.names).cast(schema)

    def _windows_of(self, table: pa.Table) -> pa.Table:
        """The windows of keys whose rows are all in this table."""
        operator = Operator(self.query, self.schema)
        self._take(operator, table)
        return self._measured(table, operator.flush())

    def _advanced(self, table: pa.Table) -> pa.Table:
        assert self._large is not None
        self._take(self._large, table)
        last = table.slice(table.num_rows - 1).select([self.query.time])
        newest = self.bound.times(last) if self.partials is None else event_times(last, self.query.time)
        windows = self._large.advance(int(newest[0]))
        if self.query.early is not None:  # in a batch only the final result counts
            windows = windows.filter(pc.equal(windows.column("emission"), "final"))
        return self._measured(table, windows)

    def _finished(self, table: pa.Table) -> pa.Table:
        assert self._large is not None
        self._take(self._large, table)
        operator, self._large = self._large, None
        return operator.flush()

    def _take(self, operator: Operator, table: pa.Table) -> None:
        refuse_null_times(table, self.query.time)
        if self.partials is None:
            operator.process(table)
        else:
            operator.process_partials(table)

    def _measured(self, table: pa.Table, windows: pa.Table) -> pa.Table:
        each = max(windows.num_rows / table.num_rows, 1e-9)
        self.chunk_rows = int(min(max(WINDOWS_AT_ONCE / each, FEWEST_ROWS), MOST_ROWS))
        return windows


def _with_more(tables: Iterable[pa.Table]) -> Iterator[tuple[pa.Table, bool]]:
    """Tables that have rows, each with whether another one follows."""
    before = None
    for table in tables:
        if before is not None:
            yield before, True
        before = table
    if before is not None:
        yield before, False


def _rows_of(table: pa.Table, by: tuple[str, ...], key: list[Any]) -> int:
    """How many rows have this key. Rows are sorted, so they are the first or the last ones."""
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
