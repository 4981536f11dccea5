# SPDX-License-Identifier: Apache-2.0
"""Text and bytes: Arrow has several types for them, and a column of one is as good as a column of another.

>>> import pyarrow as pa
>>> alike(pa.string(), pa.large_string()), alike(pa.string(), pa.binary())
(True, False)
"""

from __future__ import annotations

from functools import cache
from typing import Any

import pyarrow as pa

_VIEWS = {pa.string_view().id: pa.string(), pa.binary_view().id: pa.binary()}
_TEXTS = {pa.string().id: "text", pa.large_string().id: "text", pa.string_view().id: "text"}
_TEXTS |= {pa.binary().id: "bytes", pa.large_binary().id: "bytes", pa.binary_view().id: "bytes"}
_LARGE = {pa.large_string().id, pa.large_binary().id}


def castable(data: Any) -> Any:
    """Data without view types that this version of Arrow cannot cast: a Polars frame as a table with large text."""
    return data if casts_views() or not hasattr(data, "to_arrow") else data.to_arrow()


@cache
def casts_views() -> bool:
    """Whether this version of Arrow makes plain text of view types. Version 16, which Flink needs, does not."""
    try:
        pa.array([], pa.string_view()).cast(pa.string())
    except pa.ArrowNotImplementedError:
        return False
    return True


def is_text(type_: pa.DataType) -> bool:
    """Whether values are text, or bytes of any length."""
    return type_.id in _TEXTS


def is_large(type_: pa.DataType) -> bool:
    """Whether text or bytes of this type have 64-bit offsets."""
    return type_.id in _LARGE


def text_type(type_: pa.DataType, *, large: bool) -> pa.DataType:
    """The type of text or bytes, as this one, with 64-bit or with 32-bit offsets."""
    if _TEXTS[type_.id] == "text":
        return pa.large_string() if large else pa.string()
    return pa.large_binary() if large else pa.binary()


def plain_schema(schema: pa.Schema) -> pa.Schema:
    """The schema without view types, which Polars exports and Arrow cannot sort: with the plain ones."""
    for position, type_ in enumerate(schema.types):
        if type_.id in MAY_BE_VIEWS and (plain := _without_views(type_)) is not type_:
            schema = schema.set(position, schema.field(position).with_type(plain))
    return schema


MAY_BE_VIEWS = {*_VIEWS, pa.dictionary(pa.int32(), pa.string()).id}
"""The types of columns that :func:`plain_schema` may change."""


def _without_views(type_: pa.DataType) -> pa.DataType:
    if type_.id in _VIEWS:
        return _VIEWS[type_.id]
    if pa.types.is_dictionary(type_) and type_.value_type.id in _VIEWS:
        return pa.dictionary(type_.index_type, _VIEWS[type_.value_type.id], type_.ordered)
    return type_


def alike(one: pa.DataType, other: pa.DataType) -> bool:
    """Whether two types have the same values: they are equal, or both are text, or both bytes."""
    kinds = [_TEXTS.get((t.value_type if pa.types.is_dictionary(t) else t).id) for t in (one, other)]
    return one == other or (kinds[0] is not None and kinds[0] == kinds[1])


def fitted(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """The table with the types of a schema, for columns that have another one with the same values."""
    if table.schema == schema:
        return table
    for position, found in enumerate(table.schema):
        place = schema.get_field_index(found.name)
        wanted = found.type if place < 0 else schema.field(place).type
        if found.type != wanted and alike(found.type, wanted):
            column = table.column(position)
            chunks = [_in_type(chunk, wanted) for chunk in column.chunks]
            table = table.set_column(position, found.with_type(wanted), pa.chunked_array(chunks, type=wanted))
    return table


def _in_type(array: pa.Array, type_: pa.DataType) -> pa.Array:
    """Text or bytes in another type that holds them."""
    if not pa.types.is_dictionary(type_):
        decoded = array.dictionary_decode() if pa.types.is_dictionary(array.type) else array
        return decoded.cast(type_)
    if not pa.types.is_dictionary(array.type):
        array = array.dictionary_encode()
    indices, values = array.indices.cast(type_.index_type), array.dictionary.cast(type_.value_type)
    return pa.DictionaryArray.from_arrays(indices, values, ordered=type_.ordered)
