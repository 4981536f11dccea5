"""Streams in, streams of finished windows out."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pyarrow as pa
from pyflink.common import Duration as FlinkDuration
from pyflink.common import Row, Types, WatermarkStrategy
from pyflink.common.typeinfo import TypeInformation
from pyflink.datastream import DataStream, KeyedStream, OutputTag, ProcessFunction
from pyflink.datastream.data_stream import typeinfo
from pyflink.java_gateway import get_gateway

from windrow import durations
from windrow.durations import Duration
from windrow.errors import QueryError, TimeColumnError
from windrow.query import Query
from windrow_flink.buckets import KEY_GROUPS, Buckets, checked, spread
from windrow_flink.elements import PACKED
from windrow_flink.function import Plan, Windows, rows_out
from windrow_flink.rowcodec import RowCodec
from windrow_flink.rowtypes import BYTES, schema_of, type_of
from windrow_flink.times import microseconds


def windowed(
    stream: DataStream,
    query: Query,
    schema: pa.Schema | None = None,
    *,
    disorder: Duration | None = None,
    buckets: int | None = None,
    ttl: Duration | None = None,
    uid: str = "windrow",
) -> DataStream:
    """The windows of a stream of rows or tuples, as a stream of rows: keys, ``window_start``, ``window_end``, aggregates.

    The columns are the stream's named fields (``f0``, ``f1``, … of a tuple); for a stream without types, give
    its ``schema``. The stream must carry watermarks; with ``disorder`` they are made here, from the query's
    time column, that far behind the latest row. A stream that ends is finished by its end. Rows that come too
    late (``late="side"``) are at :func:`late_rows`.

    ``buckets`` is how many groups of keys there are, and so the largest parallelism; ``ttl`` frees the state
    of a group that has been idle for so long. Neither may change between a savepoint and its resumption, and
    ``uid`` must tell apart the operators of a job.

    Times come out as ``Types.SQL_TIMESTAMP()`` (in UTC), or as whole microseconds if they came in as such.
    """
    source = checked_stream(stream)
    known = schema if schema is not None else schema_of(stream_type(source))
    bound = query.bind(known)
    if disorder is None:
        check_watermarks(source)
    kept = kept_columns(query, known)
    codec = RowCodec(kept, query.time, [known.get_field_index(name) for name in kept.names])
    flink_keys = list(spread(checked(buckets, query)))
    of = KeyOf([known.get_field_index(name) for name in query.by], Buckets(flink_keys))
    late_tag = OutputTag(f"{uid}-late", type_of(kept)) if query.late == "side" else None
    plan = Plan(query, codec, rows_out, late_tag, rows_out, ttl=time_to_live(ttl))
    elements = timed(source, ToBucket(codec, of, disorder is not None), PACKED, disorder, uid)
    return finish(keyed_by_first(elements, BYTES), plan, type_of(bound.output_schema), uid)


def late_rows(result: DataStream) -> DataStream:
    """The rows that came too late for a query with ``late="side"``.

    ``result`` is what :func:`windowed` or :func:`windowed_packed` returned for it. As a side output they have the tag
    ``windrow-late``, where ``windrow`` is the operator's ``uid``.
    """
    tag = getattr(result, "windrow_late", None)
    if tag is None:
        raise QueryError(
            "late_rows() needs the stream that windowed() or windowed_packed() returned for a query with late='side'"
        )
    return result.get_side_output(tag)


class KeyOf:
    """The Flink key of a row."""

    def __init__(self, positions: list[int], buckets: Buckets) -> None:
        self.positions, self.buckets = positions, buckets

    def __call__(self, row: Any) -> int:
        try:
            return self.buckets.of(tuple([row[position] for position in self.positions]))
        except TypeError:  # a key that cannot be hashed: an instant
            return self.buckets.of(tuple([_hashable(row[position]) for position in self.positions]))


def finish(keyed: KeyedStream, plan: Plan, output: TypeInformation, uid: str) -> DataStream:
    """The operator on a keyed stream, with everything that makes it safe to restart."""
    mode = _mode(keyed)
    # Flink keeps the state of its two modes in forms that do not know each other, and would start empty without a word: so the mode
    # is part of the operator's identity, and resuming in the other one is refused.
    result = keyed.process(Windows(plan), output_type=output).name(uid).uid(f"{uid}-{mode}")
    result.set_max_parallelism(KEY_GROUPS)
    own_thread(result)
    if plan.late_tag is not None:
        # If nobody took the late rows, PyFlink would take them for windows.
        nobody = get_gateway().jvm.org.apache.flink.streaming.api.functions.sink.v2.DiscardingSink()
        result._j_data_stream.getSideOutput(plan.late_tag.get_java_output_tag()).sinkTo(nobody).uid(
            f"{uid}-late"
        )
    result.windrow_late = plan.late_tag
    return result


def own_thread(stream: DataStream) -> DataStream:
    """Keep an operator that works on Arrow data out of Flink's chains.

    In thread mode, each Python operator of a chain has a thread state of its own in one and the same thread.
    Native code that asks for the interpreter's lock then finds the wrong one, and waits for itself forever.
    """
    return stream.disable_chaining()


class ToBucket(ProcessFunction):
    """Rows as elements for the buckets of their keys. With a clock, as pairs of that and their time."""

    def __init__(self, codec: RowCodec, of: KeyOf, timed: bool) -> None:
        self.codec, self.of, self.timed = codec, of, timed

    def process_element(self, row: Any, context: ProcessFunction.Context) -> Iterable[Any]:
        values = tuple(row)
        bucket = self.of(values)
        element = Row(bucket, self.codec.encode(bucket, values))
        return ((element, self.codec.time_of(values) // 1000),) if self.timed else (element,)


def timed(
    stream: DataStream,
    step: ProcessFunction,
    output: TypeInformation,
    disorder: Duration | None,
    uid: str,
    *,
    alone: bool = False,
    single: bool = False,
) -> DataStream:
    """Apply a step; with ``disorder`` it gives pairs of an element and its time in milliseconds, from which watermarks are made.

    PyFlink would extract the time in a step of its own: one more crossing for every element. A ``single`` task keeps
    the elements in their order.
    """
    jvm = get_gateway().jvm
    if disorder is None:
        name = jvm.org.apache.flink.python.util.PythonConfigUtil.STREAM_KEY_BY_MAP_OPERATOR_NAME
        made = stream.process(step, output_type=output).name(name).uid(f"{uid}-key")
        made = made.set_parallelism(1) if single else made
        return own_thread(made) if alone else made
    wait = durations.parse(disorder, name="disorder")
    if wait < 0:
        raise QueryError(f"disorder cannot be negative, as {durations.format(wait)!r} is")
    pairs = (
        stream.process(step, output_type=Types.TUPLE([output, Types.LONG()]))
        .name(f"{uid}-key")
        .uid(f"{uid}-key")
    )
    pairs = pairs.set_parallelism(1) if single else pairs
    pairs = own_thread(pairs) if alone else pairs
    strategy = WatermarkStrategy.for_bounded_out_of_orderness(FlinkDuration.of_millis(-(-wait // 1000)))
    python = jvm.org.apache.flink.streaming.api.functions.python.eventtime
    j_strategy = strategy._j_watermark_strategy.withTimestampAssigner(python.CustomTimestampAssigner())
    j_timed = pairs._j_data_stream.assignTimestampsAndWatermarks(j_strategy).uid(f"{uid}-time")
    j_plain = j_timed.map(python.RemoveTimestampMapFunction(), output.get_java_type_info()).uid(
        f"{uid}-timed"
    )
    return DataStream(j_plain.setParallelism(1) if single else j_plain)


def keyed_by_first(stream: DataStream, element: TypeInformation) -> KeyedStream:
    """Rows of (key, element), partitioned by the key on Flink's side of the fence."""
    selector = get_gateway().jvm.KeyByKeySelector()
    j_keyed = stream._j_data_stream.keyBy(selector, Types.ROW([Types.INT()]).get_java_type_info())
    return KeyedStream(j_keyed, element, stream)


def kept_columns(query: Query, schema: pa.Schema) -> pa.Schema:
    """The columns that have to wait in state: all, if late rows are handed back, else those that the query reads."""
    if query.late == "side":
        return schema
    names = {*query.by, query.time, *(name for each in query.aggregates.values() for name in each.columns)}
    attribute = getattr(query.window, "attribute", None)
    return pa.schema([each for each in schema if each.name in names or each.name == attribute])


def checked_stream(stream: object) -> DataStream:
    if isinstance(stream, KeyedStream):
        raise QueryError(
            "windowed() groups by the query's own keys (by=…); give it the stream before key_by, "
            "or write stream.key_by(…).process(FPBA(query))"
        )
    if not isinstance(stream, DataStream):
        raise QueryError(
            f"windowed() needs a DataStream, not {type(stream).__name__}; for a Table there is windowed_table()"
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
            "the stream has no watermarks and no end, so no window would ever be finished; pass disorder='5s' (how much a row "
            "may be behind), or give its source a WatermarkStrategy"
        )


def stream_type(stream: DataStream) -> TypeInformation:
    return typeinfo._from_java_type(stream._j_data_stream.getTransformation().getOutputType())


def _mode(stream: DataStream) -> str:
    gateway = get_gateway()
    configuration = stream._j_data_stream.getExecutionEnvironment().getConfiguration()
    return str(configuration.get(gateway.jvm.org.apache.flink.python.PythonOptions.PYTHON_EXECUTION_MODE))


def time_to_live(ttl: Duration | None) -> int | None:
    """In milliseconds."""
    if ttl is None:
        return None
    idle = durations.parse(ttl, name="ttl") // 1000
    if idle <= 0:
        raise QueryError("ttl has to be at least a millisecond")
    return idle


def _hashable(value: Any) -> Any:
    try:
        hash(value)
    except TypeError:
        return microseconds(value)
    return value
