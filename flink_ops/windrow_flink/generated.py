# SPDX-License-Identifier: Apache-2.0
"""Two steps inside the JVM: rows are gathered into elements before Python, and windows become rows after it.

They are Java texts that travel with the job, and that Flink compiles where they run, as it does with the operators that it
generates for SQL. So there is no jar to install.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib.resources import files
from typing import Any

import pyarrow as pa
from pyflink.common.typeinfo import TypeInformation
from pyflink.datastream import DataStream
from pyflink.java_gateway import get_gateway

import windrow  # noqa: F401  # whole, before its parts: see the package
from windrow import durations
from windrow.columns.times import PER_UNIT
from windrow.durations import Duration
from windrow.errors import ColumnError, QueryError
from windrow.query.query import Query
from windrow_flink.columns import KINDS, kinds_of
from windrow_flink.elements import PACKED

ROWS = 8192
"""How many rows of a bucket are gathered at most."""


def gathers(stream: DataStream, schema: pa.Schema) -> bool:
    """Whether rows of these columns are gathered by default: not if one cannot be, or if rows shall cross one by one."""
    options = get_gateway().jvm.org.apache.flink.python.PythonOptions
    configuration = stream._j_data_stream.getExecutionEnvironment().getConfiguration()
    return kinds_of(schema) is not None and bool(configuration.get(options.MAX_BUNDLE_SIZE) > 1)


def gather(
    stream: DataStream,
    query: Query,
    known: pa.Schema,
    kept: pa.Schema,
    flink_keys: Sequence[int],
    disorder: Duration | None,
    uid: str,
    *,
    record_time: int | None = None,
) -> DataStream:
    """Rows of a stream as packed elements, in the order of each bucket's rows.

    ``known`` are the columns of the stream, ``kept`` those that cross. With ``disorder`` watermarks are made from the
    query's time column; otherwise those of the stream go along. With ``record_time``, that column is Flink's own time of
    a row and so many milliseconds.
    """
    columns = []
    for field in kept:
        if field.type not in KINDS:
            raise ColumnError(
                f"column {field.name!r} is a {field.type}, which cannot cross in batches; make it a number, a boolean or a text "
                "(a time as whole microseconds, Types.LONG()), or give windowed() the rows one by one (gather=False)"
            )
        own = record_time is not None and field.name == query.time
        columns.append(f"{KINDS[field.type]}{-1 if own else known.get_field_index(field.name)}")
    times, divided = (1, 1) if query.time_unit is None else PER_UNIT[query.time_unit]
    made = _generated(
        stream,
        "WindrowGather",
        [
            " ".join(columns),
            kept.get_field_index(query.time),
            times,
            divided,
            _joined(kept.get_field_index(name) for name in query.by),
            _joined(flink_keys),
            _milliseconds(disorder),
            ROWS,
            record_time or 0,
        ],
        PACKED,
    )
    return made.name(f"{uid}-gather").uid(f"{uid}-gather")


def scatter(stream: DataStream, schema: pa.Schema, output: TypeInformation, uid: str) -> DataStream:
    """Elements of :func:`windrow_flink.columns.write_columns` as rows."""
    made = _generated(stream, "WindrowScatter", [kinds_of(schema)], output)
    return made.name(f"{uid}-unpack").uid(f"{uid}-unpack")


def _generated(
    stream: DataStream, name: str, references: Sequence[Any], output: TypeInformation
) -> DataStream:
    """A step of the JVM after a stream, with the stream's parallelism, so that Flink can chain the two."""
    gateway = get_gateway()
    table = gateway.jvm.org.apache.flink.table.runtime
    values = gateway.new_array(gateway.jvm.Object, len(references))
    for place, value in enumerate(references):
        values[place] = str(value)
    code = files(__package__).joinpath("java", f"{name}.java").read_text()
    j_stream = stream._j_data_stream
    configuration = j_stream.getExecutionEnvironment().getConfiguration()
    operator = table.generated.GeneratedOperator(name, code, values, configuration)
    factory = table.operators.CodeGenOperatorFactory(operator)
    java = gateway.jvm.org.apache.flink.streaming
    factory.setChainingStrategy(java.api.operators.ChainingStrategy.ALWAYS)
    step = java.api.transformations.OneInputTransformation(
        j_stream.getTransformation(), name, factory, output.get_java_type_info(), j_stream.getParallelism()
    )
    flink = j_stream.getExecutionEnvironment()
    flink.addOperator(step)
    return DataStream(_single_output(flink, step))


def _single_output(flink: Any, step: Any) -> Any:
    """What Flink's own ``transform`` returns. It does not take a generated operator, and the constructor is protected."""
    gateway = get_gateway()
    kind = "org.apache.flink.streaming.api.datastream.SingleOutputStreamOperator"
    (constructor,) = (
        gateway.jvm.Thread.currentThread().getContextClassLoader().loadClass(kind).getDeclaredConstructors()
    )
    constructor.setAccessible(True)
    arguments = gateway.new_array(gateway.jvm.Object, 2)
    arguments[0], arguments[1] = flink, step
    return constructor.newInstance(arguments)


def _milliseconds(disorder: Duration | None) -> int:
    """Rounded up; -1 if there is none."""
    if disorder is None:
        return -1
    wait = durations.parse(disorder, name="disorder")
    if wait < 0:
        raise QueryError(f"disorder cannot be negative, as {durations.format(wait)!r} is")
    return -(-wait // 1000)


def _joined(numbers: Any) -> str:
    return " ".join(map(str, numbers))
