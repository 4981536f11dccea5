"""What an aggregate is: ``lift``, ``combine``, ``lower``, an identity, and the properties it declares.

An :class:`Aggregate` is what a user writes in a query: ``Max("load")``. Bound to the types of its input
columns it is a :class:`Monoid`: the functions that compute it, over partials of a fixed schema (compiled)
or Python objects.

>>> import windrow as wr
>>> largest = wr.Max("load").bind()
>>> partial = largest.identity
>>> for load in (3.0, 7.0, 5.0):
...     partial = largest.combine(partial, largest.lift(load))
>>> largest.lower(partial)
7.0

The laws that every monoid keeps are in :mod:`windrow.laws`. The decomposition is that of Tangwongsan et al.,
*General Incremental Sliding-Window Aggregation*, VLDB 2015.
"""

from __future__ import annotations

import dataclasses
import importlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import FunctionType
from typing import Any, ClassVar, NamedTuple

import numpy as np
import pyarrow as pa

from windrow.aggregates import arrow
from windrow.errors import AggregateError, QueryError

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
class SliceSql:
    """How an engine's SQL computes a slice's partial: one expression per field, over ``{0}``, ``{1}`` … the
    input columns.

    ``NULL`` stands for the field's identity. ``flink`` is given where Flink's SQL differs from Spark's,
    ``engines`` names those whose arithmetic keeps our null and NaN rules, and ``exact`` is false if the
    engine rounds more than we do.
    """

    fields: Mapping[str, str]
    flink: Mapping[str, str] | None = None
    engines: tuple[str, ...] = ("spark", "flink")
    exact: bool = True

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
    in-place forms for wide partials: ``add(parts, i, *values)`` absorbs a row into slot ``i``; ``merge(dst,
    i, a, j, b, k)`` puts ``a[j] ⊕ b[k]`` into ``dst[i]``.
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
    sql: SliceSql | None = None
    tolerance: float = 0.0
    """Relative error that regrouping may cause; 0 means that every grouping gives the same bits."""

    @property
    def typed(self) -> bool:
        return self.fields is not None

    @property
    def compiles(self) -> bool:
        """Are both its partials and its results numbers, so that a whole kernel, ``lower`` included, can be
        compiled?"""
        return self.typed and arrow.physical_dtype(self.output).kind != "O"

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
        return arrow.column(results, self.output)

    def fold(self, rows: Sequence[tuple[Any, ...]]) -> Partial:
        """The partial of rows, each a tuple of input values; a row with a null input is ignored."""
        partial = self.empty()
        for row in rows:
            if not any(value is None for value in row):
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


def counted(monoid: Monoid) -> Monoid:
    """The same monoid with a count of absorbed rows in its partial, so that a window of nulls is known to
    be null."""
    if monoid.defined is not None:
        return monoid
    if monoid.fields is None:
        return _counted_objects(monoid)
    inner = {"inner_lift": monoid.lift, "inner_combine": monoid.combine, "inner_lower": monoid.lower}
    linked = {name: link(function, inner) for name, function in _COUNTED.items()}
    if monoid.selective:
        linked["combine"] = link(_marked_combine, inner)
    in_place: dict[str, Any] = {}
    if monoid.add is not None and monoid.merge is not None:
        wide = {"inner_add": monoid.add, "inner_merge": monoid.merge}
        in_place = {"add": link(_counted_add, wide), "merge": link(_counted_merge, wide)}
    invert = monoid.invert and link(_counted_invert, {"inner_invert": monoid.invert})
    sql = monoid.sql and _counted_sql(monoid.sql, monoid.selective)
    return dataclasses.replace(
        monoid,
        fields=(*monoid.fields, Field("n", np.dtype(np.int64))),
        identity=(*monoid.identity, 0),
        lift=linked["lift"],
        combine=linked["combine"],
        lower=linked["lower"],
        defined=_counted_defined,
        invert=invert,
        sql=sql,
        **in_place,
    )


def link(template: Callable[..., Any], names: Mapping[str, Any]) -> Callable[..., Any]:
    """A copy of a template function in which global names stand for the given things.

    Both the interpreter and the compiler then see an ordinary function that calls ordinary functions.
    """
    code, defaults = template.__code__, template.__defaults__
    return FunctionType(code, {**template.__globals__, **names}, template.__name__, defaults)


@dataclass(frozen=True)
class Aggregate:
    """What a query asks for: a kind of aggregate, the columns it reads, its parameters.

    A subclass is a frozen dataclass whose fields named in ``inputs`` hold column names; it says how to
    ``dense``-ly compute over columns without nulls, and everything else follows.
    """

    inputs: ClassVar[tuple[str, ...]] = ("column",)
    kinds: ClassVar[dict[str, type[Aggregate]]] = {}

    def __init_subclass__(cls, builtin: bool = True, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if builtin and cls.__module__.startswith("windrow."):
            Aggregate.kinds[cls.__name__] = cls

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns it reads, in the order in which ``lift`` takes them."""
        named = (getattr(self, name) for name in self.inputs)
        return tuple(column for column in named if column is not None)

    @property
    def label(self) -> str:
        return f"{type(self).__name__}({', '.join(self.columns)})"

    def dense(self, types: Sequence[pa.DataType]) -> Monoid:
        """The monoid for input columns of these types that hold no null."""
        raise NotImplementedError

    def bind(self, types: Sequence[pa.DataType] | None = None) -> Monoid:
        """The monoid for input columns of these types (default: all float64); nulls are ignored."""
        return counted(self.dense(self._types(types)))

    def _types(self, types: Sequence[pa.DataType] | None) -> tuple[pa.DataType, ...]:
        if types is None:
            return (pa.float64(),) * self.arity
        if len(types) != self.arity:
            raise AggregateError(f"{self.label} takes {self.arity} input column(s), got {len(types)} types")
        return tuple(t.value_type if pa.types.is_dictionary(t) else t for t in types)

    @property
    def arity(self) -> int:
        """How many values ``lift`` takes."""
        return len(self.inputs)

    def to_dict(self) -> dict[str, Any]:
        """A JSON-able form; read back by :func:`aggregate_from_dict`."""
        form = self.described()
        if "<locals>" in form["kind"] or form["kind"].startswith("__main__:"):
            raise QueryError(
                f"aggregate {form['kind']} cannot be named in JSON: it is not importable; "
                "define it at the top level of a module"
            )
        return form

    def described(self) -> dict[str, Any]:
        """As :meth:`to_dict`, for people to compare: the class need not be importable."""
        cls = type(self)
        kind = (
            cls.__name__
            if Aggregate.kinds.get(cls.__name__) is cls
            else f"{cls.__module__}:{cls.__qualname__}"
        )
        parameters = {f.name: getattr(self, f.name) for f in dataclasses.fields(self)}
        given = {name: value for name, value in parameters.items() if value is not None}
        return {"kind": kind, **{k: list(v) if isinstance(v, tuple) else v for k, v in given.items()}}


def aggregate_from_dict(form: Mapping[str, Any]) -> Aggregate:
    """The aggregate that :meth:`Aggregate.to_dict` wrote. User-defined kinds are imported by name."""
    parameters = dict(form)
    kind = str(parameters.pop("kind", ""))
    cls: Any = Aggregate.kinds.get(kind)
    if cls is None and ":" in kind:
        module, _, path = kind.partition(":")
        try:
            cls = importlib.import_module(module)
            for part in path.split("."):
                cls = getattr(cls, part)
        except (ImportError, AttributeError) as cause:
            raise QueryError(
                f"aggregate {kind!r} cannot be imported ({cause}); make its module importable here"
            ) from cause
    if not (isinstance(cls, type) and issubclass(cls, Aggregate)):
        known = ", ".join(sorted(Aggregate.kinds))
        raise QueryError(
            f"unknown aggregate kind {kind!r}; expected one of {known}, or 'module:Class' of your own"
        )
    try:
        made: Aggregate = cls(**{k: tuple(v) if isinstance(v, list) else v for k, v in parameters.items()})
    except TypeError as cause:
        raise QueryError(
            f"aggregate {kind!r} does not take these parameters: {sorted(parameters)} ({cause})"
        ) from cause
    return made


def dtype_of(type_: pa.DataType, aggregate: Aggregate, *, numeric: bool = True) -> np.dtype[Any]:
    """The physical type of an input column; an error that names the aggregate if it must be a number and is
    not."""
    dtype = arrow.physical_dtype(type_)
    types = pa.types
    if numeric and not (types.is_integer(type_) or types.is_floating(type_) or types.is_boolean(type_)):
        raise AggregateError(
            f"{aggregate.label} needs a numeric column, got {type_}; cast it to a number first"
        )
    return dtype


def lowest(dtype: np.dtype[Any]) -> Any:
    """The identity of max."""
    return -np.inf if dtype.kind == "f" else int(np.iinfo(dtype).min)


def highest(dtype: np.dtype[Any]) -> Any:
    """The identity of min."""
    return np.inf if dtype.kind == "f" else int(np.iinfo(dtype).max)


def _inner(*_: Any) -> Any:
    raise NotImplementedError("linked by counted()")


inner_lift = inner_combine = inner_lower = inner_invert = inner_add = inner_merge = _inner


def _counted_lift(*values: Any) -> Partial:
    return inner_lift(*values) + (1,)  # noqa: RUF005


def _counted_combine(a: Partial, b: Partial) -> Partial:
    return inner_combine(a[:-1], b[:-1]) + (a[-1] + b[-1],)  # noqa: RUF005


def _marked_combine(a: Partial, b: Partial) -> Partial:
    """A selective aggregate only marks that there was a row, so that the result is still one of the two."""
    return inner_combine(a[:-1], b[:-1]) + (max(a[-1], b[-1]),)  # noqa: RUF005


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


def _counted_sql(sql: SliceSql, selective: bool) -> SliceSql:
    n = {"n": "case when count({0}) > 0 then 1 else 0 end" if selective else "count({0})"}
    return dataclasses.replace(
        sql, fields={**sql.fields, **n}, flink=None if sql.flink is None else {**sql.flink, **n}
    )


_COUNTED = {"lift": _counted_lift, "combine": _counted_combine, "lower": _counted_lower}


def _counted_objects(monoid: Monoid) -> Monoid:
    """Objects carry ``None`` for "no row yet"; those that can be taken back have to be counted."""
    lift, combine, lower, invert = monoid.lift, monoid.combine, monoid.lower, monoid.invert
    if invert is not None:
        return _counted_tuples(monoid)

    def combine_some(a: Partial, b: Partial) -> Partial:
        return b if a is None else a if b is None else combine(a, b)

    def lower_some(p: Partial) -> Any:
        return lower(monoid.identity if p is None else p)

    return dataclasses.replace(
        monoid,
        identity=None,
        lift=lift,
        combine=combine_some,
        lower=lower_some,
        defined=lambda p: p is not None,
    )


def _counted_tuples(monoid: Monoid) -> Monoid:
    nothing = (monoid.identity, 0)
    lift, combine, lower, invert = monoid.lift, monoid.combine, monoid.lower, monoid.invert

    def combine_some(a: Partial, b: Partial) -> Partial:
        return b if a[1] == 0 else a if b[1] == 0 else (combine(a[0], b[0]), a[1] + b[1])

    def invert_some(a: Partial, b: Partial) -> Partial:
        return a if b[1] == 0 else nothing if a[1] == b[1] else (invert(a[0], b[0]), a[1] - b[1])  # type: ignore[misc]

    return dataclasses.replace(
        monoid,
        identity=nothing,
        lift=lambda *values: (lift(*values), 1),
        combine=combine_some,
        lower=lambda p: lower(p[0]),
        defined=lambda p: p[1] > 0,
        invert=invert_some,
        selective=False,
    )
