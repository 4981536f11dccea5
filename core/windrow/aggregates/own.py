"""Aggregates of your own.

>>> import windrow as wr
>>> @wr.aggregate_type(partial={"total": "f8", "n": "i8"}, identity=(0.0, 0))
... class Average:
...     def lift(x): return x, 1
...     def combine(a, b): return a[0] + b[0], a[1] + b[1]
...     def lower(p): return p[0] / p[1]
...     def invert(a, b): return a[0] - b[0], a[1] - b[1]
>>> average = Average("load").bind()
>>> average.result(average.fold([(2.0,), (4.0,)]))
3.0
>>> average.invertible, average.output
(True, DataType(double))
"""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable, Mapping, Sequence
from types import FunctionType
from typing import Any, ClassVar, NamedTuple

import numpy as np
import pyarrow as pa

from windrow.aggregates import arrow
from windrow.aggregates.algebra import Aggregate, Field, Monoid
from windrow.errors import AggregateError

__all__ = ["aggregate_type"]

_REQUIRED = ("lift", "combine", "lower")
_OPTIONAL = ("invert", "defined", "add", "merge")
_MISSING: Any = object()


def aggregate_type(
    *,
    partial: Mapping[str, str] | None = None,
    identity: Any = _MISSING,
    output: pa.DataType | str | None = None,
    commutative: bool = True,
    selective: bool = False,
    tolerance: float | None = None,
) -> Callable[[type], Any]:
    """A class decorator: three functions become an aggregate that takes column names, ``Average("load")``.

    The class holds plain functions, without ``self``: ``lift`` (one parameter per column), ``combine``,
    ``lower``; optionally ``invert`` (which makes it invertible) and ``defined`` (false if the result is
    null; by default, if there was no row).

    ``partial`` names the numbers of a partial and their types (``"f8"``, ``"i8"``, ``"u1[256]"`` for a
    vector); the functions are then compiled, and a partial is a tuple in that order. Without it, partials
    are Python objects, which the functions must not change; those made of numbers, text, tuples, lists,
    dicts and arrays can be stored.

    ``identity`` is the partial of no rows (a vector's is one number that fills it). ``output`` is the type
    of the result; by default it is found by running the functions once. ``commutative`` and ``selective``
    are promises, and ``tolerance`` is the relative error that regrouping may cause (default: 1e-9 if
    partials hold floats, else none); :func:`windrow.laws.check` tests all of them.
    """

    def decorate(cls: type) -> Any:
        functions = _functions(cls)
        fields = (
            None if partial is None else tuple(Field.parse(name, str(spec)) for name, spec in partial.items())
        )
        declared = _Declaration(
            functions=functions,
            fields=fields,
            identity=_checked_identity(cls, fields, identity),
            output=None if output is None else _checked_output(cls, output),
            commutative=commutative,
            selective=selective,
            tolerance=_default_tolerance(fields, selective) if tolerance is None else float(tolerance),
        )
        inputs = _inputs(cls, functions["lift"])
        made = dataclasses.make_dataclass(
            cls.__name__,
            [(name, "str | None", dataclasses.field(default=None)) for name in inputs],
            bases=(OwnAggregate,),
            namespace={
                **{name: staticmethod(function) for name, function in functions.items()},
                "inputs": inputs,
                "declared": declared,
                "__doc__": cls.__doc__,
            },
            frozen=True,
        )
        made.__module__, made.__qualname__ = cls.__module__, cls.__qualname__
        return made

    return decorate


class _Declaration(NamedTuple):
    functions: dict[str, Any]
    fields: tuple[Field, ...] | None
    identity: Any
    output: pa.DataType | None
    commutative: bool
    selective: bool
    tolerance: float


@dataclasses.dataclass(frozen=True)
class OwnAggregate(Aggregate, builtin=False):
    """What :func:`aggregate_type` makes."""

    declared: ClassVar[_Declaration]

    def dense(self, types: Sequence[pa.DataType]) -> Monoid:
        declared = self.declared
        return Monoid(
            name=self.label,
            fields=declared.fields,
            identity=declared.identity,
            output=self._inferred_output(types) if declared.output is None else declared.output,
            inputs=tuple(types),
            commutative=declared.commutative,
            selective=declared.selective,
            tolerance=declared.tolerance,
            **declared.functions,
        )

    def _inferred_output(self, types: Sequence[pa.DataType]) -> pa.DataType:
        lift, combine, lower = (self.declared.functions[name] for name in _REQUIRED)
        try:
            partial = lift(*(_sample(type_, 1) for type_ in types))
            for number in (2, 3):
                partial = combine(partial, lift(*(_sample(type_, number) for type_ in types)))
            result = lower(partial)
            if isinstance(result, bool | np.bool_):
                return pa.bool_()
            if isinstance(result, int):
                return pa.int64()
            return pa.scalar(result.item() if isinstance(result, np.generic) else result).type
        except Exception as cause:
            raise AggregateError(
                f"the output type of {self.label} cannot be found by running it once "
                f"({type(cause).__name__}: {cause}); give it: @aggregate_type(…, output=pyarrow.float64())"
            ) from cause


def _sample(type_: pa.DataType, number: int) -> Any:
    dtype = arrow.physical_dtype(type_)
    if dtype.kind != "O":
        return dtype.type(number).item()
    return pa.scalar(str(number)).cast(type_).as_py()


def _functions(cls: type) -> dict[str, Any]:
    functions = {}
    for name in (*_REQUIRED, *_OPTIONAL):
        function = vars(cls).get(name)
        if isinstance(function, staticmethod):
            function = function.__func__
        if isinstance(function, FunctionType):
            functions[name] = function
        elif function is not None:
            raise AggregateError(
                f"{cls.__name__}.{name} is a {type(function).__name__}; expected a plain function"
            )
    missing = [name for name in _REQUIRED if name not in functions]
    if missing:
        raise AggregateError(
            f"aggregate {cls.__name__} has no {' and no '.join(missing)}; an aggregate defines the functions "
            "lift(x), combine(a, b) and lower(p), without self"
        )
    for name, parameters in (("combine", 2), ("lower", 1), ("invert", 2), ("defined", 1)):
        if name in functions and functions[name].__code__.co_argcount != parameters:
            raise AggregateError(
                f"{cls.__name__}.{name} takes {functions[name].__code__.co_argcount} parameters; "
                f"expected {parameters}, without self"
            )
    if ("add" in functions) != ("merge" in functions):
        raise AggregateError(f"aggregate {cls.__name__} has one of add and merge; expected both or none")
    return functions


def _checked_identity(cls: type, fields: tuple[Field, ...] | None, identity: Any) -> Any:
    if fields is None:
        return None if identity is _MISSING else identity
    if not isinstance(identity, tuple) or len(identity) != len(fields):
        shown = "none" if identity is _MISSING else repr(identity)
        raise AggregateError(
            f"the identity of {cls.__name__} is {shown}; expected a tuple of {len(fields)} numbers, one for "
            f"each field of the partial: {', '.join(f.name for f in fields)}"
        )
    for f, value in zip(fields, identity, strict=True):
        if not isinstance(value, int | float | np.number | np.bool_):
            raise AggregateError(
                f"the identity of {cls.__name__} has {value!r} for {f.name!r}; expected a number"
                + (" that fills the vector" if f.width else "")
            )
    return identity


def _checked_output(cls: type, output: pa.DataType | str) -> pa.DataType:
    try:
        return as_type(output)
    except AggregateError as error:
        raise AggregateError(f"the output of {cls.__name__}: {error}") from None


def as_type(output: Any) -> pa.DataType:
    """An Arrow type, or its name: ``"double"``, ``"int64"``, ``"string"``."""
    if isinstance(output, pa.DataType):
        return output
    try:
        return pa.type_for_alias(str(output))
    except ValueError:
        raise AggregateError(
            f"{output!r} is no Arrow type; give one such as pyarrow.float64(), or its name"
        ) from None


def _default_tolerance(fields: tuple[Field, ...] | None, selective: bool) -> float:
    exact = selective or (fields is not None and all(f.dtype.kind != "f" for f in fields))
    return 0.0 if exact else 1e-9


def _inputs(cls: type, lift: FunctionType) -> tuple[str, ...]:
    parameters = inspect.signature(lift).parameters.values()
    if any(p.kind is not p.POSITIONAL_OR_KEYWORD or p.default is not p.empty for p in parameters):
        raise AggregateError(
            f"{cls.__name__}.lift{inspect.signature(lift)}: expected one plain parameter per column"
        )
    return tuple(
        f"{p.name}_" if hasattr(OwnAggregate, p.name) or p.name in _REQUIRED else p.name for p in parameters
    )
