# SPDX-License-Identifier: Apache-2.0
"""Arrow types that Spark reads. Imports nothing but Arrow, so that light workers can use it.

>>> spark_has(pa.uint32())
DataType(int64)
"""

from __future__ import annotations

import pyarrow as pa


def as_spark_has(table: pa.Table) -> pa.Table:
    """The table with the Arrow types that Spark reads."""
    fields = [pa.field(field.name, spark_has(field.type)) for field in table.schema]
    return table.cast(pa.schema(fields))


def spark_has(type_: pa.DataType) -> pa.DataType:
    """The Arrow type with which Spark reads values of another one."""
    if pa.types.is_duration(type_):
        return pa.duration("us")
    if pa.types.is_uint64(type_):
        return pa.decimal128(20, 0)
    if pa.types.is_unsigned_integer(type_):
        return pa.int64()
    if pa.types.is_float16(type_):
        return pa.float32()
    if pa.types.is_list(type_):
        return pa.list_(pa.field("element", spark_has(type_.value_type)))
    if pa.types.is_struct(type_):
        return pa.struct([pa.field(field.name, spark_has(field.type)) for field in type_])
    return type_
