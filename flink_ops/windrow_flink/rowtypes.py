# SPDX-License-Identifier: Apache-2.0
"""Flink's row types and Arrow schemas: the schema of a stream, and the type of a schema."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from pyflink.common import Types
from pyflink.common.typeinfo import (
    BasicArrayTypeInfo,
    BasicType,
    BasicTypeInfo,
    DateTypeInfo,
    ExternalTypeInfo,
    ListTypeInfo,
    MapTypeInfo,
    ObjectArrayTypeInfo,
    PrimitiveArrayTypeInfo,
    RowTypeInfo,
    TimestampTypeInfo,
    TimeTypeInfo,
    TupleTypeInfo,
    TypeInformation,
)

import windrow  # noqa: F401  # whole, before its parts: see the package
from windrow.errors import ColumnError

BYTES = Types.PRIMITIVE_ARRAY(Types.BYTE())
_BASIC = {
    BasicType.STRING: pa.string(),
    BasicType.CHAR: pa.string(),
    BasicType.BOOLEAN: pa.bool_(),
    BasicType.BYTE: pa.int8(),
    BasicType.SHORT: pa.int16(),
    BasicType.INT: pa.int32(),
    BasicType.LONG: pa.int64(),
    BasicType.FLOAT: pa.float32(),
    BasicType.DOUBLE: pa.float64(),
    BasicType.BIG_INT: pa.decimal128(38, 0),
    BasicType.BIG_DEC: pa.decimal128(38, 18),
    BasicType.INSTANT: pa.timestamp("us", "UTC"),
}

_TEMPORAL = {DateTypeInfo: pa.date32(), TimeTypeInfo: pa.time64("us"), TimestampTypeInfo: pa.timestamp("us")}


def schema_of(row: TypeInformation) -> pa.Schema:
    """The Arrow schema of a stream of rows or tuples. The fields of a tuple are called ``f0``, ``f1``, …

    >>> from pyflink.common import Types
    >>> schema_of(Types.ROW_NAMED(["plug", "ts", "load"], [Types.STRING(), Types.LONG(), Types.DOUBLE()])).names
    ['plug', 'ts', 'load']
    """
    if isinstance(row, ExternalTypeInfo):  # of a stream that was a table
        return schema_of(row._type_info)
    if isinstance(row, RowTypeInfo):
        names, types = row.get_field_names(), row.get_field_types()
    elif isinstance(row, TupleTypeInfo):
        types = row.get_field_types()
        names = [f"f{position}" for position in range(len(types))]
    else:
        raise ColumnError(
            f"a stream of {row} has no named fields; give the step before it an output_type such as "
            "Types.ROW_NAMED(['plug', 'ts'], [Types.STRING(), Types.LONG()]), or pass schema= (a pyarrow.Schema)"
        )
    return pa.schema([pa.field(name, _arrow(type_, name)) for name, type_ in zip(names, types, strict=True)])


def type_of(schema: pa.Schema) -> TypeInformation:
    """The Flink type of rows with this schema."""
    return Types.ROW_NAMED(schema.names, [_flink(field.type, field.name) for field in schema])


def _arrow(type_: TypeInformation, name: str) -> pa.DataType:
    if isinstance(type_, BasicTypeInfo):
        return _BASIC[type_._basic_type]
    for kind, arrow in _TEMPORAL.items():
        if isinstance(type_, kind):
            return arrow
    if isinstance(type_, PrimitiveArrayTypeInfo) and type_ == BYTES:
        return pa.binary()
    if isinstance(type_, (PrimitiveArrayTypeInfo, BasicArrayTypeInfo, ObjectArrayTypeInfo)):
        return pa.list_(_arrow(type_._element_type, name))
    if isinstance(type_, ListTypeInfo):
        return pa.list_(_arrow(type_.elem_type, name))
    if isinstance(type_, MapTypeInfo):
        return pa.map_(_arrow(type_._key_type_info, name), _arrow(type_._value_type_info, name))
    if isinstance(type_, (RowTypeInfo, TupleTypeInfo)):
        return pa.struct(list(schema_of(type_)))
    raise ColumnError(
        f"field {name!r} of the stream is a {type_}, which has no Arrow type; convert it with .map(…) first"
    )


def _flink(type_: pa.DataType, name: str) -> TypeInformation:
    types = pa.types
    if types.is_dictionary(type_):
        return _flink(type_.value_type, name)
    simple: Any = _SIMPLE.get(type_)
    if simple is not None:
        return simple()
    if types.is_timestamp(type_):
        return Types.SQL_TIMESTAMP()  # what rows hold; those with a zone are in UTC
    if types.is_decimal(type_):
        return Types.BIG_DEC()
    if types.is_time(type_):
        return Types.SQL_TIME()
    if types.is_list(type_) or types.is_large_list(type_) or types.is_fixed_size_list(type_):
        return Types.LIST(_flink(type_.value_type, name))
    if types.is_map(type_):
        return Types.MAP(_flink(type_.key_type, name), _flink(type_.item_type, name))
    if types.is_struct(type_):
        return type_of(pa.schema(list(type_)))
    raise ColumnError(f"column {name!r} is a {type_}, which Flink's rows cannot hold; cast it first")


_SIMPLE = {
    pa.string(): Types.STRING,
    pa.large_string(): Types.STRING,
    pa.bool_(): Types.BOOLEAN,
    pa.int8(): Types.BYTE,
    pa.int16(): Types.SHORT,
    pa.int32(): Types.INT,
    pa.int64(): Types.LONG,
    pa.uint8(): Types.SHORT,
    pa.uint16(): Types.INT,
    pa.uint32(): Types.LONG,
    pa.uint64(): Types.BIG_DEC,  # Flink's own big integers end at 64 signed bits in Python
    pa.float16(): Types.FLOAT,
    pa.float32(): Types.FLOAT,
    pa.float64(): Types.DOUBLE,
    pa.date32(): Types.SQL_DATE,
    pa.binary(): lambda: BYTES,
    pa.large_binary(): lambda: BYTES,
}
