# SPDX-License-Identifier: Apache-2.0
"""The pieces of SQL that are not plain templates, where the engines' SQL and the language differ.

Spark takes NaN for equal to itself and larger than everything; ``LEAST`` of Spark skips nulls. Whole numbers of Flink
wrap around; here they go through decimals and text, so that a number that does not fit is an error there, too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

import pyarrow as pa

__all__ = ["LONGEST", "Texts", "cast", "literal", "quoted", "rendered"]

LONGEST = 20_000
"""Characters of the SQL of an expression; beyond that, there is none."""

Texts: TypeAlias = str | Callable[[Sequence[str], Sequence[pa.DataType]], str | None]
"""A template, or a function of the arguments' texts and types; it may find that there is no text."""

NAMES = {pa.bool_(): "BOOLEAN", pa.int64(): "BIGINT", pa.float64(): "DOUBLE", pa.string(): "STRING"}


def rendered(form: Texts, arguments: Sequence[str], types: Sequence[pa.DataType]) -> str | None:
    """The SQL of a call, in parentheses."""
    text = form.format(*arguments) if isinstance(form, str) else form(arguments, types)
    return None if text is None or len(text) > LONGEST else f"({text})"


def literal(value: bool | int | float | str | None, kind: pa.DataType) -> str | None:
    """A literal. No character of a text can end it: those that are not plain are written as bytes."""
    if value is None:
        return f"CAST(NULL AS {NAMES[kind]})" if kind in NAMES else "NULL"
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if isinstance(value, str):
        if all(c.isascii() and (c.isalnum() or c in " _.,:;/+-()%") for c in value):
            return f"'{value}'"
        return f"DECODE(X'{value.encode().hex().upper()}', 'UTF-8')"
    return f"CAST('{value!r}' AS {NAMES[kind]})"


def cast(text: str, kind: pa.DataType) -> str:
    return f"CAST({text} AS {NAMES[kind]})"


def quoted(name: str) -> str:
    """A column's name in SQL."""
    return "`" + name.replace("`", "``") + "`"


def listed(function: str) -> Texts:
    return lambda arguments, types: f"{function}({', '.join(arguments)})"


def exact(operator: str) -> Texts:
    """Arithmetic of Flink. Decimals do not wrap around; a text that is too long a number is refused."""

    def text(arguments: Sequence[str], types: Sequence[pa.DataType]) -> str:
        a, b = arguments
        if types[0] != pa.int64():
            return f"{a} {operator} {b}"
        decimals = f"CAST({a} AS DECIMAL(19, 0)) {operator} CAST({b} AS DECIMAL(19, 0))"
        return f"CAST(CAST({decimals} AS STRING) AS BIGINT)"

    return text


def exact_negation(arguments: Sequence[str], types: Sequence[pa.DataType]) -> str:
    (a,) = arguments
    return (
        f"CAST(CAST(-CAST({a} AS DECIMAL(19, 0)) AS STRING) AS BIGINT)" if types[0] == pa.int64() else f"-{a}"
    )


def exact_absolute(arguments: Sequence[str], types: Sequence[pa.DataType]) -> str:
    (a,) = arguments
    if types[0] != pa.int64():
        return f"ABS({a})"
    return f"CAST(CAST(ABS(CAST({a} AS DECIMAL(19, 0))) AS STRING) AS BIGINT)"


def compared(operator: str) -> Texts:
    """A comparison of Spark, where NaN is equal to nothing."""

    def text(arguments: Sequence[str], types: Sequence[pa.DataType]) -> str:
        a, b = arguments
        plain = f"{a} {operator} {b}"
        if types[0] != pa.float64():
            return plain
        if operator == "<>":
            return f"{plain} OR (ISNAN({a}) AND {b} IS NOT NULL)"
        larger = b if operator in ("<", "<=") else a
        return f"{plain} AND NOT ISNAN({larger})"

    return text


def membership(arguments: Sequence[str], types: Sequence[pa.DataType]) -> str:
    return f"{arguments[0]} IN ({', '.join(arguments[1:])})"


def power(floor: str) -> Texts:
    """``floor`` names a function that gives the whole part of a double as a double."""

    def text(arguments: Sequence[str], types: Sequence[pa.DataType]) -> str:
        a, b = arguments
        undefined = f"({a} = 0 AND {b} < 0) OR ({a} < 0 AND {b} <> {floor}({b}))"
        return f"CASE WHEN {undefined} THEN NULL ELSE POWER({a}, {b}) END"

    return text


def rounded(arguments: Sequence[str], types: Sequence[pa.DataType]) -> str | None:
    """The number of digits has to be a literal in Spark, and an INT in Flink."""
    if len(arguments) == 1:
        return f"ROUND({arguments[0]})"
    digits = arguments[1].removeprefix("CAST('").removesuffix("' AS BIGINT)")
    if not digits.removeprefix("-").isdecimal() or len(digits) > 4:
        return None
    return f"ROUND({arguments[0]}, {digits})"


def extreme(function: str, is_nan: str = "") -> Texts:
    """LEAST or GREATEST that is null if any is null, and NaN if any is NaN."""

    def text(arguments: Sequence[str], types: Sequence[pa.DataType]) -> str:
        null = " OR ".join(f"{a} IS NULL" for a in arguments)
        result = f"{function}({', '.join(arguments)})"
        if types[0] != pa.float64():
            return f"CASE WHEN {null} THEN NULL ELSE {result} END"
        nan = " OR ".join(f"{is_nan}({a})" if is_nan else f"{a} <> {a}" for a in arguments)
        total = " + ".join(arguments)
        return f"CASE WHEN {null} THEN NULL WHEN {nan} THEN {total} ELSE {result} END"

    return text


def whole(function: str) -> Texts:
    """FLOOR and CEIL of Spark are whole numbers; beyond 2**53 a double is one already, and so is NaN here."""
    return lambda arguments, types: (
        f"CASE WHEN ABS({arguments[0]}) < 9e15 THEN CAST({function}({arguments[0]}) AS DOUBLE) ELSE {arguments[0]} END"
    )


def null_if(arguments: Sequence[str], types: Sequence[pa.DataType]) -> str:
    a, b = arguments
    return f"CASE WHEN {compared('=')((a, b), types)} THEN NULL ELSE {a} END"  # type: ignore[operator]
