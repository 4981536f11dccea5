# SPDX-License-Identifier: Apache-2.0
"""What people put into a space: sources, whose updates come from outside, and composites, which compute theirs.

>>> thermometer = Source("council/t1", channels={"f": "double"}, read="*", labels={"unit": "fahrenheit"})
>>> frozen = Composite(
...     "ann/frozen", inputs={"t": "council/t1"}, channels={"c": "(t.f - 32) / 1.8"}, where="c < 0"
... )
>>> frozen.owner, stream_from_dict(frozen.to_dict()) == frozen
('ann', True)
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar, Literal

import pyarrow as pa

from windrow import durations
from windrow.aggregates.algebra import Aggregate, aggregate_from_dict
from windrow.errors import PipelineError, WindrowError
from windrow.imports import Allow
from windrow.query import Query

__all__ = [
    "TYPES",
    "Composite",
    "Matching",
    "Source",
    "Stream",
    "computes",
    "matching",
    "owner_of",
    "stream_from_dict",
]

TYPES = {"boolean": pa.bool_(), "bigint": pa.int64(), "double": pa.float64(), "string": pa.string()}
"""The types that a channel of a source can have."""

NAME = re.compile(r"[\w.-]{1,64}/[\w./-]{1,128}")
WORD = re.compile(r"[^\W\d]\w{0,63}")
HISTORY = 64
"""How many updates of a stream are kept if it does not say."""


@dataclass(frozen=True)
class Matching:
    """All streams that carry these labels now or later. Made by :func:`matching`."""

    labels: tuple[tuple[str, str], ...]

    def fits(self, labels: Mapping[str, str]) -> bool:
        return all(labels.get(name) == value for name, value in self.labels)


def matching(**labels: str) -> Matching:
    """An input that is every stream with these labels, also those that are put later.

    >>> matching(unit="celsius", district="north").fits({"unit": "celsius", "district": "north", "floor": "2"})
    True
    """
    if not labels:
        raise PipelineError("matching() needs at least one label; without one it would match every stream")
    return Matching(tuple(sorted((name, str(value)) for name, value in labels.items())))


Input = str | Matching | tuple[str, ...]


@dataclass(frozen=True)
class Source:
    """A stream whose updates come from outside: a device.

    ``name`` is ``owner/stream``. ``channels`` have types: ``boolean``, ``bigint``, ``double``, ``string``. ``read`` says
    who may read it and build on it: nobody but the owner, a list of names, or ``"*"``; ``write`` says who may push
    updates besides the owner. ``labels`` are what :func:`matching` looks for. ``history`` is how many updates are kept.

    With ``space``, it is an *import*: its updates are those of the stream of this name in that space, which has to
    ``export`` them to this one. Only the owner of the stream can put it, so the rights here are the owner's to give.
    ``export`` names the spaces that import this stream.
    """

    name: str
    channels: Mapping[str, str]
    read: tuple[str, ...] = ()
    write: tuple[str, ...] = ()
    labels: Mapping[str, str] = field(default_factory=dict)
    history: int = HISTORY
    space: str | None = None
    export: tuple[str, ...] = ()

    kind: ClassVar[str] = "source"

    def __post_init__(self) -> None:
        _checked(self)
        object.__setattr__(self, "read", _names(self.read, f"read of {self.name!r}"))
        object.__setattr__(self, "write", _names(self.write, f"write of {self.name!r}"))
        object.__setattr__(self, "export", _names(self.export, f"export of {self.name!r}"))
        if self.space is not None and (not isinstance(self.space, str) or self.write or self.export):
            raise PipelineError(
                f"{self.name!r} is imported from the space {self.space!r}, so it cannot be written here or exported again; "
                "leave out write= and export="
            )
        for channel, kind in self.channels.items():
            if kind not in TYPES:
                raise PipelineError(
                    f"channel {channel!r} of {self.name!r}: expected one of {', '.join(TYPES)}, not {kind!r}"
                )

    @property
    def owner(self) -> str:
        return owner_of(self.name)

    def to_dict(self) -> dict[str, Any]:
        """A form that can be written as JSON or TOML; :func:`stream_from_dict` reads it."""
        return _form(self)


@dataclass(frozen=True)
class Composite:
    """A stream that is computed from the latest updates of others, anybody's.

    An update of one of its ``inputs`` runs it. ``channels`` are expressions over ``input.channel`` and over channels
    before; without any, it passes on those of its one input. ``where`` is a condition: an update for which it does not
    hold is not emitted. Inputs that have no update yet are null.

    An input may be several streams: a list, or :func:`matching`. Then ``input.channel`` is of the one that had an update
    last. So a composite without channels over several streams is their union.

    ``query`` makes windows of its updates. The columns that the query sees are ``ts`` (microseconds), ``stream`` (the
    name of the input's stream) and the channels. The composite emits the results. ``latest`` are aggregates over the
    latest update of every stream of its one input, without those older than ``expire``.

    ``compose="first"`` runs it at the first of several inputs that change together, with the others as they were; the
    default waits for all of them. ``types`` gives types of channels that cannot be inferred: own ones that the
    composite reads itself (``"n": "bigint"``), and those of a :func:`matching` that has no stream yet (``"t.c"``).
    ``sink`` names where its updates are sent to, ``export`` the spaces that import this stream.
    """

    name: str
    inputs: Mapping[str, Input]
    channels: Mapping[str, str] = field(default_factory=dict)
    where: str | None = None
    query: Query | None = None
    latest: Mapping[str, Aggregate] = field(default_factory=dict)
    expire: str | int | None = None
    compose: Literal["fresh", "first"] = "fresh"
    types: Mapping[str, str] = field(default_factory=dict)
    read: tuple[str, ...] = ()
    labels: Mapping[str, str] = field(default_factory=dict)
    history: int = HISTORY
    sink: str | None = None
    start: Literal["now", "replay"] = "now"
    export: tuple[str, ...] = ()

    kind: ClassVar[str] = "composite"
    write: ClassVar[tuple[str, ...]] = ()
    space: ClassVar[str | None] = None

    def __post_init__(self) -> None:
        _checked(self)
        object.__setattr__(self, "read", _names(self.read, f"read of {self.name!r}"))
        object.__setattr__(self, "export", _names(self.export, f"export of {self.name!r}"))
        if not self.inputs:
            raise PipelineError(f"composite {self.name!r} has no inputs")
        for alias, given in self.inputs.items():
            _word(alias, f"input of {self.name!r}")
            found = tuple(given) if isinstance(given, list | set) else given
            for stream in (found,) if isinstance(found, str) else found if isinstance(found, tuple) else ():
                _stream_name(stream, f"input {alias!r} of {self.name!r}")
            if not isinstance(found, str | tuple | Matching) or not found:
                raise PipelineError(
                    f"input {alias!r} of {self.name!r} has to be a stream, a list of streams or matching(…), not {given!r}"
                )
            object.__setattr__(self, "inputs", {**self.inputs, alias: found})
        if len(self.inputs) > 1 and (not self.channels or self.latest):
            raise PipelineError(
                f"composite {self.name!r} has several inputs: set channels= to what it computes from them"
            )
        if self.compose not in ("fresh", "first") or self.start not in ("now", "replay"):
            raise PipelineError(
                f"composite {self.name!r}: compose is 'fresh' or 'first', start is 'now' or 'replay'"
            )
        if self.latest and self.query:
            raise PipelineError(f"composite {self.name!r}: give query or latest, not both")
        if self.expire is not None:
            durations.parse(self.expire, name=f"expire of {self.name!r}")
        for channel, kind in self.types.items():
            if kind not in TYPES:
                raise PipelineError(
                    f"types of {self.name!r}: {channel!r} is one of {', '.join(TYPES)}, not {kind!r}"
                )

    @property
    def owner(self) -> str:
        return owner_of(self.name)

    def to_dict(self) -> dict[str, Any]:
        """A form that can be written as JSON or TOML; :func:`stream_from_dict` reads it."""
        form = _form(self)
        form["inputs"] = {
            alias: {"matching": dict(given.labels)}
            if isinstance(given, Matching)
            else given
            if isinstance(given, str)
            else list(given)
            for alias, given in self.inputs.items()
        }
        if self.query is not None:
            form["query"] = self.query.to_dict()
        if self.latest:
            form["latest"] = {name: aggregate.to_dict() for name, aggregate in self.latest.items()}
        return form

    def names(self, stream: str) -> bool:
        """Whether a stream is an input by its name, and not only because it matches."""
        return any(
            stream == given or (isinstance(given, tuple) and stream in given)
            for given in self.inputs.values()
        )


Stream = Source | Composite


def owner_of(name: str) -> str:
    return name.split("/", 1)[0]


def computes(stream: Stream) -> dict[str, Any]:
    """The parameters that decide what a stream emits."""
    form = stream.to_dict()
    return {
        name: value
        for name, value in form.items()
        if name not in ("read", "write", "labels", "history", "sink", "start", "export")
    }


def stream_from_dict(form: Mapping[str, Any], *, allow: Allow = ()) -> Stream:
    """The stream that :meth:`Source.to_dict` or :meth:`Composite.to_dict` wrote.

    ``allow`` names modules from which own aggregates may be imported; see :mod:`windrow.imports`.
    """
    if not isinstance(form, Mapping):
        raise PipelineError(f"a stream has to be an object with 'name' and its parameters, not {form!r}")
    values = dict(form)
    kind = values.pop("kind", "composite" if "inputs" in values else "source")
    cls: Any = {"source": Source, "composite": Composite}.get(kind) if isinstance(kind, str) else None
    if cls is None:
        raise PipelineError(f"kind of a stream is 'source' or 'composite', not {kind!r}")
    known = {f.name for f in fields(cls)}
    for name in values:
        if name not in known:
            raise PipelineError(
                f"a {kind} has no parameter {name!r}; expected one of {', '.join(sorted(known))}"
            )
    for name in ("channels", "labels", "inputs", "types", "latest"):
        if name in values and not isinstance(values[name], Mapping):
            raise PipelineError(f"{name} of {values.get('name')!r} has to be an object, not {values[name]!r}")
    texts = {"where": values.get("where"), **values.get("channels", {})}
    for name, text in texts.items():
        if text is not None and not isinstance(text, str):
            raise PipelineError(f"{name!r} of {values.get('name')!r} has to be a text, not {text!r}")
    if values.get("query") is not None and not isinstance(values["query"], Mapping):
        raise PipelineError(f"query of {values.get('name')!r} has to be an object, not {values['query']!r}")
    if "inputs" in values:
        values["inputs"] = {alias: _input(given) for alias, given in values["inputs"].items()}
    if isinstance(values.get("query"), Mapping):
        values["query"] = Query.from_dict(values["query"], allow=allow)
    if "latest" in values:
        values["latest"] = {
            name: aggregate_from_dict(each, allow=allow) for name, each in values["latest"].items()
        }
    try:
        made: Stream = cls(**values)
    except WindrowError:
        raise
    except (TypeError, ValueError) as cause:
        raise PipelineError(f"stream {values.get('name')!r}: {cause}") from cause
    return made


def _input(given: Any) -> Any:
    if isinstance(given, Mapping):
        labels = given.get("matching")
        if set(given) != {"matching"} or not isinstance(labels, Mapping):
            raise PipelineError(
                f'an input that is an object has one entry, "matching", with labels: {given!r}'
            )
        return matching(**{str(name): str(value) for name, value in labels.items()})
    return tuple(given) if isinstance(given, list) else given


def _form(stream: Stream) -> dict[str, Any]:
    """The parameters that were given, as plain values."""
    form: dict[str, Any] = {"kind": stream.kind}
    for f in fields(stream):
        value = getattr(stream, f.name)
        default = () if f.name in ("read", "write", "export") else f.default
        if f.name in ("name", "channels") or (value != default and value not in ({}, None)):
            form[f.name] = (
                list(value)
                if isinstance(value, tuple)
                else dict(value)
                if isinstance(value, Mapping)
                else value
            )
    return form


def _checked(stream: Stream) -> None:
    _stream_name(stream.name, "name")
    for channel in stream.channels:
        if stream.space is None or channel != "stream":  # a key of windows that are imported
            _word(channel, f"channel of {stream.name!r}")
    for label, value in stream.labels.items():
        if not isinstance(label, str) or not isinstance(value, str) or len(label) + len(value) > 256:
            raise PipelineError(f"labels of {stream.name!r} are short texts, not {label!r}: {value!r}")
    if type(stream.history) is not int or stream.history < 0:
        raise PipelineError(f"history of {stream.name!r} is a number of updates, not {stream.history!r}")


def _stream_name(name: Any, role: str) -> None:
    if not isinstance(name, str) or not NAME.fullmatch(name):
        raise PipelineError(
            f"{role}: the name of a stream is 'owner/stream', made of letters, digits and _ . -, not {name!r}"
        )


def _word(name: Any, role: str) -> None:
    if not isinstance(name, str) or not WORD.fullmatch(name) or "__" in name or name in ("ts", "stream"):
        raise PipelineError(f"{role}: expected a word that is not 'ts' or 'stream', not {name!r}")


def _names(given: str | Iterable[str], role: str) -> tuple[str, ...]:
    found = (given,) if isinstance(given, str) else tuple(given)
    if not all(isinstance(name, str) and name for name in found):
        raise PipelineError(f"{role}: expected names, or '*', not {given!r}")
    return tuple(sorted(set(found)))
