# SPDX-License-Identifier: Apache-2.0
"""What aggregates read: columns, expressions over columns, and columns where a condition holds.

An input of an aggregate is a text. If the data has a column of that name, it is that column. Otherwise it is an
expression. With ``where``, rows for which the condition is not true count as null, and nulls are ignored. Functions of
the user get times in microseconds, whatever the unit of the column. All these are *computed columns*: they are computed
once per batch, and everything after that sees columns.

>>> import pyarrow as pa
>>> import windrow as wr
>>> schema = pa.schema({"ts": pa.int64(), "price": pa.float64(), "volume": pa.int64()})
>>> found = resolve("turnover", wr.Sum("price * volume", where="volume > 0"), schema)
>>> found.names
('price * volume where volume > 0',)
>>> rows = pa.table({"price": [2.0, 3.0], "volume": [5, 0]})
>>> found.computed[found.names[0]].batch(rows).to_pylist()
[10.0, None]
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from typing import Any, Literal, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from windrow.aggregates.algebra import Aggregate
from windrow.columns import arrow
from windrow.errors import ColumnError, ExpressionError, QueryError
from windrow.expressions import Expression, Typed
from windrow.expressions.sql import quoted

__all__ = ["Computed", "Inputs", "columns_of", "resolve"]


@dataclasses.dataclass(frozen=True, eq=False)
class Computed:
    """A column that is computed from others: an expression, or any column, where a condition is true."""

    value: Typed | pa.Field | None
    """The expression or the column; without one, the value is true."""
    where: Typed | None = None
    microseconds: bool = False
    """Times and durations are given in microseconds, not in the unit of the column."""

    @property
    def type(self) -> pa.DataType:
        if self.value is None:
            return pa.bool_()
        return arrow.in_microseconds(self.value.type) if self.microseconds else self.value.type

    @property
    def reads(self) -> tuple[str, ...]:
        """The columns of the data that it needs."""
        own = (self.value.name,) if isinstance(self.value, pa.Field) else ()
        terms = [term for term in (self.value, self.where) if isinstance(term, Typed)]
        return tuple(dict.fromkeys([*own, *(name for term in terms for name in term.names)]))

    def batch(self, data: pa.Table) -> Any:
        """Its values for all rows."""
        if isinstance(self.value, Typed):
            values = self.value.batch(data)
        elif self.value is None:
            values = pa.scalar(True)
        else:
            values = data.column(self.value.name)
        if self.microseconds:
            values = arrow.to_microseconds(values)
        if self.where is None:
            return values
        if isinstance(values, pa.ChunkedArray | pa.Array) and pa.types.is_dictionary(values.type):
            values = values.cast(values.type.value_type)
        return pc.if_else(self.where.batch(data), values, pa.scalar(None, self.plain))

    @property
    def plain(self) -> pa.DataType:
        """The type of its values, if it is that of a dictionary."""
        return self.type.value_type if pa.types.is_dictionary(self.type) else self.type

    def row(self, row: Mapping[str, Any]) -> Any:
        """Its value for one row; ``None`` is null."""
        if self.where is not None and self.where.row(row) is not True:
            return None
        if self.value is None:
            return True
        value = self.value.row(row) if isinstance(self.value, Typed) else row[self.value.name]
        if not self.microseconds:
            return value
        return arrow.to_microseconds(pa.array([value], self.value.type))[0].as_py()

    def sql(self, engine: Literal["spark", "flink"]) -> str | None:
        """Its SQL, or ``None`` if the engine has none with the same values."""
        if self.microseconds:
            return None
        column = "TRUE" if self.value is None else quoted(getattr(self.value, "name", ""))
        value = self.value.sql(engine) if isinstance(self.value, Typed) else column
        if value is None or self.where is None:
            return value
        where = self.where.sql(engine)
        return None if where is None else f"(CASE WHEN {where} THEN {value} END)"


class Inputs(NamedTuple):
    """What an aggregate reads from data of one schema."""

    aggregate: Aggregate
    names: tuple[str, ...]
    """The columns that it reads, some of which may be computed."""
    computed: dict[str, Computed]


def resolve(output: str, aggregate: Aggregate, schema: pa.Schema) -> Inputs:
    """The columns that an aggregate with this output name reads, and how those are computed that the data lacks."""
    if not aggregate.columns and aggregate.where is not None:  # a count of rows: of those where it is true
        aggregate = dataclasses.replace(aggregate, column=f"where {aggregate.where}")  # type: ignore[call-arg]
        name, condition = aggregate.columns[0], _condition(output, aggregate.where or "", schema)
        return Inputs(aggregate, (name,), {name: Computed(None, condition)})
    where = None if aggregate.where is None else _condition(output, aggregate.where, schema)
    names: list[str] = []
    computed: dict[str, Computed] = {}
    for text in aggregate.columns:
        value = _value(output, text, schema)
        microseconds = aggregate.has_own_functions and arrow.in_microseconds(value.type) != value.type
        if isinstance(value, pa.Field) and where is None and not microseconds:
            names.append(text)
            continue
        name = f"{text} in microseconds" if microseconds else text
        names.append(name if where is None else f"{name} where {aggregate.where}")
        if names[-1] in schema.names:
            raise ColumnError(
                f"aggregate {output!r} computes a column {names[-1]!r}, which the data has; rename that"
            )
        computed[names[-1]] = Computed(value, where, microseconds)
    return Inputs(aggregate, tuple(names), computed)


def columns_of(aggregate: Aggregate, known: Iterable[str] | None = None) -> list[str]:
    """The columns of the data that an aggregate needs. ``known`` are those there are; without it, a text that reads as
    an expression is one."""
    found: list[str] = []
    names = None if known is None else set(known)
    for text in aggregate.columns:
        found += [text] if names is not None and text in names else _names(text)
    return found + ([] if aggregate.where is None else list(Expression(aggregate.where).names))


def _names(text: str) -> list[str]:
    try:
        return list(Expression(text).names) or [text]
    except ExpressionError:
        return [text]


def _value(output: str, text: str, schema: pa.Schema) -> Typed | pa.Field:
    role = f"input of aggregate {output!r}"
    if text in schema.names:
        return arrow.field(schema, text, role)
    try:
        expression = Expression(text)
    except ExpressionError as error:
        if text.replace("_", "").replace(" ", "").isalnum():
            raise ColumnError.unknown(text, role, schema.names) from None
        raise ColumnError(f"no column {text!r} ({role}), and as an expression: {error}") from None
    if expression.is_name or not expression.names:
        raise ColumnError.unknown(text, role, schema.names)
    try:
        return expression.bind(schema)
    except ExpressionError as error:
        raise ColumnError(f"no column {text!r} ({role}), and as an expression: {error}") from None


def _condition(output: str, text: str, schema: pa.Schema) -> Typed:
    try:
        return Expression(text).bind(schema, condition=True)
    except ExpressionError as error:
        raise QueryError(f"where of aggregate {output!r}: {error}") from None
