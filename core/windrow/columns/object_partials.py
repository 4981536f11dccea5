# SPDX-License-Identifier: Apache-2.0
"""Whether objects that were read from bytes can be partials of an aggregate.

Typed partials are numbers, and any numbers will do. Objects have to have a form that the aggregate's functions
understand. For windrow's own aggregates the form is taken from examples: the identity, the partial of one row, that
of two. The partials of an aggregate that a user wrote are only combined with its identity, which changes nothing.

>>> import numpy as np
>>> import windrow as wr
>>> collected, found = wr.Collect().bind(), np.empty(1, dtype=object)
>>> found[0] = 7
>>> check_objects(collected, found, [(), (1.0,), (1.0, 1.0)])
Traceback (most recent call last):
windrow.errors.CorruptSnapshot: a partial of Collect() cannot be int
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa

from windrow.aggregates.monoid import Monoid
from windrow.columns import arrow
from windrow.errors import CorruptSnapshot

__all__ = ["check_objects", "examples"]

_OURS = {
    f"windrow.aggregates.{name}"
    for name in ("bloom_filter", "decimals", "extremes", "holistic", "hyperloglog", "nulls", "order")
}
_FARTHEST = 1000
"""No decimal of a column has an exponent so large."""


def examples(monoid: Monoid) -> list[Any]:
    """Partials of no row, of one row and of two; none if the aggregate is not windrow's own."""
    values = _values(monoid)
    if values is None or monoid.lift.__module__ not in _OURS:
        return []
    lifted = monoid.lift(*values)
    return [monoid.identity, lifted, monoid.combine(lifted, lifted)]


def check_objects(monoid: Monoid, objects: Any, like: Sequence[Any]) -> None:
    """All objects have the form of one of the examples, or at least combine with the identity."""
    for partial in objects:
        if like and not _alike(partial, like):
            raise CorruptSnapshot(f"a partial of {monoid.name} cannot be {_shown(partial)}")
        try:
            monoid.combine(monoid.identity, partial)
        except Exception as cause:
            raise CorruptSnapshot(
                f"a partial of {monoid.name} cannot be combined: {type(cause).__name__}: {cause}"
            ) from None
    if like:
        _check_inputs(monoid, objects)


def _alike(value: Any, like: Sequence[Any]) -> bool:
    """Whether a value has the form of one of the examples."""
    same = [each for each in like if _kind(each) == _kind(value)]
    if not same:
        return False
    if isinstance(value, np.ndarray):
        sizes = {each.shape for each in same}
        return any(each.dtype == value.dtype for each in same) and (
            value.shape in sizes if len(sizes) == 1 else value.ndim == 1 and len(value) >= min(map(len, same))
        )
    if isinstance(value, tuple):
        if len({len(each) for each in same}) == 1:
            return len(value) == len(same[0]) and all(
                _alike(entry, [each[place] for each in same]) for place, entry in enumerate(value)
            )
        entries = [entry for each in same for entry in each]
        return len(value) >= min(map(len, same)) and all(_alike(entry, entries) for entry in value)
    return not isinstance(value, Decimal) or (value.is_finite() and abs(value.adjusted()) < _FARTHEST)


def _kind(value: Any) -> Any:
    if isinstance(value, bool | np.bool_):
        return bool
    if isinstance(value, int | np.integer):
        return int
    return float if isinstance(value, float | np.floating) else type(value)


def _shown(value: Any) -> str:
    return f"{type(value).__name__}" + (f" of {len(value)}" if isinstance(value, tuple | np.ndarray) else "")


def _check_inputs(monoid: Monoid, objects: Any) -> None:
    """Values that a partial took from rows have the types of their columns."""
    values = _values(monoid) or []
    lifted = monoid.lift(*values)
    several = isinstance(lifted, tuple) and isinstance(monoid.identity, tuple) and not monoid.identity
    for value, type_ in zip(values, monoid.inputs, strict=True):
        if lifted is value:
            found = list(objects)
        elif isinstance(lifted, tuple) and len(lifted) == 1 and pa.types.is_list(monoid.output):
            found = [entry for partial in objects for entry in partial or ()]
        elif isinstance(lifted, tuple) and not several:
            places = [place for place, entry in enumerate(lifted) if entry is value]
            found = [partial[place] for partial in objects if partial is not None for place in places]
        else:
            continue
        dtype = arrow.physical_dtype(type_)
        try:
            pa.array(found, type=type_ if dtype.kind == "O" else pa.from_numpy_dtype(dtype))
        except (pa.ArrowException, ValueError, TypeError, ArithmeticError) as cause:
            raise CorruptSnapshot(
                f"a partial of {monoid.name} has a value that is no {type_}: {cause}"
            ) from None


def _values(monoid: Monoid) -> list[Any] | None:
    """A value for each input column; nothing if there is none at hand for some type."""
    values = [_value(type_) for type_ in monoid.inputs]
    return None if any(value is None for value in values) else values


def _value(type_: pa.DataType) -> Any:
    dtype = arrow.physical_dtype(type_)
    if dtype.kind != "O":
        return dtype.type(1).item()
    for simple in (pa.scalar("1"), pa.scalar(1), pa.scalar(1, pa.int32())):
        try:
            return simple.cast(type_).as_py()
        except (pa.ArrowException, ValueError, TypeError):
            continue
    return None
