# SPDX-License-Identifier: Apache-2.0
"""The operators and functions of the language: what each takes and returns, over values, over Arrow and as SQL.

One entry of :data:`FUNCTIONS` has everything about a function. All follow SQL: null in, null out, unless the function
is about nulls. Where a function has no value, such as x / 0 or the square root of -1, it is null. A whole number that
does not fit into 64 bits is an error. NaN is compared as IEEE 754 has it: it is equal to nothing.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from windrow.expressions import signatures, sql, values
from windrow.expressions.signatures import BOOLEAN, DOUBLE, INTEGER, STRING, Signature, Types
from windrow.expressions.sql import Texts

__all__ = ["FUNCTIONS", "Function", "Registered"]


@dataclass(frozen=True)
class Function:
    """A function of the language."""

    name: str
    takes: str
    """What it takes, in words, for messages."""
    signature: Signature
    value: Callable[..., Any]
    """Its value of arguments that are not null."""
    arrow: Callable[..., Any] | None = None
    """Its values of columns; none if ``value`` is applied to each row."""
    spark: Texts | None = None
    flink: Texts | None = None
    can_fail: bool = False
    strict: bool = True
    """Null in, null out. The others get nulls too, and say themselves what comes out."""


@dataclass(frozen=True)
class Registered:
    """A Python function that expressions may call, because whoever runs them said so.

    It gets no nulls: null in, null out. It has to be pure; it may be called for a row any number of times.

    >>> import math
    >>> Registered(math.hypot, takes=(pa.float64(), pa.float64()), returns=pa.float64()).returns
    DataType(double)
    """

    call: Callable[..., Any]
    takes: Types
    returns: pa.DataType


def _operators() -> list[Function]:
    add, subtract = values.by_type(pc.add_checked, pc.add), values.by_type(pc.subtract_checked, pc.subtract)
    multiply = values.by_type(pc.multiply_checked, pc.multiply)
    two = signatures.arithmetic(2)

    return [
        Function(
            "+", "two numbers", two, values.checked(lambda a, b: a + b), add, "{} + {}", sql.exact("+"), True
        ),
        Function(
            "-",
            "two numbers",
            two,
            values.checked(lambda a, b: a - b),
            subtract,
            "{} - {}",
            sql.exact("-"),
            True,
        ),
        Function(
            "*",
            "two numbers",
            two,
            values.checked(lambda a, b: a * b),
            multiply,
            "{} * {}",
            sql.exact("*"),
            True,
        ),
        Function(
            "/",
            "two numbers",
            signatures.fixed((DOUBLE, DOUBLE), DOUBLE),
            lambda a, b: None if b == 0 else a / b,
            lambda a, b: pc.divide(a, values.unless(pc.equal(b, 0.0), b)),
            "{} / NULLIF({}, CAST(0 AS DOUBLE))",
            "{} / NULLIF({}, CAST(0 AS DOUBLE))",
        ),
        Function(
            "%",
            "two whole numbers",
            signatures.fixed((INTEGER, INTEGER), INTEGER),
            values.remainder,
            None,
            "{} % NULLIF({}, 0)",
            "MOD({}, NULLIF({}, CAST(0 AS BIGINT)))",
        ),
        Function(
            "**",
            "two numbers",
            signatures.fixed((DOUBLE, DOUBLE), DOUBLE),
            values.power,
            None,
            sql.power("RINT"),
            sql.power("FLOOR"),
        ),
    ]


def _comparisons() -> list[Function]:
    compared = signatures.same(2, BOOLEAN, ordered=True)

    def comparison(name: str, value: Callable[[Any, Any], bool], arrow: Callable[..., Any]) -> Function:
        flink = {"==": "=", "!=": "<>"}.get(name, name)
        return Function(
            name, "two values of one type", compared, value, arrow, sql.compared(flink), f"{{}} {flink} {{}}"
        )

    return [
        comparison("<", lambda a, b: a < b, pc.less),
        comparison("<=", lambda a, b: a <= b, pc.less_equal),
        comparison(">", lambda a, b: a > b, pc.greater),
        comparison(">=", lambda a, b: a >= b, pc.greater_equal),
        comparison("==", lambda a, b: a == b, pc.equal),
        comparison("!=", lambda a, b: a != b, pc.not_equal),
        Function(
            "in",
            "a value and literals of its type",
            compared,
            lambda a, *b: a in b,
            values.in_column,
            sql.membership,
            sql.membership,
        ),
    ]


def _logic() -> list[Function]:
    two = signatures.fixed((BOOLEAN, BOOLEAN), BOOLEAN)
    return [
        Function(
            "and",
            "two conditions",
            two,
            values.conjunction,
            pc.and_kleene,
            "{} AND {}",
            "{} AND {}",
            strict=False,
        ),
        Function(
            "or",
            "two conditions",
            two,
            values.disjunction,
            pc.or_kleene,
            "{} OR {}",
            "{} OR {}",
            strict=False,
        ),
        Function(
            "not",
            "a condition",
            signatures.fixed((BOOLEAN,), BOOLEAN),
            lambda a: not a,
            pc.invert,
            "NOT {}",
            "NOT {}",
        ),
        Function(
            "if",
            "a condition and two values of one type",
            signatures.conditional,
            lambda test, then, other: then if test else other,
            lambda test, then, other: pc.if_else(pc.fill_null(test, False), then, other),
            "CASE WHEN {} THEN {} ELSE {} END",
            "CASE WHEN {} THEN {} ELSE {} END",
            strict=False,
        ),
    ]


def _nulls() -> list[Function]:
    return [
        Function(
            "is_null",
            "a value",
            signatures.same(1, BOOLEAN),
            lambda a: a is None,
            pc.is_null,
            "{} IS NULL",
            "{} IS NULL",
            strict=False,
        ),
        Function(
            "coalesce()",
            "values of one type",
            signatures.same(1),
            values.first,
            pc.coalesce,
            sql.listed("COALESCE"),
            sql.listed("COALESCE"),
            strict=False,
        ),
        Function(
            "nullif()",
            "two values of one type",
            signatures.same(2, ordered=True, most=2),
            lambda a, b: None if a is None or a == b else a,
            lambda a, b: pc.if_else(pc.fill_null(pc.equal(a, b), False), values.nothing(a.type), a),
            sql.null_if,
            "NULLIF({}, {})",
            strict=False,
        ),
    ]


def _mathematics() -> list[Function]:
    least = values.extreme(lambda a, b: a < b), values.extreme_column(pc.less)
    greatest = values.extreme(lambda a, b: a > b), values.extreme_column(pc.greater)
    return [
        Function(
            "negate",
            "a number",
            signatures.arithmetic(1),
            values.checked(lambda a: -a),
            values.by_type(pc.negate_checked, pc.negate),
            "-{}",
            sql.exact_negation,
            True,
        ),
        Function(
            "abs()",
            "a number",
            signatures.arithmetic(1),
            values.checked(abs),
            values.by_type(pc.abs_checked, pc.abs),
            "ABS({})",
            sql.exact_absolute,
            True,
        ),
        Function(
            "least()",
            "two or more numbers",
            signatures.numbers,
            *least,
            sql.extreme("LEAST", "ISNAN"),
            sql.extreme("LEAST"),
        ),
        Function(
            "greatest()",
            "two or more numbers",
            signatures.numbers,
            *greatest,
            sql.extreme("GREATEST", "ISNAN"),
            sql.extreme("GREATEST"),
        ),
        Function(
            "round()",
            "a number and, if you like, a whole number of digits",
            signatures.rounding,
            values.rounded,
            None,
            sql.rounded,
            sql.rounded,
        ),
    ]


def _analysis() -> list[Function]:
    one, two = signatures.fixed((DOUBLE,), DOUBLE), signatures.fixed((DOUBLE, DOUBLE), DOUBLE)
    positive = "CASE WHEN {0} <= 0 THEN NULL ELSE %s({0}) END"

    def plain(name: str, value: Callable[[float], float | None], text: Texts) -> Function:
        return Function(f"{name}()", "a number", one, value, None, text, text)

    return [
        Function(
            "floor()", "a number", one, values.whole(math.floor), pc.floor, sql.whole("FLOOR"), "FLOOR({})"
        ),
        Function("ceil()", "a number", one, values.whole(math.ceil), pc.ceil, sql.whole("CEIL"), "CEIL({})"),
        Function(
            "sqrt()",
            "a number",
            one,
            lambda x: None if x < 0 else math.sqrt(x),
            lambda x: pc.sqrt(values.unless(pc.less(x, 0.0), x)),
            "CASE WHEN {0} < 0 THEN NULL ELSE SQRT({0}) END",
            "CASE WHEN {0} < 0 THEN NULL ELSE SQRT({0}) END",
        ),
        plain("exp", values.exponential, "EXP({})"),
        plain("ln", lambda x: None if x <= 0 else math.log(x), positive % "LN"),
        plain("log", lambda x: None if x <= 0 else math.log(x), positive % "LN"),
        plain("log10", lambda x: None if x <= 0 else math.log10(x), positive % "LOG10"),
        plain("sin", values.periodic(math.sin), "SIN({})"),
        plain("cos", values.periodic(math.cos), "COS({})"),
        plain("tan", values.periodic(math.tan), "TAN({})"),
        plain("atan", math.atan, "ATAN({})"),
        plain("radians", math.radians, "RADIANS({})"),
        plain("degrees", math.degrees, "DEGREES({})"),
        Function("atan2()", "two numbers", two, math.atan2, None, "ATAN2({}, {})", "ATAN2({}, {})"),
        Function(
            "is_nan()",
            "a number",
            signatures.fixed((DOUBLE,), BOOLEAN),
            lambda x: x != x,
            pc.is_nan,
            "CASE WHEN {0} IS NULL THEN NULL ELSE ISNAN({0}) END",
            "{0} <> {0}",
        ),
        Function("double()", "a number", one, float, lambda x: x, "{}", "{}"),
        Function(
            "integer()",
            "a number",
            signatures.fixed((DOUBLE,), INTEGER),
            values.truncated,
            None,
            "CAST({} AS BIGINT)",
            None,
            True,
        ),
    ]


def _texts() -> list[Function]:
    one, asks = signatures.fixed((STRING,), STRING), signatures.fixed((STRING, STRING), BOOLEAN)
    joined = sql.listed("CONCAT")

    def strings(types: Types) -> tuple[Types, pa.DataType] | None:
        found = signatures.same(2, STRING)(types)
        return found if found is not None and found[0][0] == STRING else None

    return [
        Function("lower()", "a text", one, str.lower, None, "LOWER({})", "LOWER({})"),
        Function("upper()", "a text", one, str.upper, None, "UPPER({})", "UPPER({})"),
        Function(
            "length()",
            "a text",
            signatures.fixed((STRING,), INTEGER),
            len,
            lambda s: pc.cast(pc.utf8_length(s), INTEGER),
            "CAST(CHAR_LENGTH({}) AS BIGINT)",
            "CAST(CHAR_LENGTH({}) AS BIGINT)",
        ),
        Function(
            "contains()",
            "two texts",
            asks,
            lambda s, part: part in s,
            None,
            "CONTAINS({}, {})",
            "POSITION({1} IN {0}) > 0",
        ),
        Function(
            "starts_with()",
            "two texts",
            asks,
            str.startswith,
            None,
            "STARTSWITH({}, {})",
            "STARTSWITH({}, {})",
        ),
        Function(
            "ends_with()", "two texts", asks, str.endswith, None, "ENDSWITH({}, {})", "ENDSWITH({}, {})"
        ),
        Function("concat()", "texts", strings, lambda *parts: "".join(parts), None, joined, joined),
    ]


FUNCTIONS: dict[str, Function] = {
    function.name: function
    for function in (
        *_operators(),
        *_comparisons(),
        *_logic(),
        *_nulls(),
        *_mathematics(),
        *_analysis(),
        *_texts(),
    )
}
"""Everything that an expression can do, by name. Those that are called have ``()`` in their names."""
