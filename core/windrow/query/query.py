# SPDX-License-Identifier: Apache-2.0
"""What is computed: keys, time, windows, aggregates, and what happens to late rows.

A :class:`Query` knows no data. What is wrong with the query itself is refused when it is built. Bound to the schema
of the data, it is checked against the columns, and the schema of its result is known.

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

import inspect
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, get_args

import pyarrow as pa

from windrow import durations
from windrow.aggregates.algebra import Aggregate
from windrow.approximate.within import AtMost, Within
from windrow.columns.times import TimeUnit
from windrow.durations import Duration
from windrow.errors import QueryError
from windrow.expressions import Expression
from windrow.imports import Allow
from windrow.query import bound
from windrow.query.approximation import check_within
from windrow.query.bare_numbers import warn_of_bare_numbers
from windrow.query.bound import BoundQuery
from windrow.query.documents import arguments, check_names, from_text, names_checked, reading
from windrow.query.drawing import Drawing, draw, html_table, query_lines, text_table
from windrow.query.fingerprint import Fingerprint, fingerprint_of, type_name
from windrow.query.named import Named
from windrow.windows import (
    CountWindow,
    DeltaWindow,
    PolicyWindow,
    SlideByTime,
    SlideByTuple,
    TimeWindow,
    Window,
)

if TYPE_CHECKING:
    from windrow.algorithms import Algorithm

__all__ = ["BoundQuery", "Late", "Named", "Query"]

Late: TypeAlias = Literal["drop", "side", "update"]
RESERVED = ("window", "window_start", "window_end", "emission")


@dataclass(frozen=True, init=False)
class Query:
    """What to compute: keys, event time, windows and aggregates. A query holds no data, and every engine takes the same one.

    by
        The key column, or several. Without one, all rows have the same windows.
    time
        The column of event times: timestamps, or numbers since 1970.
    window
        One window. A list of time windows, or a dict of them by label, computes several at once, and adds the column
        ``window`` to the result.
    aggregates
        The columns of the result: a name for each aggregate, such as ``{"peak": wr.Max("load")}``.
    lateness
        How far behind the watermark a row may be without being late.
    late
        What happens to a late row: ``"drop"``; ``"side"`` hands it back; ``"update"`` emits windows when the watermark
        reaches their end, without waiting for the lateness, and again when a late row corrects them. If the row moves
        windows, the old ones are withdrawn.
    algorithm
        ``"auto"``, or the name of one in :mod:`windrow.algorithms`.
    early
        Emit unfinished windows too, whenever the watermark passes a multiple of this.
    forget_after
        Start anew with the next row of a key that was silent for longer: for count, slide-by-tuple, slide-by-time, delta
        and policy windows. Without it, the state of a key stays.
    time_unit
        The unit of times that are numbers: ``"s"``, ``"ms"``, ``"us"`` or ``"ns"``. The bounds of windows are then
        timestamps in UTC. Integers without a unit are microseconds, and so are the bounds.
    within
        A :class:`~windrow.Within` or :class:`~windrow.AtMost`: results may be approximate, and each has its error beside it.

    >>> import windrow as wr
    >>> query = Query("plug", window=wr.TimeWindow("1h", "1m"), aggregates={"peak": wr.Max("load"), "n": wr.Count()})
    >>> rows = [{"plug": "desk", "ts": 90_000_000, "load": 3.5}, {"plug": "desk", "ts": 95_000_000, "load": 2.0}]
    >>> wr.aggregate(rows, query).slice(0, 1).to_pylist()
    [{'plug': 'desk', 'window_start': -3480000000, 'window_end': 120000000, 'peak': 3.5, 'n': 2}]
    """

    by: tuple[str, ...]
    time: str
    window: Window | Named[Window]
    aggregates: Named[Aggregate]
    lateness: int
    late: Late
    algorithm: str
    early: int | None
    forget_after: int | None
    time_unit: TimeUnit | None
    within: Within | AtMost | None

    @names_checked
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
        forget_after: Duration | None = None,
        time_unit: TimeUnit | None = None,
        within: Within | AtMost | None = None,
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
            "forget_after": None
            if forget_after is None
            else durations.parse(forget_after, name="forget_after"),
            "time_unit": time_unit,
            "within": within,
        }
        for name, value in values.items():
            object.__setattr__(self, name, value)
        self._check()
        warn_of_bare_numbers(self)

    def _check(self) -> None:
        seen: set[str] = set()
        roles = [(name, "key") for name in self.by] + [(name, "aggregate") for name in self.aggregates]
        for name, role in roles:
            if name in RESERVED:
                raise QueryError(f"output name {name!r} ({role}) is reserved by windrow; choose another")
            if name in seen:
                raise QueryError(
                    f"duplicate output name {name!r} ({role}); every output column needs its own"
                )
            seen.add(name)
        if self.lateness < 0:
            raise QueryError(f"lateness has to be zero or longer, not {durations.format(self.lateness)!r}")
        if self.early is not None and self.early <= 0:
            raise QueryError(f"early has to be longer than zero, not {durations.format(self.early)!r}")
        if self.early is not None and isinstance(self.window, SlideByTuple | DeltaWindow | PolicyWindow):
            raise QueryError(
                f"the start of a {type(self.window).__name__} depends on the row that ends it, so there is no early result; "
                "leave early out"
            )
        self._check_forgetting()
        check_within(self)
        if self.late not in get_args(Late):
            raise QueryError(f"late has to be 'drop', 'side' or 'update', not {self.late!r}")
        if self.time_unit is not None and self.time_unit not in get_args(TimeUnit):
            raise QueryError(f"time_unit has to be 's', 'ms', 'us' or 'ns', not {self.time_unit!r}")
        _algorithm_named(self.algorithm)

    def _check_forgetting(self) -> None:
        after, window = self.forget_after, self.window
        if after is None:
            return
        if after <= 0:
            raise QueryError(f"forget_after has to be longer than zero, not {durations.format(after)!r}")
        if not isinstance(window, CountWindow | SlideByTuple | SlideByTime | DeltaWindow | PolicyWindow):
            raise QueryError(
                "time windows and sessions forget a key by themselves, when its last window is final; leave forget_after out"
            )
        if isinstance(window, SlideByTime) and after < window.slide:
            raise QueryError(
                f"forget_after has to be at least the slide of SlideByTime, {durations.format(window.slide)!r}, "
                f"not {durations.format(after)!r}: a key must not be forgotten before its window is due"
            )
        if self.late == "update" or self.early is not None:
            raise QueryError(
                "forget_after works with late='drop' or 'side', and without early; leave one of them out"
            )

    @property
    def windows(self) -> tuple[tuple[str, Window], ...]:
        """The windows with their labels, also if there is only one."""
        if isinstance(self.window, Window):
            return ((self.window.label, self.window),)
        return tuple(self.window.items())

    @property
    def labelled(self) -> bool:
        """Whether the result has the column ``window``, which tells several windows apart."""
        return not isinstance(self.window, Window)

    @property
    def emits(self) -> bool:
        """Whether the result has the column ``emission``: "final", "update", "withdrawn" or "early"."""
        return self.late == "update" or self.early is not None

    def bind(self, schema: pa.Schema) -> BoundQuery:
        """Check this query against the columns of the data. What is wrong with the columns is an error here."""
        return bound.bound_once(self, schema, _algorithm_named(self.algorithm))

    def plot(self, windows: int = 6) -> Drawing:
        """A picture of the first few windows and the slices that they share. For time and count windows."""
        return draw(self, windows)

    def __str__(self) -> str:
        return text_table(query_lines(self))

    def _repr_html_(self) -> str:
        return html_table(query_lines(self))

    @cached_property
    def fingerprint(self) -> Fingerprint:
        """What this query computes, as 64 hex digits: equal for equal queries, in every process and version.

        Parameters with their default value are left out, so that new parameters do not change old fingerprints.
        The code of aggregates and policies of your own is part of it; see :mod:`windrow.code_digest`.
        """
        return fingerprint_of(self._values("described"), labelled=self.labelled)

    def __getstate__(self) -> dict[str, Any]:
        """Another process gets the fingerprint too: it may not have the source of functions that come with the query."""
        return {**self.__dict__, "fingerprint": self.fingerprint}

    def with_the_same_state(self, **changes: Any) -> Query:
        """This query with changes that its state does not depend on, and so with the same fingerprint."""
        made = replace(self, **changes)
        made.__dict__["fingerprint"] = self.fingerprint
        return made

    @cached_property
    def described(self) -> str:
        """The query in JSON for people to compare: as :meth:`to_json`, but functions and classes need not be
        importable."""
        return json.dumps(self._values("described"), ensure_ascii=False, default=type_name)

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
        if self.forget_after is not None:
            values["forget_after"] = durations.format(self.forget_after)
        if self.time_unit is not None:
            values["time_unit"] = self.time_unit
        if self.within is not None:
            values["within"] = self.within.to_dict()
        return values

    def to_json(self) -> str:
        return json.dumps(self.to_dict(), ensure_ascii=False)

    @staticmethod
    def from_dict(values: Mapping[str, Any], *, allow: Allow = ()) -> Query:
        """The query that :meth:`to_dict` wrote, or that a person wrote in the same form.

        A document may name aggregates and policies of your own. ``allow`` lists the modules, or the packages of
        modules, that it may import; without it only windrow's own. To import a module is to run it, so allow none that
        you would not run.

        >>> hourly = {"kind": "time", "range": "1h"}
        >>> Query.from_dict({"window": hourly, "aggregates": {"n": {"kind": "Count"}}}).time
        'ts'
        """
        check_names(values, list(inspect.signature(Query).parameters))
        given = arguments(values, allow)
        with reading("a query"):
            return Query(**given)

    @staticmethod
    def from_json(text: str, *, allow: Allow = ()) -> Query:
        """The query in a JSON text; see :meth:`from_dict`."""
        return Query.from_dict(from_text(text), allow=allow)


def _keys(by: object) -> tuple[str, ...]:
    if isinstance(by, str):
        return (_name("by", by),)
    if not isinstance(by, Iterable) or not hasattr(by, "__len__"):
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
                f"several windows in one query have to be TimeWindows, not {each!r}; "
                "write a separate query for each of the others"
            )
        if not isinstance(label, str) or label in labels:
            raise QueryError(
                f"every window needs its own label, as text; {label!r} is not text, or is used twice"
            )
        labels.add(label)
    if len({each.calendar for _, each in items}) > 1:
        raise QueryError(
            "several windows of a query share their slices, so all of them have to be in days of one zone (with one offset), in "
            "months of one zone, or without a zone; write one query for each"
        )
    return Named(items)


def _aggregates(aggregates: object) -> Named[Aggregate]:
    if not isinstance(aggregates, Iterable) or isinstance(aggregates, str):
        raise QueryError(f"aggregates has to be a dict of output name and aggregate, not {aggregates!r}")
    items: list[Any] = list(aggregates.items() if isinstance(aggregates, Mapping) else aggregates)
    for item in items:
        if not isinstance(item, tuple) or len(item) != 2:
            raise QueryError(
                f"aggregates has to be a dict of output name and aggregate, such as {{'peak': Max('load')}}; it has {item!r} "
                "without a name"
            )
    if not items:
        raise QueryError("aggregates is empty; a query needs at least one, such as {'n': Count()}")
    for name, aggregate in items:
        if not isinstance(name, str) or not name:
            raise QueryError(f"the output name of an aggregate has to be text, not {name!r}")
        if not isinstance(aggregate, Aggregate):
            raise QueryError(
                f"aggregate {name!r} has to be an aggregate such as Max('load'), not {aggregate!r}"
            )
        if wrong := [column for column in aggregate.columns if not isinstance(column, str)]:
            raise QueryError(
                f"aggregate {name!r}: {type(aggregate).__name__} takes the name of a column, or an expression, as text, not {wrong[0]!r}"
            )
        if aggregate.where is not None:
            Expression(aggregate.where)
        if len(aggregate.columns) < aggregate.arity:
            raise QueryError(f"aggregate {name!r}: {aggregate!r} needs the name of its input column")
    return Named(items)


def _algorithm_named(algorithm: object) -> type[Algorithm] | None:
    """The algorithm of this name; none for "auto", where the library chooses."""
    if algorithm == "auto":
        return None
    from windrow.algorithms import REGISTRY  # only a query that names an algorithm has to load them all

    if not isinstance(algorithm, str) or algorithm not in REGISTRY:
        known = ", ".join(["auto", *sorted(REGISTRY)])
        raise QueryError(f"no algorithm {algorithm!r}; there are {known}")
    return REGISTRY[algorithm]
