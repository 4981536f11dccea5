# SPDX-License-Identifier: Apache-2.0
"""Several aggregates as one.

>>> import windrow as wr
>>> both = wr.product({"peak": wr.Max("load"), "mean": wr.Mean("load")})
>>> monoid = both.bind()
>>> monoid.result(monoid.fold([(1.0, 1.0), (4.0, 4.0)]))
{'peak': 4.0, 'mean': 2.5}
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from windrow.aggregates.algebra import Aggregate, Monoid, aggregate_from_dict, link
from windrow.errors import AggregateError, QueryError
from windrow.imports import Allow
from windrow.kernels.partials import slots

__all__ = ["product"]


def product(parts: Mapping[str, Aggregate]) -> Aggregate:
    """One aggregate that computes several; its result is a struct with a field for each.

    The partial is that of the parts, side by side: typed if theirs all are. A row in which any of the
    columns is null is ignored by all parts, because it is one aggregate. It is commutative, and invertible,
    if all parts are.
    """
    return ProductOf(tuple(parts.items()))


@dataclass(frozen=True)
class ProductOf(Aggregate):
    """What :func:`product` makes."""

    parts: tuple[tuple[str, Aggregate], ...]

    def __post_init__(self) -> None:
        read = tuple((name, _aggregate(name, part)) for name, part in self.parts)
        if not read or len({name for name, _ in read}) < len(read):
            raise AggregateError("a product needs one or more aggregates, each with a name of its own")
        object.__setattr__(self, "parts", read)

    @classmethod
    def from_parameters(cls, parameters: dict[str, Any], allow: Allow) -> Aggregate:
        parts = parameters.get("parts")
        where = parameters.get("where")
        if set(parameters) - {"where"} != {"parts"} or not isinstance(parts, list | tuple):
            raise QueryError(
                "a ProductOf has 'parts', a list of pairs of a name and an aggregate, and optionally 'where'"
            )
        if not isinstance(where, str | None):
            raise QueryError(f"where of ProductOf has to be a condition, not {where!r}")
        for part in parts:
            if not isinstance(part, list | tuple) or len(part) != 2 or not isinstance(part[0], str):
                raise QueryError(
                    f"a part of ProductOf has to be a pair of a name and an aggregate, not {part!r}"
                )
        read = tuple((name, aggregate_from_dict(part, allow=allow)) for name, part in parts)
        return cls(read, where=where)

    @property
    def columns(self) -> tuple[str, ...]:
        return tuple(column for _, part in self.parts for column in part.columns)

    @property
    def arity(self) -> int:
        return sum(part.arity for _, part in self.parts)

    @property
    def label(self) -> str:
        return " × ".join(part.label for _, part in self.parts)

    def to_dict(self) -> dict[str, Any]:
        return self._with([[name, part.to_dict()] for name, part in self.parts])

    def described(self) -> dict[str, Any]:
        return self._with([[name, part.described()] for name, part in self.parts])

    def _with(self, parts: list[Any]) -> dict[str, Any]:
        where = {} if self.where is None else {"where": self.where}
        return {"kind": "ProductOf", "parts": parts, **where}

    def dense(self, types: Sequence[pa.DataType]) -> Monoid:
        monoids, at = {}, 0
        for name, part in self.parts:
            monoids[name] = part.bind(types[at : at + part.arity])
            at += part.arity
        every = list(monoids.values())
        make = _typed if all(m.typed for m in every) else _objects
        return Monoid(
            name=self.label,
            output=pa.struct([(name, m.output) for name, m in monoids.items()]),
            inputs=tuple(types),
            commutative=all(m.commutative for m in every),
            tolerance=max(m.tolerance for m in every),
            **make(monoids),
        )


def _aggregate(name: str, part: Any) -> Aggregate:
    if isinstance(part, Mapping):
        return aggregate_from_dict(part)
    if not isinstance(part, Aggregate):
        raise AggregateError(
            f"part {name!r} of a product is {part!r}; expected an aggregate such as Max('load')"
        )
    if part.where is not None:
        raise AggregateError(
            f"part {name!r} of a product has where={part.where!r}; a row counts for all parts or for none: "
            f"compute it as an aggregate of its own"
        )
    return part


def _resulting(monoid: Monoid) -> Callable[[Any], Any]:
    """A function from a part's partial to its cell of the struct."""
    lower, defined, boolean = monoid.lower, monoid.defined, pa.types.is_boolean(monoid.output)

    def result(partial: Any) -> Any:
        if defined is not None and not defined(partial):
            return None
        cell = lower(partial)
        cell = cell.item() if isinstance(cell, np.generic) else cell
        return bool(cell) if boolean else cell

    return result


# Objects: a tuple of the parts' partials.


def _objects(monoids: Mapping[str, Monoid]) -> dict[str, Any]:
    every = list(monoids.values())
    starts = _starts([len(m.inputs) for m in every])
    results = [(name, _resulting(m)) for name, m in monoids.items()]

    def lift(*values: Any) -> Any:
        spans = zip(every, starts, starts[1:], strict=False)
        return tuple(m.lift(*values[begin:end]) for m, begin, end in spans)

    def lift_many(*columns: Any) -> Any:
        spans = zip(every, starts, starts[1:], strict=False)
        return tuple(_lift_many(m, columns[begin:end], len(columns[0])) for m, begin, end in spans)

    def combine(a: Any, b: Any) -> Any:
        return tuple(m.combine(x, y) for m, x, y in zip(every, a, b, strict=True))

    def invert(a: Any, b: Any) -> Any:
        return tuple(m.invert(x, y) for m, x, y in zip(every, a, b, strict=True))  # type: ignore[misc]

    def lower(p: Any) -> Any:
        return {name: result(x) for (name, result), x in zip(results, p, strict=True)}

    return {
        "fields": None,
        "identity": tuple(m.empty() for m in every),
        "lift": lift,
        "lift_many": lift_many if any(m.lift_many for m in every) else None,
        "combine": combine,
        "lower": lower,
        "invert": invert if all(m.invertible for m in every) else None,
    }


def _lift_many(monoid: Monoid, columns: tuple[Any, ...], rows: int) -> Any:
    if monoid.lift_many is not None:
        return monoid.lift_many(*columns)
    return monoid.fold([tuple(column[row] for column in columns) for row in range(rows)])


# Numbers: the fields of all parts in one row. Each pair is joined by functions that know where the second
# part begins.


def _typed(monoids: Mapping[str, Monoid]) -> dict[str, Any]:
    every = list(monoids.values())
    starts = _starts([len(m.fields or ()) for m in every])

    # Functions and numbers only, so that compiled code is found in the cache by other processes.
    results = tuple(zip(monoids, starts, starts[1:], map(_resulting, every), strict=False))

    def lower(p: Any) -> Any:
        return {name: result(p[begin:end]) for name, begin, end, result in results}

    wide = any(m.add is not None for m in every)
    joined = _functions(every[0], wide)
    fields, inputs = len(every[0].fields or ()), len(every[0].inputs)
    for m in every[1:]:
        other = _functions(m, wide)
        for name, function in _PAIR.items():
            if name in joined and name in other:
                pair = {"FIELDS": fields, "INPUTS": inputs, "left": joined[name], "right": other[name]}
                joined[name] = link(function, pair)
            else:
                joined.pop(name, None)
        fields, inputs = fields + len(m.fields or ()), inputs + len(m.inputs)
    return {
        "fields": tuple(
            f._replace(name=f"{name}.{f.name}") for name, m in monoids.items() for f in m.fields or ()
        ),
        "identity": sum((m.identity for m in every), ()),
        "lower": lower,
        **joined,
    }


def _functions(monoid: Monoid, wide: bool) -> dict[str, Any]:
    functions: dict[str, Any] = {"lift": monoid.lift, "combine": monoid.combine}
    if monoid.invert is not None:
        functions["invert"] = monoid.invert
    if wide:
        seam = slots(monoid)
        functions["merge"] = seam["merge"]
        functions["add"] = monoid.add or link(_add, seam)
    return functions


def _starts(lengths: list[int]) -> list[int]:
    return [sum(lengths[:count]) for count in range(len(lengths) + 1)]


FIELDS, INPUTS = 1, 1


def left(*_: Any) -> Any:
    raise NotImplementedError("linked by _typed")


load = store = lift = combine = right = left


def _add(parts: Any, i: int, *values: Any) -> None:
    store(parts, i, combine(load(parts, i), lift(*values)))


def _pair_lift(*values: Any) -> Any:
    return left(*values[:INPUTS]) + right(*values[INPUTS:])


def _pair_combine(a: Any, b: Any) -> Any:
    return left(a[:FIELDS], b[:FIELDS]) + right(a[FIELDS:], b[FIELDS:])


def _pair_add(parts: Any, i: int, *values: Any) -> None:
    left(parts[:FIELDS], i, *values[:INPUTS])
    right(parts[FIELDS:], i, *values[INPUTS:])


def _pair_merge(dst: Any, i: int, a: Any, j: int, b: Any, k: int) -> None:
    left(dst[:FIELDS], i, a[:FIELDS], j, b[:FIELDS], k)
    right(dst[FIELDS:], i, a[FIELDS:], j, b[FIELDS:], k)


_PAIR = {
    "lift": _pair_lift,
    "combine": _pair_combine,
    "invert": _pair_combine,
    "add": _pair_add,
    "merge": _pair_merge,
}
