# SPDX-License-Identifier: Apache-2.0
"""Rows from files and standard input, and windows to them: Parquet, CSV, JSON lines, Arrow.

Rows come batch by batch and windows go table by table, so neither has to fit in memory.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO

import pyarrow as pa
from pyarrow import csv, parquet

from windrow.cli.arrow_rows import arrow_rows
from windrow.cli.csv_rows import OddValue, csv_rows, csv_stream, empty_value
from windrow.cli.json_lines import json_rows, line_without
from windrow.cli.parquet_rows import parquet_rows
from windrow.cli.refusals import Refusal
from windrow.memory import half_of_memory

__all__ = ["FORMATS", "STANDARD", "RowSource", "Writer", "files_in", "format_of", "open_rows"]

FORMATS = {
    ".parquet": "parquet",
    ".csv": "csv",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".arrow": "arrow",
    ".feather": "arrow",
    ".ipc": "arrow",
}
NAMES = {"parquet": "Parquet", "csv": "CSV", "jsonl": "JSON lines", "arrow": "Arrow"}
STANDARD = "-"
UNREADABLE = (pa.ArrowException, OSError, UnicodeDecodeError)
"""What Arrow raises for a file that it cannot read; the last if the name of a column is no text."""


def format_of(path: Path) -> str:
    """The format of a file, by the ending of its name."""
    try:
        return FORMATS[path.suffix.lower()]
    except KeyError:
        raise Refusal(
            f"{path}: the format of a file follows from its ending; use one of {', '.join(FORMATS)}, or give --format"
        ) from None


class RowSource:
    """Batches of rows of one schema, and how many there are if that is known.

    ``odd`` takes the name of a text column, and returns the value because of which it is text and not numbers, if there is one.
    ``null`` takes the name of a column, and returns the file and line of its first null, if that can be found.
    """

    def __init__(
        self,
        schema: pa.Schema,
        batches: Iterable[pa.RecordBatch],
        total: int | None = None,
        odd: Callable[[str], OddValue | None] = lambda column: None,
        null: Callable[[str], str] = lambda column: "",
    ) -> None:
        self.schema, self.total, self.odd, self.null = schema, total, odd, null
        self._batches = batches

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        return iter(self._batches)


def files_in(folder: Path) -> list[Path]:
    """The data files of a folder, in order of their names; files that are being written are left out."""
    found = sorted(
        path
        for path in folder.iterdir()
        if path.is_file() and not path.name.startswith((".", "_")) and path.suffix.lower() in FORMATS
    )
    return found


def open_rows(source: str, form: str | None = None, memory: int | None = None) -> RowSource:
    """The rows of a file, of all files of a folder, or of standard input (`-`).

    ``memory`` is how many bytes a column may take that has to be in memory as a whole; half of what is available, if it is
    not given. Parquet that declares more is refused.
    """
    memory = half_of_memory() if memory is None else memory
    if source == STANDARD:
        return _refusing(
            "standard input", form or "csv", lambda: _standard_rows(sys.stdin.buffer, form or "csv", memory)
        )
    path = Path(source)
    if not path.exists():
        raise Refusal(f"{path} does not exist")
    if not path.is_dir():
        return _file_rows([path], form or format_of(path), memory)
    files = files_in(path)
    if not files:
        raise Refusal(f"{path} has no data file; expected names that end in {', '.join(FORMATS)}")
    forms = {form or format_of(each) for each in files}
    if len(forms) > 1:
        raise Refusal(
            f"{path} has files of several formats ({', '.join(sorted(forms))}); put each in its own folder"
        )
    return _file_rows(files, forms.pop(), memory)


def _file_rows(files: list[Path], form: str, memory: int) -> RowSource:
    shown = str(files[0]) if len(files) == 1 else f"{files[0].parent}/"

    def opened() -> RowSource:
        if form == "arrow":
            return RowSource(*arrow_rows(files))
        if form == "parquet":
            return RowSource(*parquet_rows(files, memory))
        if form == "jsonl":
            return RowSource(*json_rows(_json_files(files)), null=lambda column: line_without(files, column))
        schema, batches, odd = csv_rows(files, shown)
        return RowSource(schema, batches, odd=odd, null=lambda column: empty_value(files, column))

    if len(files) == 1 and not files[0].stat().st_size:
        raise Refusal(f"{shown} is empty; expected {NAMES[form]}")
    return _refusing(shown, form, opened)


def _refusing(shown: str, form: str, opened: Any) -> RowSource:
    """Rows whose reading errors name the file, when it is opened and while it is read."""

    def refusal(error: Exception) -> Refusal:
        return Refusal(f"{shown} cannot be read as {NAMES[form]}: {error}")

    try:
        rows: RowSource = opened()
    except UNREADABLE as error:
        raise refusal(error) from error

    def batches() -> Iterator[pa.RecordBatch]:
        try:
            for batch in rows:
                batch.validate(
                    full=True
                )  # Arrow reads offsets that point anywhere, and text that is not UTF-8
                yield batch
        except UNREADABLE as error:
            raise refusal(error) from error

    return RowSource(rows.schema, batches(), rows.total, rows.odd, rows.null)


def _json_files(files: list[Path]) -> Iterator[tuple[str, BinaryIO]]:
    """Files of JSON lines, one open at a time. In a folder, errors name the file."""
    for path in files:
        with path.open("rb") as file:
            yield "" if len(files) == 1 else f"{path.name}, ", file


def _standard_rows(stream: BinaryIO, form: str, memory: int) -> RowSource:
    if form == "csv":
        schema, batches, odd = csv_stream(stream)
        return RowSource(schema, batches, odd=odd)
    if form == "arrow":
        opened = pa.ipc.open_stream(stream)
        return RowSource(opened.schema, opened)
    if form == "parquet":  # its index is at the end, so it cannot be read piece by piece
        return RowSource(*parquet_rows([pa.BufferReader(stream.read())], memory))
    return RowSource(*json_rows([("", stream)]))


class Writer:
    """Windows to a file, to a folder of Parquet files, or to standard output.

    A file is written under another name in the same folder, and gets its own name when it is complete. If the run is refused,
    nothing is left of it, and a file that had this name before is as it was. A folder (a path that is one, or that ends
    with a slash) gets a file for each table, in the same way. Its name begins with what it holds. If the run is refused, the
    files that are there are complete. Standard output has what was written before.
    """

    def __init__(
        self, target: str, schema: pa.Schema, form: str | None = None, holds: str = "windows"
    ) -> None:
        self.target, self.schema, self.holds, self.written = target, schema, holds, 0
        self.folder = target != STANDARD and (target.endswith("/") or Path(target).is_dir())
        self.path = Path(target)
        self.form = form or (
            "csv" if target == STANDARD else "parquet" if self.folder else format_of(self.path)
        )
        self._files = 0
        self._sink: _Sink | None = None

    def __enter__(self) -> Writer:
        try:
            if self.folder:
                self.path.mkdir(parents=True, exist_ok=True)
                if any(self.path.glob(f"{self.holds}-*")):
                    raise Refusal(
                        f"{self.target} has {self.holds} of an earlier run; remove them, or choose another folder"
                    )
            else:
                path = None if self.target == STANDARD else self.path
                if path is not None and not path.parent.is_dir():
                    raise FileNotFoundError(f"there is no folder {path.parent}; create it first")
                self._sink = _Sink(path, self.form, self.schema)
        except (pa.ArrowException, OSError) as error:
            raise self._refusal(error) from error
        return self

    def write(self, windows: pa.Table) -> None:
        if not windows.num_rows:
            return
        try:
            if self._sink is None:
                path = self.path / f"{self.holds}-{self._files:06}.parquet"
                sink = _Sink(path, "parquet", windows.schema)
                try:
                    sink.write(windows)
                except BaseException:
                    sink.discard()
                    raise
                sink.close()
                self._files += 1
            else:
                self._sink.write(windows)
        except BrokenPipeError:
            raise SystemExit(0) from None  # the reader has closed the pipe
        except (pa.ArrowException, OSError) as error:
            raise self._refusal(error) from error
        self.written += windows.num_rows

    def __exit__(self, kind: object, *_: object) -> None:
        if self._sink is None:
            return
        if kind is not None:
            self._sink.discard()
            return
        try:
            self._sink.close()
        except (pa.ArrowException, OSError) as error:
            raise self._refusal(error) from error

    def _refusal(self, error: Exception) -> Refusal:
        return Refusal(f"{self.target} cannot be written as {NAMES[self.form]}: {error}")


class _Sink:
    """A file, or standard output, that takes tables in one of the formats.

    A file has another name until :meth:`close`. If anything goes wrong before, or at :meth:`discard`, it is removed.
    """

    def __init__(self, path: Path | None, form: str, schema: pa.Schema) -> None:
        self.path, self.form = path, form
        self.partial = None if path is None else path.with_name(f".{path.name}.partial")
        self.file: Any = sys.stdout.buffer if self.partial is None else self.partial.open("wb")
        self.writer: Any = None
        try:
            self.writer = self._writer(schema)
        except BaseException:
            self.discard()
            raise

    def _writer(self, schema: pa.Schema) -> Any:
        if self.form == "parquet":
            return parquet.ParquetWriter(self.file, schema)
        if self.form == "csv":
            return csv.CSVWriter(self.file, schema)
        if self.form == "arrow":
            return (pa.ipc.new_stream if self.path is None else pa.ipc.new_file)(self.file, schema)
        return None

    def write(self, windows: pa.Table) -> None:
        if self.writer is not None:
            self.writer.write_table(windows)
        else:
            for row in windows.to_pylist():
                self.file.write(json.dumps(row, default=plain).encode() + b"\n")
        if self.partial is None:
            self.file.flush()

    def close(self) -> None:
        """The file is complete, and gets its name."""
        try:
            if self.writer is not None:
                self.writer.close()
            self.file.flush() if self.partial is None else self.file.close()
        except BaseException:
            self.discard()
            raise
        if self.partial is not None and self.path is not None:
            self.partial.replace(self.path)

    def discard(self) -> None:
        """Remove the file. Standard output keeps what it has."""
        if self.partial is not None:
            with suppress(Exception):  # it may be what went wrong before
                if self.writer is not None:
                    self.writer.close()
            self.file.close()
            self.partial.unlink(missing_ok=True)


def plain(value: Any) -> Any:
    """A value as JSON can hold it: times in ISO form, bytes in hexadecimal, anything else as its text."""
    if isinstance(value, bytes):
        return value.hex()
    return value.isoformat() if hasattr(value, "isoformat") else str(value)
