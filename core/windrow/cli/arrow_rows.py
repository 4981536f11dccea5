# SPDX-License-Identifier: Apache-2.0
"""Rows from Arrow files, each in the file format or in the stream format.

They are read by Arrow's own readers of these formats, not as a dataset: a damaged file of the file format can end the process
when a dataset reads it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from windrow.cli.parquet_rows import with_columns

__all__ = ["arrow_rows"]

MAGIC = b"ARROW1"
"""The file format begins with its name, the stream format does not."""


def arrow_rows(files: Sequence[Path]) -> tuple[pa.Schema, Iterator[pa.RecordBatch]]:
    """The columns of the first file, and the rows of all files with these columns; one that a later file lacks is null there."""
    schema = _opened(files[0]).schema

    def batches() -> Iterator[pa.RecordBatch]:
        for path in files:
            for batch in _batches(_opened(path)):
                batch.validate(full=True)  # before anything is made of it
                yield with_columns(batch, schema)

    return schema, batches()


def _opened(path: Path) -> Any:
    mapped = pa.memory_map(str(path))
    with path.open("rb") as file:
        is_file = file.read(len(MAGIC)) == MAGIC
    return pa.ipc.open_file(mapped) if is_file else pa.ipc.open_stream(mapped)


def _batches(reader: Any) -> Iterator[pa.RecordBatch]:
    if isinstance(reader, pa.RecordBatchFileReader):
        return (reader.get_batch(number) for number in range(reader.num_record_batches))
    return iter(reader)
