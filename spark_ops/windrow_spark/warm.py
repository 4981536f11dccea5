"""Small queries that load the kernels of common aggregates, so that workers which fork afterwards have them."""

from __future__ import annotations

import pyarrow as pa

from windrow import Count, Max, Mean, Min, Operator, Query, Sum, TimeWindow
from windrow.storage.pages import MemoryPages

__all__ = ["run_small_queries"]

SECOND = 1_000_000


def run_small_queries() -> None:
    """Rows, watermarks, a commit and the end of a stream; with text and with whole numbers as keys and values."""
    for key, value in ((pa.string(), pa.float64()), (pa.int64(), pa.int64())):
        _run(_rows(key, value))


def _rows(key: pa.DataType, value: pa.DataType) -> pa.Table:
    times = pa.array([second * SECOND for second in range(8)], pa.int64()).cast(pa.timestamp("us", "UTC"))
    keys = pa.array([0, 1] * 4).cast(key)
    return pa.table({"key": keys, "ts": times, "value": pa.array(range(8)).cast(value)})


def _run(rows: pa.Table) -> None:
    aggregates = {
        "n": Count(),
        "low": Min("value"),
        "high": Max("value"),
        "total": Sum("value"),
        "mean": Mean("value"),
    }
    query = Query(by="key", window=TimeWindow("4s", "1s"), aggregates=aggregates)
    operator = Operator.open(query, rows.schema, MemoryPages())
    operator.process(rows)
    operator.advance(6 * SECOND)
    operator.commit()
    operator.flush()
