# SPDX-License-Identifier: Apache-2.0
"""Transcripts: cases as TOML that a person can read and write.

::

    [[case]]
    name = "time/late"
    story = "A row behind the watermark is dropped; one inside the lateness is not."
    covers = ["late"]
    columns = { k = "string", ts = "int64", x = "double" }
    query = { by = ["k"], window = { kind = "time", range = "10ms" }, aggregates = { n = { kind = "Count" } } }
    script = '''
    row a 1 2.5
    row a 12 1.0
    watermark 10
      window a 0 10 1
    row a 3 1.0
      late a 3 1.0
    end
      window a 10 20 1
    '''

A line is a step (``row``, ``watermark``, ``restart``, ``end``) or what the step before it has to give
(``window``, ``late``). Rows that follow each other are one batch; an empty line cuts it. Cells are in the order of
the columns; ``null`` is null, lists and structs are JSON. A whole number in place of a time is in units of the ``clock``
("1ms" if none is given); finer times have a unit (``1500us``).
"""

from __future__ import annotations

import json
import math
import re
import tomllib
from collections.abc import Iterable
from dataclasses import replace
from datetime import date, datetime
from decimal import Decimal, InvalidOperation
from typing import Any

import pyarrow as pa

import windrow as wr
from windrow import durations
from windrow.columns.times import PER_UNIT
from windrow.errors import ColumnError, QueryError, WindrowError
from windrow.imports import Allow, allowed
from windrow_conformance.case import Case, Step

FIELDS = ("name", "story", "cites", "covers", "columns", "query", "script", "error", "clock", "quick")


def read(text: str, allow: Allow = ()) -> list[Case]:
    """The cases of a transcript file. ``allow`` names the modules that their queries may import, beside the suite's."""
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise QueryError(f"a transcript has to be TOML: {error}") from None
    prefixes = (*allowed(allow), "windrow_conformance")
    return [_case(values, prefixes) for values in document.get("case", [])]


def write(cases: Iterable[Case]) -> str:
    """The file that :func:`read` reads back."""
    return "\n".join(_written(case) for case in cases)


def _case(values: dict[str, Any], allow: Allow) -> Case:
    name = values.get("name", "without a name")
    for known in values:
        if known not in FIELDS:
            raise QueryError(f"case {name!r} has {known!r}; a case has {', '.join(FIELDS)}")
    for needed in ("name", "columns", "query", "script"):
        if needed not in values:
            raise QueryError(f"case {name!r} needs {needed!r}")
    clock = durations.parse(values.get("clock", "1ms"), name="clock")
    try:
        query = wr.Query.from_dict(values["query"], allow=allow)
        schema = pa.schema([(column, type_of(text)) for column, text in values["columns"].items()])
        return Case(
            name=name,
            query=query,
            schema=schema,
            steps=tuple(_steps(values["script"], query, schema, clock)),
            story=values.get("story", ""),
            cites=values.get("cites", ""),
            covers=tuple(values.get("covers", ())),
            error=values.get("error", ""),
            clock=clock,
            quick=values.get("quick", False),
        )
    except WindrowError as error:
        raise QueryError(f"case {name!r}: {error}") from error


def _steps(script: str, query: wr.Query, schema: pa.Schema, clock: int) -> list[Step]:
    steps: list[Step] = []
    rows: list[list[Any]] = []
    results: dict[str, list[list[Any]]] = {"window": [], "late": []}
    times = Times(query, schema, clock)
    bound = None

    def close() -> None:
        nonlocal rows, results
        if rows:
            steps.append(Step("rows", _table(rows, schema)))
        if steps and (results["window"] or results["late"]):
            assert bound is not None
            steps[-1] = replace(
                steps[-1],
                windows=_table(results["window"], bound.output_schema) if results["window"] else None,
                late=_table(results["late"], schema) if results["late"] else None,
            )
        rows, results = [], {"window": [], "late": []}

    for number, line in enumerate(script.splitlines(), 1):
        word, *cells = tokens(line) or [""]
        if word in ("window", "late"):
            bound = bound or query.bind(schema)
            columns = bound.output_schema if word == "window" else schema
            results[word].append(_values(cells, columns, times, number, output=word == "window"))
        elif word == "row":
            if any(results.values()):
                close()
            rows.append(_values(cells, schema, times, number, output=False))
        else:
            close()
            if word == "watermark" and len(cells) == 1:
                steps.append(Step("watermark", times.parse(cells[0])))
            elif word in ("restart", "end") and not cells:
                steps.append(Step("restart" if word == "restart" else "end"))
            elif word:
                raise QueryError(
                    f"line {number} of the script: {line.strip()!r}; a line is 'row …', 'watermark T', 'restart', "
                    "'end', 'window …' or 'late …'"
                )
    close()
    return steps


class Times:
    """Which columns hold times, and how times are written."""

    def __init__(self, query: wr.Query, schema: pa.Schema, clock: int) -> None:
        self.clock, self.time = clock, query.time
        self.times, self.divided = PER_UNIT[query.time_unit or "us"]
        position = isinstance(query.window, wr.CountWindow) or (
            isinstance(query.window, wr.DeltaWindow)
            and not pa.types.is_timestamp(schema.field(query.window.attribute).type)
        )
        self.outputs = () if position else ("window_start", "window_end")

    def has(self, field: pa.Field, output: bool) -> bool:
        if pa.types.is_timestamp(field.type):
            return True
        if not pa.types.is_integer(field.type) and not (
            pa.types.is_floating(field.type) and field.name == self.time
        ):
            return False
        return field.name in self.outputs if output else field.name == self.time

    def parse(self, cell: str) -> int:
        return int(cell) * self.clock if re.fullmatch(r"[-+]?\d+", cell) else durations.parse(cell)

    def number(self, cell: str, type_: pa.DataType) -> float:
        """A time as a number in the unit of the query."""
        micros = self.parse(cell) * self.divided
        return micros / self.times if pa.types.is_floating(type_) else micros // self.times

    def micros(self, number: float) -> int:
        """The time that a number in the unit of the query is."""
        if isinstance(number, int):
            return number * self.times // self.divided
        return round(number * self.times / self.divided)

    def written(self, micros: int) -> str:
        whole, rest = divmod(micros, self.clock)
        return f"{micros}us" if rest else str(whole)


def tokens(line: str) -> list[str]:
    """The cells of a line: blanks part them, except inside quotes and brackets.

    >>> tokens('row a 3 "two words" [1, 2]   # a comment')
    ['row', 'a', '3', '"two words"', '[1, 2]']
    """
    found, cell, depth, quoted, escaped = [], "", 0, False, False
    for sign in line:
        if not quoted and depth == 0 and (sign.isspace() or (sign == "#" and not cell)):
            if cell:
                found.append(cell)
            cell = ""
            if sign == "#":
                break
            continue
        cell += sign
        if not quoted:
            depth += (sign in "[{") - (sign in "]}")
        if sign == '"' and not escaped:
            quoted = not quoted
        escaped = quoted and sign == "\\" and not escaped
    return [*found, cell] if cell else found


def type_of(text: str) -> pa.DataType:
    """The Arrow type of this name, as Arrow itself writes it."""
    if found := re.fullmatch(r"timestamp\[(s|ms|us|ns)(?:, tz=(.+))?\]", text):
        return pa.timestamp(found[1], found[2])
    if found := re.fullmatch(r"decimal128\((\d+), (-?\d+)\)", text):
        return pa.decimal128(int(found[1]), int(found[2]))
    try:
        return pa.type_for_alias(text)
    except ValueError:
        raise ColumnError(f"a transcript cannot hold a column of type {text!r}; cast it first") from None


def _table(rows: list[list[Any]], schema: pa.Schema) -> pa.Table:
    columns = list(zip(*rows, strict=True)) if rows else [()] * len(schema)
    return pa.table(
        [pa.array(column, field.type) for column, field in zip(columns, schema, strict=True)], schema=schema
    )


def _values(cells: list[str], schema: pa.Schema, times: Times, number: int, *, output: bool) -> list[Any]:
    if len(cells) != len(schema):
        raise QueryError(
            f"line {number} of the script has {len(cells)} cells; the columns are {', '.join(schema.names)}"
        )
    try:
        return [
            _value(cell, field, times if times.has(field, output) else None)
            for cell, field in zip(cells, schema, strict=True)
        ]
    except (ValueError, InvalidOperation) as error:
        raise QueryError(f"line {number} of the script: {error}") from None


def _value(cell: str, field: pa.Field, time: Times | None) -> Any:
    type_ = field.type
    if cell == "null":
        return None
    if time is not None:
        if pa.types.is_timestamp(type_):
            return pa.scalar(time.parse(cell), pa.timestamp("us")).cast(type_)
        return time.number(cell, type_)
    if pa.types.is_string(type_):
        return json.loads(cell) if cell.startswith('"') else cell
    if pa.types.is_boolean(type_):
        return {"true": True, "false": False}[cell]
    if pa.types.is_floating(type_):
        return float(cell)
    if pa.types.is_integer(type_):
        return int(cell)
    if pa.types.is_decimal(type_):
        return Decimal(cell)
    if pa.types.is_date(type_):
        return date.fromisoformat(cell)
    if pa.types.is_binary(type_):
        return bytes.fromhex(cell.removeprefix("x"))
    return _inner(json.loads(cell), type_)


def _inner(value: Any, type_: pa.DataType) -> Any:
    """Values inside lists and structs, where JSON has no NaN, dates or decimals of its own."""
    if isinstance(value, list):
        return [_inner(each, type_.value_type) for each in value]
    if isinstance(value, dict):
        return {name: _inner(each, type_.field(name).type) for name, each in value.items()}
    if isinstance(value, str) and not pa.types.is_string(type_):
        return Decimal(value) if pa.types.is_decimal(type_) else float(value)
    return value


# Writing.


def _written(case: Case) -> str:
    values: dict[str, Any] = {"name": case.name}
    for name in ("story", "cites", "error"):
        if getattr(case, name):
            values[name] = getattr(case, name)
    if case.covers:
        values["covers"] = list(case.covers)
    if case.clock != 1000:
        values["clock"] = durations.format(case.clock)
    if case.quick:
        values["quick"] = True
    values["columns"] = {field.name: str(field.type) for field in case.schema}
    values["query"] = case.query.to_dict()
    lines = [f"{name} = {_toml(value)}" for name, value in values.items()]
    return "\n".join(["[[case]]", *lines, "script = '''", *script(case), "'''", ""])


def script(case: Case) -> list[str]:
    """The lines of a case's script."""
    times = Times(case.query, case.schema, case.clock)
    lines: list[str] = []
    before = None
    for step in case.steps:
        if step.kind == "rows":
            if before == "rows" and not lines[-1].startswith("  "):
                lines.append("")
            lines += [f"row {row}" for row in _lines(step.value, times, output=False)]
        elif step.kind == "watermark":
            lines.append(f"watermark {times.written(step.value)}")
        else:
            lines.append(step.kind)
        if step.windows is not None:
            lines += [f"  window {row}" for row in _lines(step.windows, times, output=True)]
        if step.late is not None:
            lines += [f"  late {row}" for row in _lines(step.late, times, output=False)]
        before = step.kind
    return lines


def _lines(table: pa.Table, times: Times, *, output: bool) -> list[str]:
    columns = []
    for field in table.schema:
        column = table.column(field.name)
        if times.has(field, output):
            if pa.types.is_timestamp(field.type):
                column = column.cast(pa.timestamp("us", field.type.tz)).cast(pa.int64())
                values = column.to_pylist()
            else:
                values = [None if value is None else times.micros(value) for value in column.to_pylist()]
            columns.append(["null" if value is None else times.written(value) for value in values])
        else:
            columns.append([_cell(value) for value in column.to_pylist()])
    return [" ".join(cells) for cells in zip(*columns, strict=True)]


def _cell(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, str):
        plain = re.fullmatch(r"[^\s\"\[\]{}#']+", value) and value != "null"
        return (
            value if plain else json.dumps(value).replace("'", "\\u0027")
        )  # three of them would end the script
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, bytes):
        return f"x{value.hex()}"
    if isinstance(value, list | dict):
        return json.dumps(_plain(value), separators=(",", ":"))
    return value.isoformat() if isinstance(value, date | datetime) else str(value)


def _plain(value: Any) -> Any:
    if isinstance(value, list):
        return [_plain(each) for each in value]
    if isinstance(value, dict):
        return {name: _plain(each) for name, each in value.items()}
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return str(value) if isinstance(value, Decimal) else value


def _toml(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(_toml, value)) + "]"
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{_key(name)} = {_toml(each)}" for name, each in value.items()) + " }"
    return repr(value)


def _key(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else json.dumps(name)
