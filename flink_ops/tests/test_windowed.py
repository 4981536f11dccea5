"""The windows of a stream are those of the definition: every kind, many aggregates, disorder, late rows, both modes."""

from datetime import datetime, timedelta
from typing import Any

import numpy as np
import owned
import pyarrow as pa
import pytest
from pyflink.common import Row, Types
from pyflink.datastream import StreamExecutionEnvironment

import windrow as wr
from windrow import oracle
from windrow_flink import environment, late_rows, windowed

ROWS = 400
TYPE = Types.ROW_NAMED(
    ["plug", "house", "ts", "load", "work"],
    [Types.STRING(), Types.INT(), Types.LONG(), Types.DOUBLE(), Types.LONG()],
)
WINDOWS = {
    "time": wr.TimeWindow("700ms", "250ms", "10ms"),
    "gaps": wr.TimeWindow("100ms", "300ms"),
    "several": [wr.TimeWindow("1s", "200ms"), wr.TimeWindow("500ms")],
    "count": wr.CountWindow(7, 3),
    "session": wr.SessionWindow("30ms"),
    "tuple": wr.SlideByTuple("200ms", 4),
    "rows": wr.SlideByTime(6, "300ms"),
    "delta": wr.DeltaWindow("work", 50, 20),
    "policy": wr.PolicyWindow(valid=owned.at_most_five),
}


def table(seed: int = 7) -> pa.Table:
    """Rows with null keys and values, ties of time, microseconds inside a millisecond, and times before the epoch."""
    rng = np.random.default_rng(seed)
    load = [None if rng.random() < 0.1 else float(x) for x in rng.normal(size=ROWS)]
    load[11] = float("nan")
    return pa.table(
        {
            "plug": pa.array(rng.choice(["a", "b", "c", None], ROWS).tolist(), pa.string()),
            "house": pa.array(rng.integers(0, 2, ROWS), pa.int32()),
            "ts": np.cumsum(rng.choice([0, 1, 300, 9_000, 40_000], ROWS)) - 500_000,
            "load": pa.array(load, pa.float64()),
            "work": pa.array(np.arange(ROWS)),
        }
    )


def shuffled(rows: pa.Table, by: int) -> list[Row]:
    """The rows out of order by up to so many microseconds, those of equal time in their order."""
    rng = np.random.default_rng(1)
    times = rows.column("ts").to_numpy()
    delay = {time: rng.integers(0, by) for time in np.unique(times)}
    order = np.argsort([time + delay[time] for time in times], kind="stable")
    return [Row(*row.values()) for row in rows.take(pa.array(order)).to_pylist()]


def in_order(rows: list[list[Any]] | pa.Table) -> list[str]:
    values = [list(row.values()) for row in rows.to_pylist()] if isinstance(rows, pa.Table) else rows
    return sorted(repr([tuple(v) if isinstance(v, list) else v for v in row]) for row in values)


def test_every_kind_of_window_gives_the_rows_of_the_definition(
    flink: StreamExecutionEnvironment, collected: Any
) -> None:
    data = table()
    stream = flink.from_collection(shuffled(data, 100_000), type_info=TYPE)
    queries = {
        name: wr.Query(
            by=["plug", "house"],
            window=window,
            aggregates={
                "n": wr.Count(),
                "peak": wr.Max("load"),
                "total": wr.Sum("work"),
                "last": wr.Last("work"),
                **({} if name == "policy" else {"spread": owned.Spread("load"), "all": wr.Collect("work")}),
            },
        )
        for name, window in WINDOWS.items()
    }
    found = collected({name: windowed(stream, query, disorder="150ms", uid=name) for name, query in queries.items()})
    for name, query in queries.items():
        assert in_order(found[name]) == in_order(oracle.evaluate(data, query)), name
        assert found[name], name
