# SPDX-License-Identifier: Apache-2.0
"""A composite, ready to run: inputs resolved, expressions typed, one function from the inputs' values to the output's."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from windrow import durations
from windrow.aggregates.algebra import Monoid
from windrow.errors import ExpressionError, PipelineError, QueryError
from windrow.expressions import Expression, Registered, Typed
from windrow.pipelines.chunks import whole
from windrow.pipelines.streams import TYPES, Composite
from windrow.pipelines.values import LONGEST
from windrow.query import Query
from windrow.windows import CountWindow

__all__ = ["ORDER", "Channels", "CompositePlan", "plan"]

Channels = Mapping[str, pa.DataType]
Functions = Mapping[str, Registered]
ORDER = "order__"
"""The column that orders the rows of count windows: updates with equal times have an order, too."""


@dataclass(frozen=True, eq=False)
class CompositePlan:
    """What a composite does with an update."""

    stream: Composite
    members: Mapping[str, tuple[str, ...]]
    """The streams of each input, by its alias."""
    reads: tuple[tuple[str, str], ...]
    """The (alias, channel) pairs that its expressions read."""
    steps: tuple[Typed, ...]
    where: Typed | None
    row_channels: Channels
    """The channels before the window, if there is one."""
    channels: Channels
    """The channels that it emits."""
    query: Query | None = None
    monoids: Mapping[str, tuple[Monoid, tuple[int, ...]]] = field(default_factory=dict)
    """Of ``latest``: the aggregates, and where in ``row_channels`` their columns are."""

    @property
    def inputs(self) -> tuple[str, ...]:
        """The streams that it subscribes to, each once."""
        return tuple(dict.fromkeys(name for names in self.members.values() for name in names))

    @property
    def per_update(self) -> bool:
        """Whether a window can be due at every update, and not when time passes."""
        return self.query is not None and self.query.time == ORDER

    @property
    def expire(self) -> int | None:
        return None if self.stream.expire is None else durations.parse(self.stream.expire)

    @property
    def types(self) -> tuple[Channels, Channels]:
        """The types of what it emits, and of what its windows hold."""
        return dict(self.channels), dict(self.row_channels)

    @property
    def kinds(self) -> dict[tuple[str, str], pa.DataType]:
        """The types of the (alias, channel) pairs that it reads."""
        found: dict[tuple[str, str], pa.DataType] = {}
        for typed in (*self.steps, *([self.where] if self.where else [])):
            for name, kind in typed.reads.items():
                if "." in name:
                    alias, channel = name.split(".", 1)
                    found[alias, channel] = kind
        return found

    @property
    def schema(self) -> pa.Schema:
        """The columns that the query sees."""
        first = [(ORDER, pa.int64())] if self.per_update else []
        return pa.schema([*first, ("ts", pa.int64()), ("stream", pa.string()), *self.row_channels.items()])

    @cached_property
    def compute(self) -> Callable[[list[Any]], tuple[Any, ...] | None]:
        """From the values of ``reads`` to the channels, or None if ``where`` does not hold."""
        count = len(self.reads)
        slots = {f"{alias}.{channel}": place for place, (alias, channel) in enumerate(self.reads)}
        slots |= {name: count + place for place, name in enumerate(self.row_channels)}
        steps = [
            _bounded(step.compiled(slots), name) if step.type == pa.string() else step.compiled(slots)
            for name, step in zip(self.row_channels, self.steps, strict=True)
        ]
        where = None if self.where is None else self.where.compiled(slots)

        def compute(values: list[Any]) -> tuple[Any, ...] | None:
            for step in steps:
                values.append(step(values))
            if where is not None and where(values) is not True:
                return None
            return tuple(values[count:])

        return compute

    def compute_columns(self, data: dict[str, Any]) -> None:
        """Add the columns of the channels to those that they read."""
        for name, step in zip(self.row_channels, self.steps, strict=True):
            data[name] = found = whole(step.batch(data), step.type)
            if step.type == pa.string():
                _check_length(pc.max(pc.utf8_length(found)).as_py() or 0, name)


def plan(
    stream: Composite,
    members: Mapping[str, tuple[str, ...]],
    channels_of: Callable[[str], Channels | None],
    functions: Functions,
) -> CompositePlan:
    """The plan of a composite over these members. What does not fit is an error that names the parameter."""
    known: dict[str, pa.DataType] = {}
    for alias, names in members.items():
        known |= _of_input(stream, alias, names, channels_of)
    given = dict(stream.channels) or {name.split(".", 1)[1]: name for name in known}
    steps: list[Typed] = []
    own: dict[str, pa.DataType] = {}
    for channel, text in given.items():
        typed = _bound(text, {**known, **own}, functions, f"channel {channel!r} of {stream.name!r}")
        declared = stream.types.get(channel)
        if declared is not None and TYPES[declared] != typed.type:
            raise PipelineError(f"channel {channel!r} of {stream.name!r} is a {typed.type}, not a {declared}")
        own[channel] = typed.type
        steps.append(typed)
    where = None
    if stream.where is not None:
        role = f"where of {stream.name!r}"
        where = _bound(stream.where, {**known, **own}, functions, role, condition=True)
    read = {name for typed in (*steps, *([where] if where else [])) for name in typed.names}
    reads = tuple(tuple(name.split(".", 1)) for name in known if name in read)
    query, emitted = _windowed(stream, own)
    monoids = {}
    for name, aggregate in stream.latest.items():
        places = tuple(_place(column, own, name, stream.name) for column in aggregate.columns)
        kinds = list(own.values())
        monoids[name] = (aggregate.bind_dense([kinds[place] for place in places]), places)
    if monoids:
        emitted = {name: monoid.output for name, (monoid, _) in monoids.items()}
    return CompositePlan(stream, members, reads, tuple(steps), where, own, emitted, query, monoids)  # type: ignore[arg-type]


def _of_input(
    stream: Composite,
    alias: str,
    names: Sequence[str],
    channels_of: Callable[[str], Channels | None],
) -> dict[str, pa.DataType]:
    """The channels of an input: those that all of its streams have with one type, and those that ``types`` adds."""
    common: dict[str, pa.DataType] | None = None
    for name in names:
        found = channels_of(name)
        if found is None:  # itself, or part of a cycle that is being put
            continue
        common = (
            dict(found)
            if common is None
            else {channel: kind for channel, kind in common.items() if found.get(channel) == kind}
        )
    declared = {
        channel.split(".", 1)[1]: TYPES[kind]
        for channel, kind in stream.types.items()
        if channel.startswith(f"{alias}.")
    }
    if stream.name in names:
        declared |= {channel: TYPES[kind] for channel, kind in stream.types.items() if "." not in channel}
    if common is None and not declared:
        raise PipelineError(
            f"input {alias!r} of {stream.name!r} has no stream whose channels are known; "
            f'give them with types={{"{alias}.channel": "double"}}, or own ones with types={{"channel": "double"}}'
        )
    return {f"{alias}.{channel}": kind for channel, kind in {**(common or {}), **declared}.items()}


def _bounded(step: Callable[[list[Any]], Any], channel: str) -> Callable[[list[Any]], Any]:
    """Composites on composites could double a text again and again, until no memory is left for anybody."""

    def bounded(values: list[Any]) -> Any:
        text = step(values)
        if text is not None:
            _check_length(len(text), channel)
        return text

    return bounded


def _check_length(characters: int, channel: str) -> None:
    if characters > LONGEST:
        raise PipelineError(
            f"channel {channel!r} would have {characters} characters; a text has at most {LONGEST}"
        )


def _bound(text: str, types: Channels, functions: Functions, role: str, *, condition: bool = False) -> Typed:
    try:
        if functions:
            return Expression(text).bind(types, functions=functions, condition=condition)
        return _shared(text, tuple(types.items()), condition)
    except ExpressionError as error:
        raise ExpressionError(f"{role}: {error}") from None


@lru_cache(4096)
def _shared(text: str, types: tuple[tuple[str, pa.DataType], ...], condition: bool) -> Typed:
    """Many composites have one expression over inputs of the same types."""
    return Expression(text).bind(dict(types), condition=condition)


def _windowed(stream: Composite, own: Channels) -> tuple[Query | None, Channels]:
    query = stream.query
    if query is None:
        return None, own
    if query.time != "ts" or query.time_unit not in (None, "us"):
        raise PipelineError(f"the query of {stream.name!r}: the time of a composite is 'ts', in microseconds")
    schema = pa.schema([("ts", pa.int64()), ("stream", pa.string()), *own.items()])
    try:
        output = query.bind(schema).output_schema
    except QueryError as error:
        raise PipelineError(f"the query of {stream.name!r}: {error}") from None
    for f in output:
        if pa.types.is_binary(f.type) or pa.types.is_large_binary(f.type):
            raise PipelineError(
                f"the query of {stream.name!r}: {f.name!r} is a {f.type}, which no channel can be"
            )
    if query.late == "update" or query.early is not None or query.lateness:
        raise PipelineError(
            f"the query of {stream.name!r}: updates reach a composite in order and are not withdrawn, so lateness=, "
            f"late='update' and early= are not possible; order='event' of the space waits for late updates"
        )
    if isinstance(query.window, CountWindow) and query.forget_after is None:
        query = Query(
            query.by, ORDER, window=query.window, aggregates=query.aggregates, algorithm=query.algorithm
        )
    return query, {f.name: f.type for f in output}


def _place(column: str, own: Channels, aggregate: str, stream: str) -> int:
    if column not in own:
        raise PipelineError(
            f"latest {aggregate!r} of {stream!r} reads {column!r}; its channels are {', '.join(own)}"
        )
    return list(own).index(column)
