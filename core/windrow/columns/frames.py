# SPDX-License-Identifier: Apache-2.0
"""Frames of other libraries: what comes in, and the same kind going out.

No library is imported before data of it is seen, or asked for.

>>> kind_of({"ts": [1]}), kind_of(pa.table({"ts": [1]}))
('arrow', 'arrow')
"""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Mapping, Sized
from typing import Any, Literal, TypeAlias, get_args

import pyarrow as pa

from windrow.columns.text import castable
from windrow.errors import QueryError

__all__ = ["Frame", "as_frame", "check_frame", "kind_of", "opened", "rows_of"]

Frame: TypeAlias = Literal["arrow", "same", "pandas", "polars", "duckdb", "dicts"]


def kind_of(data: Any) -> str:
    """The library that data is of: "pandas", "polars", "duckdb", "dicts" for a list of rows, or else "arrow".

    >>> kind_of([{"ts": 1, "load": 2.0}])
    'dicts'
    """
    if rows_of(data):
        return "dicts"
    libraries = (base.__module__.split(".")[0].lstrip("_") for base in type(data).__mro__)
    return next((found for found in libraries if found in ("pandas", "polars", "duckdb")), "arrow")


def check_frame(to: object) -> None:
    """Refuse a name that is no kind of frame."""
    if to not in get_args(Frame):
        raise QueryError(f"to has to be one of {', '.join(map(repr, get_args(Frame)))}, not {to!r}")


def as_frame(table: pa.Table, to: Frame, data: Any = None) -> Any:
    """A table as a frame of a library; "same" is that of ``data``. What was lazy is lazy again."""
    check_frame(to)
    kind = kind_of(data) if to == "same" else to
    if kind == "arrow":
        return table
    if kind == "dicts":
        return table.to_pylist()
    try:
        library = importlib.import_module(kind)
    except ImportError:
        raise QueryError(f"to={to!r} needs {kind}: pip install {kind}") from None
    if kind == "pandas":
        return table.to_pandas()
    if kind == "duckdb":
        return _beside(data, table) if to == "same" else library.from_arrow(table)
    frame = library.from_arrow(table)
    return frame.lazy() if to == "same" and type(data).__name__ == "LazyFrame" else frame


def _beside(relation: Any, windrow_windows: pa.Table) -> Any:
    """A table as a relation of the same connection, so that the two can be joined. DuckDB finds it by its name here."""
    return relation.query("windrow_rows", "SELECT * FROM windrow_windows")


def opened(data: Any) -> Any:
    """Data that yields its rows: a lazy frame is collected, a dataset is scanned, and rows as dicts become a table."""
    if kind_of(data) == "polars" and type(data).__name__ == "LazyFrame":
        return castable(data.collect())
    if type(data).__module__ == "pyarrow._dataset" and hasattr(data, "scanner"):
        return data.scanner().to_reader()
    return pa.Table.from_pylist(data) if rows_of(data) else castable(data)


def rows_of(data: Any) -> bool:
    """Whether data is a list of rows as dicts. A list of batches has dicts of columns instead.

    >>> rows_of([{"ts": 1, "load": 2.0}]), rows_of([{"ts": [1], "load": [2.0]}])
    (True, False)
    """
    if not isinstance(data, list) or not data or not all(isinstance(row, Mapping) for row in data[:1]):
        return False
    values: Iterable[Any] = data[0].values()
    return any(isinstance(value, str | bytes) or not isinstance(value, Sized) for value in values)
