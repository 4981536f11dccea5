# SPDX-License-Identifier: Apache-2.0
"""The demo in this process."""

from __future__ import annotations

from pathlib import Path
from time import perf_counter

from pyarrow import parquet

from windrow.demo.scenario import QUERIES, Beat, Ran, Readings, Tell, each_load
from windrow.operator.operator import Operator

DELAY = 2_000_000  # microseconds behind the latest row
ENGINE = "the in-process engine"


def run(readings: Readings, output: Path, tell: Tell) -> Ran:
    """Stream the readings through both queries, and write their windows."""
    began = perf_counter()
    for name, query in QUERIES.items():
        (output / name).mkdir(parents=True, exist_ok=True)
        operator: Operator | None = None
        for number, rows in enumerate(each_load(readings)):
            started = perf_counter()
            if operator is None:
                operator = Operator(query, rows.schema)
            operator.process(rows)
            latest = int(query.bind(rows.schema).times(rows).max())
            windows = operator.advance(latest - DELAY)
            parquet.write_table(windows, output / name / f"windows-{number:02}.parquet")
            share = readings.rows * rows.num_rows // readings.loads
            tell(Beat(name, share, windows.num_rows, perf_counter() - started))
        assert operator is not None
        started = perf_counter()
        last = operator.flush()
        parquet.write_table(last, output / name / "windows-last.parquet")
        tell(Beat(name, 0, last.num_rows, perf_counter() - started, "the last windows"))
    return Ran(ENGINE, 0.0, perf_counter() - began)
