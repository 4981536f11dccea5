# SPDX-License-Identifier: Apache-2.0
"""Tables in, tables out. Where query and aggregates allow it, Flink's own SQL aggregates the slices."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import count
from typing import Any

import pyarrow as pa
from pyflink.common import Row
from pyflink.datastream import ProcessFunction
from pyflink.java_gateway import get_gateway
from pyflink.table import StreamTableEnvironment, Table
from pyflink.table.types import to_arrow_type

import windrow  # noqa: F401  # whole, before its parts: see the package
from windrow.errors import ColumnError, QueryError, TimeColumnError
from windrow.query.query import BoundQuery, Query
from windrow.query.slicing import (
    Panes,
    PushDown,
    columns_sent,
    obstacle,
    panes,
    push_down_option,
    time_windows,
)
from windrow.windows import CountWindow, DeltaWindow
from windrow_flink.buckets import Buckets, checked, spread
from windrow_flink.columns import kinds_of
from windrow_flink.elements import PACKED
from windrow_flink.function import LogCodec, Wiring, rows_out
from windrow_flink.generated import gather
from windrow_flink.inputs import kept_columns
from windrow_flink.packed import Packed
from windrow_flink.rowcodec import RowCodec
from windrow_flink.rowtypes import BYTES
from windrow_flink.steps import finish_rows, keyed_by_first, time_to_live
from windrow_flink.stream import KeyOf

MILLISECOND = 1000
_SQL = {"i1": "TINYINT", "i2": "SMALLINT", "i4": "INT", "i8": "BIGINT", "f4": "FLOAT", "f8": "DOUBLE"}
_numbers = count()


def windowed_table(
    table: Table,
    query: Query,
    *,
    push_down: PushDown = "auto",
    pushdown: PushDown | None = None,
    buckets: int | None = None,
    ttl: Any = None,
    uid: str = "windrow",
) -> Table:
    """The windows of a table, as a table.

    The query's time column must be the table's time attribute (the one its ``WATERMARK`` is declared for).
    ``push_down`` says who aggregates rows into slices: ``True`` is Flink SQL, ``False`` is Python. "auto" is SQL if that
    cannot change the result: time windows, no lateness, and aggregates whose SQL form rounds no more than ours.
    :func:`pushed_down` tells what would be done, and why. ``pushdown`` is another spelling of ``push_down``. Rows and
    slices for Python are gathered by the JVM if all their columns are numbers, booleans and texts; otherwise they cross one by one.
    A row with the time of the watermark itself is not late, so ``WATERMARK FOR ts AS ts`` keeps rows of equal times.
    """
    asked = push_down_option(push_down, pushdown)
    environment = _environment(table)
    schema, zoned = _schema(table, query)
    bound = query.bind(schema)
    slices, reason = _sql_panes(bound, environment, zoned, asked)
    if asked is True and slices is None:
        raise QueryError(f"push_down=True is not possible: {reason}")
    if query.late == "side":
        raise QueryError(
            "windowed_table() has no side output for late rows; use late='drop' or 'update', or windowed()"
        )
    name = f"windrow_input_{next(_numbers)}"
    environment.create_temporary_view(name, table)
    kept = kept_columns(query, schema)
    flink_keys = list(spread(checked(buckets, query)))
    columns, text, shift = _crossing(bound, name, kept, slices)
    stream = environment.to_data_stream(environment.sql_query(text))
    codec: LogCodec
    if kinds_of(columns) is not None:
        codec = Packed(columns)
        elements = gather(stream, query, columns, columns, flink_keys, None, uid, record_time=shift)
    else:
        codec = RowCodec(columns, query.time, range(len(columns)))
        of = KeyOf([columns.get_field_index(each) for each in query.by], Buckets(flink_keys))
        step = FromTable(codec, of, columns.get_field_index(query.time), shift)
        elements = stream.process(step, output_type=PACKED).name(f"{uid}-key").uid(f"{uid}-key")
    wiring = Wiring(query, codec, rows_out, ttl=time_to_live(ttl), schema=None if slices is None else kept)
    found = finish_rows(keyed_by_first(elements, BYTES), wiring, bound.output_schema, uid)
    return _as_table(environment, found, bound, zoned)


def pushed_down(table: Table, query: Query) -> str:
    """Whether Flink SQL would aggregate the slices of this query, and why (not)."""
    schema, zoned = _schema(table, query)
    slices, reason = _sql_panes(query.bind(schema), table._t_env, zoned, "auto")
    return reason if slices is None else f"Flink SQL aggregates slices of {slices.length // MILLISECOND} ms"


class FromTable(ProcessFunction):
    """Rows of a table as elements for the buckets of their keys. Their time is Flink's time of the row."""

    def __init__(self, codec: RowCodec, of: KeyOf, time: int, shift: int) -> None:
        self.codec, self.of, self.time, self.shift = codec, of, time, shift

    def process_element(self, row: Any, context: ProcessFunction.Context) -> Iterable[Any]:
        values = list(row)
        values[self.time] = (context.timestamp() + self.shift) * MILLISECOND
        bucket = self.of(values)
        return (Row(bucket, self.codec.encode(bucket, values)),)


def _schema(table: Table, query: Query) -> tuple[pa.Schema, bool]:
    """The columns of a table, with its time as whole microseconds; and whether the time is an instant (``TIMESTAMP_LTZ``)."""
    known = table.get_schema()
    names, types = known.get_field_names(), known.get_field_data_types()
    if query.time not in names:
        raise ColumnError.unknown(query.time, "time", names)
    j_column = table._j_table.getResolvedSchema().getColumn(query.time).get()
    j_type = j_column.getDataType().getLogicalType()
    checks = get_gateway().jvm.org.apache.flink.table.types.logical.utils.LogicalTypeChecks
    if not checks.isRowtimeAttribute(j_type):
        raise TimeColumnError(
            f"time column {query.time!r} of the table is {j_type.asSummaryString()}, and not its time attribute; "
            f"declare WATERMARK FOR {query.time} AS {query.time} - INTERVAL '5' SECOND where the table is made"
        )
    if query.time_unit is not None:
        raise TimeColumnError(
            f"time column {query.time!r} of a table is its time attribute, a timestamp; leave time_unit={query.time_unit!r} out"
        )
    fields = []
    for name, type_ in zip(names, types, strict=True):
        if name == query.time:
            fields.append(pa.field(name, pa.int64()))
            continue
        try:
            fields.append(pa.field(name, to_arrow_type(type_)))
        except ValueError:
            if name in columns_sent(query, names):
                raise ColumnError(
                    f"column {name!r} of the table is {type_}, which has no Arrow type; cast it"
                ) from None
    kind = j_type.asSummaryString()
    return pa.schema(fields), "LTZ" in kind or "LOCAL TIME ZONE" in kind


def _environment(table: object) -> StreamTableEnvironment:
    if not isinstance(table, Table):
        raise QueryError(
            f"windowed_table() needs a Table, not {type(table).__name__}; for a DataStream, use windowed()"
        )
    environment = table._t_env
    if not isinstance(environment, StreamTableEnvironment):
        raise QueryError(
            "windowed_table() needs a table of a StreamTableEnvironment: StreamTableEnvironment.create(environment)"
        )
    return environment


def _crossing(
    bound: BoundQuery, view: str, kept: pa.Schema, slices: Panes | None
) -> tuple[pa.Schema, str, int]:
    """What crosses into Python: rows, or the slices that SQL makes of them.

    Returns the columns, the SQL that gives them, and what turns Flink's time of a row into the operator's, in milliseconds:
    the time of a slice is its last millisecond there, and its first here.
    """
    if slices is None:
        return kept, _columns_sql(view, kept), 0
    return _partial_schema(bound), _slice_sql(bound, view, slices), 1 - slices.length // MILLISECOND


def _columns_sql(view: str, kept: pa.Schema) -> str:
    return f"SELECT {', '.join(map(quoted, kept.names))} FROM {quoted(view)}"


def quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def _sql_panes(
    bound: BoundQuery, environment: Any, zoned: bool, push_down: PushDown
) -> tuple[Panes | None, str]:
    """The equal slices that Flink SQL aggregates; if none, why not.

    Beyond the rule for all engines, their bounds have to be whole milliseconds in UTC, and fields of partials numbers.
    """
    if push_down is False:
        return None, "push_down=False"
    if reason := obstacle(bound, "flink", stream=True):
        return None, reason
    for name, monoid in bound.monoids.items():
        if monoid.fields is None or not all(f.dtype.str[1:] in _SQL and not f.width for f in monoid.fields):
            return None, f"aggregate {name!r} ({monoid.name}) has no SQL form for Flink"
        if push_down is not True and monoid.sql is not None and not monoid.sql.exact:
            return (
                None,
                f"aggregate {name!r} ({monoid.name}) would be rounded more in SQL; ask for it with push_down=True",
            )
    slices = panes(time_windows(bound.query))
    if slices.length % MILLISECOND or slices.offset % MILLISECOND:
        return None, "the slices are not whole milliseconds, Flink's unit"
    if (
        zoned and not _is_utc(environment) and 900_000_000 % slices.length
    ):  # zones differ by quarters of an hour
        zone = environment.get_config().get_local_timezone()
        return None, f"Flink SQL would align the slices to the session's time zone, {zone}"
    return slices, ""


def _is_utc(environment: Any) -> bool:
    return environment.get_config().get_local_timezone() in ("UTC", "Etc/UTC", "Z", "GMT")


def _slice_sql(bound: BoundQuery, view: str, slices: Panes) -> str:
    """SQL that gives the partials of slices, under the last millisecond of each."""
    query = bound.query
    time = quoted(query.time)
    keys = [quoted(name) for name in query.by]
    fields = []
    for name, monoid in bound.monoids.items():
        assert monoid.sql is not None and monoid.fields is not None
        expressions = monoid.sql.on("flink")
        assert expressions is not None
        inputs = bound.sql_inputs(name, "flink")
        assert inputs is not None, "obstacle() has looked"
        for field in monoid.fields:
            expression = expressions[field.name].format(*inputs)
            fields.append(
                f"CAST({expression} AS {_SQL[field.dtype.str[1:]]}) AS {quoted(f'{name}.{field.name}')}"
            )
    columns = ", ".join([*keys, f"window_time AS {time}", *fields])
    # A row before the watermark is late, even if its slice is still open.
    rows = f"SELECT * FROM {quoted(view)} WHERE CURRENT_WATERMARK({time}) IS NULL OR {time} >= CURRENT_WATERMARK({time})"
    inner = f"{view}_rows"
    offset = f", {_interval(slices.offset)}" if slices.offset else ""
    return (
        f"WITH {quoted(inner)} AS ({rows}) SELECT {columns} "
        f"FROM TABLE(TUMBLE(TABLE {quoted(inner)}, DESCRIPTOR({time}), {_interval(slices.length)}{offset})) "
        f"GROUP BY {', '.join([*keys, 'window_start', 'window_end', 'window_time'])}"
    )


def _partial_schema(bound: BoundQuery) -> pa.Schema:
    fields = [bound.schema.field(name) for name in bound.query.by]
    fields.append(pa.field(bound.query.time, pa.int64()))
    for name, monoid in bound.monoids.items():
        fields += [
            pa.field(f"{name}.{field.name}", pa.from_numpy_dtype(field.dtype))
            for field in monoid.fields or ()
        ]
    return pa.schema(fields)


def _as_table(environment: StreamTableEnvironment, result: Any, bound: BoundQuery, zoned: bool) -> Table:
    """The windows as a table whose bounds have the type of the time attribute."""
    name = f"windrow_output_{next(_numbers)}"
    environment.create_temporary_view(name, environment.from_data_stream(result))
    temporal = not isinstance(bound.query.window, CountWindow | DeltaWindow)
    columns = []
    for field in map(quoted, bound.output_schema.names):
        bounds = temporal and field in ("`window_start`", "`window_end`")
        columns.append(f"{_timestamp(field, zoned)} AS {field}" if bounds else field)
    return environment.sql_query(f"SELECT {', '.join(columns)} FROM {quoted(name)}")


def _timestamp(micros: str, zoned: bool) -> str:
    millis = f"({micros} / 1000)"
    if zoned:
        return f"TO_TIMESTAMP_LTZ({millis}, 3)"
    days = f"CAST(FLOOR(CAST({millis} AS DOUBLE) / 86400000) AS INT)"
    return (
        f"TIMESTAMPADD(SECOND, CAST(({millis} - CAST({days} AS BIGINT) * 86400000) / 1000 AS INT), "
        f"TIMESTAMPADD(DAY, {days}, TIMESTAMP '1970-01-01 00:00:00.000'))"
        f" + CAST(MOD({millis} + 86400000000000, 1000) AS INT) * INTERVAL '0.001' SECOND"
    )


def _interval(micros: int) -> str:
    seconds, millis = divmod(micros // MILLISECOND, 1000)
    return f"INTERVAL '{seconds}.{millis:03d}' SECOND({max(2, len(str(seconds)))}, 3)"
