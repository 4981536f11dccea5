"""What Spark's columns are in Arrow, and a query checked against them before any job starts.

>>> from pyspark.sql.types import StructField, StructType, StringType, TimestampType
>>> arrow_schema(StructType([StructField("plug", StringType()), StructField("ts", TimestampType())]))
plug: string
ts: timestamp[us, tz=UTC]
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import types as spark_types
from pyspark.sql.pandas.types import from_arrow_type

from windrow import Query
from windrow.bound import BoundQuery
from windrow.errors import ColumnError, QueryError
from windrow.windows import DeltaWindow

# Spark sends a TimestampType as microseconds under the session's time zone. The zone is display only, so inside
# windrow it is always UTC: answers and state do not depend on a session's setting.
_ARROW: dict[type, pa.DataType] = {
    spark_types.BooleanType: pa.bool_(),
    spark_types.ByteType: pa.int8(),
    spark_types.ShortType: pa.int16(),
    spark_types.IntegerType: pa.int32(),
    spark_types.LongType: pa.int64(),
    spark_types.FloatType: pa.float32(),
    spark_types.DoubleType: pa.float64(),
    spark_types.StringType: pa.string(),
    spark_types.VarcharType: pa.string(),
    spark_types.CharType: pa.string(),
    spark_types.BinaryType: pa.binary(),
    spark_types.DateType: pa.date32(),
    spark_types.TimestampType: pa.timestamp("us", "UTC"),
    spark_types.TimestampNTZType: pa.timestamp("us"),
    spark_types.DayTimeIntervalType: pa.duration("us"),
}


@dataclass(frozen=True)
class Plan:
    """A query that fits a DataFrame: the columns it reads and the columns it gives, in both type systems."""

    query: Query
    schema: pa.Schema
    """Of the columns that the query reads."""
    bound: BoundQuery
    output: spark_types.StructType


def plan(query: Query, frame: Any, *, all_columns: bool = False) -> Plan:
    """Check a query against a DataFrame; every mistake that can be seen without running a job is an error here."""
    if not isinstance(query, Query):
        raise QueryError(f"windowed() needs a windrow.Query, not {type(query).__name__}")
    return plan_of(query, frame.schema, all_columns=all_columns)


def plan_of(query: Query, columns: spark_types.StructType, *, all_columns: bool = False) -> Plan:
    """As :func:`plan`, for a schema."""
    read = columns.names if all_columns else columns_read(query)
    full = arrow_schema(columns, needed=read)
    query.bind(full)  # so that a missing column is reported beside all columns there are
    schema = pa.schema([full.field(name) for name in read])
    bound = query.bind(schema)
    return Plan(query, schema, bound, spark_schema(bound.output_schema))


def columns_read(query: Query) -> list[str]:
    """The columns that a query reads, each once."""
    names = [*query.by, query.time]
    for aggregate in query.aggregates.values():
        names += aggregate.columns
    if isinstance(query.window, DeltaWindow):
        names.append(query.window.attribute)
    return list(dict.fromkeys(names))


def arrow_schema(columns: spark_types.StructType, needed: Iterable[str] | None = None) -> pa.Schema:
    """The Arrow schema of Spark columns. A type that Arrow has not is an error only if the column is needed."""
    wanted = set(columns.names if needed is None else needed)
    return pa.schema([(field.name, _arrow_field(field, field.name in wanted)) for field in columns])


def spark_schema(schema: pa.Schema) -> spark_types.StructType:
    """The Spark columns of an Arrow schema; all are nullable."""
    fields = []
    for field in schema:
        try:
            spark_type = from_arrow_type(_spark_has(field.type), True)
        except PySparkException:
            raise ColumnError(
                f"output column {field.name!r} would be a {field.type}, which Spark does not have; cast its input"
            ) from None
        fields.append(spark_types.StructField(field.name, spark_type))
    return spark_types.StructType(fields)


def as_spark_has(table: pa.Table) -> pa.Table:
    """The table with the Arrow types that Spark reads."""
    fields = [pa.field(field.name, _spark_has(field.type)) for field in table.schema]
    return table.cast(pa.schema(fields))


def _spark_has(type_: pa.DataType) -> pa.DataType:
    if pa.types.is_duration(type_):
        return pa.duration("us")
    if pa.types.is_uint64(type_):
        return pa.decimal128(20, 0)
    if pa.types.is_unsigned_integer(type_):
        return pa.int64()
    if pa.types.is_float16(type_):
        return pa.float32()
    if pa.types.is_list(type_):
        return pa.list_(pa.field("element", _spark_has(type_.value_type)))
    if pa.types.is_struct(type_):
        return pa.struct([pa.field(field.name, _spark_has(field.type)) for field in type_])
    return type_


def _arrow_field(field: spark_types.StructField, needed: bool) -> pa.DataType:
    arrow = _arrow_type(field.dataType)
    if arrow is None and needed:
        shown = field.dataType.simpleString()
        raise ColumnError(f"column {field.name!r} is a {shown}, which cannot go to Python as Arrow; cast it")
    return pa.null() if arrow is None else arrow


def _arrow_type(spark_type: spark_types.DataType) -> pa.DataType | None:
    if isinstance(spark_type, spark_types.DecimalType):
        return pa.decimal128(spark_type.precision, spark_type.scale)
    if isinstance(spark_type, spark_types.ArrayType):
        inner = _arrow_type(spark_type.elementType)
        return None if inner is None else pa.list_(pa.field("element", inner))
    if isinstance(spark_type, spark_types.StructType):
        inside = [(field.name, _arrow_type(field.dataType)) for field in spark_type]
        return None if any(inner is None for _, inner in inside) else pa.struct(inside)
    if isinstance(spark_type, spark_types.MapType):
        key, value = _arrow_type(spark_type.keyType), _arrow_type(spark_type.valueType)
        return None if key is None or value is None else pa.map_(key, value)
    return _ARROW.get(type(spark_type))
