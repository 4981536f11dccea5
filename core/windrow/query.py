"""What is computed: keys, time, windows, aggregates, and what happens to late rows.

A :class:`Query` knows no data. Everything that can be wrong with it alone is refused when it is built;
bound to the schema of the data, it is checked against the columns and knows the schema of its answer.

>>> import pyarrow as pa
>>> import windrow as wr
>>> query = Query(
...     by="plug", time="ts",
...     window=wr.TimeWindow("1h", "1s"), aggregates={"peak": wr.Max("load"), "n": wr.Count()},
... )
>>> schema = pa.schema({"plug": pa.string(), "ts": pa.timestamp("ms", "UTC"), "load": pa.float64()})
>>> query.bind(schema).output_schema.names
['plug', 'window_start', 'window_end', 'peak', 'n']
>>> Query.from_json(query.to_json()) == query
True
"""

from __future__ import annotations

import hashlib
import inspect
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cached_property
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeAlias, TypeVar, get_args

import pyarrow as pa

from windrow import bound, durations
from windrow.aggregates.algebra import Aggregate, aggregate_from_dict
from windrow.bound import BoundQuery
from windrow.durations import Duration
from windrow.errors import QueryError
from windrow.windows import DeltaWindow, PolicyWindow, SlideByTuple, TimeWindow, Window

if TYPE_CHECKING:
    from windrow.algorithms import Algorithm

__all__ = ["BoundQuery", "Late", "Named", "Query"]

Late: TypeAlias = Literal["drop", "side", "update"]
RESERVED = ("window", "window_start", "window_end", "emission")
T = TypeVar("T")


class Named(Mapping[str, T], Generic[T]):
    """A mapping that does not change and whose order counts; it can be compared, hashed and pickled."""

    def __init__(self, items: Iterable[tuple[str, T]]) -> None:
        self._items = tuple(items)

    def __getitem__(self, name: str) -> T:
        for known, value in self._items:
            if known == name:
                return value
        raise KeyError(name)

    def __iter__(self) -> Iterator[str]:
        return (name for name, _ in self._items)

    def __len__(self) -> int:
        return len(self._items)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Named) and self._items == other._items

    def __hash__(self) -> int:
        return hash(self._items)

    def __repr__(self) -> str:
        return "{" + ", ".join(f"{name!r}: {value!r}" for name, value in self._items) + "}"


@dataclass(frozen=True, init=False)
class Query:
    """One sliding-window aggregation.

    ``by`` names the key columns and ``time`` the column of event times. ``window`` is one window; a list of
    time windows, or a dict of them by label, computes several at once and adds the column ``window``.
    ``lateness`` is how far behind the watermark a row may be; an older one is dropped (``late="drop"``) or
    handed back (``"side"``). With ``late="update"`` windows do not wait: they are emitted at once, and
    again when a late row corrects them; those that it moves are withdrawn. ``early`` asks for results of unfinished windows every so often.
    ``algorithm`` is "auto" or a name.

    >>> import windrow as wr
    >>> Query(window=wr.TimeWindow("1h"), aggregates={"window_end": wr.Count()})
    Traceback (most recent call last):
    windrow.errors.QueryError: output name 'window_end' (aggregate) is taken by windrow; choose another
    """

    by: tuple[str, ...]
    time: str
    window: Window | Named[Window]
    aggregates: Named[Aggregate]
    lateness: int
    late: Late
    algorithm: str
    early: int | None

    def __init__(
        self,
        by: str | Sequence[str] = (),
        time: str = "ts",
        *,
        window: Window | Sequence[Window] | Mapping[str, Window],
        aggregates: Mapping[str, Aggregate] | Iterable[tuple[str, Aggregate]],
        lateness: Duration = 0,
        late: Late = "drop",
        algorithm: str = "auto",
        early: Duration | None = None,
    ) -> None:
        values = {
            "by": _keys(by),
            "time": _name("time", time),
            "window": _windows(window),
            "aggregates": _aggregates(aggregates),
            "lateness": durations.parse(lateness, name="lateness"),
            "late": late,
            "algorithm": algorithm,
            "early": None if early is None else durations.parse(early, name="early"),
        }
        for name, value in values.items():
            object.__setattr__(self, name, value)
        self._check()

    def _check(self) -> None:
        seen: set[str] = set()
        roles = [(name, "key") for name in self.by] + [(name, "aggregate") for name in self.aggregates]
        for name, role in roles:
            if name in RESERVED:
                raise QueryError(f"output name {name!r} ({role}) is taken by windrow; choose another")
            if name in seen:
                raise QueryError(
                    f"duplicate output name {name!r} ({role}); every output column needs its own"
                )
            seen.add(name)
        if self.lateness < 0:
            raise QueryError(f"lateness cannot be negative, as {durations.format(self.lateness)!r} is")
        if self.early is not None and self.early <= 0:
            raise QueryError(f"early has to be longer than zero, not {durations.format(self.early)!r}")
        if self.early is not None and isinstance(self.window, SlideByTuple | DeltaWindow | PolicyWindow):
            raise QueryError(
                f"a {type(self.window).__name__} begins where the row that ends it says, so there is no result before "
                "that; leave early out"
            )
        if self.late not in get_args(Late):
            raise QueryError(f"late has to be 'drop', 'side' or 'update', not {self.late!r}")
        _chosen(self.algorithm)

    @property
    def windows(self) -> tuple[tuple[str, Window], ...]:
        """The windows with their labels, also if there is only one."""
        if isinstance(self.window, Window):
            return ((self.window.label, self.window),)
        return tuple(self.window.items())

    @property
    def labelled(self) -> bool:
        """Whether the answer has the column ``window``, which tells several windows apart."""
        return not isinstance(self.window, Window)

    @property
    def emits(self) -> bool:
        """Whether the answer has the column ``emission``: "final", "update", "withdrawn" or "early"."""
        return self.late == "update" or self.early is not None

    def bind(self, schema: pa.Schema) -> BoundQuery:
        """Check this query against the columns of the data; nothing about the columns is wrong afterwards."""
        return bound.bind(self, schema, _chosen(self.algorithm))

    @cached_property
    def fingerprint(self) -> str:
        """What this query computes, as 64 hex digits: equal for equal queries, in every process and version.

        Parameters that have their default do not count, so that new parameters do not change old
        fingerprints.
        """
        values = self._values("described")
        values["aggregates"] = list(
            values["aggregates"].items()
        )  # their order counts; that of parameters does not
        if self.labelled:
            values["window"] = list(values["window"].items())
        canonical = json.dumps(
            values, sort_keys=True, separators=(",", ":"), ensure_ascii=True, default=_type_name
        )
        return hashlib.sha256(canonical.encode()).hexdigest()

    @cached_property
    def described(self) -> str:
        """The query in JSON for people to compare: as :meth:`to_json`, but functions and classes need not be
        importable."""
        return json.dumps(self._values("described"), ensure_ascii=False, default=_type_name)

    def to_dict(self) -> dict[str, Any]:
        """Plain values that JSON and TOML can hold; parameters that have their default are left out."""
        return self._values("to_dict")

    def _values(self, form: str) -> dict[str, Any]:
        window = self.window
        values: dict[str, Any] = {
            "by": list(self.by),
            "time": self.time,
            "window": (
                getattr(window, form)()
                if isinstance(window, Window)
                else {label: getattr(each, form)() for label, each in window.items()}
            ),
            "aggregates": {name: getattr(aggregate, form)() for name, aggregate in self.aggregates.items()},
        }
        if self.lateness:
            values["lateness"] = durations.format(self.lateness)
        if self.late != "drop":
            values["late"] = self.late
        if self.algorithm != "auto":
            values["algorithm"] = self.algorithm
        if self.early is not None:
            values["early"] = durations.format(self.early)
        return values

    def to_json(self) -> str:
        return json.dumps(self.to_dict(), ensure_ascii=False)

    @staticmethod
    def from_dict(values: Mapping[str, Any]) -> Query:
        """The query that :meth:`to_dict` wrote, or that a person wrote in the same form.

        >>> hourly = {"kind": "time", "range": "1h"}
        >>> Query.from_dict({"window": hourly, "aggregates": {"n": {"kind": "Count"}}}).time
        'ts'
        """
        arguments = dict(values)
        known = list(inspect.signature(Query).parameters)
        for name in arguments:
            if name not in known:
                close = get_close_matches(name, known, n=1) or known
                raise QueryError(f"a query has no parameter {name!r}; did you mean {' or '.join(close)}?")
        for name in ("window", "aggregates"):
            if name not in arguments:
                raise QueryError(f"a query needs {name!r}")
        arguments["window"] = _windows_from(arguments["window"])
        arguments["aggregates"] = _aggregates_from(arguments["aggregates"])
        return Query(**arguments)

    @staticmethod
    def from_json(text: str) -> Query:
        try:
            values = json.loads(text)
        except ValueError as error:
            raise QueryError(f"a query in JSON: {error}") from None
        if not isinstance(values, dict):
            raise QueryError("a query in JSON has to be an object")
        return Query.from_dict(values)


def _type_name(value: object) -> str:
    return f"{type(value).__module__}:{type(value).__qualname__}"


def _keys(by: object) -> tuple[str, ...]:
    if isinstance(by, str):
        return (by,)
    if not isinstance(by, Iterable):
        raise QueryError(f"by has to be the name of a column or a list of names, not {by!r}")
    return tuple(_name("by", name) for name in by)


def _name(role: str, name: object) -> str:
    if not isinstance(name, str) or not name:
        raise QueryError(f"{role} has to be the name of a column, not {name!r}")
    return name


def _windows(window: object) -> Window | Named[Window]:
    if isinstance(window, Window):
        return window
    if isinstance(window, Mapping):
        items = list(window.items())
    elif isinstance(window, Iterable) and not isinstance(window, str):
        items = [(each.label if isinstance(each, Window) else "", each) for each in window]
    else:
        raise QueryError(f"window has to be a window, a list or a dict of them, not {window!r}")
    if not items:
        raise QueryError("window is empty; a query needs at least one")
    labels: set[str] = set()
    for label, each in items:
        if not isinstance(each, TimeWindow):
            raise QueryError(
                f"several windows have to be TimeWindows, not {each!r}; write one query for each other"
            )
        if not isinstance(label, str) or label in labels:
            raise QueryError(f"every window needs its own label, a text; {label!r} is not")
        labels.add(label)
    return Named(items)


def _aggregates(aggregates: object) -> Named[Aggregate]:
    if not isinstance(aggregates, Iterable) or isinstance(aggregates, str):
        raise QueryError(f"aggregates has to be a dict of output name and aggregate, not {aggregates!r}")
    items = list(aggregates.items() if isinstance(aggregates, Mapping) else aggregates)
    if not items:
        raise QueryError("aggregates is empty; a query needs at least one, such as {'n': Count()}")
    for name, aggregate in items:
        if not isinstance(name, str) or not name:
            raise QueryError(f"the output name of an aggregate has to be a text, not {name!r}")
        if not isinstance(aggregate, Aggregate):
            raise QueryError(
                f"aggregate {name!r} has to be an aggregate such as Max('load'), not {aggregate!r}"
            )
        if len(aggregate.columns) < aggregate.arity:
            raise QueryError(f"aggregate {name!r}: {aggregate!r} needs the name of its input column")
    return Named(items)


def _windows_from(values: Any) -> Window | list[Window] | dict[str, Window]:
    if isinstance(values, Mapping) and not isinstance(values.get("kind"), str):
        return {label: _window_from(each) for label, each in values.items()}
    return [_window_from(each) for each in values] if isinstance(values, list) else _window_from(values)


def _window_from(values: Any) -> Window:
    if not isinstance(values, Mapping):
        raise QueryError(f"a window has to be an object with 'kind' and its parameters, not {values!r}")
    return Window.from_dict(values)


def _aggregates_from(values: Any) -> list[tuple[str, Aggregate]]:
    if not isinstance(values, Mapping) or not all(isinstance(each, Mapping) for each in values.values()):
        raise QueryError(
            f"aggregates have to be objects with 'kind' under their output names, not {values!r}"
        )
    return [(name, aggregate_from_dict(each)) for name, each in values.items()]


def _chosen(algorithm: object) -> type[Algorithm] | None:
    """The algorithm of this name; none if the choice is the library's."""
    if algorithm == "auto":
        return None
    from windrow.algorithms import REGISTRY  # only a query that names an algorithm has to load them all

    if not isinstance(algorithm, str) or algorithm not in REGISTRY:
        known = ", ".join(["auto", *sorted(REGISTRY)])
        raise QueryError(f"no algorithm {algorithm!r}; there are {known}")
    return REGISTRY[algorithm]
