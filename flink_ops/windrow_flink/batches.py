"""Rows of the JVM as Arrow batches: they cross into Python by the thousand, in Flink's own column form.

A vectorised function of Flink's Table API gets whole columns and owes one value for each row. This one gives
the batch, as bytes, for the first row and null for the others, which are dropped in the JVM. Flink ends a batch
before every checkpoint and lets no watermark overtake it, so no row is lost or made late.
"""

from __future__ import annotations

from itertools import count
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from pyflink.datastream import DataStream, StreamExecutionEnvironment
from pyflink.table import DataTypes, StreamTableEnvironment
from pyflink.table.udf import ScalarFunction, udf

from windrow.errors import ColumnError
from windrow.query import Query
from windrow_flink.rowtypes import BYTES, schema_of
from windrow_flink.stream import kept_columns, stream_type

_numbers = count()


def all_cross(schema: pa.Schema) -> bool:
    """Do all columns cross exactly, nulls and NaN included?"""
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


def stream_batches(stream: DataStream, query: Query) -> DataStream:
    """The rows of a stream as a stream of bytes, an Arrow IPC stream each, with the columns that the query reads."""
    schema = schema_of(stream_type(stream))
    query.bind(schema)
    kept = kept_columns(query, schema)
    for field in kept:
        if _zero(field.type) is None:
            raise ColumnError(
                f"column {field.name!r} is a {field.type}, which pack() cannot take; make it a number, a boolean or a text "
                "(a time as whole microseconds, Types.LONG()), or give the rows to windowed()"
            )
    flink = StreamExecutionEnvironment(stream._j_data_stream.getExecutionEnvironment())
    tables = StreamTableEnvironment.create(flink)
    view = f"windrow_rows_{next(_numbers)}"
    tables.create_temporary_view(view, tables.from_data_stream(stream))
    return batches(tables, view, kept).map(lambda row: row[0], output_type=BYTES)


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
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, table.schema) as writer:
            writer.write_table(table)
        given: list[bytes | None] = [None] * table.num_rows
        given[0] = sink.getvalue().to_pybytes()
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
    """What stands in for a null, so that a column of numbers stays one in pandas; nothing if the type cannot cross."""
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
