# SPDX-License-Identifier: Apache-2.0
"""The values of a typed tree: a closure for a row, columns for a batch, text for an engine's SQL.

All three give the same values. Both sides of ``and``, and all arguments of a function, are computed always; of
``a if c else b``, a row computes the side that it takes, and so does a batch if the other could be an error.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from functools import partial
from itertools import repeat
from operator import itemgetter
from typing import Any, Literal

import pyarrow as pa
import pyarrow.compute as pc

from windrow.errors import ArithmeticOverflow
from windrow.expressions import sql
from windrow.expressions.binding import Column, Constant, Convert, Term, can_fail
from windrow.expressions.functions import Function
from windrow.expressions.values import fits

__all__ = ["Columns", "Row", "columns", "row", "text"]

Row = Callable[[Any], Any]
"""From the values of a row to that of the expression. A value is found by its slot."""
Columns = Mapping[str, Any]


def row(term: Term, slots: Mapping[str, Hashable]) -> Row:
    """The closure that computes a term. ``values[slots[name]]`` is the value of a name, or None."""
    if isinstance(term, Constant):
        return partial(_constant, term.value)
    if isinstance(term, Column):
        get = itemgetter(slots[term.name])
        return (lambda values: _fitting(get(values))) if pa.types.is_uint64(term.stored) else get
    if isinstance(term, Convert):
        inner = row(term.term, slots)
        return lambda values: None if (v := inner(values)) is None else float(v)
    parts = [row(argument, slots) for argument in term.arguments]
    if term.function.name == "if":
        test, then, other = parts
        return lambda values: then(values) if test(values) else other(values)
    constant = term.arguments[-1].value if isinstance(term.arguments[-1], Constant) else None
    return _strict(term.function, parts, constant) if term.function.strict else _lax(term.function, parts)


def _constant(value: Any, values: Any) -> Any:
    return value


def _fitting(value: Any) -> Any:
    return None if value is None else fits(value)


def _lax(function: Function, parts: Sequence[Row]) -> Row:
    value = function.value
    if len(parts) == 1:
        (only,) = parts
        return lambda values: value(only(values))
    if len(parts) == 2:
        first, second = parts
        return lambda values: value(first(values), second(values))
    return lambda values: value(*[part(values) for part in parts])


def _strict(function: Function, parts: Sequence[Row], constant: Any) -> Row:
    value = function.value
    if len(parts) == 1:
        (only,) = parts
        return lambda values: None if (a := only(values)) is None else value(a)
    if len(parts) == 2 and constant is not None:
        first = parts[0]
        return lambda values: None if (a := first(values)) is None else value(a, constant)
    if len(parts) == 2:
        first, second = parts

        def two(values: Any) -> Any:
            a, b = first(values), second(values)
            return None if a is None or b is None else value(a, b)

        return two

    def many(values: Any) -> Any:
        arguments = [part(values) for part in parts]
        return None if None in arguments else value(*arguments)

    return many


# Columns.


def columns(term: Term, data: Columns, length: int) -> Any:
    """The values of a term for all rows: an array, or a chunked array where the data has such."""
    try:
        found = _columns(term, data)
    except pa.ArrowInvalid as error:
        raise ArithmeticOverflow(
            f"integer overflow: a result does not fit into 64 bits ({error}); multiply by 1.0 for a double"
        ) from None
    return pa.repeat(found, length) if isinstance(found, pa.Scalar) else found


def _columns(term: Term, data: Columns) -> Any:
    if isinstance(term, Constant):
        return pa.scalar(term.value, term.type)
    if isinstance(term, Column):
        column = data[term.name]
        if column.type == term.type:
            return column
        if pa.types.is_dictionary(column.type):
            column = column.cast(column.type.value_type)
        return column.cast(term.type)
    if isinstance(term, Convert):
        return pc.cast(_columns(term.term, data), term.type, safe=False)
    function, arguments = term.function, term.arguments
    if function.name == "if" and (can_fail(arguments[1]) or can_fail(arguments[2])):
        return _chosen(arguments, term.type, data)
    found = [_columns(argument, data) for argument in arguments]
    return _mapped(function, found, term.type) if function.arrow is None else function.arrow(*found)


def _mapped(function: Function, arguments: Sequence[Any], kind: pa.DataType) -> Any:
    """Row by row, where Arrow has no function, or one whose last digit is another."""
    value = function.value
    if all(isinstance(argument, pa.Scalar) for argument in arguments):
        given = [argument.as_py() for argument in arguments]
        return pa.scalar(None if None in given else value(*given), kind)
    lists = [repeat(a.as_py()) if isinstance(a, pa.Scalar) else a.to_pylist() for a in arguments]
    values = [None if None in given else value(*given) for given in zip(*lists, strict=False)]
    return pa.array(values, kind, from_pandas=False)


def _chosen(arguments: Sequence[Term], kind: pa.DataType, data: Columns) -> Any:
    """Each side for the rows that take it, put together again in the order of the rows."""
    test = _columns(arguments[0], data)
    if isinstance(test, pa.Scalar):
        return _columns(arguments[1] if test.as_py() else arguments[2], data)
    test = pc.fill_null(test, False)
    sides = []
    for wanted, side in ((test, arguments[1]), (pc.invert(test), arguments[2])):
        kept = {name: column.filter(wanted) for name, column in data.items()}
        found = columns(side, kept, pc.sum(wanted).as_py() or 0)
        sides.append(found.combine_chunks() if isinstance(found, pa.ChunkedArray) else found)
    back = pc.sort_indices(pc.sort_indices(pc.cast(pc.invert(test), pa.int8())))
    return pa.concat_arrays([side.cast(kind) for side in sides]).take(back)


# SQL.

Dialect = Literal["spark", "flink"]


def text(term: Term, dialect: Dialect, names: Mapping[str, str]) -> str | None:
    """The SQL of a term, or None if the engine has none with the same values."""
    if isinstance(term, Constant):
        return sql.literal(term.value, term.type)
    if isinstance(term, Column):
        name = names.get(term.name) or sql.quoted(term.name)
        if term.type == term.stored or term.type not in sql.NAMES:
            return name
        return sql.cast(name, term.type)
    if isinstance(term, Convert):
        inner = text(term.term, dialect, names)
        return None if inner is None else sql.cast(inner, term.type)
    form = term.function.spark if dialect == "spark" else term.function.flink
    if form is None:
        return None
    found: list[str] = []
    for argument in term.arguments:
        part = text(argument, dialect, names)
        if part is None:
            return None
        found.append(part)
    return sql.rendered(form, found, [argument.type for argument in term.arguments])
