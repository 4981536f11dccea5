# SPDX-License-Identifier: Apache-2.0
"""Rows from JSON lines, some lines at a time. A line that cannot be read is named in the error.

``NaN``, ``Infinity`` and ``-Infinity`` are numbers here, as in Python and in what `windrow run` writes.
"""

from __future__ import annotations

import io
import json
import math
import re
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO

import pyarrow as pa
from pyarrow import json as arrow_json

__all__ = ["json_rows", "line_without"]

LINES = 50_000
"""So many lines are read at once. The first of them decide the types of the columns."""

Stream = tuple[str, BinaryIO]
"""What to call it in errors, and the lines."""


def json_rows(streams: Iterable[Stream]) -> tuple[pa.Schema, Iterator[pa.RecordBatch]]:
    """The columns of the first lines, and the rows of all lines, with these columns."""
    tables = _tables(streams)
    first = next(tables, None)
    if first is None:
        raise pa.ArrowInvalid("there is no line")

    def batches() -> Iterator[pa.RecordBatch]:
        yield from first.to_batches()
        for table in tables:
            yield from table.to_batches()

    return first.schema, batches()


def line_without(files: Iterable[Path], column: str) -> str:
    """The file and line of the first row in which a column is null or missing; empty if there is none."""
    for path in files:
        with path.open("rb") as file:
            for number, line in enumerate(file, 1):
                if line.strip() and json.loads(line).get(column) is None:
                    return f"{path}, line {number}"
    return ""


def _tables(streams: Iterable[Stream]) -> Iterator[pa.Table]:
    schema: pa.Schema | None = None
    for name, stream in streams:
        number = 1
        while lines := list(islice(stream, LINES)):
            if any(map(bytes.strip, lines)):
                table = _read(lines, schema, number, name)
                schema = table.schema
                yield table
            number += len(lines)


def _read(lines: list[bytes], schema: pa.Schema | None, number: int, name: str) -> pa.Table:
    options = arrow_json.ParseOptions(explicit_schema=schema, unexpected_field_behavior="ignore")
    if any(line.lstrip().startswith(b"null") for line in lines):  # Arrow crashes if the first value is null
        raise pa.ArrowInvalid(f"{name}{_wrong_line(lines, schema, number)}")
    try:
        return arrow_json.read_json(io.BytesIO(b"".join(lines)), parse_options=options if schema else None)
    except pa.ArrowInvalid as error:
        found = _wrong_line(lines, schema, number) or f"lines {number} to {number + len(lines) - 1}: {error}"
        raise pa.ArrowInvalid(f"{name}{found}") from None


def _wrong_line(lines: list[bytes], schema: pa.Schema | None, number: int) -> str:
    """Which line has something wrong, and what; empty if it is not found. The lines begin with this number."""
    kinds = {} if schema is None else {field.name: _kind_of_column(field.type) for field in schema}
    for position, line in enumerate(lines, number):
        if not line.strip():
            continue
        try:
            row = json.loads(line.rstrip(), parse_float=_float)
        except json.JSONDecodeError as error:
            reason = error.msg.removesuffix(" at").rstrip(": ")
            return f"line {position} is not valid JSON: {reason}, at character {error.colno}{_hint(line)}"
        except ValueError as error:
            return f"line {position}: {error}"
        if not isinstance(row, dict):
            return f'line {position}: expected an object such as {{"ts": 1}}, not {line.decode(errors="replace").strip()}'
        for name, value in row.items():
            kind, known = _kind(value), kinds.get(name, "")
            if known == "whole number" and isinstance(value, float) and schema is not None:
                return (
                    f"line {position}: {name!r} is {json.dumps(value)}, and the first lines have whole numbers there; "
                    f"write the numbers of the first lines with a decimal point, such as 1.0"
                )
            if kind and known and kind.split()[-1] != known.split()[-1]:
                return (
                    f"line {position}: {name!r} is {json.dumps(value)}, and in earlier lines it is a {known}"
                )
            kinds[name] = known or kind
    return ""


def _float(text: str) -> float:
    value = float(text)
    if math.isinf(value):
        raise ValueError(f"{text} is larger than any float64; write Infinity or -Infinity")
    return value


def _hint(line: bytes) -> str:
    if re.search(rb":\s*[-+]?(inf|nan)\b", line, re.IGNORECASE):
        return "; write NaN, Infinity or -Infinity"
    return "; every line has to hold one whole object"


def _kind(value: Any) -> str:
    kinds = {bool: "boolean", int: "whole number", float: "number", str: "text", list: "list", dict: "object"}
    return kinds.get(type(value), "")


def _kind_of_column(kind: pa.DataType) -> str:
    """What the values of a column are in JSON; empty for a column without any value so far."""
    tests = {
        "boolean": pa.types.is_boolean,
        "whole number": pa.types.is_integer,
        "number": pa.types.is_floating,
        "list": pa.types.is_list,
        "object": pa.types.is_struct,
        "": pa.types.is_null,
    }
    return next((name for name, test in tests.items() if test(kind)), "text")
