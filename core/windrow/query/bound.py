# SPDX-License-Identifier: Apache-2.0
"""A query bound to the schema of its data: columns found, types checked, aggregates ready to compute.

>>> import pyarrow as pa
>>> import windrow as wr
>>> query = wr.Query(by="plug", window=wr.TimeWindow("1h"), aggregates={"peak": wr.Max("laod")})
>>> query.bind(pa.schema({"plug": pa.string(), "ts": pa.int64(), "load": pa.float64()}))
Traceback (most recent call last):
windrow.errors.ColumnError: no column 'laod' (input of aggregate 'peak'); did you mean 'load'?
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from windrow.aggregates.algebra import Monoid
from windrow.aggregates.whole import WholeWindow
from windrow.approximate.bucket import Bucket, bucket_of
from windrow.approximate.promise import check_promise
from windrow.columns import arrow
from windrow.columns.text import plain_schema
from windrow.columns.times import shown_time
from windrow.columns.words import can_be_key
from windrow.durations import LONGEST
from windrow.errors import (
    AggregateError,
    ColumnError,
    DeltaOrderError,
    PropertyError,
    WindowError,
)
from windrow.expressions.sql import quoted
from windrow.query.inputs import Computed, Inputs, resolve
from windrow.windows import CountWindow, DeltaWindow, TimeWindow
from windrow.windows.calendar import Calendar, zone_named

if TYPE_CHECKING:
    from windrow.algorithms import Algorithm
    from windrow.query.query import Query

__all__ = ["BoundQuery", "bind", "from_partials"]

FARTHEST_DELTA = 1 << 62
"""Whole numbers of a delta attribute are nearer to zero, so that the difference of two of them fits 64 bits."""


@dataclass(frozen=True, eq=False)
class BoundQuery:
    """A query that fits data of one schema; what the operator and the oracle work with."""

    query: Query
    schema: pa.Schema
    monoids: Mapping[str, Monoid]
    bound_type: pa.DataType
    """The type of ``window_start`` and ``window_end``."""
    output_schema: pa.Schema
    reading: Mapping[str, Inputs]
    """What each aggregate reads."""
    buckets: Mapping[str, Bucket] = dataclasses.field(default_factory=dict)
    """What the buckets of each aggregate know, if results may be approximate."""

    @property
    def computed(self) -> dict[str, Computed]:
        """The columns that aggregates read and the data does not have, by name."""
        return {name: each for inputs in self.reading.values() for name, each in inputs.computed.items()}

    @cached_property
    def computes(self) -> bool:
        """Whether there are such columns."""
        return bool(self.computed)

    @cached_property
    def no_rows(self) -> pa.Table:
        """A table of no rows."""
        return self.schema.empty_table()

    @cached_property
    def no_windows(self) -> pa.Table:
        """An output of no windows."""
        return self.output_schema.empty_table()

    def with_computed(self, data: pa.Table) -> pa.Table:
        """Rows with the columns that aggregates read beside their own."""
        for name, column in self.computed.items():
            data = data.append_column(pa.field(name, column.plain), column.batch(data))
        return data

    def column_type(self, name: str) -> pa.DataType:
        """The type of a column of the data, or of a computed one."""
        computed = self.computed.get(name)
        return self.schema.field(name).type if computed is None else computed.plain

    @property
    def columns_read(self) -> list[str]:
        """The columns that windows and aggregates read, computed ones among them, sorted by name: the time, inputs and a
        delta attribute. A key is among them only if an aggregate reads it too."""
        window = self.query.window
        attribute = [window.attribute] if isinstance(window, DeltaWindow) else []
        inputs = [name for each in self.reading.values() for name in each.names]
        return sorted({self.query.time, *inputs, *attribute})

    @property
    def columns_needed(self) -> list[str]:
        """The columns of the data behind those that are read."""
        computed = self.computed
        found = [computed[name].reads if name in computed else (name,) for name in self.columns_read]
        return sorted({name for names in found for name in names})

    @property
    def outputs(self) -> dict[str, Monoid]:
        """The columns of results: of each aggregate, and of its error if it has one."""
        found: dict[str, Monoid] = {}
        for name, monoid in self.monoids.items():
            found[name] = monoid
            if name in self.buckets:
                found[f"{name}_error"] = self.buckets[name].monoid
        return found

    def times(self, data: pa.Table | pa.RecordBatch) -> NDArray[np.int64]:
        """The event times of the rows, in microseconds."""
        found = arrow.event_times(data, self.query.time, self.query.time_unit)
        if self.calendar is not None:
            self.calendar.check(found)
        return found

    @cached_property
    def calendar(self) -> Calendar | None:
        """The calendar of the windows, if they have one; it does not know all times."""
        window = self.query.windows[0][1]
        return window.calendar if isinstance(window, TimeWindow) else None

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
            found = arrow.microseconds(column)
        except pa.ArrowInvalid as error:
            raise ColumnError(
                f"attribute {window.attribute!r} of DeltaWindow does not fit into 64 bits: {error}"
            ) from None
        if len(found) and not -FARTHEST_DELTA < found.min() <= found.max() < FARTHEST_DELTA:
            wrong = found.min() if found.min() <= -FARTHEST_DELTA else found.max()
            raise ColumnError(
                f"attribute {window.attribute!r} of DeltaWindow has {wrong}; whole numbers have to lie between "
                f"-2**62 and 2**62: cast the column to float64"
            )
        return found

    def inputs(self, name: str) -> tuple[str, ...]:
        """The columns that the aggregate with this output name reads."""
        return self.reading[name.removesuffix("_error") if name not in self.reading else name].names

    def sql_inputs(self, name: str, engine: Literal["spark", "flink"]) -> list[str] | None:
        """The SQL of what an aggregate reads; ``None`` if the engine has none."""
        computed = self.computed
        found = [
            computed[each].sql(engine) if each in computed else quoted(each) for each in self.inputs(name)
        ]
        texts = [text for text in found if text is not None]
        return texts if len(texts) == len(found) else None

    def whole(self, name: str, *, compiled: bool = True) -> WholeWindow | None:
        """How this aggregate comes from all rows of a window; none if it comes from partials."""
        query = self.query
        if from_partials(query, self.monoids[name]):
            return None
        types = [self.column_type(column) for column in self.inputs(name)]
        return self.reading[name].aggregate.whole(types, compiled=compiled)

    def boundaries(self, values: Sequence[Any] | NDArray[Any]) -> pa.Array:
        """Starts or ends of windows, as computed (integers, or floats of a delta attribute), as a column."""
        if pa.types.is_timestamp(self.bound_type):
            return pa.array(values, pa.int64()).cast(self.bound_type)
        return pa.array(values, self.bound_type)

    def shown_bounds(self, start: Any, end: Any) -> tuple[str, str]:
        """Start and end of a window for a message: times as people write them, in the zone of the windows if they have one."""
        bounds = pa.array(np.array([start, end])).view(self.bound_type)
        if isinstance(self.query.window, CountWindow):
            return f"row {start}", f"row {end}"
        zone = None if self.calendar is None else zone_named(self.calendar.zone)
        first, second = (shown_time(bound, zone) for bound in bounds)
        return first, second

    def sort(self, table: pa.Table) -> pa.Table:
        """The table in the order of every result: end, keys (null, values, NaN), start, label. Equal rows keep their order."""
        columns = [table.column("window_end")]
        for name in self.query.by:
            columns += [pc.is_valid(table.column(name)).cast(pa.int8()), _sortable(table.column(name))]
        columns.append(table.column("window_start"))
        if self.query.labelled:
            columns.append(table.column("window"))
        names = [str(number) for number in range(len(columns))]
        ascending = [(name, "ascending") for name in names]
        return table.take(pc.sort_indices(pa.table(columns, names=names), ascending))


def bound_once(query: Query, schema: pa.Schema, algorithm: type[Algorithm] | None = None) -> BoundQuery:
    """What :func:`bind` gives, made once for a query and a schema: operators are opened again and again."""
    known = _BOUND.get(id(query))
    if known is not None and known[0] is query and known[1].equals(schema, check_metadata=True):
        return known[2]
    found = bind(query, schema, algorithm)
    if len(_BOUND) >= MOST_BOUND:
        _BOUND.clear()
    _BOUND[id(query)] = query, schema, found
    return found


_BOUND: dict[int, tuple[Query, pa.Schema, BoundQuery]] = {}
MOST_BOUND = 128


def bind(query: Query, schema: pa.Schema, algorithm: type[Algorithm] | None = None) -> BoundQuery:
    """Check a query against the columns of the data, and its aggregates against what its algorithm needs."""
    schema = plain_schema(schema)
    keys = [arrow.field(schema, name, "key") for name in query.by]
    for field in keys:
        if pa.types.is_nested(field.type):
            raise ColumnError(f"key column {field.name!r} is a {field.type}; keys have to be single values")
        if not can_be_key(field.type):
            raise ColumnError(
                f"key column {field.name!r} is a {field.type}, whose values have no order; cast it to text or to a number"
            )
    time = arrow.check_time(schema, query.time, query.time_unit)
    reading = {name: resolve(name, aggregate, schema) for name, aggregate in query.aggregates.items()}
    monoids = {name: _monoid(name, inputs, schema) for name, inputs in reading.items()}
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
    buckets = {} if query.within is None else _buckets(query, monoids)
    for name, monoid in monoids.items():
        fields.append(pa.field(name, monoid.output))
        fields += [pa.field(f"{name}_error", pa.float64())] if buckets else []
    if query.emits:
        fields.append(pa.field("emission", pa.string()))
    return BoundQuery(query, schema, monoids, bound_type, pa.schema(fields), reading, buckets)


def _buckets(query: Query, monoids: Mapping[str, Monoid]) -> dict[str, Bucket]:
    """What buckets know of each aggregate; an error if the query promises what cannot be known."""
    buckets = {name: bucket_of(name, query.aggregates[name], monoid) for name, monoid in monoids.items()}
    assert query.within is not None
    counting = isinstance(query.window, CountWindow)
    for name, bucket in buckets.items():
        check_promise(name, bucket, monoids[name], query.within, counting=counting)
    return buckets


def from_partials(query: Query, monoid: Monoid) -> bool:
    """Whether results have to come from partials, also if they could come from all rows of a window.

    An algorithm of the query's choice needs partials, and so do corrections and buckets. Early results have rows that are not in
    order yet, unless order matters.
    """
    chosen = query.algorithm != "auto" or query.late == "update" or query.within is not None
    return chosen or (query.early is not None and monoid.commutative)


def _monoid(name: str, inputs: Inputs, schema: pa.Schema) -> Monoid:
    computed = inputs.computed
    types = [computed[each].plain if each in computed else schema.field(each).type for each in inputs.names]
    monoid = inputs.aggregate.bind(types)
    if monoid.keeps_nulls and inputs.aggregate.where is not None:
        raise AggregateError(
            f"aggregate {name!r}: {monoid.name} keeps nulls, so where= cannot leave rows out; leave where or nulls='keep' out"
        )
    return monoid


def _bound_type(query: Query, schema: pa.Schema, time: pa.DataType) -> pa.DataType:
    window = query.window
    if isinstance(window, CountWindow):
        return pa.int64()
    if isinstance(window, DeltaWindow):
        return _delta_type(window, arrow.field(schema, window.attribute, "attribute of DeltaWindow").type)
    if query.time_unit is not None:
        return pa.timestamp("us", "UTC")
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
    for parameter, length in (("range", window.range), ("slide", window.slide)):
        if length > LONGEST:
            raise WindowError(f"{name}, so {parameter} has to be at most {LONGEST}, not {length}")
    return pa.timestamp("us", attribute.tz) if pa.types.is_timestamp(attribute) else pa.int64()


def _sortable(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """The column in a type that Arrow can sort: a dictionary has no order of its own, nor has an extension type."""
    if pa.types.is_dictionary(column.type):
        return _sortable(column.cast(column.type.value_type))
    if isinstance(column.type, pa.BaseExtensionType):
        return _sortable(column.cast(column.type.storage_type))
    if pa.types.is_decimal(column.type):
        return column.cast(pa.decimal256(column.type.precision, column.type.scale))
    if pa.types.is_float16(column.type):
        return column.cast(pa.float32())
    return column.cast(pa.int8()) if pa.types.is_boolean(column.type) else column
