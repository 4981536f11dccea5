# SPDX-License-Identifier: Apache-2.0
"""Rows from Parquet files in batches of bounded size, whatever the files say.

A few kilobytes of Parquet can stand for any amount of memory: a page that was compressed well, or a long text that a
dictionary holds once and a million rows repeat. What is declared about a column is checked before it is read. Texts are
read as dictionaries, and repeated only as many rows at a time as fit.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import parquet

from windrow.cli.parquet_footer import contradiction
from windrow.cli.refusals import Refusal
from windrow.memory import format_bytes

__all__ = ["parquet_rows", "with_columns"]

ROWS = 1 << 16
"""So many rows are read at a time, if they are not large."""
PIECE = 1 << 28
"""So many bytes are read at a time, if --memory allows them."""
WIDTHS = {"BOOLEAN": 1, "INT32": 4, "INT64": 8, "INT96": 12, "FLOAT": 4, "DOUBLE": 8, "BYTE_ARRAY": 8}
DICTIONARIES = {"PLAIN_DICTIONARY", "RLE_DICTIONARY"}


def parquet_rows(
    files: Sequence[Path | pa.BufferReader], memory: int
) -> tuple[pa.Schema, Iterator[pa.RecordBatch], int]:
    """The columns of the first file, the rows of all files with these columns, and their number.

    A column that a later file does not have is null there. A file is refused if a column of one of its row groups takes
    more than ``memory`` bytes when it is not compressed.
    """
    declared = [_declared(file) for file in files]
    schema = declared[0].schema
    for each in declared:
        _check(each, memory)

    def batches() -> Iterator[pa.RecordBatch]:
        for each in declared:
            for batch in _batches(each, min(PIECE, max(memory // 8, 1))):
                yield with_columns(batch, schema)

    return schema, batches(), sum(each.metadata.num_rows for each in declared)


class _Declared(NamedTuple):
    """What a file says about itself."""

    file: Path | pa.BufferReader
    metadata: Any
    schema: pa.Schema


def _declared(file: Path | pa.BufferReader) -> _Declared:
    with parquet.ParquetFile(file) as opened:
        if told := contradiction(_tail(file, opened.metadata.serialized_size), opened.metadata.schema):
            raise Refusal(f"{_name(file)} cannot be read as Parquet: {told}")
        return _Declared(file, opened.metadata, opened.schema_arrow)


def _tail(file: Path | pa.BufferReader, footer: int) -> bytes:
    """The end of a file, with its footer."""
    with pa.OSFile(str(file)) if isinstance(file, Path) else nullcontext(file) as opened:
        size: int = opened.size()
        return bytes(opened.read_at(min(size, footer + 8), max(0, size - footer - 8)))


def _name(file: Path | pa.BufferReader) -> str:
    return str(file) if isinstance(file, Path) else "standard input"


def _check(declared: _Declared, memory: int) -> None:
    metadata = declared.metadata
    for group in range(metadata.num_row_groups):
        for position in range(metadata.num_columns):
            column = metadata.row_group(group).column(position)
            size = column.total_uncompressed_size
            if metadata.schema.column(position).max_repetition_level:  # a row may have any number of values
                size = max(size, column.num_values * _width(metadata.schema.column(position)))
            if size > memory:
                raise Refusal(
                    f"{_name(declared.file)}: column {column.path_in_schema!r} takes {format_bytes(size)} in row group {group}, and "
                    f"--memory allows {format_bytes(memory)}; raise it, or write the file with smaller row groups"
                )


def _batches(declared: _Declared, piece: int) -> Iterator[pa.RecordBatch]:
    texts, largest = _texts(declared.metadata, declared.schema)
    with parquet.ParquetFile(
        declared.file,
        metadata=declared.metadata,
        read_dictionary=texts,
        pre_buffer=False,
        buffer_size=1 << 20,
    ) as reader:
        for batch in reader.iter_batches(batch_size=min(ROWS, max(1, piece // max(largest, 1)))):
            for part in _parts(batch, piece):
                yield with_columns(part, declared.schema)


def _texts(metadata: Any, schema: pa.Schema) -> tuple[list[str], int]:
    """The texts that a dictionary may repeat, and how many bytes the other columns of one row may take."""
    names = {field.name for field in schema if _is_text(field.type)}
    texts, largest = set(), 0
    for position in range(metadata.num_columns):
        column = metadata.schema.column(position)
        chunks = [metadata.row_group(group).column(position) for group in range(metadata.num_row_groups)]
        encodings = {encoding for chunk in chunks for encoding in chunk.encodings}
        if column.physical_type != "BYTE_ARRAY":
            largest += _width(column)
        elif column.path in names and encodings & DICTIONARIES:
            texts.add(column.path)
        elif (
            column.path not in names or "DELTA_BYTE_ARRAY" in encodings
        ):  # a value may repeat what is before it
            largest += max((chunk.total_uncompressed_size for chunk in chunks), default=0)
    return sorted(texts), largest


def _parts(batch: pa.RecordBatch, piece: int) -> Iterator[pa.RecordBatch]:
    """The rows of a batch, as many at a time as take about so many bytes once dictionaries are repeated."""
    sizes = np.zeros(batch.num_rows, dtype=np.int64)
    for column in batch.columns:
        if pa.types.is_dictionary(column.type) and _is_text(column.type):
            lengths = pc.binary_length(column.dictionary)
            sizes += np.asarray(pc.take(lengths, column.indices).fill_null(0), dtype=np.int64)
    ends, begin = np.cumsum(sizes), 0
    while begin < batch.num_rows:
        before = ends[begin - 1] if begin else 0
        end = max(begin + 1, int(np.searchsorted(ends, before + piece, side="right")))
        yield batch.slice(begin, end - begin)
        begin = end


def _is_text(kind: pa.DataType) -> bool:
    """Whether values are texts or bytes, with or without a dictionary."""
    kind = kind.value_type if pa.types.is_dictionary(kind) else kind
    tests = (pa.types.is_string, pa.types.is_large_string, pa.types.is_binary, pa.types.is_large_binary)
    return any(test(kind) for test in tests)


def with_columns(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """The batch with the columns of a schema."""
    if batch.schema.equals(schema):
        return batch
    columns = [
        _cast(batch.column(field.name), field.type)
        if field.name in batch.schema.names
        else pa.nulls(batch.num_rows, field.type)
        for field in schema
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _cast(column: pa.Array, kind: pa.DataType) -> pa.Array:
    if pa.types.is_dictionary(column.type) and not pa.types.is_dictionary(kind):
        column = column.dictionary_decode()
    return column.cast(kind)


def _width(column: Any) -> int:
    return WIDTHS.get(column.physical_type, max(column.length, 1))
