# SPDX-License-Identifier: Apache-2.0
"""Rows of the JVM as Arrow batches: thousands of rows cross into Python together, in Flink's own column form.

A vectorised function of Flink's Table API gets whole columns and has to return one value for each row. This one returns
the batch, as bytes, for the first row and null for the others, which are dropped in the JVM. Flink ends a batch before
every checkpoint, and lets no watermark overtake it. So no row is lost, and none becomes late.
"""

from __future__ import annotations

from itertools import count
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from pyflink.datastream import DataStream, StreamExecutionEnvironment
from pyflink.java_gateway import get_gateway
from pyflink.table import DataTypes, Schema, StreamTableEnvironment
from pyflink.table.udf import ScalarFunction, udf

import windrow  # noqa: F401  # whole, before its parts: see the package
from windrow.columns.ipc import to_ipc
from windrow.errors import ColumnError

WATERMARKED = "windrow_watermarked"
"""A column that watermarks are for; nothing reads it."""
_numbers = count()


def all_cross(schema: pa.Schema) -> bool:
    """Whether all columns cross exactly, with their nulls and NaN."""
    return all(_zero(field.type) is not None for field in schema)


def batches(
    tables: StreamTableEnvironment, view: str, schema: pa.Schema, time: str | None = None
) -> DataStream:
    """The rows of a view as a stream of rows with one field, the bytes of an Arrow IPC stream.

    ``time`` is the view's time attribute, if it has one; in ``schema`` it is whole microseconds. Then its watermarks
    go along.
    """
    name = f"windrow_batch_{next(_numbers)}"
    tables.create_temporary_function(
        name, udf(ToBatch(schema), result_type=DataTypes.BYTES(), func_type="pandas")
    )
    arguments = []
    for field in schema:
        column = quoted(field.name)
        whole = f"COALESCE({column}, {_zero(field.type)})"
        arguments.append(f"CAST({column} AS TIMESTAMP(3))" if field.name == time else whole)
        arguments.append(f"{column} IS NULL")
    batch = f"SELECT {name}({', '.join(arguments)}) AS batch FROM {quoted(view)}"
    return tables.to_data_stream(tables.sql_query(f"SELECT batch FROM ({batch}) WHERE batch IS NOT NULL"))


def gathers(stream: DataStream, schema: pa.Schema) -> bool:
    """Whether rows of these columns are better gathered into batches.

    A batch waits for ``python.fn-execution.bundle.time`` at most. If that is no longer than from one watermark to the
    next, no window waits for longer than it would anyway.
    """
    j_environment = stream._j_data_stream.getExecutionEnvironment()
    options = get_gateway().jvm.org.apache.flink.python.PythonOptions
    configuration = j_environment.getConfiguration()
    wait = configuration.get(options.MAX_BUNDLE_TIME_MILLS)
    interval = j_environment.getConfig().getAutoWatermarkInterval()
    return bool(configuration.get(options.MAX_BUNDLE_SIZE) > 1 and wait <= interval) and all_cross(schema)


def stream_batches(stream: DataStream, schema: pa.Schema, *, watermarks: bool) -> DataStream:
    """Some columns of a stream as a stream of rows with one field, the bytes of an Arrow IPC stream.

    If ``watermarks``, those of the stream go along.
    """
    for field in schema:
        if _zero(field.type) is None:
            raise ColumnError(
                f"column {field.name!r} is a {field.type}, which cannot cross in batches; make it a number, a boolean or a text "
                "(a time as whole microseconds, Types.LONG()), or give windowed() the rows one by one (gather=False)"
            )
    flink = StreamExecutionEnvironment(stream._j_data_stream.getExecutionEnvironment())
    tables = StreamTableEnvironment.create(flink)
    declared = Schema.new_builder()
    if watermarks:  # Flink lets them through if there is a column that they are for
        declared.column_by_expression(WATERMARKED, "TO_TIMESTAMP_LTZ(0, 3)")
        declared.watermark(WATERMARKED, "SOURCE_WATERMARK()")
    view = f"windrow_rows_{next(_numbers)}"
    tables.create_temporary_view(view, tables.from_data_stream(stream, declared.build()))
    return batches(tables, view, schema)


class ToBatch(ScalarFunction):
    """Columns, each followed by which of its values are null, to the bytes of a batch."""

    def __init__(self, schema: pa.Schema) -> None:
        self.schema = schema

    def eval(self, *columns: Any) -> Any:
        arrays = [
            _array(values, np.asarray(nulls, dtype=np.bool_), field.type)
            for values, nulls, field in zip(columns[::2], columns[1::2], self.schema, strict=True)
        ]
        table = pa.table(arrays, schema=self.schema)
        given: list[bytes | None] = [None] * table.num_rows
        given[0] = to_ipc(table)
        return pd.Series(given, dtype=object)


def quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def _array(values: Any, nulls: Any, type_: pa.DataType) -> pa.Array:
    if values.dtype.kind == "M":
        return pa.array(values.to_numpy().astype("datetime64[us]").astype(np.int64))
    if pa.types.is_string(type_):
        return pa.array(values.tolist(), type_, mask=nulls)
    return pa.array(values.to_numpy(), mask=nulls).cast(type_)


def _zero(type_: pa.DataType) -> str | None:
    """What stands in for a null, so that a column of numbers stays one in pandas; ``None`` if the type cannot cross."""
    types = pa.types
    if types.is_boolean(type_):
        return "FALSE"
    if types.is_signed_integer(type_) or types.is_floating(type_):
        return f"CAST(0 AS {_SQL[type_]})"
    return "''" if types.is_string(type_) else None


_SQL = {
    pa.int8(): "TINYINT",
    pa.int16(): "SMALLINT",
    pa.int32(): "INT",
    pa.int64(): "BIGINT",
    pa.float32(): "FLOAT",
    pa.float64(): "DOUBLE",
}
