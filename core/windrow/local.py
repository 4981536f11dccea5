# SPDX-License-Identifier: Apache-2.0
"""The in-process engine: Arrow in, Arrow out."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from typing import Any, Literal, overload

import pyarrow as pa

from windrow import durations, memory
from windrow.columns.arrow import as_table, event_times
from windrow.columns.batching import gather
from windrow.columns.frames import Frame, as_frame, check_frame, opened
from windrow.durations import Duration
from windrow.errors import ColumnError, DurationError, QueryError
from windrow.operator.idle import Idle
from windrow.operator.operator import Operator
from windrow.query.estimate import bytes_per_window, fewest_windows, windows_per_row
from windrow.query.query import Query

ROWS = 1 << 18
"""Small batches are gathered into tables of this many rows."""

FEW = 1 << 22
"""So many windows fit any memory."""


@overload
def aggregate(
    data: Any,
    query: Query,
    *,
    workers: int = 1,
    idle: Idle | Duration | None = None,
    to: Literal["arrow"] = "arrow",
) -> pa.Table: ...
@overload
def aggregate(
    data: Any, query: Query, *, workers: int = 1, idle: Idle | Duration | None = None, to: Frame
) -> Any: ...
def aggregate(
    data: Any, query: Query, *, workers: int = 1, idle: Idle | Duration | None = None, to: Frame = "arrow"
) -> Any:
    """All windows of finite data.

    data
        Anything that can be exported as Arrow (pyarrow, Polars, DuckDB), a pandas frame, a Polars LazyFrame, a pyarrow
        Dataset, a dict of columns, or a list of dicts. Batches may have their columns in any order.
    workers
        How many threads or processes compute functions of whole windows, such as :class:`~windrow.Apply`.
    idle
        Accepted, as in other calls, but without effect: finite data has one watermark, at its end.
    to
        The type of the result. ``"arrow"``, the default, is a ``pyarrow.Table`` whatever the data is. ``"same"`` is the
        type of the data: a pandas frame, a Polars DataFrame or LazyFrame, a DuckDB relation on the same connection, a
        list of dicts, and a ``pyarrow.Table`` for everything else. ``"pandas"``, ``"polars"``, ``"duckdb"`` and
        ``"dicts"`` choose one.

    A stream of batches is read batch by batch. Only slices are kept, so memory grows with the number of slices, not of
    rows. Rows may be in any order, and no row is late. Where order matters (all windows but time windows, and
    aggregates such as ``First``), rows wait until the data ends: use :func:`stream` for more than fits into memory.
    A result that cannot fit into memory is refused.

    >>> import windrow as wr
    >>> query = wr.Query(window=wr.TimeWindow("10us", "5us"), aggregates={"peak": wr.Max("load")})
    >>> wr.aggregate({"ts": [1, 7, 8], "load": [3.0, 5.0, 2.0]}, query).column("peak").to_pylist()
    [3.0, 5.0, 5.0]
    """
    check_frame(to)
    operator = None
    for table in _tables(data):
        if operator is None:
            operator = Operator(query, table.schema, threads=os.cpu_count() or 1, workers=workers, idle=idle)
            _refuse_what_cannot_fit(query, table)
        operator.process(table)
    if operator is None:
        raise ColumnError(
            "the data has no batch, so its columns are unknown; give a table with the columns and no row, such as "
            "schema.empty_table()"
        )
    return as_frame(pa.concat_tables(_within_memory(operator.finish())), to, data)


def stream(
    data: Any,
    query: Query,
    *,
    delay: Duration = 0,
    late: Callable[[pa.Table], object] | list[pa.Table] | None = None,
    workers: int = 1,
    idle: Idle | Duration | None = None,
) -> Iterator[pa.Table]:
    """The windows of a stream of batches, as they become final. Memory grows with the open windows only.

    data
        An iterable of batches, of any type that :func:`aggregate` takes. Later batches may have their columns in another
        order than the first one.
    delay
        How far out of order rows may be. The watermark is the latest time seen less the delay. A row behind it is late,
        and goes where the query says.
    late
        For a query with ``late="side"``: a function that is called with each table of late rows, or a list that they are
        appended to.
    workers
        How many threads or processes compute functions of whole windows.
    idle
        How long a key has to be silent until its windows are frozen: see :class:`~windrow.Idle`.

    >>> import windrow as wr
    >>> query = wr.Query(window=wr.TimeWindow("10us"), aggregates={"n": wr.Count()}, late="side")
    >>> batches, late = [{"ts": [1, 7]}, {"ts": [12, 15]}, {"ts": [31, 3]}], []
    >>> [table.column("n").to_pylist() for table in wr.stream(batches, query, late=late)]
    [[2], [2], [1]]
    >>> [table.to_pylist() for table in late]
    [[{'ts': 3}]]
    """
    behind = durations.parse(delay, name="delay")
    if behind < 0:
        raise DurationError(f"delay has to be zero or longer, not {delay!r}")
    return _stream(data, query, behind, _late_rows(query, late), workers, Idle.of(idle))


def _stream(
    data: Any,
    query: Query,
    behind: int,
    late: Callable[[pa.Table], object] | None,
    workers: int,
    idle: Idle | None,
) -> Iterator[pa.Table]:
    operator: Operator | None = None
    for table in _tables(data, rows=1):
        if operator is None:
            operator = Operator(query, table.schema, workers=workers, idle=idle)
        corrected = operator.process(table)
        if late is not None and (rows := operator.late()).num_rows:
            late(rows)
        if corrected.num_rows:
            yield corrected
        if table.num_rows:
            final = operator.advance(int(event_times(table, query.time, query.time_unit).max()) - behind)
            if final.num_rows:
                yield final
    if operator is not None and (rest := operator.flush()).num_rows:
        yield rest


def _late_rows(
    query: Query, late: Callable[[pa.Table], object] | list[pa.Table] | None
) -> Callable[[pa.Table], object] | None:
    """What takes late rows. They have to have a taker if the query asks for them, and only then."""
    if not isinstance(query, Query):
        raise QueryError(f"stream() needs a windrow.Query, not {type(query).__name__}")
    if late is None and query.late == "side":
        raise QueryError(
            "the query has late='side', but nothing takes its late rows: give stream(late=) a function or a list, "
            "or drop late rows with late='drop'"
        )
    if late is None:
        return None
    if query.late != "side":
        raise QueryError(
            f"stream(late=) needs a query with late='side', and this one has late={query.late!r}"
        )
    taker = late.append if isinstance(late, list) else late
    if not callable(taker):
        raise QueryError(f"late of stream() has to be a function of a table, or a list, not {late!r}")
    return taker


def _refuse_what_cannot_fit(query: Query, rows: pa.Table) -> None:
    """Raise an error if the windows of these rows alone are more than memory holds."""
    if rows.num_rows * (windows_per_row(query) + 1) < FEW:
        return
    bound, room = query.bind(rows.schema), memory.available()
    size = bytes_per_window(bound.output_schema)
    if least := fewest_windows(bound, rows, room // size):
        raise _too_many(f"at least {least:,} windows", least * size, room)


def _within_memory(tables: Iterable[pa.Table]) -> Iterator[pa.Table]:
    """The tables of a result, which come some millions of windows at a time; an error before they fill the memory."""
    windows = size = 0
    room: int | None = None
    for table in tables:
        windows, size = windows + table.num_rows, size + table.nbytes
        if windows > FEW:
            room = memory.available() + size if room is None else room
            if size > room:
                raise _too_many(f"more than {windows:,} windows", size, room)
        yield table


def _too_many(windows: str, size: int, room: int) -> QueryError:
    return QueryError(
        f"the result has {windows}, which take {memory.format_bytes(size)}, and {memory.format_bytes(room)} of memory "
        f"are available; give a longer slide or a shorter range"
    )


def _tables(data: Any, rows: int = ROWS) -> Iterator[pa.Table]:
    """The data as tables of at least so many rows; at least one table, so that the columns are known."""
    data = opened(data)
    if isinstance(data, pa.Table | pa.RecordBatch | dict):
        yield as_table(data)
        return
    batches: Iterable[Any]
    if isinstance(data, pa.RecordBatchReader):
        batches = chain([data.schema.empty_table()], data)
    elif hasattr(data, "__arrow_c_stream__"):
        reader = (
            pa.RecordBatchReader.from_stream(data)
            if hasattr(pa.RecordBatchReader, "from_stream")
            else pa.table(data).to_reader()
        )
        batches = chain([reader.schema.empty_table()], reader)
    elif hasattr(data, "columns") or not isinstance(data, Iterable):
        yield as_table(data)
        return
    else:
        batches = data
    yield from gather(batches, rows)
