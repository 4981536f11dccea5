# SPDX-License-Identifier: Apache-2.0
"""What a stream has to be: its columns, its type, its watermarks."""

from __future__ import annotations

import pyarrow as pa
from pyflink.common.typeinfo import TypeInformation
from pyflink.datastream import DataStream, KeyedStream
from pyflink.datastream.data_stream import typeinfo
from pyflink.java_gateway import get_gateway

import windrow  # noqa: F401  # whole, before its parts: see the package
from windrow.errors import QueryError, TimeColumnError
from windrow.query.query import Query
from windrow.query.slicing import columns_sent


def checked_stream(stream: object) -> DataStream:
    if isinstance(stream, KeyedStream):
        raise QueryError(
            "windowed() groups by the query's own keys (by=…); give it the stream before key_by, "
            "or write stream.key_by(…).process(FPBA(query))"
        )
    if not isinstance(stream, DataStream):
        raise QueryError(
            f"windowed() needs a DataStream, not {type(stream).__name__}; for a Table, use windowed_table()"
        )
    return stream


def check_watermarks(stream: DataStream) -> None:
    """A stream that neither ends nor has watermarks would never finish a window."""
    endless = False
    for step in stream._j_data_stream.getTransformation().getTransitivePredecessors():
        kind = step.getClass().getSimpleName()
        if kind == "TimestampsAndWatermarksTransformation":
            return
        if kind == "SourceTransformation" and str(step.getBoundedness()) == "CONTINUOUS_UNBOUNDED":
            strategy = step.getWatermarkStrategy()
            silent = get_gateway().jvm.org.apache.flink.api.common.eventtime.NoWatermarksGenerator
            endless |= strategy.createWatermarkGenerator(None).getClass() == silent().getClass()
    if endless:
        raise TimeColumnError(
            "the stream has no watermarks and no end, so no window would ever be finished; pass disorder='5s' (how far "
            "rows may be out of order), or give its source a WatermarkStrategy"
        )


def stream_type(stream: DataStream) -> TypeInformation:
    return typeinfo._from_java_type(stream._j_data_stream.getTransformation().getOutputType())


def kept_columns(query: Query, schema: pa.Schema) -> pa.Schema:
    """The columns that are logged in state: all if late rows are handed back, otherwise those that the query reads."""
    if query.late == "side":
        return schema
    names = set(columns_sent(query, schema.names))
    return pa.schema([field for field in schema if field.name in names])
