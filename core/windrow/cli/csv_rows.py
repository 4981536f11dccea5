# SPDX-License-Identifier: Apache-2.0
"""Rows from CSV. An error names the file, the line, the column and the value.

Arrow takes the types of the columns from the first megabyte. One word among the numbers there makes its column text, and
does no harm until a query needs the numbers. So text columns that a query reads are looked at: see `odd_value`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from csv import Error as CsvError
from csv import reader as lines_of
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import BinaryIO

import pyarrow as pa
from pyarrow import csv, dataset

from windrow.cli.refusals import Refusal

__all__ = ["NULL", "OddValue", "csv_rows", "csv_stream", "empty_value"]

BLOCK = 1 << 20
"""So many bytes decide the types: Arrow's default."""
NULL = "or leave the value empty: then it is null"
NULLS = frozenset(csv.ConvertOptions().null_values)
"""What Arrow reads as null in a column of numbers or times. In a column of text it is text."""


@dataclass(frozen=True)
class OddValue:
    """A value that is no number (or no time), in a column that holds them otherwise and is text because of it."""

    place: str
    column: str
    value: str
    type: pa.DataType
    """What the column would be without such values."""
    odd: int
    total: int
    """So many of the first values are like it, of so many that are not null."""

    def __str__(self) -> str:
        kind = "times" if pa.types.is_timestamp(self.type) else "numbers"
        more = f" Of its first {self.total:,} values, {self.odd:,} are like that." if self.odd > 1 else ""
        return (
            f"{self.place}: {self.column!r} is {self.value!r}, and most values of that column are {kind}; because of it "
            f"the whole column is read as text.{more}"
        )


Find = Callable[[str], OddValue | None]


def csv_rows(files: list[Path], shown: str) -> tuple[pa.Schema, Iterator[pa.RecordBatch], Find]:
    """The columns of the first file, the rows of all files, and `odd_value` for a column of that file."""
    with _explained(files):
        found = dataset.dataset([str(path) for path in files], format="csv")
        names = _names(found, shown)

    def batches() -> Iterator[pa.RecordBatch]:
        with _explained(files, names):
            yield from found.to_batches(fragment_readahead=1, batch_readahead=4)

    def find(column: str) -> OddValue | None:
        with files[0].open("rb") as file:
            block = file.read(BLOCK)
        whole = block if len(block) < BLOCK else block[: block.rfind(b"\n") + 1] or block
        with _explained(files[:1]):
            first = csv.read_csv(pa.BufferReader(whole), csv.ReadOptions(use_threads=False))
        return odd_value(first, column, lambda index, value: _place(files[0], index, value))

    return found.schema, batches(), find


def _names(found: dataset.Dataset, shown: str) -> list[str]:
    """The columns. CSV without rows, which has no types, is refused, and CSV that other marks than commas separate."""
    try:
        names: list[str] = found.schema.names
    except UnicodeDecodeError as error:
        raise Refusal(f"{shown} cannot be read as CSV: its header is not UTF-8 ({error})") from None
    marks = [mark for mark in (";", "\t", "|") if len(names) == 1 and mark in names[0]]
    if marks:
        raise Refusal(
            f"{shown} has one column, {names[0]!r}: its columns seem to be separated by {marks[0]!r}; expected commas"
        )
    if all(pa.types.is_null(type_) for type_ in found.schema.types) and not found.count_rows():
        raise Refusal(f"{shown} has a header and no rows, so its columns have no types")
    return names


def csv_stream(stream: BinaryIO) -> tuple[pa.Schema, Iterator[pa.RecordBatch], Find]:
    """The same for a stream, which cannot be read again to count lines: places are numbers of rows."""
    opened = csv.open_csv(stream)
    first = next(iter(opened), None)

    def batches() -> Iterator[pa.RecordBatch]:
        if first is not None:
            yield first
        yield from opened

    def find(column: str) -> OddValue | None:
        if first is None:
            return None
        return odd_value(first, column, lambda index, value: _row_of(first, column, value))

    return opened.schema, batches(), find


def odd_value(
    rows: pa.Table | pa.RecordBatch, column: str, place: Callable[[int, str], str]
) -> OddValue | None:
    """The first value of a text column that is no number or no time, if at least half of its values are one.

    Values that are null in a column of numbers do not count.

    >>> rows = pa.record_batch({"load": ["1", "", "2.5", "off", None]})
    >>> odd = odd_value(rows, "load", lambda index, value: "plugs.csv, line 4")
    >>> odd.value, str(odd.type), odd.odd, odd.total
    ('off', 'double', 1, 3)
    """
    index = rows.schema.get_field_index(column)
    if index < 0 or not pa.types.is_string(rows.schema.types[index]):
        return None
    counted = rows.column(index).drop_null().value_counts()
    pairs = zip(counted.field(0).to_pylist(), counted.field(1).to_pylist(), strict=True)
    counts = {value: count for value, count in pairs if value not in NULLS}
    total = sum(counts.values())
    for type_, reads in (
        (pa.int64(), int),
        (pa.float64(), float),
        (pa.timestamp("us"), datetime.fromisoformat),
    ):
        odd = [value for value in counts if not _can_be(value, reads)]
        if odd and 2 * sum(counts[value] for value in odd) <= total:
            return OddValue(
                place(index, odd[0]), column, odd[0], type_, sum(counts[value] for value in odd), total
            )
    return None


def empty_value(files: list[Path], column: str) -> str:
    """The file and line of the first value of a column that is null; empty if there is none."""
    for path in files:
        with path.open(encoding="utf-8-sig", newline="") as file:
            names = next(lines_of(file), [])
        if column in names and (line := _line(path, _empty(names.index(column)))[1]):
            return f"{path}, line {line}"
    return ""


def _can_be(value: str, reads: Callable[[str], object]) -> bool:
    try:
        reads(value)
    except ValueError:
        return False
    return True


def _place(path: Path, index: int, value: str) -> str:
    _, line = _line(path, _has(index, value))
    return f"{path}, line {line}" if line else str(path)


def _row_of(rows: pa.RecordBatch, column: str, value: str) -> str:
    return f"standard input, row {rows.column(column).index(value).as_py() + 1}"


def _line(path: Path, wanted: Callable[[list[str]], bool]) -> tuple[int, int]:
    """Where the first row after the header whose fields are wanted begins and ends: numbers of lines; 0 if there is none.

    They differ if a text in quotes goes over lines.
    """
    try:
        with path.open(encoding="utf-8", newline="") as file:
            lines = lines_of(file)
            next(lines, None)
            before = lines.line_num
            for fields in lines:
                if fields and wanted(fields):
                    return before + 1, lines.line_num
                before = lines.line_num
    except (UnicodeDecodeError, CsvError):
        pass
    return 0, 0


def _open_quote(path: Path) -> int:
    """The line in which the row begins that goes over most lines; 0 if every row has one line."""
    began, most, before = 0, 1, 0
    with path.open(encoding="utf-8", errors="replace", newline="") as file:
        lines = lines_of(file)
        try:
            for _ in lines:
                if lines.line_num - before > most:
                    began, most = before + 1, lines.line_num - before
                before = lines.line_num
        except CsvError:  # a text is longer than the reader allows
            return before + 1
    return began


@contextmanager
def _explained(files: list[Path], names: Sequence[str] = ()) -> Iterator[None]:
    """Refuse what Arrow cannot read by the line that is wrong, if it can be found; otherwise Arrow's error passes."""
    try:
        yield
    except pa.ArrowInvalid as error:
        message = _wrong_line(str(error), files, names)
        if not message:
            raise
        raise Refusal(message) from error


def _wrong_line(message: str, files: list[Path], names: Sequence[str]) -> str:
    if wrong := re.search(r"Expected (\d+) columns, got (\d+)", message):
        expected, got = int(wrong[1]), int(wrong[2])
        for path in files:
            began, line = _line(path, lambda fields: len(fields) == got)
            if began < line:
                return (
                    f"{path}, line {line} has {got} columns, and the header has {expected}: a quote that is opened on line "
                    f"{began} is not closed there; close it, or remove it"
                )
            if line:
                return (
                    f"{path}, line {line} has {got} columns, and the header has {expected}; "
                    f"correct the line or remove it. A text that contains a comma needs quotes"
                )
    if wrong or "out of sync with chunker" in message:
        for path in files:
            if line := _open_quote(path):
                return f"{path}, line {line}: a quote is opened there and not closed; close it, or remove it"
    if wrong := re.search(
        r"In CSV column #(\d+):.*conversion error to ([^:]+): invalid value '(.*)'", message, re.S
    ):
        index, kind, value = int(wrong[1]), wrong[2], wrong[3]
        for path in files:
            if index < len(names) and (line := _line(path, _has(index, value))[1]):
                return (
                    f"{path}, line {line}: {names[index]!r} is {value!r}, and the first lines have {kind} there; "
                    f"correct it, {NULL}"
                )
    return ""


def _empty(index: int) -> Callable[[list[str]], bool]:
    return lambda fields: len(fields) > index and fields[index] in NULLS


def _has(index: int, value: str) -> Callable[[list[str]], bool]:
    return lambda fields: len(fields) > index and fields[index] == value
