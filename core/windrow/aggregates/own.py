# SPDX-License-Identifier: Apache-2.0
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
import traceback
from collections.abc import Mapping, Sequence
from types import FunctionType
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Protocol, TypeVar, overload

import numpy as np
import pyarrow as pa

from windrow.aggregates.algebra import Aggregate, Field, Monoid
from windrow.code_digest import digest
from windrow.columns import arrow
from windrow.errors import AggregateError

__all__ = ["OwnAggregate", "aggregate_type"]

_REQUIRED = ("lift", "combine", "lower")
_OPTIONAL = ("invert", "defined", "add", "merge")
_MISSING: Any = object()
_FACTORY = "; for a parameter, write a function that takes it and returns the class"


def aggregate_type(
    *,
    partial: Mapping[str, str] | None = None,
    identity: Any = _MISSING,
    output: str | Any | None = None,
    commutative: bool = True,
    selective: bool = False,
    tolerance: float | None = None,
    version: str | int | None = None,
) -> AggregateDecorator:
    """A class decorator: three functions become an aggregate that takes column names, ``Average("load")``.

    The class holds plain functions, without ``self``: ``lift`` (one parameter per column; a time or duration is a whole
    number of microseconds), ``combine``, ``lower``; optionally ``invert`` (which makes it invertible) and ``defined``
    (false if the result is null; by default, if there was no row).

    ``partial`` names the numbers of a partial and their types (``"f8"``, ``"i8"``, ``"u1[256]"`` for a
    vector); the functions are then compiled, and a partial is a tuple in that order. Without it, partials
    are Python objects, which the functions must not change; those made of numbers, text, tuples, lists,
    dicts and arrays can be stored.

    ``identity`` is the partial of no rows (a vector's is one number that fills it). ``output`` is the Arrow type
    of the result, or its name; by default it is found by running the functions once. ``commutative`` and ``selective``
    are promises, and ``tolerance`` is the relative error that regrouping may cause (default: 1e-9 if
    partials hold floats, else none); :func:`windrow.testing.laws.check` tests all of them.

    State is restored only under the code that wrote it. ``version`` stands in for the code: give one, and change it
    when old state is of no use to the new code.
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
            version=_checked_version(cls, version),
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


class AggregateDecorator(Protocol):
    """What :func:`aggregate_type` returns. A class that names :class:`OwnAggregate` as its base keeps its type, so that a
    type checker knows its functions.
    """

    @overload
    def __call__(self, cls: type[_Own], /) -> type[_Own]: ...

    @overload
    def __call__(self, cls: type, /) -> type[OwnAggregate]: ...


_Own = TypeVar("_Own", bound="OwnAggregate")


class _Declaration(NamedTuple):
    functions: dict[str, Any]
    fields: tuple[Field, ...] | None
    identity: Any
    output: pa.DataType | None
    commutative: bool
    selective: bool
    tolerance: float
    version: str | None


@dataclasses.dataclass(frozen=True)
class OwnAggregate(Aggregate, builtin=False):
    """What :func:`aggregate_type` makes. A class that is to pass a type checker (mypy, pyright) names it as its base. Mypy does
    not look at class decorators, and pyright then knows the functions of the class:

    >>> import windrow as wr
    >>> @wr.aggregate_type(partial={"total": "f8"}, identity=(0.0,))
    ... class Total(wr.OwnAggregate):
    ...     @staticmethod
    ...     def lift(x: float) -> tuple[float]: return (x,)
    ...     @staticmethod
    ...     def combine(a: tuple[float], b: tuple[float]) -> tuple[float]: return (a[0] + b[0],)
    ...     @staticmethod
    ...     def lower(p: tuple[float]) -> float: return p[0]
    >>> Total("load").columns
    ('load',)
    """

    declared: ClassVar[_Declaration]
    has_own_functions = True

    def __init_subclass__(cls, builtin: bool = False, **kwargs: Any) -> None:
        super().__init_subclass__(builtin=builtin, **kwargs)

    if TYPE_CHECKING:  # what decorated classes take: the names of their columns

        def __init__(self, *columns: str, where: str | None = None) -> None: ...

    def described(self) -> dict[str, Any]:
        declared = self.declared
        fields = (
            None if declared.fields is None else [(f.name, f.dtype.str, f.width) for f in declared.fields]
        )
        code = declared.version or digest(declared.functions, fields, declared.identity)
        return {**self._form(), "code": code}

    def dense(self, types: Sequence[pa.DataType]) -> Monoid:
        declared = self.declared
        if declared.fields is not None:
            self._check_partials(declared.fields, types)
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

    def _check_partials(self, fields: tuple[Field, ...], types: Sequence[pa.DataType]) -> None:
        """Refuse functions whose partials do not fit their fields: a compiled kernel would cut numbers off silently."""
        lift, combine = self.declared.functions["lift"], self.declared.functions["combine"]
        try:
            rows = [[_sample(type_, number) for type_ in types] for number in (1.5, 2.25)]
            partials = [("lift", lift(*row)) for row in rows]
            if all(isinstance(partial, tuple) for _, partial in partials):
                partials.append(("combine", combine(partials[0][1], partials[1][1])))
        except Exception:  # it is called with other values later, and may be right for those
            return
        names = ", ".join(field.name for field in fields)
        for function, partial in partials:
            if not isinstance(partial, tuple) or len(partial) != len(fields):
                hint = "; a tuple of one is written (x,)" if len(fields) == 1 else ""
                raise AggregateError(
                    f"{function} of {self.label} returns {partial!r}; expected a tuple with a number for each field of the "
                    f"partial: {names}{hint}"
                )
            for field, value in zip(fields, partial, strict=True):
                whole = field.dtype.kind in "iu" and not field.width
                if whole and isinstance(value, float | np.floating) and value != int(value):
                    raise AggregateError(
                        f"{function} of {self.label}, tried with the numbers 1.5 and 2.25, gives {value!r} for the field "
                        f"{field.name!r}, which is {field.dtype.str[1:]!r} and would lose the fraction; "
                        f"declare it as 'f8', or round in {function}"
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
        except NameError as cause:
            where = traceback.extract_tb(cause.__traceback__)[-1].name
            raise AggregateError(
                f"{where} of {self.label} uses the name {cause.name!r}, which is not defined; import or define it where the "
                "class is written"
            ) from cause
        except Exception as cause:
            raise AggregateError(
                f"the output type of {self.label} cannot be found by running it once "
                f"({type(cause).__name__}: {cause}); give it: @aggregate_type(…, output=pyarrow.float64())"
            ) from cause


def _sample(type_: pa.DataType, number: float) -> Any:
    dtype = arrow.physical_dtype(type_)
    if dtype.kind != "O":
        return dtype.type(number).item()
    return pa.scalar(str(number)).cast(type_).as_py()


def _functions(cls: type) -> dict[str, Any]:
    functions = {}
    if "__init__" in vars(cls):
        raise AggregateError(f"{cls.__name__} defines __init__, but no object of it is made{_FACTORY}")
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
                f"expected {parameters}, without self{_FACTORY}"
            )
    if ("add" in functions) != ("merge" in functions):
        raise AggregateError(
            f"aggregate {cls.__name__} defines only one of add and merge; define both or neither"
        )
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
        if f.dtype.kind in "iu" and isinstance(value, float | np.floating) and value != int(value):
            raise AggregateError(
                f"the identity of {cls.__name__} has {value!r} for {f.name!r}, which is {f.dtype.str[1:]!r} and would lose the "
                "fraction; declare it as 'f8', or give a whole number"
            )
    return identity


def _checked_output(cls: type, output: pa.DataType | str) -> pa.DataType:
    try:
        return as_type(output)
    except AggregateError as error:
        raise AggregateError(f"the output of {cls.__name__}: {error}") from None


def _checked_version(cls: type, version: Any) -> str | None:
    if version is not None and (
        isinstance(version, bool) or not isinstance(version, str | int) or version == ""
    ):
        raise AggregateError(f"the version of {cls.__name__} is {version!r}; expected text or a whole number")
    return None if version is None else f"version {version}"


def as_type(output: Any) -> pa.DataType:
    """An Arrow type, or its name: ``"double"``, ``"int64"``, ``"string"``."""
    if isinstance(output, pa.DataType):
        return output
    try:
        return pa.type_for_alias(str(output))
    except ValueError:
        raise AggregateError(
            f"{output!r} is not an Arrow type; give one such as pyarrow.float64(), or its name"
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
