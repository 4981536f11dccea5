# SPDX-License-Identifier: Apache-2.0
"""Tables in the terminal; of a long one, both ends are shown."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import pyarrow as pa
from rich.console import Console
from rich.markup import escape
from rich.table import Table

__all__ = ["Ends", "show"]

WIDEST = 100_000  # columns; a table that needs more is not for reading
UTC = ("UTC", "Etc/UTC", "+00:00")
EDGE = 9  # rows shown at either end of a long result


class Ends:
    """Remembers the first and the last rows of what is written to it, and how many there were."""

    def __init__(self, schema: pa.Schema) -> None:
        self.written = 0
        self.first, self.last = schema.empty_table(), schema.empty_table()

    def write(self, windows: pa.Table) -> None:
        self.written += windows.num_rows
        if self.first.num_rows < 2 * EDGE:
            self.first = pa.concat_tables([self.first, windows.slice(0, 2 * EDGE - self.first.num_rows)])
        tail = pa.concat_tables([self.last, windows.slice(max(0, windows.num_rows - EDGE))])
        self.last = tail.slice(max(0, tail.num_rows - EDGE))

    def show(self, console: Console) -> None:
        short = self.written <= 2 * EDGE
        show(console, self.first if short else self.first.slice(0, EDGE), None if short else self.last)


def show(console: Console, table: pa.Table, rest: pa.Table | None = None, title: str | None = None) -> None:
    """Print a table and, after an ellipsis, the rows at its end. No value is cut off.

    In a terminal that is too narrow for it, each row is printed as lines of a name and a value.
    """
    shown = _table(table, rest, title)
    needed = console.measure(shown, options=console.options.update(max_width=WIDEST)).maximum
    if needed <= console.width:
        console.print(shown)
    elif not console.is_terminal:
        Console(file=console.file, width=needed).print(shown)
    else:
        _print_rows(console, table, rest, title)


def _print_rows(console: Console, table: pa.Table, rest: pa.Table | None, title: str | None) -> None:
    """Print each row as lines of a name and a value."""
    headings = {field.name: heading(field) for field in table.schema}
    names = max(map(len, headings.values()), default=0)
    blocks = [] if title is None else [title]
    for part in (table, rest):
        if part is None:
            continue
        blocks += ["⋮"] if part is rest else []
        for row in part.to_pylist():
            blocks.append(
                "\n".join(f"{escape(headings[name].ljust(names))}  {cell(row[name])}" for name in row)
            )
    console.print("\n\n".join(blocks), soft_wrap=True)


def _table(table: pa.Table, rest: pa.Table | None, title: str | None) -> Table:
    shown = Table(title=title, title_justify="left")
    for field in table.schema:
        number = pa.types.is_integer(field.type) or pa.types.is_floating(field.type)
        shown.add_column(heading(field), justify="right" if number else "left", no_wrap=True)
    for row in table.to_pylist():
        shown.add_row(*map(cell, row.values()))
    if rest is not None:
        shown.add_row(*["⋮"] * table.num_columns)
        for row in rest.to_pylist():
            shown.add_row(*map(cell, row.values()))
    return shown


def heading(field: pa.Field) -> str:
    """The name of a column, and that its times are in UTC, which :func:`cell` does not repeat in every row."""
    in_utc = pa.types.is_timestamp(field.type) and field.type.tz in UTC
    return f"{field.name} (UTC)" if in_utc else field.name


def cell(value: Any) -> str:
    """One value as a person reads it."""
    if value is None:
        return "[dim]null[/]"
    if isinstance(value, float):
        return f"{value:.2f}" if value == 0 or 0.01 <= abs(value) < 1e9 else f"{value:.3g}"
    if isinstance(value, datetime) and str(value.tzinfo) in UTC:
        value = value.replace(tzinfo=None)  # the heading says so
    return escape(str(value))
