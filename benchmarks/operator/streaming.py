"""Windows of a stream of 1,000-row batches: an operator beside Bytewax, Pathway, and slices kept in DuckDB and Polars.

Each contender gets the rows in the form that it likes best, made before the clock runs. Windows come out when the time of a
batch has passed their end, and the rest at the end.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from importlib.util import find_spec
from typing import Any

import pyarrow as pa

import windrow as wr
from benchmarks.operator.data import SECOND, Case

BATCH = 1000
Contender = Callable[[], int]
"""Runs the whole stream; returns how many windows came out."""


def contenders(case: Case, table: pa.Table) -> dict[str, Contender]:
    """Everything that can take the stream, by name; what is not installed is left out."""
    known: dict[str, Callable[[Case, pa.Table], Contender]] = {
        "windrow": windrow,
        "slices in DuckDB": slices_in_duckdb,
        "slices in Polars": slices_in_polars,
    }
    if find_spec("bytewax"):
        known["Bytewax"] = bytewax
    if find_spec("pathway"):
        known["Pathway"] = pathway
    return {name: made(case, table) for name, made in known.items()}


def windrow(case: Case, table: pa.Table) -> Contender:
    batches = list(_batches(table))

    def run() -> int:
        operator, windows = wr.Operator(case.query, table.schema), 0
        for batch, latest in batches:
            operator.process(batch)
            windows += operator.advance(latest).num_rows
        return windows + operator.flush().num_rows

    return run


def slices_in_duckdb(case: Case, table: pa.Table) -> Contender:
    """A table of slices: each batch adds to it, each second that has passed asks for its windows."""
    import duckdb

    batches = list(_batches(table.set_column(1, "ts", table.column("ts").cast(pa.int64()))))
    add = "INSERT INTO slices SELECT plug, ts // 1000000, max(load), sum(load), count(*) FROM batch GROUP BY ALL"
    ask = (
        "SELECT plug, max(peak) AS peak, sum(total) / sum(n) AS mean, sum(n) AS n FROM slices "
        "WHERE slice >= $1 AND slice < $2 GROUP BY plug"
    )

    def run() -> int:
        connection, windows, reached = duckdb.connect(), 0, 1
        connection.execute(
            "CREATE TABLE slices (plug BIGINT, slice BIGINT, peak DOUBLE, total DOUBLE, n BIGINT)"
        )

        def due(until: int) -> int:
            found = sum(
                connection.sql(ask, params=[end - case.range, end]).to_arrow_table().num_rows
                for end in range(reached, until)
            )
            if until > reached:
                connection.execute("DELETE FROM slices WHERE slice < $1", [until - case.range])
            return found

        for batch, latest in batches:
            connection.register("batch", batch)
            connection.execute(add)
            windows += due(latest // SECOND + 1)
            reached = latest // SECOND + 1
        return windows + due(reached + case.range)

    return run


def slices_in_polars(case: Case, table: pa.Table) -> Contender:
    """The same with a data frame of slices."""
    import polars as pl

    seconds = table.set_column(1, "ts", table.column("ts").cast(pa.int64()))
    batches = [(pl.DataFrame(pl.from_arrow(batch)), latest) for batch, latest in _batches(seconds)]
    load, at, n = pl.col("load"), (pl.col("ts") // SECOND).alias("slice"), pl.col("n").sum()
    partials = [load.max().alias("peak"), load.sum().alias("total"), pl.len().alias("n")]
    results = [pl.col("peak").max(), (pl.col("total").sum() / n).alias("mean"), n]

    def run() -> int:
        slices, windows, reached = batches[0][0].group_by("plug", at).agg(partials).clear(), 0, 1

        def due(until: int) -> int:
            inside = (
                slices.filter(pl.col("slice").is_between(end - case.range, end - 1))
                for end in range(reached, until)
            )
            return sum(some.group_by("plug").agg(results).height for some in inside)

        for batch, latest in batches:
            slices = pl.concat([slices, batch.group_by("plug", at).agg(partials)])
            windows += due(latest // SECOND + 1)
            reached = latest // SECOND + 1
            slices = slices.filter(pl.col("slice") >= reached - case.range)
        return windows + due(reached + case.range)

    return run


def bytewax(case: Case, table: pa.Table) -> Contender:
    import bytewax.operators as op
    import bytewax.operators.windowing as w
    from bytewax.dataflow import Dataflow
    from bytewax.testing import TestingSink, TestingSource, run_main

    items = [
        (str(plug), (ts.replace(tzinfo=UTC), load))
        for plug, ts, load in zip(*(column.to_pylist() for column in table.columns), strict=True)
    ]

    def run() -> int:
        found: list[Any] = []
        flow = Dataflow("sliding")
        rows = op.input("rows", flow, TestingSource(items, BATCH))
        clock = w.EventClock(ts_getter=lambda row: row[0], wait_for_system_duration=timedelta(0))
        windower = w.SlidingWindower(
            length=timedelta(seconds=case.range),
            offset=timedelta(seconds=1),
            align_to=datetime(1970, 1, 1, tzinfo=UTC),
        )
        windows = w.fold_window("windows", rows, clock, windower, _nothing, _with_row, _together)
        op.output("found", windows.down, TestingSink(found))
        run_main(flow)
        return len(found)

    return run


def pathway(case: Case, table: pa.Table) -> Contender:
    import pathway as pw
    from pathway.internals.parse_graph import G

    rows = table.set_column(1, "ts", table.column("ts").cast(pa.int64())).to_pylist()

    class Reading(pw.Schema):
        plug: int
        ts: int
        load: float

    class Readings(pw.io.python.ConnectorSubject):
        def run(self) -> None:
            for begin in range(0, len(rows), BATCH):
                for row in rows[begin : begin + BATCH]:
                    self.next(**row)
                self.commit()

    def run() -> int:
        G.clear()
        found: list[Any] = []
        stream = pw.io.python.read(Readings(), schema=Reading, autocommit_duration_ms=None)
        window = pw.temporal.sliding(duration=case.range * SECOND, hop=SECOND)
        windows = stream.windowby(
            stream.ts, window=window, instance=stream.plug, behavior=pw.temporal.exactly_once_behavior()
        ).reduce(
            plug=pw.this._pw_instance,
            end=pw.this._pw_window_end,
            peak=pw.reducers.max(pw.this.load),
            mean=pw.reducers.avg(pw.this.load),
            n=pw.reducers.count(),
        )
        pw.io.subscribe(windows, on_change=lambda key, row, time, is_addition: found.append(row))
        logging.disable(logging.INFO)  # it reports every batch
        pw.run(monitoring_level=pw.MonitoringLevel.NONE)
        return len(found)

    return run


def _batches(table: pa.Table) -> Any:
    """Batches, each with the time of its last row in microseconds."""
    for begin in range(0, table.num_rows, BATCH):
        batch = table.slice(begin, BATCH)
        yield batch, batch.column("ts").cast(pa.int64())[-1].as_py()


def _nothing() -> list[float]:
    return [float("-inf"), 0.0, 0]


def _with_row(window: list[float], row: tuple[datetime, float]) -> list[float]:
    load = row[1]
    window[0], window[1], window[2] = max(window[0], load), window[1] + load, window[2] + 1
    return window


def _together(one: list[float], other: list[float]) -> list[float]:
    return [max(one[0], other[0]), one[1] + other[1], one[2] + other[2]]
