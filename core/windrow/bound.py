"""A query bound to the schema of its data: columns found, types checked, aggregates ready to compute.

>>> import pyarrow as pa
>>> import windrow as wr
>>> query = wr.Query(by="plug", window=wr.TimeWindow("1h"), aggregates={"peak": wr.Max("laod")})
>>> query.bind(pa.schema({"plug": pa.string(), "ts": pa.int64(), "load": pa.float64()}))
Traceback (most recent call last):
windrow.errors.ColumnError: no column 'laod' (input of aggregate 'peak'); did you mean 'load'?
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from windrow.aggregates.algebra import Aggregate, Monoid
from windrow.errors import ColumnError, DeltaOrderError, PropertyError, TimeColumnError, WindowError
from windrow.windows import CountWindow, DeltaWindow

if TYPE_CHECKING:
    from windrow.algorithms import Algorithm
    from windrow.query import Query

__all__ = ["BoundQuery", "bind"]


FARTHEST = 1 << 61
"""Microseconds from 1970 that leave room for the ends of windows."""


@dataclass(frozen=True, eq=False)
class BoundQuery:
    """A query that fits data of one schema; what the operator and the oracle work with."""

    query: Query
    schema: pa.Schema
    monoids: Mapping[str, Monoid]
    bound_type: pa.DataType
    """The type of ``window_start`` and ``window_end``."""
    output_schema: pa.Schema

    def times(self, data: pa.Table | pa.RecordBatch) -> NDArray[np.int64]:
        """The event times of the rows, in microseconds.

        Finer times are rounded down, which keeps every row in its windows: their boundaries are whole
        microseconds.
        """
        name = self.query.time
        column = data.column(name)
        if column.null_count:
            raise TimeColumnError(
                f"time column {name!r} has {column.null_count} null(s); every row needs a time: "
                f"drop such rows first, or give them one"
            )
        try:
            times = _microseconds(column)
        except pa.ArrowInvalid as error:
            raise TimeColumnError(
                f"time column {name!r} does not fit 64 bits of microseconds: {error}"
            ) from None
        earliest, latest = (times.min(), times.max()) if len(times) else (0, 0)
        if not -FARTHEST < earliest <= latest < FARTHEST:
            wrong = earliest if earliest <= -FARTHEST else latest
            raise TimeColumnError(
                f"time column {name!r} has {wrong} microseconds, more than 70,000 years from 1970; "
                f"is it in another unit? Divide nanoseconds by 1000"
            )
        return times

    def deltas(self, data: pa.Table | pa.RecordBatch) -> NDArray[Any]:
        """The attribute of a delta window: float64, or int64 (microseconds for a timestamp)."""
        window = self.query.window
        if not isinstance(window, DeltaWindow):
            raise WindowError(f"{type(window).__name__} has no attribute; only a DeltaWindow has")
        column = data.column(window.attribute)
        if column.null_count:
            raise DeltaOrderError(
                f"attribute {window.attribute!r} of DeltaWindow has {column.null_count} null(s), "
                f"which have no order: drop such rows first"
            )
        if pa.types.is_floating(column.type):
            values = np.asarray(column.cast(pa.float64()), dtype=np.float64)
            if np.isnan(values).any():
                raise DeltaOrderError(
                    f"attribute {window.attribute!r} of DeltaWindow has NaN, "
                    f"which has no order: drop such rows first"
                )
            return values
        try:
            return _microseconds(column)
        except pa.ArrowInvalid as error:
            raise ColumnError(
                f"attribute {window.attribute!r} of DeltaWindow does not fit 64 bits: {error}"
            ) from None

    def inputs(self, name: str) -> tuple[str, ...]:
        """The columns that the aggregate with this output name reads."""
        return self.query.aggregates[name].columns

    def boundaries(self, values: Sequence[Any] | NDArray[Any]) -> pa.Array:
        """Starts or ends of windows, as computed (integers, or floats of a delta attribute), as a column."""
        if pa.types.is_timestamp(self.bound_type):
            return pa.array(values, pa.int64()).cast(self.bound_type)
        return pa.array(values, self.bound_type)

    def sort(self, table: pa.Table) -> pa.Table:
        """The order of every answer: end, keys (null, values, NaN), start, label; ties stay as they are."""
        columns = [table.column("window_end")]
        for name in self.query.by:
            columns += [pc.is_valid(table.column(name)).cast(pa.int8()), _sortable(table.column(name))]
        columns.append(table.column("window_start"))
        if self.query.labelled:
            columns.append(table.column("window"))
        names = [str(number) for number in range(len(columns))]
        ascending = [(name, "ascending") for name in names]
        return table.take(pc.sort_indices(pa.table(columns, names=names), ascending))


def bind(query: Query, schema: pa.Schema, algorithm: type[Algorithm] | None = None) -> BoundQuery:
    """Check a query against the columns of the data, and its aggregates against what its algorithm needs."""
    keys = [_field(schema, name, "key") for name in query.by]
    for field in keys:
        if pa.types.is_nested(field.type):
            raise ColumnError(f"key column {field.name!r} is a {field.type}; keys have to be single values")
    time = _field(schema, query.time, "time")
    if not (pa.types.is_timestamp(time.type) or pa.types.is_integer(time.type)):
        raise TimeColumnError(
            f"time column {query.time!r} is a {time.type}; cast it to a timestamp, or to integer microseconds"
        )
    monoids = {name: _monoid(name, aggregate, schema) for name, aggregate in query.aggregates.items()}
    for name, monoid in monoids.items():
        if algorithm is not None:
            try:
                algorithm.check(monoid)
            except PropertyError as cause:
                raise PropertyError(f"aggregate {name!r}: {cause}") from None
    bound_type = _bound_type(query, schema, time.type)
    fields = [pa.field(field.name, field.type) for field in keys]
    if query.labelled:
        fields.append(pa.field("window", pa.string()))
    fields += [pa.field("window_start", bound_type), pa.field("window_end", bound_type)]
    fields += [pa.field(name, monoid.output) for name, monoid in monoids.items()]
    if query.emits:
        fields.append(pa.field("emission", pa.string()))
    return BoundQuery(query, schema, monoids, bound_type, pa.schema(fields))


def _monoid(name: str, aggregate: Aggregate, schema: pa.Schema) -> Monoid:
    role = f"input of aggregate {name!r}"
    return aggregate.bind([_field(schema, column, role).type for column in aggregate.columns])


def _field(schema: pa.Schema, name: str, role: str) -> pa.Field:
    count = len(schema.get_all_field_indices(name))
    if count == 0:
        raise ColumnError.unknown(name, role, schema.names)
    if count > 1:
        raise ColumnError(f"column {name!r} ({role}) occurs {count} times in the data; rename all but one")
    return schema.field(name)


def _bound_type(query: Query, schema: pa.Schema, time: pa.DataType) -> pa.DataType:
    window = query.window
    if isinstance(window, CountWindow):
        return pa.int64()
    if isinstance(window, DeltaWindow):
        return _delta_type(window, _field(schema, window.attribute, "attribute of DeltaWindow").type)
    return pa.timestamp("us", time.tz) if pa.types.is_timestamp(time) else pa.int64()


def _delta_type(window: DeltaWindow, attribute: pa.DataType) -> pa.DataType:
    name = f"attribute {window.attribute!r} of DeltaWindow is a {attribute}"
    if window.temporal and not pa.types.is_timestamp(attribute):
        raise WindowError(f"{name}, so range and slide have to be numbers in its unit, not durations")
    if pa.types.is_floating(attribute):
        return pa.float64()
    if not (pa.types.is_integer(attribute) or pa.types.is_timestamp(attribute)):
        raise ColumnError(f"{name}; expected a number or a timestamp")
    if not (isinstance(window.range, int) and isinstance(window.slide, int)):
        raise WindowError(f"{name}, so range and slide have to be whole numbers")
    return pa.timestamp("us", attribute.tz) if pa.types.is_timestamp(attribute) else pa.int64()


def _microseconds(column: pa.Array | pa.ChunkedArray) -> NDArray[np.int64]:
    """A column of timestamps or integers without nulls, as int64 microseconds."""
    if pa.types.is_timestamp(column.type):
        if column.type.unit == "ns":
            return np.floor_divide(_integers(column.cast(pa.int64())), 1000)
        column = column.cast(pa.timestamp("us", column.type.tz))
    return _integers(column.cast(pa.int64()))


def _integers(column: pa.Array | pa.ChunkedArray) -> NDArray[np.int64]:
    return np.asarray(column.to_numpy() if isinstance(column, pa.ChunkedArray) else column, dtype=np.int64)


def _sortable(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """The column in a type that Arrow can sort: a dictionary has no order of its own."""
    if pa.types.is_dictionary(column.type):
        return _sortable(column.cast(column.type.value_type))
    if pa.types.is_float16(column.type):
        return column.cast(pa.float32())
    return column.cast(pa.int8()) if pa.types.is_boolean(column.type) else column
