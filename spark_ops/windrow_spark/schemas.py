# SPDX-License-Identifier: Apache-2.0
"""The Arrow types of Spark's columns, and a query checked against them before any job starts.

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
from windrow.errors import ColumnError, QueryError, TimeColumnError
from windrow.query.bound import BoundQuery
from windrow.query.slicing import columns_sent
from windrow_spark.arrow_types import spark_has

# Spark sends a TimestampType as microseconds with the session's time zone. The zone is only for display. Inside
# windrow it is always UTC, so that results and state do not depend on a setting of the session.
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
class FittedQuery:
    """A query that fits a DataFrame: the columns it reads and the columns it gives, in both type systems."""

    query: Query
    schema: pa.Schema
    """The columns that go to Python."""
    bound: BoundQuery
    output: spark_types.StructType


def fit(query: Query, frame: Any, *, all_columns: bool = False) -> FittedQuery:
    """Check a query against a DataFrame. Every mistake that shows without running a job is an error here.

    With ``all_columns`` all columns go to Python, otherwise those that the query reads.
    """
    return fit_columns(query, frame.schema, all_columns=all_columns)


def check_order(frame: Any, query: Query, function: str) -> None:
    """Refuse arguments that are not a DataFrame and a query, in this order."""
    if isinstance(frame, Query):
        raise QueryError(f"{function} takes the DataFrame first, then the query: {function}(df, query)")
    if not isinstance(query, Query):
        raise QueryError(f"{function}() needs a windrow.Query, not {type(query).__name__}")


def fit_columns(query: Query, columns: spark_types.StructType, *, all_columns: bool = False) -> FittedQuery:
    """As :func:`fit`, for the columns of a DataFrame."""
    sent = columns.names if all_columns else columns_sent(query, columns.names)
    _check_time(query.time, columns)
    full = arrow_schema(columns, needed=sent)
    query.bind(full)  # so that the error about a missing column can name all columns that there are
    schema = pa.schema([full.field(name) for name in sent])
    bound = query.bind(schema)
    return FittedQuery(query, schema, bound, spark_schema(bound.output_schema))


def _check_time(name: str, columns: spark_types.StructType) -> None:
    """Refuse text and dates as times in Spark's words; the query checks the rest."""
    for field in columns:
        if field.name == name and isinstance(
            field.dataType, spark_types.StringType | spark_types.DateType | spark_types.BooleanType
        ):
            raise TimeColumnError(
                f"time column {name!r} is a {field.dataType.simpleString()}; make it a timestamp: "
                f'df.withColumn("{name}", F.to_timestamp("{name}"))'
            )


def arrow_schema(columns: spark_types.StructType, needed: Iterable[str] | None = None) -> pa.Schema:
    """The Arrow schema of the columns of a DataFrame, as ``wr.explain`` and ``PostgresTable`` take it.

    A type that Arrow lacks is an error only if the column is needed.

    >>> arrow_schema(loads.schema)                                                  # doctest: +SKIP
    """
    wanted = set(columns.names if needed is None else needed)
    return pa.schema([(field.name, _arrow_field(field, field.name in wanted)) for field in columns])


def spark_schema(schema: pa.Schema) -> spark_types.StructType:
    """The Spark columns of an Arrow schema; all are nullable."""
    fields = []
    for field in schema:
        try:
            spark_type = from_arrow_type(spark_has(field.type), True)
        except PySparkException:
            raise ColumnError(
                f"output column {field.name!r} would be a {field.type}, which Spark does not have; cast its input"
            ) from None
        fields.append(spark_types.StructField(field.name, spark_type))
    return spark_types.StructType(fields)


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
