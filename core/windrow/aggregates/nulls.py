# SPDX-License-Identifier: Apache-2.0
"""Nulls are ignored, and a window of nulls is null: a monoid gets a count of the rows that it absorbed.

Rows with a null never reach ``lift``. So a window is null if no row was absorbed, and the partial has to know
how many were. :func:`counted` adds that count as one more field of a typed partial. A selective monoid gets a
mark instead, 1 once there was a row: a sum of counts would be neither of the two partials.

>>> import windrow as wr
>>> import pyarrow as pa
>>> dense = wr.Max().dense([pa.float64()])
>>> dense.identity, counted(dense).identity, counted(dense).lift(7.0)
((-inf,), (-inf, 0), (7.0, 1))

The functions made here work on whole partials, as laws and algorithms call them. Compiled kernels do not go
through them: :func:`windrow.kernels.partials.slots` calls the functions of ``inner`` and counts beside them.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np

from windrow.aggregates.monoid import Field, Monoid, Partial, SliceSql, link

__all__ = ["counted"]


def counted(monoid: Monoid) -> Monoid:
    """The same monoid, with a count of absorbed rows in its partial.

    A monoid that says itself when its result is null (``defined``) is returned as it is.
    """
    if monoid.defined is not None:
        return monoid
    if monoid.fields is None:
        return _counted_objects(monoid) if monoid.invert is None else _counted_tuples(monoid)
    templates = {**_COUNTED, **_MARKED} if monoid.selective else _COUNTED
    inner = {f"inner_{name}": getattr(monoid, name) for name in templates}
    given = {name: template for name, template in templates.items() if inner[f"inner_{name}"] is not None}
    functions: dict[str, Any] = {name: link(template, inner) for name, template in given.items()}
    return dataclasses.replace(
        monoid,
        fields=(*monoid.fields, Field("n", np.dtype(np.int64))),
        identity=(*monoid.identity, 0),
        defined=_counted_defined,
        sql=monoid.sql and _counted_sql(monoid.sql, monoid.selective),
        inner=monoid,
        **functions,
    )


def _inner(*_: Any) -> Any:
    raise NotImplementedError("linked by counted()")


inner_lift = inner_combine = inner_lower = inner_invert = inner_add = inner_merge = _inner


def _counted_lift(*values: Any) -> Partial:
    return inner_lift(*values) + (1,)  # noqa: RUF005


def _counted_combine(a: Partial, b: Partial) -> Partial:
    return inner_combine(a[:-1], b[:-1]) + (a[-1] + b[-1],)  # noqa: RUF005


def _counted_invert(a: Partial, b: Partial) -> Partial:
    return inner_invert(a[:-1], b[:-1]) + (a[-1] - b[-1],)  # noqa: RUF005


def _counted_lower(p: Partial) -> Any:
    return inner_lower(p[:-1])


def _counted_defined(p: Partial) -> bool:
    return bool(p[-1] > 0)


def _counted_add(parts: Any, i: int, *values: Any) -> None:
    inner_add(parts[:-1], i, *values)
    parts[-1][i] += 1


def _counted_merge(dst: Any, i: int, a: Any, j: int, b: Any, k: int) -> None:
    inner_merge(dst[:-1], i, a[:-1], j, b[:-1], k)
    dst[-1][i] = a[-1][j] + b[-1][k]


_COUNTED: dict[str, Callable[..., Any]] = {
    "lift": _counted_lift,
    "combine": _counted_combine,
    "invert": _counted_invert,
    "lower": _counted_lower,
    "add": _counted_add,
    "merge": _counted_merge,
}


def _marked_combine(a: Partial, b: Partial) -> Partial:
    return inner_combine(a[:-1], b[:-1]) + (max(a[-1], b[-1]),)  # noqa: RUF005


def _marked_add(parts: Any, i: int, *values: Any) -> None:
    inner_add(parts[:-1], i, *values)
    parts[-1][i] = 1


def _marked_merge(dst: Any, i: int, a: Any, j: int, b: Any, k: int) -> None:
    inner_merge(dst[:-1], i, a[:-1], j, b[:-1], k)
    dst[-1][i] = max(a[-1][j], b[-1][k])


_MARKED: dict[str, Callable[..., Any]] = {
    "combine": _marked_combine,
    "add": _marked_add,
    "merge": _marked_merge,
}


def _counted_sql(sql: SliceSql, selective: bool) -> SliceSql:
    n = {"n": "case when count({0}) > 0 then 1 else 0 end" if selective else "count({0})"}
    return dataclasses.replace(
        sql,
        fields={**sql.fields, **n},
        flink=None if sql.flink is None else {**sql.flink, **n},
        unrounded=sql.unrounded and _counted_sql(sql.unrounded, selective),
    )


def _counted_objects(monoid: Monoid) -> Monoid:
    """Objects: the partial of no rows is ``None``."""
    combine, lower = monoid.combine, monoid.lower

    def combine_some(a: Partial, b: Partial) -> Partial:
        return b if a is None else a if b is None else combine(a, b)

    def lower_some(p: Partial) -> Any:
        return lower(monoid.identity if p is None else p)

    return dataclasses.replace(
        monoid, identity=None, combine=combine_some, lower=lower_some, defined=lambda p: p is not None
    )


def _counted_tuples(monoid: Monoid) -> Monoid:
    """Objects that can be taken back: pairs of a partial and a count, which tells when all rows are gone."""
    nothing = (monoid.identity, 0)
    lift, combine, lower, invert = monoid.lift, monoid.combine, monoid.lower, monoid.invert
    lift_many = monoid.lift_many

    def combine_some(a: Partial, b: Partial) -> Partial:
        return b if a[1] == 0 else a if b[1] == 0 else (combine(a[0], b[0]), a[1] + b[1])

    def invert_some(a: Partial, b: Partial) -> Partial:
        return a if b[1] == 0 else nothing if a[1] == b[1] else (invert(a[0], b[0]), a[1] - b[1])  # type: ignore[misc]

    return dataclasses.replace(
        monoid,
        identity=nothing,
        lift=lambda *values: (lift(*values), 1),
        lift_many=lift_many and (lambda *columns: (lift_many(*columns), len(columns[0]))),
        combine=combine_some,
        lower=lambda p: lower(p[0]),
        defined=lambda p: p[1] > 0,
        invert=invert_some,
        selective=False,
    )
