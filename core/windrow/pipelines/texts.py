# SPDX-License-Identifier: Apache-2.0
"""Rows of columns as JSON: the text that Python's encoder gives for each row, made column by column.

>>> json_objects([(pa.table({"c": [1.0, None], "n": [1, 2]}), 2)]).to_pylist()
['{"c":1.0,"n":1}', '{"c":null,"n":2}']
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from windrow.pipelines.state import encode

__all__ = ["json_objects"]


def json_objects(tables: Sequence[tuple[pa.Table, int]]) -> pa.Array:
    """A JSON object for each row of tables with the same columns. A table without columns does not know its rows: they are given."""
    table = pa.concat_tables([table for table, _ in tables])
    if not table.num_columns:
        return pa.repeat("{}", sum(count for _, count in tables))
    parts: list[pa.Array | str] = []
    for number, name in enumerate(table.column_names):
        parts += [("," if number else "{") + encode(name) + ":", *_texts(table.column(name))]
    return _whole(pc.binary_join_element_wise(*parts, "}", ""))


def _texts(column: pa.ChunkedArray) -> list[pa.Array | str]:
    """The JSON of each value, in one part or two. Arrow writes numbers as Python does, but for very large and very small ones."""
    kind = column.type
    if pa.types.is_integer(kind) or kind == pa.bool_():
        return [pc.fill_null(_whole(column.cast(pa.string())), "null")]
    if kind == pa.float64():
        filled = np.asarray(pc.fill_null(column, 0.0))
        size = np.abs(filled)
        if bool((((size >= 1e-4) & (size < 1e10)) | (size == 0)).all()):
            return _plain_floats(_whole(column), filled)
    values = column.to_pylist()
    if kind in (
        pa.float64(),
        pa.float32(),
    ):  # numbers have no comma, so all of them are written with one call
        return [pa.array(encode(values)[1:-1].split(",") if values else [], pa.string())]
    return [pa.array(map(encode, values), pa.string())]


def _plain_floats(column: pa.Array, filled: np.ndarray[Any, Any]) -> list[pa.Array | str]:
    """Arrow writes no ``.0`` after a whole number."""
    texts = pc.fill_null(column.cast(pa.string()), "null")
    is_whole = pc.and_(pa.array(filled == np.floor(filled)), column.is_valid())
    if pc.all(is_whole).as_py():
        return [texts, ".0"]
    if not pc.any(is_whole).as_py():
        return [texts]
    return [texts, pc.if_else(is_whole, ".0", "")]


def _whole(column: pa.ChunkedArray | pa.Array) -> pa.Array:
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
