# SPDX-License-Identifier: Apache-2.0
"""From a tree to a typed one: names get the types of columns, and every call is checked against its function."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

import pyarrow as pa

from windrow.errors import ExpressionError
from windrow.expressions.functions import FUNCTIONS, Function, Registered
from windrow.expressions.parsing import Call, Literal, Name, Node, Parsed
from windrow.expressions.signatures import BOOLEAN, DOUBLE, INTEGER, NULL, STRING, common

__all__ = ["Column", "Constant", "Convert", "Term", "Use", "bound", "kind_of"]


@dataclass(frozen=True)
class Column:
    name: str
    type: pa.DataType
    stored: pa.DataType
    """The type of the column itself, which ``type`` stands for."""


@dataclass(frozen=True)
class Constant:
    value: Any
    type: pa.DataType


@dataclass(frozen=True)
class Convert:
    """A whole number as a double."""

    term: Term
    type: pa.DataType


@dataclass(frozen=True)
class Use:
    """A function and its arguments, which have the types that it takes."""

    function: Function
    arguments: tuple[Term, ...]
    type: pa.DataType

    @property
    def can_fail(self) -> bool:
        return (self.function.can_fail and self.type == INTEGER) or any(map(can_fail, self.arguments))


Term = Column | Constant | Convert | Use


def can_fail(term: Term) -> bool:
    """Whether a value of it can be an error, so that it must not be computed where it is not asked for."""
    if isinstance(term, Use):
        return term.can_fail
    return can_fail(term.term) if isinstance(term, Convert) else False


def bound(
    parsed: Parsed, types: Mapping[str, pa.DataType], functions: Mapping[str, Registered]
) -> tuple[Term, dict[str, pa.DataType]]:
    """The typed tree of an expression, and the types of the columns that it reads."""
    binder = _Binder(parsed.text, types, functions)
    term = binder.term(parsed.root)
    if term.type == NULL:
        raise ExpressionError.at(parsed.text, parsed.root.place, "null alone has no type; give it a value")
    return term, binder.read


def kind_of(stored: pa.DataType) -> pa.DataType | None:
    """The type of the language that stands for a column's type; None if there is none."""
    if pa.types.is_dictionary(stored):
        return kind_of(stored.value_type)
    if pa.types.is_integer(stored):
        return INTEGER
    if pa.types.is_floating(stored):
        return DOUBLE
    if pa.types.is_string(stored) or pa.types.is_large_string(stored) or str(stored) == "string_view":
        return STRING
    if pa.types.is_boolean(stored) or pa.types.is_temporal(stored):
        return stored
    return None


class _Binder:
    def __init__(
        self, text: str, types: Mapping[str, pa.DataType], functions: Mapping[str, Registered]
    ) -> None:
        self.text = text
        self.types = types
        self.functions = functions
        self.read: dict[str, pa.DataType] = {}

    def term(self, node: Node) -> Term:
        if isinstance(node, Literal):
            return _constant(node.value)
        return self.column(node) if isinstance(node, Name) else self.use(node)

    def column(self, node: Name) -> Column:
        stored = self.types.get(node.name)
        if stored is None:
            close = get_close_matches(node.name, list(self.types), n=3) or list(self.types)[:20]
            hint = " or ".join(map(repr, close))
            raise self.refuse(node, f"no name {node.name!r}; there is {hint or 'no name at all'}")
        kind = kind_of(stored)
        if kind is None:
            raise self.refuse(
                node, f"{node.name!r} is a {stored}, which expressions cannot read; cast it first"
            )
        self.read[node.name] = stored
        return Column(node.name, kind, stored)

    def use(self, node: Call) -> Term:
        arguments = tuple(self.term(argument) for argument in node.arguments)
        function = self.function(node)
        given = tuple(argument.type for argument in arguments)
        found = function.signature(given)
        if found is None:
            shown = ", ".join(map(str, given)) or "nothing"
            raise self.refuse(node, f"{function.name!r} takes {function.takes}, got {shown}")
        takes, returns = found
        converted = tuple(_converted(a, kind) for a, kind in zip(arguments, takes, strict=True))
        return Use(function, converted, returns)

    def function(self, node: Call) -> Function:
        found = FUNCTIONS.get(node.function)
        if found is not None:
            return found
        name = node.function.removesuffix("()")
        registered = self.functions.get(name)
        if registered is None:
            known = [known[:-2] for known in FUNCTIONS if known.endswith("()")] + list(self.functions)
            close = get_close_matches(name, known, n=3) or sorted(known)
            raise self.refuse(node, f"no function {name!r}; there is {', '.join(close)}")
        return _registered(name, registered)

    def refuse(self, node: Node, message: str) -> ExpressionError:
        return ExpressionError.at(self.text, node.place, message)


def _constant(value: Any) -> Constant:
    kinds: dict[type, pa.DataType] = {bool: BOOLEAN, int: INTEGER, float: DOUBLE, str: STRING}
    return Constant(value, kinds.get(type(value), NULL))


def _converted(term: Term, kind: pa.DataType) -> Term:
    if term.type == kind:
        return term
    if term.type == NULL:
        return Constant(None, kind)
    if isinstance(term, Constant):
        return Constant(float(term.value), kind)
    return Convert(term, kind)


def _registered(name: str, registered: Registered) -> Function:
    def value(*arguments: Any) -> Any:
        try:
            result = registered.call(*arguments)
        except Exception as cause:
            shown = ", ".join(map(repr, arguments))
            raise ExpressionError(
                f"function {name}({shown[:200]}) raised {type(cause).__name__}: {cause}"
            ) from cause
        return result if type(result) is plain else _in_type(name, result, registered.returns)

    def signature(types: tuple[pa.DataType, ...]) -> tuple[tuple[pa.DataType, ...], pa.DataType] | None:
        takes = registered.takes
        fits = len(types) == len(takes) and all(
            common((given, taken)) == taken for given, taken in zip(types, takes, strict=True)
        )
        return (takes, registered.returns) if fits else None

    plain = PLAIN.get(registered.returns)
    takes = ", ".join(map(str, registered.takes))
    return Function(f"{name}()", takes or "nothing", signature, value, can_fail=True)


PLAIN = {pa.float64(): float, pa.int64(): int, pa.bool_(): bool, pa.string(): str}
"""The Python types whose values are those of an Arrow type as they are."""


def _in_type(name: str, result: Any, kind: pa.DataType) -> Any:
    """What a registered function returned, in the type that it is registered with."""
    try:
        return pa.scalar(result, kind).as_py()
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError) as cause:
        raise ExpressionError(
            f"function {name}() returned {result!r}, which is not of type {kind}"
        ) from cause
