"""The in-process engine: Arrow in, Arrow out."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa

from windrow import durations
from windrow.durations import Duration
from windrow.operator import Operator
from windrow.query import Query
from windrow.tables import as_table

ROWS = 1 << 18
"""Small batches of a stream are put together until there are this many rows."""


def aggregate(data: Any, query: Query) -> pa.Table:
    """All windows of finite data: anything Arrow-exportable (pyarrow, Polars, DuckDB, pandas), or a dict of
    columns.

    A stream is read batch by batch; only slices are kept, so memory follows the number of slices, not of
    rows. Rows may be in any order, and no row is late. Where order matters (all windows but time windows, and
    aggregates such as ``First``), rows wait until the data ends: use :func:`stream` for more than memory holds.

    >>> import windrow as wr
    >>> query = wr.Query(window=wr.TimeWindow("10us", "5us"), aggregates={"peak": wr.Max("load")})
    >>> wr.aggregate({"ts": [1, 7, 8], "load": [3.0, 5.0, 2.0]}, query).column("peak").to_pylist()
    [3.0, 5.0, 5.0]
    """
    operator = None
    for table in _tables(data):
        if operator is None:
            operator = Operator(query, table.schema, threads=os.cpu_count() or 1)
        operator.process(table)
    assert operator is not None
    return operator.flush()


def stream(data: Any, query: Query, *, delay: Duration = 0) -> Iterator[pa.Table]:
    """Windows of a stream of batches, as they become final; memory follows the open windows only.

    The watermark is the latest time seen less ``delay``: how far out of order rows may be. A row behind it
    is late, and goes where the query says.

    >>> import windrow as wr
    >>> query = wr.Query(window=wr.TimeWindow("10us"), aggregates={"n": wr.Count()})
    >>> batches = [{"ts": [1, 7]}, {"ts": [12, 15]}, {"ts": [31]}]
    >>> [table.column("n").to_pylist() for table in wr.stream(batches, query)]
    [[2], [2], [1]]
    """
    behind = durations.parse(delay, name="delay")
    operator: Operator | None = None
    for table in _tables(data, together=1):
        if operator is None:
            operator = Operator(query, table.schema)
        corrected = operator.process(table)
        if corrected.num_rows:
            yield corrected
        if table.num_rows:
            final = operator.advance(int(query.bind(table.schema).times(table).max()) - behind)
            if final.num_rows:
                yield final
    if operator is not None and (rest := operator.flush()).num_rows:
        yield rest


def _tables(data: Any, together: int = ROWS) -> Iterator[pa.Table]:
    """The data as tables of not too few rows; at least one, so that the columns are known."""
    if isinstance(data, pa.Table | pa.RecordBatch | dict):
        yield as_table(data)
        return
    if isinstance(data, pa.RecordBatchReader):
        reader: Iterable[Any] = data
        empty = data.schema.empty_table()
    elif hasattr(data, "__arrow_c_stream__"):
        opened = (
            pa.RecordBatchReader.from_stream(data)
            if hasattr(pa.RecordBatchReader, "from_stream")
            else pa.table(data).to_reader()
        )
        reader, empty = opened, opened.schema.empty_table()
    elif hasattr(data, "columns") or not isinstance(data, Iterable):
        yield as_table(data)
        return
    else:
        reader, empty = data, None
    waiting: list[pa.Table] = []
    for batch in reader:
        waiting.append(as_table(batch))
        if sum(table.num_rows for table in waiting) >= together:
            yield pa.concat_tables(waiting)
            waiting, empty = [], None
    if waiting or empty is not None:
        yield pa.concat_tables(waiting or [empty])
