# SPDX-License-Identifier: Apache-2.0
"""What functions compute: of values that are not null, and of Arrow columns."""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import ROUND_HALF_UP, Context, Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from windrow.errors import ArithmeticOverflow
from windrow.expressions.signatures import DOUBLE, INTEGER

# Values of rows.


def fits(value: int) -> int:
    if -(1 << 63) <= value < 1 << 63:
        return value
    raise ArithmeticOverflow(
        f"integer overflow: {value} does not fit into 64 bits; multiply by 1.0 for a double"
    )


def remainder(a: int, b: int) -> int | None:
    return None if b == 0 else (abs(a) % abs(b)) * (-1 if a < 0 else 1)


def power(a: float, b: float) -> float | None:
    if (a == 0 and b < 0) or (a < 0 and math.isfinite(b) and b != math.floor(b)):
        return None
    try:
        return math.pow(a, b)
    except OverflowError:
        return -math.inf if a < 0 and b % 2 == 1 else math.inf


def exponential(x: float) -> float:
    try:
        return math.exp(x)
    except OverflowError:
        return math.inf


def periodic(function: Callable[[float], float]) -> Callable[[float], float]:
    return lambda x: function(x) if math.isfinite(x) else math.nan


def whole(function: Callable[[float], int]) -> Callable[[float], float]:
    return lambda x: math.copysign(function(x), x) if math.isfinite(x) else x


def rounded(x: float, digits: int = 0) -> float:
    """Half away from zero, of the shortest decimal form, as SQL engines have it."""
    if not math.isfinite(x) or digits > 330:
        return x
    last = Decimal(1).scaleb(-max(digits, -330))
    return float(Decimal(repr(x)).quantize(last, ROUND_HALF_UP, PRECISE))


PRECISE = Context(prec=700)
"""Enough for all digits of a double."""


def truncated(x: float) -> int:
    if not -(2.0**63) <= x < 2.0**63:
        raise ArithmeticOverflow(f"integer({x}): the value does not fit into 64 bits")
    return int(x)


def extreme(better: Callable[[Any, Any], bool]) -> Callable[..., Any]:
    def value(*values: Any) -> Any:
        best = values[0]
        for other in values:
            if other != other:
                return math.nan
            if better(other, best):
                best = other
        return best

    return value


def conjunction(a: bool | None, b: bool | None) -> bool | None:
    return False if a is False or b is False else None if a is None or b is None else True


def disjunction(a: bool | None, b: bool | None) -> bool | None:
    return True if a is True or b is True else None if a is None or b is None else False


def first(*values: Any) -> Any:
    """The first that is not null."""
    return next((value for value in values if value is not None), None)


# Values of columns.


def nothing(kind: pa.DataType) -> pa.Scalar:
    return pa.scalar(None, kind)


def unless(refused: Any, values: Any) -> Any:
    return pc.if_else(refused, nothing(values.type), values)


def extreme_column(better: Callable[[Any, Any], Any]) -> Callable[..., Any]:
    def column(*columns: Any) -> Any:
        best = columns[0]
        for other in columns[1:]:
            best = pc.if_else(better(other, best), other, best)  # null if either is null
        if best.type == DOUBLE:
            for other in columns:
                best = pc.if_else(pc.and_(pc.is_nan(other), pc.is_valid(best)), math.nan, best)
        return best

    return column


def in_column(column: Any, *members: Any) -> Any:
    found = pc.equal(column, members[0])
    for member in members[1:]:
        found = pc.or_kleene(found, pc.equal(column, member))
    return found


def by_type(integer: Callable[..., Any], double: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *columns: (integer if columns[0].type == INTEGER else double)(*columns)


def checked(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *values: fits(v) if type(v := function(*values)) is int else v
