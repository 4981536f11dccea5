# SPDX-License-Identifier: Apache-2.0
"""Streams in, streams of finished windows out."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyflink.common import Row
from pyflink.datastream import DataStream, OutputTag, ProcessFunction

import windrow  # noqa: F401  # whole, before its parts: see the package
from windrow.durations import Duration
from windrow.errors import QueryError
from windrow.operator.idle import Idle
from windrow.query.query import Query
from windrow_flink.buckets import Buckets, checked, spread
from windrow_flink.elements import PACKED
from windrow_flink.function import LogCodec, Wiring, rows_out
from windrow_flink.generated import gather as gather_rows
from windrow_flink.generated import gathers
from windrow_flink.inputs import check_watermarks, checked_stream, kept_columns, stream_type
from windrow_flink.packed import Packed
from windrow_flink.rowcodec import RowCodec
from windrow_flink.rowtypes import BYTES, schema_of, type_of
from windrow_flink.steps import WindowStream, finish_rows, has_windows, keyed_by_first, time_to_live, timed
from windrow_flink.time_units import log_assumed_unit
from windrow_flink.times import microseconds


def windowed(
    stream: DataStream,
    query: Query,
    schema: pa.Schema | None = None,
    *,
    disorder: Duration | None = None,
    buckets: int | None = None,
    ttl: Duration | None = None,
    gather: bool | None = None,
    idle: Idle | Duration | None = None,
    uid: str = "windrow",
) -> DataStream:
    """The windows of a stream of rows or tuples, as a stream of rows: keys, ``window_start``, ``window_end``, aggregates.

    stream
        A stream of rows or tuples. Its named fields are the columns (``f0``, ``f1``, … of a tuple).
    schema
        The columns of a stream without types.
    disorder
        How far out of order rows may be. Watermarks are then made here, from the query's time column, that far behind the
        latest row. Without it, the stream must carry watermarks.
    buckets
        The number of groups of keys, and so the largest parallelism. It may not change between a savepoint and its
        resumption.
    ttl
        Delete the state of a group that has been idle for this long. It may not change between a savepoint and its resumption.
    gather
        With ``True``, the JVM gathers rows until the next watermark, and they cross into Python together; with ``False``,
        one by one. ``None`` gathers them if all columns that the query reads are numbers, booleans and texts, unless
        ``python.fn-execution.bundle.size`` is 1. A window then comes at most ``pipeline.auto-watermark-interval`` later. A job has
        to resume in the same way.
    idle
        How long a key has to be silent until its windows are frozen: see :class:`windrow.Idle`. It may change.
    uid
        Names the operator in savepoints. It must be different for each operator of a job.

    When a stream ends, its last windows are emitted. :func:`late_rows` returns the late rows of a query with ``late="side"``.
    Times come out as ``Types.SQL_TIMESTAMP()`` (in UTC), or as whole microseconds if they came in as such.
    """
    return windows_of(
        stream, query, StreamOptions(disorder, buckets, ttl, idle, uid, schema=schema, gather=gather)
    )


@dataclass(frozen=True)
class StreamOptions:
    """The arguments of :func:`windowed`."""

    disorder: Duration | None
    buckets: int | None
    ttl: Duration | None
    idle: Idle | Duration | None
    uid: str
    schema: pa.Schema | None = None
    gather: bool | None = None
    threads: int | None = 1
    """How many threads each slot has for the operator's work; ``None`` is one for each core."""


def windows_of(stream: DataStream, query: Query, options: StreamOptions) -> DataStream:
    """As :func:`windowed`."""
    disorder, schema, uid = options.disorder, options.schema, options.uid
    source = checked_stream(stream)
    known = schema if schema is not None else schema_of(stream_type(source))
    bound = query.bind(known)
    log_assumed_unit(known, query)
    if disorder is None:
        check_watermarks(source)
    kept = kept_columns(query, known)
    flink_keys = list(spread(checked(options.buckets, query)))
    together = options.gather
    if together is None:
        together = schema is None and gathers(source, kept)
    codec: LogCodec
    if together:
        codec = Packed(kept)
        elements = gather_rows(source, query, known, kept, flink_keys, disorder, uid)
    else:
        codec = RowCodec(
            kept, query.time, [known.get_field_index(name) for name in kept.names], query.time_unit
        )
        of = KeyOf([known.get_field_index(name) for name in query.by], Buckets(flink_keys))
        elements = timed(source, ToBucket(codec, of, disorder is not None), PACKED, disorder, uid)
    late_tag = OutputTag(f"{uid}-late", type_of(codec.schema)) if query.late == "side" else None
    wiring = Wiring(
        query,
        codec,
        rows_out,
        late_tag,
        rows_out,
        ttl=time_to_live(options.ttl),
        idle=Idle.of(options.idle),
        threads=options.threads,
    )
    return finish_rows(keyed_by_first(elements, BYTES), wiring, bound.output_schema, uid)


def late_rows(result: DataStream) -> DataStream:
    """The rows that came too late for a query with ``late="side"``.

    ``result`` is what :func:`windowed` or :func:`windowed_packed` returned for it. As a side output they have the tag
    ``windrow-late``, where ``windrow`` is the operator's ``uid``.
    """
    if not isinstance(result, WindowStream) or result.late_tag is None:
        raise QueryError(
            f"late_rows() needs the stream that windowed() or windowed_packed() returned for a query with late='side'; "
            f"{_instead(result)}"
        )
    return result.get_side_output(result.late_tag)


def _instead(result: object) -> str:
    """What somebody gave to late_rows() who has no late rows there, and what to do."""
    if isinstance(result, WindowStream):
        return "this query has another late=, so give it late='side'"
    if not isinstance(result, DataStream):
        return f"this is a {type(result).__name__}"
    if has_windows(result):
        return (
            "this is a stream made from it, so call late_rows() on the stream before .map() and other steps"
        )
    return "this stream has no windows yet: is it the one that was given to windowed()?"


class KeyOf:
    """The Flink key of a row."""

    def __init__(self, positions: list[int], buckets: Buckets) -> None:
        self.positions, self.buckets = positions, buckets

    def __call__(self, row: Any) -> int:
        try:
            return self.buckets.of(tuple([row[position] for position in self.positions]))
        except TypeError:  # a key that cannot be hashed: an instant
            return self.buckets.of(tuple([_hashable(row[position]) for position in self.positions]))


class ToBucket(ProcessFunction):
    """Rows as elements for the buckets of their keys. If ``timed``, each comes with its time, as a pair."""

    def __init__(self, codec: RowCodec, of: KeyOf, timed: bool) -> None:
        self.codec, self.of, self.timed = codec, of, timed

    def process_element(self, row: Any, context: ProcessFunction.Context) -> Iterable[Any]:
        values = tuple(row)
        bucket = self.of(values)
        element = Row(bucket, self.codec.encode(bucket, values))
        return ((element, self.codec.time_of(values) // 1000),) if self.timed else (element,)


def _hashable(value: Any) -> Any:
    try:
        hash(value)
    except TypeError:
        return microseconds(value)
    return value
