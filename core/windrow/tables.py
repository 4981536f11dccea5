"""Data from wherever Arrow data comes from, as tables."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from windrow.errors import QueryError


def as_table(data: Any) -> pa.Table:
    """Anything that can be exported as Arrow, or a pandas frame, or a mapping of columns, as a table."""
    if isinstance(data, pa.Table):
        return _plain(data)
    if isinstance(data, pa.RecordBatch):
        return _plain(pa.Table.from_batches([data]))
    if hasattr(data, "__arrow_c_stream__") or hasattr(data, "__arrow_c_array__"):
        return _plain(pa.table(data))
    if hasattr(data, "columns") and hasattr(data, "dtypes"):
        return _plain(pa.Table.from_pandas(data, preserve_index=False))
    if isinstance(data, dict):
        return _plain(pa.table(data))
    raise QueryError(
        f"data has to be Arrow-exportable (pyarrow, Polars, DuckDB, pandas) or a dict of columns, not {type(data).__name__}"
    )


_VIEWS = {"string_view": pa.string(), "binary_view": pa.binary()}


def _plain(table: pa.Table) -> pa.Table:
    """View types, which Polars exports and Arrow cannot sort, as the plain ones."""
    for position, field in enumerate(table.schema):
        if str(field.type) in _VIEWS:
            plain = _VIEWS[str(field.type)]
            table = table.set_column(position, field.with_type(plain), table.column(position).cast(plain))
    return table
