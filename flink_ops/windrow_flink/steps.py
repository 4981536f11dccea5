# SPDX-License-Identifier: Apache-2.0
"""The steps of a job that all ways share: times and watermarks, partitioning by bucket, and the window function."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
from pyflink.common import Duration as FlinkDuration
from pyflink.common import Types, WatermarkStrategy
from pyflink.common.typeinfo import TypeInformation
from pyflink.datastream import DataStream, KeyedStream, OutputTag, ProcessFunction
from pyflink.java_gateway import get_gateway

import windrow  # noqa: F401  # whole, before its parts: see the package
from windrow import durations
from windrow.durations import Duration
from windrow.errors import QueryError
from windrow_flink.buckets import KEY_GROUPS
from windrow_flink.columns import kinds_of
from windrow_flink.function import WindowFunction, Wiring, columns_out, rows_out
from windrow_flink.generated import scatter
from windrow_flink.rowtypes import BYTES, type_of

DESCRIPTION = "windows by windrow"
"""What the plan of a job says of the window function."""


class WindowStream(DataStream):
    """A stream of finished windows, which knows the tag of its late rows, and the step that gives them out."""

    def __init__(
        self, stream: DataStream, late_tag: OutputTag | None, function: DataStream | None = None
    ) -> None:
        super().__init__(stream._j_data_stream)
        self.late_tag = late_tag
        self._function = function

    def get_side_output(self, output_tag: OutputTag) -> DataStream:
        function = self._function
        return (
            super().get_side_output(output_tag) if function is None else function.get_side_output(output_tag)
        )


def finish_rows(keyed: KeyedStream, wiring: Wiring, schema: pa.Schema, uid: str) -> DataStream:
    """The window function on a keyed stream, with a row for each window; where columns allow it, rows are made in the JVM."""
    output = type_of(schema)
    if kinds_of(schema) is None:
        return finish(keyed, replace(wiring, emit=rows_out), output, uid)
    found = finish(keyed, replace(wiring, emit=columns_out), BYTES, uid)
    return WindowStream(scatter(found, schema, output, uid), wiring.late_tag, found)


def finish(keyed: KeyedStream, wiring: Wiring, output: TypeInformation, uid: str) -> DataStream:
    """The window function on a keyed stream, with all settings that a safe restart needs."""
    # Flink refuses to resume with another form of the log, and in another mode.
    own = uid_in_mode(keyed, f"{uid}-{wiring.codec.form}")
    result = keyed.process(WindowFunction(wiring), output_type=output).name(uid).uid(own)
    result.set_max_parallelism(KEY_GROUPS)
    result.set_description(DESCRIPTION)
    own_thread(result)
    if wiring.late_tag is not None:
        consume(result, wiring.late_tag, f"{uid}-late")
    return WindowStream(result, wiring.late_tag)


def has_windows(stream: DataStream) -> bool:
    """Whether a window function is among the steps that a stream is made by."""
    steps = stream._j_data_stream.getTransformation().getTransitivePredecessors()
    return any(step.getDescription() == DESCRIPTION for step in steps)


def consume(result: DataStream, tag: OutputTag, uid: str) -> None:
    """Discard a side output. Without a consumer of it, PyFlink would treat its rows as those of the main output."""
    nobody = get_gateway().jvm.org.apache.flink.streaming.api.functions.sink.v2.DiscardingSink()
    result._j_data_stream.getSideOutput(tag.get_java_output_tag()).sinkTo(nobody).uid(uid)


def own_thread(stream: DataStream) -> DataStream:
    """Keep an operator that works on Arrow data out of Flink's chains.

    In thread mode, all Python operators of a chain share one thread, but each has a Python thread state of its own.
    Native code that asks for the interpreter's lock then finds the wrong state, and waits forever.
    """
    return stream.disable_chaining()


def timed(
    stream: DataStream,
    step: ProcessFunction,
    output: TypeInformation,
    disorder: Duration | None,
    uid: str,
    *,
    alone: bool = False,
    parallelism: int | None = None,
) -> DataStream:
    """Apply a step. With ``disorder`` it gives pairs of an element and its time in milliseconds; watermarks are made from these.

    PyFlink would extract the time in a step of its own, which is one more crossing for every element. ``alone`` keeps the
    step out of chains. With a ``parallelism`` of 1, or that of the stream itself, elements keep their order.
    """
    jvm = get_gateway().jvm
    if disorder is None:
        name = jvm.org.apache.flink.python.util.PythonConfigUtil.STREAM_KEY_BY_MAP_OPERATOR_NAME
        made = stream.process(step, output_type=output).name(name).uid(f"{uid}-key")
        made = made if parallelism is None else made.set_parallelism(parallelism)
        return own_thread(made) if alone else made
    wait = durations.parse(disorder, name="disorder")
    if wait < 0:
        raise QueryError(f"disorder has to be zero or longer, not {durations.format(wait)!r}")
    pairs = (
        stream.process(step, output_type=Types.TUPLE([output, Types.LONG()]))
        .name(f"{uid}-key")
        .uid(f"{uid}-key")
    )
    pairs = pairs if parallelism is None else pairs.set_parallelism(parallelism)
    pairs = own_thread(pairs) if alone else pairs
    strategy = WatermarkStrategy.for_bounded_out_of_orderness(FlinkDuration.of_millis(-(-wait // 1000)))
    python = jvm.org.apache.flink.streaming.api.functions.python.eventtime
    j_strategy = strategy._j_watermark_strategy.withTimestampAssigner(python.CustomTimestampAssigner())
    j_timed = pairs._j_data_stream.assignTimestampsAndWatermarks(j_strategy).uid(f"{uid}-time")
    j_plain = j_timed.map(python.RemoveTimestampMapFunction(), output.get_java_type_info()).uid(
        f"{uid}-timed"
    )
    return DataStream(j_plain if parallelism is None else j_plain.setParallelism(parallelism))


def keyed_by_first(
    stream: DataStream, element: TypeInformation, key: TypeInformation | None = None
) -> KeyedStream:
    """Rows of (key, element), partitioned by the key inside the JVM; the key is an INT unless another type is given."""
    selector = get_gateway().jvm.KeyByKeySelector()
    row = Types.ROW([Types.INT() if key is None else key])
    j_keyed = stream._j_data_stream.keyBy(selector, row.get_java_type_info())
    return KeyedStream(j_keyed, element, stream)


def time_to_live(ttl: Duration | None) -> int | None:
    """The time to live in milliseconds."""
    if ttl is None:
        return None
    idle = durations.parse(ttl, name="ttl") // 1000
    if idle <= 0:
        raise QueryError("ttl has to be at least a millisecond")
    return idle


def uid_in_mode(stream: DataStream, uid: str) -> str:
    """The uid of an operator with state, with the way in which Flink runs Python.

    Flink's two modes keep state in different forms. Resumed in the other mode, a job would silently start with empty
    state. As the mode is part of the uid, Flink refuses that.
    """
    gateway = get_gateway()
    configuration = stream._j_data_stream.getExecutionEnvironment().getConfiguration()
    mode = configuration.get(gateway.jvm.org.apache.flink.python.PythonOptions.PYTHON_EXECUTION_MODE)
    return f"{uid}-{mode}"
