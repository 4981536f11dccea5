# SPDX-License-Identifier: Apache-2.0
"""An expression over named columns, and the typed one that it becomes with the columns' types."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import pyarrow as pa

from windrow.columns import arrow
from windrow.errors import ColumnError, ExpressionError
from windrow.expressions import evaluation, parsing
from windrow.expressions.binding import Term, bound
from windrow.expressions.evaluation import Dialect, Row
from windrow.expressions.functions import Registered
from windrow.expressions.signatures import BOOLEAN

__all__ = ["Expression", "Typed"]


@dataclass(frozen=True)
class Expression:
    """A condition or a computation over named columns, as text.

    It is read when it is made, so a text that is no expression is refused here. Two with the same text are equal.

    >>> import pyarrow as pa
    >>> power = Expression("volts * amperes if amperes > 0 else null")
    >>> power.names
    ('volts', 'amperes')
    >>> typed = power.bind({"volts": pa.float64(), "amperes": pa.int32()})
    >>> typed.type
    DataType(double)
    >>> typed.row({"volts": 230.0, "amperes": 2})
    460.0
    >>> typed.batch(pa.table({"volts": [230.0, None], "amperes": [2, 3]})).to_pylist()
    [460.0, None]
    """

    text: str
    parsed: parsing.Parsed = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "parsed", parsing.parse(self.text))

    @property
    def names(self) -> tuple[str, ...]:
        """The names that it reads, each once, in order of appearance."""
        return self.parsed.names

    @property
    def is_name(self) -> bool:
        """Whether it is a name and nothing else."""
        return isinstance(self.parsed.root, parsing.Name)

    def bind(
        self,
        types: Mapping[str, pa.DataType] | pa.Schema,
        *,
        functions: Mapping[str, Registered] | None = None,
        condition: bool = False,
    ) -> Typed:
        """The expression over columns of these types.

        ``functions`` are Python functions that it may call besides those of the language. A ``condition`` has to be
        true, false or null.
        """
        known = {f.name: f.type for f in types} if isinstance(types, pa.Schema) else types
        term, read = bound(self.parsed, known, functions or {})
        if condition and term.type != BOOLEAN:
            raise ExpressionError.at(
                self.text,
                (0, len(self.text)),
                f"a condition has to be true or false, but this is a {term.type}",
            )
        return Typed(self, term, read)


@dataclass(frozen=True, eq=False)
class Typed:
    """An expression over columns of known types. Made by :meth:`Expression.bind`."""

    expression: Expression
    term: Term = field(repr=False)
    reads: Mapping[str, pa.DataType]
    """The names that it reads, and the types of their columns."""

    @cached_property
    def row(self) -> Row:
        """Its value for one row: a mapping of its names to values, where None is null."""
        return self.compiled({name: name for name in self.reads})

    @property
    def text(self) -> str:
        return self.expression.text

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self.reads)

    @property
    def type(self) -> pa.DataType:
        """The type of its values: bool, int64, double, string, or that of a column of times."""
        return self.term.type

    def compiled(self, slots: Mapping[str, Hashable]) -> Row:
        """As :attr:`row`, where ``values[slots[name]]`` is the value of a name: an index of a tuple, or a key."""
        return evaluation.row(self.term, slots)

    def batch(self, data: Any) -> Any:
        """Its values for all rows of a table or a record batch, or of a mapping of names to Arrow columns."""
        if isinstance(data, Mapping):
            lengths = {len(column) for column in data.values()}
            return evaluation.columns(self.term, data, lengths.pop() if lengths else 0)
        table = arrow.as_table(data)
        names = set(table.schema.names)
        for name in self.reads:
            if name not in names:
                raise ColumnError.unknown(name, f"read by expression {self.text!r}", table.schema.names)
        return evaluation.columns(
            self.term, {name: table.column(name) for name in self.reads}, table.num_rows
        )

    def sql(self, dialect: Dialect, names: Mapping[str, str] | None = None) -> str | None:
        """Its SQL for Spark (in ANSI mode) or Flink, or None if the engine has none with the same values.

        ``names`` has the SQL of names; others are quoted.

        >>> Expression("a / b").bind({"a": pa.float64(), "b": pa.float64()}).sql("spark")
        '(`a` / NULLIF(`b`, CAST(0 AS DOUBLE)))'
        """
        return evaluation.text(self.term, dialect, names or {})
