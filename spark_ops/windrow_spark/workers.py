# SPDX-License-Identifier: Apache-2.0
"""Workers that compute batches of windows. They have no state: any task can compute any batch."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import cache
from typing import Any

import pyarrow as pa

from windrow import Query
from windrow.operator.window_batches import WindowWorker
from windrow_spark.packing import unpacked_by


def computed(
    query: Query, schema: pa.Schema, late: pa.Schema | None
) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """The windows of the batches in the first column; with ``late``, also the late rows in the second one."""
    output = query.bind(schema).output_schema

    def windows(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        worker = _worker(query, schema)

        def read(batch: Any) -> pa.Table:
            return worker.windows(batch.as_py())

        return unpacked_by(read, output, late)(batches)

    return windows


@cache
def _worker(query: Query, schema: pa.Schema) -> WindowWorker:
    """One for all tasks of a process: it may have to compile functions."""
    return WindowWorker(query, schema)
