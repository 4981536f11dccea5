# SPDX-License-Identifier: Apache-2.0
"""A monoid: ``lift``, ``combine`` and ``lower`` for known input types, an identity, and declared properties.

This is what an aggregate becomes when it is bound (:mod:`windrow.aggregates.algebra`), and what kernels and
algorithms compute with.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import FunctionType
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from windrow.columns import arrow
from windrow.errors import AggregateError

__all__ = ["Field", "Monoid", "Partial", "SliceSql", "WindowSql", "link"]

Partial = Any


class Field(NamedTuple):
    """One field of a typed partial: a number, or ``width`` numbers in a row."""

    name: str
    dtype: np.dtype[Any]
    width: int = 0

    @classmethod
    def parse(cls, name: str, spec: str) -> Field:
        """``"f8"`` is one float64, ``"u1[1024]"`` a vector of 1024 bytes."""
        scalar, _, rest = spec.partition("[")
        try:
            width = int(rest.rstrip("]")) if rest else 0
            dtype = np.dtype(scalar)
        except (TypeError, ValueError):
            dtype, width = np.dtype(object), -1
        if dtype.kind not in "iufb" or width < 0 or (rest and width == 0):
            raise AggregateError(
                f"partial field {name!r} has the type {spec!r}; expected a numpy number type such as 'f8', "
                "'i8' or 'u1', with an optional length as in 'f8[10]'"
            )
        return cls(name, dtype, width)


@dataclass(frozen=True)
class WindowSql:
    """How Spark's SQL computes a whole window without us, to the same bits or within the aggregate's tolerance.

    ``parts`` are computed from rows, with one expression each over ``{0}``, ``{1}`` … the input columns. ``merge`` gives that of
    several slices, over ``{0}``, and ``lower`` the result, over ``{part}`` for each name.
    """

    parts: Mapping[str, str]
    merge: Mapping[str, str]
    lower: str

    @classmethod
    def of_one(cls, expression: str, merge: str) -> WindowSql:
        """For a result that is a single part."""
        return cls({"result": expression}, {"result": merge}, "{result}")


@dataclass(frozen=True)
class SliceSql:
    """How an engine's SQL computes a slice's partial: one expression per field, over ``{0}``, ``{1}`` … the
    input columns.

    ``NULL`` stands for the field's identity. ``flink`` is given where Flink's SQL differs from Spark's,
    ``engines`` names those whose arithmetic keeps our null and NaN rules, and ``exact`` is false if the
    engine rounds more than we do; ``unrounded`` is then a longer way that does not. ``windows`` is given if Spark can also merge
    slices and lower the result.

    Expressions may also name ``columns`` of each row, which are over the input columns and earlier ones. Rows of a slice are then
    grouped by the column ``group`` too.
    """

    fields: Mapping[str, str]
    flink: Mapping[str, str] | None = None
    engines: tuple[str, ...] = ("spark", "flink")
    exact: bool = True
    windows: WindowSql | None = None
    unrounded: SliceSql | None = None
    columns: Mapping[str, str] = field(default_factory=dict)
    group: str | None = None

    def on(self, engine: str) -> Mapping[str, str] | None:
        """The expressions for ``"spark"`` or ``"flink"``; ``None`` if that engine cannot compute the partial.

        >>> SliceSql({"n": "count({0})"}).on("flink")
        {'n': 'count({0})'}
        """
        if engine not in self.engines:
            return None
        return self.flink if engine == "flink" and self.flink is not None else self.fields


@dataclass(frozen=True, eq=False)
class Monoid:
    """An aggregate bound to the types of its inputs.

    ``combine`` is associative and ``identity`` is neutral for it. ``defined(partial)`` is false when the
    result is null. A typed partial is a tuple with one entry per field; an untyped one (``fields is None``)
    is any Python object, which the functions must treat as immutable. ``add`` and ``merge`` are optional
    in-place forms for wide partials: ``add(parts, i, *values)`` absorbs a row into slot ``i``, and
    ``merge(dst, i, a, j, b, k)`` puts ``a[j] ⊕ b[k]`` into ``dst[i]``, which may be one of the two.
    ``lift_many`` is optional too, for untyped partials that grow with their input: from one array per input
    column, none empty and none with nulls, it makes the partial of all their rows, in order.
    """

    name: str
    fields: tuple[Field, ...] | None
    identity: Partial
    lift: Callable[..., Partial]
    combine: Callable[[Partial, Partial], Partial]
    lower: Callable[[Partial], Any]
    output: pa.DataType
    inputs: tuple[pa.DataType, ...] = ()
    invert: Callable[[Partial, Partial], Partial] | None = None
    defined: Callable[[Partial], bool] | None = None
    commutative: bool = True
    selective: bool = False
    add: Callable[..., None] | None = None
    merge: Callable[..., None] | None = None
    lift_many: Callable[..., Partial] | None = None
    sql: SliceSql | None = None
    record: bool = False
    """Is ``output`` a struct of numbers, and does ``lower`` return a tuple of them? Then it is compiled as others are."""
    tolerance: float = 0.0
    """Relative error that regrouping may cause; 0 means that every grouping gives the same bits."""
    inner: Monoid | None = None
    """The monoid without its count, if the last field counts the rows that were absorbed
    (:func:`windrow.aggregates.nulls.counted`).

    Kernels then call the functions of ``inner`` and count themselves, so a copy with other functions has to
    drop it: ``replace(monoid, combine=…, inner=None)``.
    """
    keeps_nulls: bool = False
    """Rows with nulls count too. ``lift`` gets ``None`` for a null; a column of floats has NaN there."""
    lowers_count: bool = False
    """Does ``lower`` of a counting monoid read the count, as Mean's does? If not, it is ``inner.lower``."""

    @property
    def marks(self) -> bool:
        """Is the count only a mark, 1 if there was a row? That of a selective monoid is: a sum of counts would be
        neither of the operands.
        """
        return self.inner is not None and self.selective

    @property
    def typed(self) -> bool:
        return self.fields is not None

    @property
    def compiles(self) -> bool:
        """Are both partials and results numbers? Then a whole kernel can be compiled, ``lower`` included."""
        return self.typed and self.results.kind != "O"

    @property
    def results(self) -> np.dtype[Any]:
        """The numpy type of an array of results."""
        return arrow.record_dtype(self.output) if self.record else arrow.physical_dtype(self.output)

    @property
    def invertible(self) -> bool:
        return self.invert is not None

    @property
    def width(self) -> int:
        """Bytes of one typed partial; 0 for objects, whose size varies."""
        return sum(f.dtype.itemsize * max(f.width, 1) for f in self.fields or ())

    def scalars(self, column: arrow.Column) -> list[Any]:
        """A column as the values that ``lift`` takes (``None`` for null)."""
        return arrow.scalars(column)

    def column(self, results: Sequence[Any]) -> pa.Array:
        """Lowered results (``None`` for null) as an Arrow array of the output type."""
        return arrow.column(results, self.output, self.results)

    def fold(self, rows: Sequence[tuple[Any, ...]]) -> Partial:
        """The partial of rows, each a tuple of input values. A row with a null input is ignored, unless nulls are kept."""
        partial = self.empty()
        for row in rows:
            if self.keeps_nulls or not any(value is None for value in row):
                partial = self.combine(partial, self.lift(*row))
        return partial

    def empty(self) -> Partial:
        """The identity, with every vector field filled."""
        if self.fields is None or not any(f.width for f in self.fields):
            return self.identity
        return tuple(
            np.full(f.width, value, dtype=f.dtype) if f.width else value
            for f, value in zip(self.fields, self.identity, strict=True)
        )

    def result(self, partial: Partial) -> Any:
        """The value of a partial, or ``None`` if it has none."""
        return self.lower(partial) if self.defined is None or self.defined(partial) else None


def wrapped(value: Any) -> Partial:
    """Lifts a row whose value is the whole partial. Kernels do it in place."""
    return (value,)


def first_field(partial: Partial) -> Any:
    """Lowers a partial whose first field is the result. Kernels do it in place."""
    return partial[0]


def link(template: Callable[..., Any], names: Mapping[str, Any]) -> Callable[..., Any]:
    """A copy of a template function in which global names are bound to other things.

    The interpreter and the compiler then see an ordinary function that calls ordinary functions.
    """
    code, defaults = template.__code__, template.__defaults__
    return FunctionType(code, {**template.__globals__, **names}, template.__name__, defaults)
