"""Rows from files and standard input, and windows to them: Parquet, CSV, JSON lines, Arrow.

Rows come batch by batch and windows go table by table, so neither has to fit in memory.
"""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Iterable, Iterator
from itertools import chain, islice
from pathlib import Path
from typing import Any, BinaryIO

import pyarrow as pa
from pyarrow import csv, dataset, parquet
from pyarrow import json as arrow_json

from windrow.cli.refusals import Refusal

__all__ = ["FORMATS", "STANDARD", "Rows", "Writer", "files_in", "format_of", "open_rows"]

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
LINES = 50_000  # lines of JSON that are read at once from standard input


def format_of(path: Path) -> str:
    """The format that the ending of a file's name tells."""
    try:
        return FORMATS[path.suffix.lower()]
    except KeyError:
        raise Refusal(
            f"{path}: the ending tells the format; use one of {', '.join(FORMATS)}, or say it with --format"
        ) from None


class Rows:
    """Batches of rows of one schema, and how many there are if that is known."""

    def __init__(
        self, schema: pa.Schema, batches: Iterable[pa.RecordBatch], total: int | None = None
    ) -> None:
        self.schema, self.total = schema, total
        self._batches = batches

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        return iter(self._batches)


def files_in(folder: Path) -> list[Path]:
    """The files of a folder that are data, in order of their names; not those being written."""
    found = sorted(
        path
        for path in folder.iterdir()
        if path.is_file() and not path.name.startswith((".", "_")) and path.suffix.lower() in FORMATS
    )
    return found


def open_rows(source: str, form: str | None = None) -> Rows:
    """The rows of a file, of all files of a folder, or of standard input (`-`)."""
    if source == STANDARD:
        return _refusing(
            "standard input", form or "csv", lambda: _standard_rows(sys.stdin.buffer, form or "csv")
        )
    path = Path(source)
    if not path.exists():
        raise Refusal(f"{path} does not exist")
    if not path.is_dir():
        return _file_rows([path], form or format_of(path))
    files = files_in(path)
    if not files:
        raise Refusal(f"{path} has no data file; expected names that end in {', '.join(FORMATS)}")
    forms = {form or format_of(each) for each in files}
    if len(forms) > 1:
        raise Refusal(
            f"{path} has files of several formats ({', '.join(sorted(forms))}); put each in its own folder"
        )
    return _file_rows(files, forms.pop())


def _file_rows(files: list[Path], form: str) -> Rows:
    shown = str(files[0]) if len(files) == 1 else f"{files[0].parent}/"

    def opened() -> Rows:
        if form == "arrow" and any(_is_stream(path) for path in files):
            first = pa.ipc.open_stream(pa.memory_map(str(files[0])))
            rest = (pa.ipc.open_stream(pa.memory_map(str(path))) for path in files[1:])
            return Rows(first.schema, chain(first, chain.from_iterable(rest)))
        kind = {"jsonl": "json", "arrow": "ipc"}.get(form, form)
        found = dataset.dataset([str(path) for path in files], format=kind)
        total = found.count_rows() if form in ("parquet", "arrow") else None
        return Rows(found.schema, found.to_batches(fragment_readahead=1, batch_readahead=4), total)

    return _refusing(shown, form, opened)


def _refusing(shown: str, form: str, opened: Any) -> Rows:
    """Rows whose errors of reading name the file, when it is opened and while it is read."""

    def refusal(error: Exception) -> Refusal:
        return Refusal(f"{shown} cannot be read as {NAMES[form]}: {error}")

    try:
        rows: Rows = opened()
    except (pa.ArrowException, OSError) as error:
        raise refusal(error) from error

    def batches() -> Iterator[pa.RecordBatch]:
        try:
            yield from rows
        except (pa.ArrowException, OSError) as error:
            raise refusal(error) from error

    return Rows(rows.schema, batches(), rows.total)


def _is_stream(path: Path) -> bool:
    """Whether an Arrow file has the stream format; the file format begins with its name."""
    with path.open("rb") as file:
        return file.read(6) != b"ARROW1"


def _standard_rows(stream: BinaryIO, form: str) -> Rows:
    if form == "csv":
        opened = csv.open_csv(stream)
        return Rows(opened.schema, opened)
    if form == "arrow":
        opened = pa.ipc.open_stream(stream)
        return Rows(opened.schema, opened)
    if form == "parquet":  # its index is at the end, so there is no reading it piece by piece
        whole = parquet.read_table(pa.BufferReader(stream.read()))
        return Rows(whole.schema, whole.to_batches(), whole.num_rows)
    first = _json_lines(stream, None)
    if first is None:
        raise pa.ArrowInvalid("there is no line")

    def rest() -> Iterator[pa.RecordBatch]:
        while (table := _json_lines(stream, first.schema)) is not None:
            yield from table.to_batches()

    return Rows(first.schema, chain(first.to_batches(), rest()))


def _json_lines(stream: BinaryIO, schema: pa.Schema | None) -> pa.Table | None:
    text = b"".join(islice(stream, LINES))
    options = (
        arrow_json.ParseOptions(explicit_schema=schema, unexpected_field_behavior="ignore")
        if schema
        else None
    )
    return arrow_json.read_json(io.BytesIO(text), parse_options=options) if text.strip() else None


class Writer:
    """Windows to a file, to a folder of Parquet files, or to standard output; complete, or not there.

    A file is written under another name, and gets its own when all is well. A folder (a path that is one, or
    that ends with a slash) gets a file for each table, whose name begins with what it holds.
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
        self._partial: Path | None = None
        self._sink: Any = None

    def __enter__(self) -> Writer:
        try:
            if self.folder:
                self.path.mkdir(parents=True, exist_ok=True)
                if any(self.path.glob(f"{self.holds}-*")):
                    raise Refusal(
                        f"{self.target} has {self.holds} of an earlier run; remove them, or choose another folder"
                    )
            elif self.target == STANDARD:
                self._sink = _Sink(sys.stdout.buffer, self.form, self.schema, streamed=True)
            else:
                self._partial = self.path.with_name(f".{self.path.name}.partial")
                self._sink = _Sink(self._partial.open("wb"), self.form, self.schema, streamed=False)
        except (pa.ArrowException, OSError) as error:
            raise self._refusal(error) from error
        return self

    def write(self, windows: pa.Table) -> None:
        if not windows.num_rows:
            return
        try:
            if self.folder:
                parquet.write_table(windows, self.path / f"{self.holds}-{self._files:06}.parquet")
                self._files += 1
            else:
                self._sink.write(windows)
        except BrokenPipeError:
            raise SystemExit(0) from None  # whoever read us has seen enough
        except (pa.ArrowException, OSError) as error:
            raise self._refusal(error) from error
        self.written += windows.num_rows

    def __exit__(self, kind: object, *_: object) -> None:
        if self._sink is not None:
            self._sink.close()
        if self._partial is not None:
            if kind is None:
                self._partial.replace(self.path)
            else:
                self._partial.unlink(missing_ok=True)

    def _refusal(self, error: Exception) -> Refusal:
        return Refusal(f"{self.target} cannot be written as {NAMES[self.form]}: {error}")


class _Sink:
    """An open file that takes tables in one of the formats."""

    def __init__(self, file: Any, form: str, schema: pa.Schema, *, streamed: bool) -> None:
        self.file, self.form, self.standard = file, form, streamed
        self.writer: Any = None
        if form == "parquet":
            self.writer = parquet.ParquetWriter(file, schema)
        elif form == "csv":
            self.writer = csv.CSVWriter(file, schema)
        elif form == "arrow":
            self.writer = (pa.ipc.new_stream if streamed else pa.ipc.new_file)(file, schema)

    def write(self, windows: pa.Table) -> None:
        if self.writer is not None:
            self.writer.write_table(windows)
        else:
            for row in windows.to_pylist():
                self.file.write(json.dumps(row, default=plain).encode() + b"\n")
        if self.standard:
            self.file.flush()

    def close(self) -> None:
        if self.writer is not None:
            self.writer.close()
        if self.standard:
            self.file.flush()
        else:
            self.file.close()


def plain(value: Any) -> Any:
    """A value as JSON can hold it: times in ISO form, bytes in hexadecimal, anything else as its text."""
    if isinstance(value, bytes):
        return value.hex()
    return value.isoformat() if hasattr(value, "isoformat") else str(value)
