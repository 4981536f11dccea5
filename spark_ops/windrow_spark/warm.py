# SPDX-License-Identifier: Apache-2.0
"""Small queries that load the kernels of common aggregates, so that workers which fork afterwards have them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pyarrow as pa

from windrow import Aggregate, Count, Max, Mean, Min, Operator, Query, Sum, TimeWindow
from windrow.kernels.compiling import NotCached, only_from_cache
from windrow.storage.pages import MemoryPages

__all__ = ["run_small_queries"]

SECOND = 1_000_000


def run_small_queries() -> None:
    """Rows, watermarks, a commit and the end of a stream; with text and with whole numbers as keys and values.

    An aggregate whose kernels are not in the cache is left out.
    """
    with only_from_cache():
        for key, value in ((pa.string(), pa.float64()), (pa.int64(), pa.int64())):
            rows = _rows(key, value)
            for aggregate in (Count(), Min("value"), Max("value"), Sum("value"), Mean("value")):
                with _left_out_if_not_cached():
                    _run(rows, aggregate)


@contextmanager
def _left_out_if_not_cached() -> Iterator[None]:
    """A kernel that is not cached may show as the cause of an error that names its aggregate."""
    try:
        yield
    except Exception as problem:
        if not isinstance(problem, NotCached) and not isinstance(problem.__cause__, NotCached):
            raise


def _rows(key: pa.DataType, value: pa.DataType) -> pa.Table:
    times = pa.array([second * SECOND for second in range(8)], pa.int64()).cast(pa.timestamp("us", "UTC"))
    keys = pa.array([0, 1] * 4).cast(key)
    return pa.table({"key": keys, "ts": times, "value": pa.array(range(8)).cast(value)})


def _run(rows: pa.Table, aggregate: Aggregate) -> None:
    query = Query(by="key", window=TimeWindow("4s", "1s"), aggregates={"result": aggregate})
    operator = Operator.open(query, rows.schema, MemoryPages())
    operator.process(rows)
    operator.advance(6 * SECOND)
    operator.commit()
    operator.flush()
