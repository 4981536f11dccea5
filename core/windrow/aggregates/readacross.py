# SPDX-License-Identifier: Apache-2.0
"""Aggregates that you already have: a Beam CombineFn, a Flink AggregateFunction. Neither engine is imported.

>>> class MeanFn:
...     def create_accumulator(self): return [0.0, 0]
...     def add_input(self, accumulator, element):
...         accumulator[0] += element
...         accumulator[1] += 1
...         return accumulator
...     def merge_accumulators(self, accumulators):
...         return [sum(part) for part in zip(*accumulators)]
...     def extract_output(self, accumulator): return accumulator[0] / accumulator[1]
>>> import windrow as wr
>>> mean = wr.from_beam(MeanFn(), "load", output="double").bind()
>>> mean.result(mean.fold([(2.0,), (4.0,)]))
3.0
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any, ClassVar

import pyarrow as pa

from windrow.aggregates.algebra import Aggregate, Monoid
from windrow.aggregates.own import as_type
from windrow.code_digest import digest
from windrow.errors import AggregateError, QueryError
from windrow.imports import ANY, Allow, imported

__all__ = ["from_beam", "from_flink"]


def from_beam(
    combine_fn: Any,
    *columns: str,
    output: pa.DataType | str,
    commutative: bool = True,
    tolerance: float = 1e-9,
) -> Aggregate:
    """An aggregate from an object with ``create_accumulator``, ``add_input``, ``merge_accumulators`` and
    ``extract_output``.

    With one column the element is its value, with several a tuple. ``output`` is the Arrow type of what
    ``extract_output`` returns. Give ``"module:name"`` instead of the object (an instance, or a class to
    call without arguments) where the object has parameters of its own, so that the query can be written
    down and read elsewhere. Accumulators are copied before they are handed over, so the object may change
    them.
    """
    return FromBeam(*_source(combine_fn), tuple(columns), as_type(output), commutative, tolerance)


def from_flink(
    aggregate_function: Any,
    *columns: str,
    output: pa.DataType | str,
    commutative: bool = True,
    tolerance: float = 1e-9,
) -> Aggregate:
    """An aggregate from an object with ``create_accumulator``, ``add``, ``merge`` and ``get_result``;
    otherwise as :func:`from_beam`.

    >>> class Longest:
    ...     def create_accumulator(self): return ""
    ...     def add(self, value, accumulator): return max(accumulator, value, key=len)
    ...     def merge(self, a, b): return max(a, b, key=len)
    ...     def get_result(self, accumulator): return accumulator
    >>> import pyarrow as pa
    >>> longest = from_flink(Longest(), "word", output="string").bind([pa.string()])
    >>> longest.result(longest.fold([("wind",), ("windrow",), ("row",)]))
    'windrow'
    """
    return FromFlink(*_source(aggregate_function), tuple(columns), as_type(output), commutative, tolerance)


@dataclass(frozen=True)
class _Foreign(Aggregate, builtin=False):
    """An aggregate whose accumulators belong to someone else's object; two are equal if its name is."""

    name: str
    function: Any = field(default=None, compare=False, repr=False)
    reads: tuple[str, ...] = ()
    output: pa.DataType = field(default_factory=pa.float64)
    commutative: bool = True
    tolerance: float = 1e-9

    has_own_functions = True
    needs: ClassVar[tuple[str, ...]] = ()

    def __post_init__(self) -> None:
        if self.function is None:
            object.__setattr__(self, "function", _imported(self.name))
        object.__setattr__(self, "output", _type_from_text(self.output))
        missing = [name for name in self.needs if not callable(getattr(self.function, name, None))]
        if missing:
            raise AggregateError(
                f"{self.name} has no method {' and no '.join(missing)}; "
                f"{type(self).__name__} calls {', '.join(self.needs)}"
            )

    @classmethod
    def from_parameters(cls, parameters: dict[str, Any], allow: Allow) -> Aggregate:
        name, reads = parameters.get("name"), parameters.get("reads", [])
        if not isinstance(name, str) or "function" in parameters:
            raise QueryError(f"a {cls.__name__} in a document has a 'name', such as 'jobs.combiners:mean_fn'")
        if not isinstance(reads, list | tuple) or not all(isinstance(column, str) for column in reads):
            raise QueryError(f"reads of {cls.__name__} has to be a list of columns, not {reads!r}")
        function = _imported(name, allow)
        return super().from_parameters({**parameters, "function": function}, allow)

    @property
    def columns(self) -> tuple[str, ...]:
        return self.reads

    @property
    def arity(self) -> int:
        return len(self.reads)

    @property
    def label(self) -> str:
        return f"{self.name.rpartition(':')[2]}({', '.join(self.reads)})"

    def to_dict(self) -> dict[str, Any]:
        if self.name.startswith("<"):
            raise QueryError(
                f"{self.name} cannot be named in JSON; put it at the top level of a module and give its "
                'import name, such as "jobs.combiners:mean_fn", instead of the object'
            )
        return self._form()

    def described(self) -> dict[str, Any]:
        methods = [getattr(type(self.function), name, None) for name in self.needs]
        return {**self._form(), "code": digest(*methods)}

    def _form(self) -> dict[str, Any]:
        form = {"kind": type(self).__name__, "name": self.name, "reads": list(self.reads)}
        promises = {"commutative": self.commutative, "tolerance": self.tolerance}
        return {**form, "output": _type_as_text(self.output), **promises}

    def _monoid(
        self,
        types: Sequence[pa.DataType],
        add: Callable[[Any, Any], Any],
        merge: Callable[[Any, Any], Any],
        lower: Callable[[Any], Any],
    ) -> Monoid:
        create, single = self.function.create_accumulator, self.arity == 1

        def lift(*values: Any) -> Any:
            return add(copied(create()), values[0] if single else values)

        def combine(a: Any, b: Any) -> Any:
            return merge(copied(a), copied(b))

        def result(p: Any) -> Any:
            return lower(copied(p))

        return Monoid(
            name=self.label,
            fields=None,
            identity=copied(create()),
            lift=lift,
            combine=combine,
            lower=result,
            output=self.output,
            inputs=tuple(types),
            commutative=self.commutative,
            tolerance=self.tolerance,
        )


@dataclass(frozen=True)
class FromBeam(_Foreign):
    """What :func:`from_beam` makes."""

    needs: ClassVar[tuple[str, ...]] = (
        "create_accumulator",
        "add_input",
        "merge_accumulators",
        "extract_output",
    )

    def dense(self, types: Sequence[pa.DataType]) -> Monoid:
        fn = self.function
        return self._monoid(
            types, fn.add_input, lambda a, b: fn.merge_accumulators([a, b]), fn.extract_output
        )


@dataclass(frozen=True)
class FromFlink(_Foreign):
    """What :func:`from_flink` makes."""

    needs: ClassVar[tuple[str, ...]] = ("create_accumulator", "add", "merge", "get_result")

    def dense(self, types: Sequence[pa.DataType]) -> Monoid:
        fn = self.function
        return self._monoid(
            types, lambda accumulator, value: fn.add(value, accumulator), fn.merge, fn.get_result
        )


_IMMUTABLE = (int, float, str, bytes, type(None))


def copied(accumulator: Any) -> Any:
    """A copy of the accumulator that may be changed; immutable ones are returned as they are."""
    return accumulator if isinstance(accumulator, _IMMUTABLE) else deepcopy(accumulator)


def _source(function: Any) -> tuple[str, Any]:
    """The import name of the object, or one that is unique in this process, and the object."""
    if isinstance(function, str):
        return function, _imported(function)
    if isinstance(function, type):
        function = function()
    cls = type(function)
    importable = "<locals>" not in cls.__qualname__ and cls.__module__ != "__main__"
    if importable and not getattr(function, "__dict__", None) and not hasattr(cls, "__slots__"):
        return f"{cls.__module__}:{cls.__qualname__}", function
    return f"<{cls.__qualname__} at {id(function):#x}>", function


def _imported(name: str, allow: Allow = ANY) -> Any:
    found = imported(name, allow, "an aggregate")
    return found() if isinstance(found, type) else found


def _type_as_text(type_: pa.DataType) -> str:
    """The name of a simple type; any other is its Arrow schema, in base 64."""
    try:
        if pa.type_for_alias(str(type_)) == type_:
            return str(type_)
    except ValueError:
        pass
    return "arrow:" + base64.b64encode(pa.schema([("", type_)]).serialize().to_pybytes()).decode()


def _type_from_text(text: Any) -> pa.DataType:
    if isinstance(text, str) and text.startswith("arrow:"):
        return pa.ipc.read_schema(pa.py_buffer(base64.b64decode(text[6:]))).field(0).type
    return as_type(text)
