# SPDX-License-Identifier: Apache-2.0
"""Aggregates of the rows of a window: what :class:`~windrow.Apply`, :class:`~windrow.Slider` and others have in common.

Their result is a function of all rows of a window. The operator computes it from views of the rows
(:mod:`windrow.operator.extents`). Where partials are needed, the partial is the rows themselves, in order.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from windrow.aggregates.algebra import Aggregate, Monoid
from windrow.aggregates.own import as_type
from windrow.aggregates.whole import fields_of, read_only
from windrow.code_digest import digest
from windrow.columns import arrow
from windrow.columns.arrow import Array
from windrow.errors import AggregateError, QueryError, WindrowError
from windrow.imports import ANY, Allow, imported

__all__ = ["OfRows", "Returns"]

Returns: TypeAlias = pa.DataType | str | Mapping[str, Any]
"""A type, its name, or a dict of them for the fields of a struct."""


@dataclass(frozen=True, init=False, repr=False)
class OfRows(Aggregate, builtin=False):
    """Results that come from all rows of a window. A subclass says how, in :meth:`of_window`."""

    reads: tuple[str, ...]
    returns: pa.DataType
    nulls: str
    version: str | int | None

    def assign(
        self,
        columns: str | Sequence[str],
        returns: Returns,
        nulls: str = "drop",
        version: str | int | None = None,
        **others: Any,
    ) -> None:
        """Check and set the parameters. Called by constructors."""
        kind = type(self).__name__
        reads = (columns,) if isinstance(columns, str) else tuple(columns)
        if not reads or not all(isinstance(column, str) for column in reads):
            raise AggregateError(
                f"columns of {kind} has to be names of columns, at least one, not {columns!r}"
            )
        if nulls not in ("drop", "keep"):
            raise AggregateError(f"nulls of {kind} has to be 'drop' or 'keep', not {nulls!r}")
        if version is not None and (isinstance(version, bool) or not isinstance(version, str | int)):
            raise AggregateError(f"version of {kind} has to be text or a whole number, not {version!r}")
        values = {"reads": reads, "returns": _returned(returns, kind), "nulls": nulls, "version": version}
        for name, value in {**values, **others}.items():
            object.__setattr__(self, name, value)

    def of_window(self, *columns: Array) -> Any:
        """The result of one window, from a read-only array per column, none of them empty; ``None`` for null."""
        raise NotImplementedError

    def functions(self) -> dict[str, Callable[..., Any]]:
        """The user's functions by parameter. In documents they are import names."""
        raise NotImplementedError

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.label}, returns={self.returns})"

    @property
    def columns(self) -> tuple[str, ...]:
        return self.reads

    @property
    def arity(self) -> int:
        return len(self.reads)

    @property
    def fields(self) -> tuple[str, ...]:
        """The names of the fields of its results; none if they are single values."""
        struct = pa.types.is_struct(self.returns)
        return tuple(field.name for field in self.returns) if struct else ()

    def dense(self, types: Sequence[pa.DataType]) -> Monoid:
        return self.monoid(types, self.of_window)

    def monoid(self, types: Sequence[pa.DataType], of_window: Callable[..., Any]) -> Monoid:
        """The monoid whose partials are rows, and whose results a function of one window gives."""
        stored, fields = self.stored(types), self.fields
        dtypes = [arrow.physical_dtype(type_) for type_ in stored]

        def lower(rows: Any) -> Any:
            columns = zip(zip(*rows, strict=True), dtypes, strict=True)
            result = of_window(*(_column(values, dtype) for values, dtype in columns))
            if result is None or not fields:
                return _plain(result)
            return dict(zip(fields, map(_plain, fields_of(result, fields)), strict=True))

        return Monoid(
            name=self.label,
            fields=None,
            identity=(),
            lift=lambda *values: (tuple(map(_plain, values)),),
            combine=lambda a, b: a + b,
            lower=lower,
            defined=lambda rows: bool(rows) and lower(rows) is not None,
            output=self.output(types),
            inputs=tuple(types),
            commutative=False,
            keeps_nulls=self.nulls == "keep",
            tolerance=1e-9,
        )

    def output(self, types: Sequence[pa.DataType]) -> pa.DataType:
        """The type of the result, for input columns of these types."""
        return self.returns

    def stored(self, types: Sequence[pa.DataType]) -> tuple[pa.DataType, ...]:
        """The types in which columns are kept. A whole number cannot be NaN."""
        keep = self.nulls == "keep"
        whole_numbers = (keep and arrow.physical_dtype(type_).kind in "iu" for type_ in self._types(types))
        return tuple(
            pa.float64() if widened else type_
            for widened, type_ in zip(whole_numbers, self._types(types), strict=True)
        )

    def described(self) -> dict[str, Any]:
        code = digest(self.functions()) if self.version is None else f"version {self.version}"
        return {**self._form(), "code": code}

    def to_dict(self) -> dict[str, Any]:
        form = self._form()
        for name, function in self.functions().items():
            try:
                importable = imported(form[name], ANY, name) is function
            except WindrowError:
                importable = False
            if not importable:
                raise QueryError(
                    f"{function!r} has no import name, so {self.label} cannot be written to JSON; define the function "
                    "at the top level of a module"
                )
        return form

    def _form(self) -> dict[str, Any]:
        functions = {name: _path(function) for name, function in self.functions().items()}
        struct = pa.types.is_struct(self.returns)
        returns = {field.name: str(field.type) for field in self.returns} if struct else str(self.returns)
        form = {"kind": type(self).__name__, **functions, "columns": list(self.reads), "returns": returns}
        form |= {} if self.nulls == "drop" else {"nulls": self.nulls}
        return form if self.version is None else {**form, "version": self.version}

    @classmethod
    def from_parameters(cls, parameters: dict[str, Any], allow: Allow) -> Aggregate:
        columns = parameters.get("columns")
        if not isinstance(columns, list | tuple | str):
            raise QueryError(f"columns of {cls.__name__} has to be a list of columns, not {columns!r}")
        plain = ("columns", "returns", "nulls", "version")
        functions = {
            name: imported(path, allow, f"{name} of {cls.__name__}")
            for name, path in parameters.items()
            if name not in plain and isinstance(path, str)
        }
        return cls(**{**parameters, **functions})


def function_of(kind: str, name: str, given: Any) -> Callable[..., Any]:
    """A function that was given, or that an import name names."""
    role = f"{name} of {kind}"
    found = imported(given, ANY, role, AggregateError) if isinstance(given, str) else given
    if not callable(found):
        raise AggregateError(f"{role} has to be a function or its import name, not {given!r}")
    return found


def _path(function: Callable[..., Any]) -> str:
    return f"{getattr(function, '__module__', None)}:{getattr(function, '__qualname__', None)}"


def _column(values: Sequence[Any], dtype: np.dtype[Any]) -> Array:
    """Values of rows as the function gets them."""
    if dtype.kind == "O":
        column = np.empty(len(values), dtype=object)
        column[:] = list(values)
    else:
        column = np.array([np.nan if value is None else value for value in values], dtype=dtype)
    return read_only(column)


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value


def _returned(returns: Returns, kind: str) -> pa.DataType:
    if not isinstance(returns, Mapping):
        return _type(returns, kind)
    if not returns:
        raise AggregateError(f"returns of {kind} is an empty dict; give a type for each field of the result")
    return pa.struct([pa.field(str(name), _type(type_, kind)) for name, type_ in returns.items()])


def _type(name: Any, kind: str) -> pa.DataType:
    """An Arrow type, its name, or the name of a numpy type such as ``"f8"``."""
    if isinstance(name, str) and name[:1] in "iufb" and name[1:].isdigit():
        return pa.from_numpy_dtype(np.dtype(name))
    try:
        return as_type(name)
    except AggregateError as cause:
        raise AggregateError(f"returns of {kind}: {cause}") from None
