# SPDX-License-Identifier: Apache-2.0
"""Check that Spark starts here and runs Python: `python -m windrow_spark.probe` says so, or fails."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa

from windrow_spark.session import local_session


def main() -> None:
    with (
        tempfile.TemporaryDirectory() as folder,
        local_session("windrow probe", Path(folder), "local[1]") as spark,
    ):
        found = spark.range(3).mapInArrow(_same, "id long").count()
    assert found == 3, found
    print("Spark starts and runs Python")


def _same(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield from batches


if __name__ == "__main__":
    main()
