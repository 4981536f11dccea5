# SPDX-License-Identifier: Apache-2.0
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

The laws that every monoid keeps are in :mod:`windrow.testing.laws`. The decomposition is that of Tangwongsan et al.,
*General Incremental Sliding-Window Aggregation*, VLDB 2015.
"""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from windrow.aggregates.monoid import Field, Monoid, Partial, SliceSql, link
from windrow.aggregates.nulls import counted
from windrow.aggregates.whole import WholeWindow
from windrow.columns import arrow
from windrow.errors import AggregateError, QueryError, WindrowError, did_you_mean
from windrow.imports import Allow, imported

__all__ = [
    "Aggregate",
    "Field",
    "Monoid",
    "Partial",
    "SliceSql",
    "aggregate_from_dict",
    "dtype_of",
    "highest",
    "link",
    "lowest",
]


@dataclass(frozen=True)
class Aggregate:
    """What a query asks for: a kind of aggregate, the columns it reads, its parameters.

    A subclass is a frozen dataclass whose fields named in ``inputs`` hold column names. It defines ``dense``,
    the monoid over columns without nulls; everything else follows.

    In a query, an input may also be an expression over columns, such as ``"price * volume"``; a column of that name wins.
    ``where`` is a condition: only rows for which it is true are aggregated. See :mod:`windrow.expressions`.

    >>> import windrow as wr
    >>> rows = {"ts": [1, 2, 3], "price": [2.0, 3.0, 5.0], "volume": [10, 0, 1]}
    >>> query = wr.Query(window=wr.TimeWindow(10), aggregates={
    ...     "turnover": wr.Sum("price * volume"), "traded": wr.Count(where="volume > 0")})
    >>> wr.aggregate(rows, query).select(["turnover", "traded"]).to_pylist()
    [{'turnover': 25.0, 'traded': 2}]
    """

    where: str | None = dataclasses.field(default=None, kw_only=True)

    inputs: ClassVar[tuple[str, ...]] = ("column",)
    has_own_functions: ClassVar[bool] = False
    """Its functions are the user's. They get times and durations in microseconds, whatever the unit of the column."""
    kinds: ClassVar[dict[str, type[Aggregate]]] = {}

    def __init_subclass__(cls, builtin: bool = True, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if cls.__repr__ is Aggregate.__repr__:
            setattr(cls, "__repr__", cls.__repr__)  # noqa: B010  # dataclasses would make one that shows where=None
        if builtin and cls.__module__.startswith("windrow."):
            Aggregate.kinds[cls.__name__] = cls

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns it reads, in the order in which ``lift`` takes them."""
        named = (getattr(self, name) for name in self.inputs)
        return tuple(column for column in named if column is not None)

    def __repr__(self) -> str:
        fields = [f.name for f in dataclasses.fields(self) if f.repr and f.name != "where"]
        fields += [] if self.where is None else ["where"]
        return f"{type(self).__name__}({', '.join(f'{name}={getattr(self, name)!r}' for name in fields)})"

    @property
    def label(self) -> str:
        return f"{type(self).__name__}({', '.join(self.columns)})"

    def dense(self, types: Sequence[pa.DataType]) -> Monoid:
        """The monoid for input columns of these types that hold no null.

        Called with one type per input, never of a dictionary. Every kind of aggregate defines it.
        """
        raise NotImplementedError

    def bind(self, types: Sequence[pa.DataType] | None = None) -> Monoid:
        """The monoid for input columns of these types (default: all float64); nulls are ignored."""
        return counted(self.bind_dense(types))

    def bind_dense(self, types: Sequence[pa.DataType] | None = None) -> Monoid:
        """As :meth:`bind`, for columns that hold no null."""
        return self.dense(self._types(types))

    def _types(self, types: Sequence[pa.DataType] | None) -> tuple[pa.DataType, ...]:
        if types is None:
            return (pa.float64(),) * self.arity
        if len(types) != self.arity:
            raise AggregateError(f"{self.label} takes {self.arity} input column(s), got {len(types)} types")
        return tuple(t.value_type if pa.types.is_dictionary(t) else t for t in types)

    def whole(self, types: Sequence[pa.DataType], *, compiled: bool = True) -> WholeWindow | None:
        """How results come from all rows of a window, if that takes less time than to combine partials.

        Types are those of the input columns. The monoid gives the same results.
        """
        return None

    @property
    def arity(self) -> int:
        """How many values ``lift`` takes."""
        return len(self.inputs)

    def to_dict(self) -> dict[str, Any]:
        """A form that can be written as JSON and is read back by :func:`aggregate_from_dict`."""
        form = self._form()
        if "<locals>" in form["kind"] or form["kind"].startswith("__main__:"):
            raise QueryError(
                f"aggregate {form['kind']} cannot be named in JSON: it is not importable; "
                "define it at the top level of a module"
            )
        return form

    def described(self) -> dict[str, Any]:
        """As :meth:`to_dict`, but also for a class that cannot be imported. For messages and fingerprints.

        That of an aggregate that is not windrow's has an entry ``code``, which stands for its functions.
        """
        return self._form()

    def _form(self) -> dict[str, Any]:
        cls = type(self)
        kind = (
            cls.__name__
            if Aggregate.kinds.get(cls.__name__) is cls
            else f"{cls.__module__}:{cls.__qualname__}"
        )
        parameters = {f.name: getattr(self, f.name) for f in dataclasses.fields(self)}
        given = {name: value for name, value in parameters.items() if value is not None}
        return {"kind": kind, **{k: list(v) if isinstance(v, tuple) else v for k, v in given.items()}}

    @classmethod
    def from_parameters(cls, parameters: dict[str, Any], allow: Allow) -> Aggregate:
        """The aggregate of these parameters. A subclass whose parameters name others reads them here."""
        for f in dataclasses.fields(cls):
            kinds = _PARAMETERS.get(str(f.type))
            if f.name in parameters and kinds is not None and type(parameters[f.name]) not in kinds:
                raise QueryError(f"{f.name} of {cls.__name__} has to be {f.type}, not {parameters[f.name]!r}")
        given: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in parameters.items()}
        return cls(**given)


_PARAMETERS: dict[str, tuple[type, ...]] = {
    "str | None": (str, type(None)),
    "bool": (bool,),
    "int": (int,),
    "float": (int, float),
}
"""The types that a parameter may have in a document, by its annotation."""


MADE_BY_FUNCTIONS = {"ProductOf", "FromBeam", "FromFlink"}
"""Kinds that users know by the functions that make them, such as ``wr.product``."""


def aggregate_from_dict(form: Mapping[str, Any], *, allow: Allow = ()) -> Aggregate:
    """The aggregate that :meth:`Aggregate.to_dict` wrote. User-defined kinds are imported by name.

    ``allow`` names the modules from which they may be; see :mod:`windrow.imports`.
    """
    if not isinstance(form, Mapping):
        raise QueryError(f"an aggregate has to be an object with 'kind' and its parameters, not {form!r}")
    parameters = dict(form)
    kind = str(parameters.pop("kind", ""))
    cls: Any = Aggregate.kinds.get(kind)
    if cls is None and ":" in kind:
        cls = imported(kind, allow, "an aggregate")
    if not (isinstance(cls, type) and issubclass(cls, Aggregate) and cls.dense is not Aggregate.dense):
        hint = did_you_mean(kind, sorted(set(Aggregate.kinds) - MADE_BY_FUNCTIONS), "there are")
        end = "" if hint.endswith("?") else "."
        raise QueryError(
            f"unknown aggregate kind {kind!r}; {hint}{end} For one of your own, write 'module:Class'"
        )
    try:
        made = cls.from_parameters(parameters, allow)
        _ = made.columns, made.arity, made.label
    except WindrowError:
        raise
    except (TypeError, ValueError, ArithmeticError, LookupError, AttributeError) as cause:
        known = inspect.signature(cls).parameters
        for name in parameters:
            if name not in known:
                hint = did_you_mean(str(name), known, "it has")
                raise QueryError(f"aggregate {kind!r} has no parameter {name!r}; {hint}") from cause
        given = sorted(map(str, parameters))
        raise QueryError(f"aggregate {kind!r} does not take these parameters: {given} ({cause})") from cause
    return made


def dtype_of(type_: pa.DataType, aggregate: Aggregate, *, numeric: bool = True) -> np.dtype[Any]:
    """The physical type of an input column. If it must be ``numeric`` and is not, the error names the
    aggregate.
    """
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
