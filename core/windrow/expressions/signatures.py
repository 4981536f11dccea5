# SPDX-License-Identifier: Apache-2.0
"""What functions take: from the types of the arguments to those that a function takes and the one it returns."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pyarrow as pa

__all__ = ["BOOLEAN", "DOUBLE", "INTEGER", "NULL", "STRING", "Signature", "Types", "common"]

BOOLEAN, INTEGER, DOUBLE, STRING, NULL = pa.bool_(), pa.int64(), pa.float64(), pa.string(), pa.null()

Types = tuple[pa.DataType, ...]
Signature = Callable[[Types], tuple[Types, pa.DataType] | None]
"""From the types of the arguments to those that the function takes and the one that it returns; None refuses."""


def common(types: Sequence[pa.DataType]) -> pa.DataType | None:
    """The type that all can be turned into without loss of meaning."""
    known = {t for t in types if t != NULL}
    if not known:
        return NULL
    if known == {INTEGER, DOUBLE}:
        return DOUBLE
    return known.pop() if len(known) == 1 else None


def fixed(takes: Types, returns: pa.DataType) -> Signature:
    def signature(types: Types) -> tuple[Types, pa.DataType] | None:
        if len(types) != len(takes):
            return None
        fits = (common((given, taken)) == taken for given, taken in zip(types, takes, strict=True))
        return (takes, returns) if all(fits) else None

    return signature


def arithmetic(arity: int) -> Signature:
    def signature(types: Types) -> tuple[Types, pa.DataType] | None:
        kind = common(types)
        kind = DOUBLE if kind == NULL else kind
        return ((kind,) * arity, kind) if len(types) == arity and kind in (INTEGER, DOUBLE) else None

    return signature


def same(
    fewest: int, returns: pa.DataType | None = None, ordered: bool = False, most: int = 101
) -> Signature:
    def signature(types: Types) -> tuple[Types, pa.DataType] | None:
        kind = common(types)
        if not fewest <= len(types) <= most or kind is None or (kind == NULL and ordered):
            return None
        return (kind,) * len(types), kind if returns is None else returns

    return signature


def numbers(types: Types) -> tuple[Types, pa.DataType] | None:
    found = same(2)(types)
    return found if found is not None and found[1] in (INTEGER, DOUBLE) else None


def conditional(types: Types) -> tuple[Types, pa.DataType] | None:
    kind = common(types[1:])
    return ((BOOLEAN, kind, kind), kind) if kind is not None and types[0] in (BOOLEAN, NULL) else None


def rounding(types: Types) -> tuple[Types, pa.DataType] | None:
    return fixed((DOUBLE, INTEGER)[: len(types)], DOUBLE)(types) if len(types) in (1, 2) else None
