"""Windows of a whole table: ``wr.aggregate`` beside Polars, DuckDB and ClickHouse, each as a skilled user writes it.

A contender *by slices* works in two steps: it aggregates each key's rows per slide, then windows over these slices. On
dense rows the second step is a window function, which gives a window at every slice that has rows. On sparse rows that
would leave windows out, so each slice goes to all windows that it is in, and these are grouped.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec

import pyarrow as pa

import windrow as wr
from benchmarks.operator.data import Case

Contender = Callable[[], pa.Table]
MOST = 10**9
"""Polars' own windows look at every row once for each window that it is in; with more of these it would take minutes."""
DENSE = 1.0
"""From so many rows per slice on, almost every slice has rows, and the window function is the better second step."""


def contenders(case: Case, table: pa.Table) -> dict[str, Contender]:
    """Everything that can compute the windows, by name. The tables of the others are made here, before the clock runs."""
    known = {
        "windrow": lambda: windrow(case, table),
        "DuckDB by slices": duckdb_by_slices(case, table),
        "Polars by slices": polars_by_slices(case, table),
    }
    if case.rows * case.range <= MOST:
        known["Polars group_by_dynamic"] = polars_dynamic(case, table)
    if find_spec("chdb"):
        known["ClickHouse by slices"] = clickhouse_by_slices(case, table)
    return known


def windrow(case: Case, table: pa.Table) -> pa.Table:
    return wr.aggregate(table, case.query)


def duckdb_by_slices(case: Case, table: pa.Table) -> Contender:
    import duckdb

    connection = duckdb.connect()
    connection.register("arrow_rows", table)
    connection.execute("CREATE TABLE rows AS SELECT plug, epoch_us(ts) AS ts, load FROM arrow_rows")
    text = _by_slices(case, slice_="ts // 1000000", expand="unnest(range({range}))")
    return lambda: connection.sql(text).to_arrow_table()


def clickhouse_by_slices(case: Case, table: pa.Table) -> Contender:
    from chdb import session

    rows = table.set_column(1, "ts", table.column("ts").cast(pa.int64()))  # chdb finds it by this name
    connection = session.Session()
    connection.query(
        "CREATE OR REPLACE TABLE rows ENGINE = Memory AS SELECT plug, ts, load FROM Python(rows)", "Null"
    )
    text = _by_slices(case, slice_="intDiv(ts, 1000000)", expand="arrayJoin(range({range}))")

    def run() -> pa.Table:
        return pa.ipc.open_file(pa.py_buffer(connection.query(text, "Arrow").bytes())).read_all()

    run.rows = rows  # type: ignore[attr-defined]  # keeps the session and its rows alive
    return run


def _by_slices(case: Case, slice_: str, expand: str) -> str:
    """Two steps in SQL. ``window_end`` is in seconds; a slice of second s is in the windows that end after it."""
    slices = (
        f"SELECT plug, {slice_} AS slice, max(load) AS highest, sum(load) AS total, count(*) AS size "
        "FROM rows GROUP BY plug, slice"
    )
    if case.per_slice >= DENSE:
        over = f"PARTITION BY plug ORDER BY slice RANGE BETWEEN {case.range - 1} PRECEDING AND CURRENT ROW"
        results = (
            "max(highest) OVER w AS peak, sum(total) OVER w / sum(size) OVER w AS mean, sum(size) OVER w AS n"
        )
        columns = f"plug, slice + 1 AS window_end, {results}"
        return f"WITH slices AS ({slices}) SELECT {columns} FROM slices WINDOW w AS ({over})"
    spread = f"SELECT plug, slice + 1 + {expand.format(range=case.range)} AS window_end, highest, total, size FROM slices"
    columns = "plug, window_end, max(highest) AS peak, sum(total) / sum(size) AS mean, sum(size) AS n"
    return f"WITH slices AS ({slices}), spread AS ({spread}) SELECT {columns} FROM spread GROUP BY plug, window_end"


def polars_by_slices(case: Case, table: pa.Table) -> Contender:
    import polars as pl

    frame = pl.DataFrame(pl.from_arrow(table))
    load, window = pl.col("load"), f"{case.range}s"
    partials = [load.max().alias("peak"), load.sum().alias("total"), pl.len().alias("n")]
    results = [pl.col("peak").max(), pl.col("total").sum() / pl.col("n").sum(), pl.col("n").sum()]
    results[1] = results[1].alias("mean")
    slices = frame.lazy().group_by("plug", pl.col("ts").dt.truncate("1s").alias("slice")).agg(partials)
    if case.per_slice >= DENSE:
        windows = slices.sort("slice").rolling("slice", period=window, group_by="plug").agg(results)
    else:
        after = pl.int_ranges(1, case.range + 1, dtype=pl.Int64).alias("after")
        spread = slices.with_columns(after).explode("after")
        spread = spread.with_columns(window_end=pl.col("slice") + pl.duration(seconds=pl.col("after")))
        windows = spread.group_by("plug", "window_end").agg(results)
    return lambda: windows.collect().to_arrow()


def polars_dynamic(case: Case, table: pa.Table) -> Contender:
    import polars as pl

    frame, load = pl.DataFrame(pl.from_arrow(table)), pl.col("load")
    results = [load.max().alias("peak"), load.mean().alias("mean"), pl.len().alias("n")]
    windows = frame.lazy().group_by_dynamic("ts", every="1s", period=f"{case.range}s", group_by="plug")
    return lambda: windows.agg(results).collect().to_arrow()
