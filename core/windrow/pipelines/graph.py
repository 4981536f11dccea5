# SPDX-License-Identifier: Apache-2.0
"""The graph of streams: who built what on what, who may, and in which order streams run.

A change is applied wholly or refused with an error that says why; a refused one leaves the graph as it was.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Any

from windrow.errors import PermissionDenied, PipelineError, WindrowError
from windrow.expressions import Registered
from windrow.imports import Allow
from windrow.pipelines.changes import RIGHTS, Change
from windrow.pipelines.crossings import Place, check_imported
from windrow.pipelines.dropping import dropped
from windrow.pipelines.plan import Channels, CompositePlan, plan
from windrow.pipelines.quotas import UNLIMITED, Quotas
from windrow.pipelines.ranks import ranks
from windrow.pipelines.rights import Rights
from windrow.pipelines.streams import (
    TYPES,
    Composite,
    Matching,
    Source,
    Stream,
    computes,
    owner_of,
    stream_from_dict,
)

__all__ = ["Applied", "Graph"]


@dataclass(frozen=True)
class Applied:
    """What a change did to the streams: those that are computed differently, and those that are no more."""

    restarted: tuple[str, ...] = ()
    dropped: tuple[str, ...] = ()
    added: tuple[str, ...] = ()


@dataclass
class Graph:
    """The streams of a space and who may do what with them."""

    functions: Mapping[str, Registered] = field(default_factory=dict)
    quotas: Quotas = field(default_factory=Quotas)
    allow: Allow = ()
    streams: dict[str, Stream] = field(default_factory=dict)
    """By name, in the order in which they were first put."""
    plans: dict[str, CompositePlan] = field(default_factory=dict)
    """Of the composites."""
    rank: dict[str, int] = field(default_factory=dict)
    rights: Rights = field(default_factory=Rights)
    subscribers: dict[str, dict[str, None]] = field(default_factory=dict)
    """By stream: the composites that have it as an input, whether they may or not."""
    version: int = 0
    """How many changes were applied."""
    selectors: dict[str, None] = field(default_factory=dict)
    """Composites with an input that is matching(…)."""
    owned: dict[str, int] = field(default_factory=dict)
    place: Place = field(default_factory=Place)
    imports: dict[str, None] = field(default_factory=dict)
    exports: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """By stream: the spaces that import it."""

    def restore(self, changes: Iterable[Change]) -> None:
        """Apply what was applied before. What quotas allowed then stays."""
        quotas, self.quotas = self.quotas, UNLIMITED
        for change in changes:
            self.apply(change)
        self.quotas = quotas

    def apply(self, change: Change) -> Applied:
        """Apply a change, or refuse it with a :class:`~windrow.errors.PipelineError`."""
        form = change.form
        if change.operation == "put":
            found = self._put(stream_from_dict(form, allow=self.allow), change.actor)
        elif change.operation == "drop":
            found = self._drop(form["name"], change.actor, bool(form.get("cascade")))
        else:
            found = self._grant(form, change)
        self.version += 1
        return found

    def channels(self, name: str) -> Channels | None:
        """The channels of a stream and their types; None if it is not there."""
        stream = self.streams.get(name)
        if isinstance(stream, Source):
            return {channel: TYPES[kind] for channel, kind in stream.channels.items()}
        return self.plans[name].channels if name in self.plans else None

    def device(self, name: str) -> Source | None:
        """The source of this name whose updates come from outside, and not from another space."""
        stream = self.streams.get(name)
        return stream if isinstance(stream, Source) and stream.space is None else None

    def imported(self, name: str, home: str | None) -> bool:
        """Whether a stream is imported from a space."""
        return name in self.imports and self.streams[name].space == home

    def may(self, who: str, right: str, name: str) -> bool:
        """Whether somebody has a right on a stream."""
        return self.rights.may(who, right, name)

    def check(self, who: str | None, right: str, name: str) -> None:
        """Refuse if somebody may not do this. ``None`` is whoever runs the space."""
        known = name in self.streams
        if known and (who is None or self.may(who, right, name)):
            return
        if who is not None or known:  # who may not read a stream is not told whether it is there
            raise PermissionDenied(
                f"{who!r} may not {right} {name!r}; its owner can grant that, if there is such a stream"
            )
        raise self._unknown(name)

    def open(self, name: str, on: str) -> bool:
        """Whether updates of stream ``on`` go to composite ``name``: its owner may subscribe."""
        return self.may(owner_of(name), "subscribe", on)

    def _unknown(self, name: str) -> PipelineError:
        close = get_close_matches(name, list(self.streams), n=3)
        hint = f"; did you mean {' or '.join(map(repr, close))}?" if close else ""
        return PipelineError(f"no stream {name!r}{hint}")

    # Put.

    def _put(self, stream: Stream, actor: str) -> Applied:
        name, before = stream.name, self.streams.get(stream.name)
        if actor != stream.owner:
            raise PermissionDenied(f"{actor!r} may not put {name!r}; its owner is {stream.owner!r}")
        self.quotas.check(stream, None if before is not None else self.owned.get(stream.owner, 0))
        self.place.check(stream)
        if before is not None and before.kind != stream.kind:
            raise PipelineError(
                f"{name!r} is a {before.kind}; drop it before you put a {stream.kind} of that name"
            )
        plans: dict[str, CompositePlan] = {}
        if isinstance(stream, Composite):
            plans[name] = self._planned(stream, {})
        kinds: Channels = (
            plans[name].channels
            if isinstance(stream, Composite)
            else {channel: TYPES[kind] for channel, kind in stream.channels.items()}
        )
        overlay: dict[str, Channels] = {name: kinds}
        if before is not None and dict(self.channels(name) or {}) != dict(kinds):
            self._replan(name, plans, overlay)
        # What has values of other types now cannot go on with the old ones.
        retyped = [each for each in plans if each != name and plans[each].types != self.plans[each].types]
        self._enlist(stream, before, plans, overlay)
        self._check_crossings({name: stream}, plans)
        self._store(stream, before, plans)
        same = before is not None and computes(before) == computes(stream)
        restarted = () if before is None or same else (name, *retyped)
        return Applied(restarted=restarted, added=(name,) if before is None else ())

    def _check_crossings(self, streams: Mapping[str, Stream], plans: Mapping[str, CompositePlan]) -> None:
        """Refuse what a space with imports cannot have. A new stream that nothing depends on closes no cycle."""
        imported = any(stream.space is not None for stream in streams.values())
        alone = not imported and all(name not in self.streams and name in streams for name in plans)
        if alone and self.imports:
            check_imported(streams, plans)
        elif imported or self.imports:
            check_imported({**self.streams, **streams}, {**self.plans, **plans})

    def _planned(self, stream: Composite, overlay: Mapping[str, Channels]) -> CompositePlan:
        members: dict[str, tuple[str, ...]] = {}
        for alias, given in stream.inputs.items():
            if isinstance(given, Matching):
                members[alias] = tuple(self._matched(stream, alias, given))
                self._check_fan_out(stream.name, members[alias])
                continue
            names = (given,) if isinstance(given, str) else given
            for name in names:
                if name == stream.name:
                    continue
                if name not in self.streams or not self.open(stream.name, name):
                    if name in self.streams or stream.owner != owner_of(name):
                        raise PermissionDenied(
                            f"input {alias!r} of {stream.name!r}: {stream.owner!r} may not subscribe to {name!r}, "
                            f"if there is such a stream; its owner can grant that"
                        )
                    raise PipelineError(f"input {alias!r} of {stream.name!r}: {self._unknown(name)}")
            self._check_fan_out(stream.name, names)
            members[alias] = names
        return plan(stream, members, lambda name: self._channels(name, stream, overlay), self.functions)

    def _check_fan_out(self, composite: str, inputs: Iterable[str]) -> None:
        for name in inputs:
            on_it = self.subscribers.get(name, {})
            self.quotas.check_fan_out(name, len(on_it), len(on_it) + (composite not in on_it))

    def _channels(self, name: str, stream: Composite, overlay: Mapping[str, Channels]) -> Channels | None:
        if name == stream.name:
            return None
        return overlay.get(name) or self.channels(name)

    def _matched(self, stream: Composite, alias: str, given: Matching) -> Iterator[str]:
        """The streams that an input matches now, in the order of their names."""
        for name, other in sorted(self.streams.items()):
            if name != stream.name and self._fits(stream, alias, given, other):
                yield name

    def _fits(self, stream: Composite, alias: str, given: Matching, other: Stream) -> bool:
        if not given.fits(other.labels) or not (
            self.open(stream.name, other.name) or "*" in other.read or stream.owner in other.read
        ):
            return False
        channels = self.channels(other.name) or {}
        wanted = {c.split(".", 1)[1]: TYPES[k] for c, k in stream.types.items() if c.startswith(f"{alias}.")}
        return all(channels.get(channel) == kind for channel, kind in wanted.items())

    def _replan(self, name: str, plans: dict[str, CompositePlan], overlay: dict[str, Channels]) -> None:
        """Plan anew what depends on a stream whose channels change; if something does not fit, refuse."""
        for dependant in list(self.subscribers.get(name, ())):
            stream = self.streams[dependant]
            if dependant in plans or not isinstance(stream, Composite):
                continue
            try:
                found = self._planned(stream, overlay)
            except WindrowError as cause:
                raise PipelineError(f"{name!r} cannot change: {dependant!r} depends on it: {cause}") from None
            changed = dict(found.channels) != dict(self.plans[dependant].channels)
            plans[dependant], overlay[dependant] = found, found.channels
            if changed:
                self._replan(dependant, plans, overlay)

    def _enlist(
        self,
        stream: Stream,
        before: Stream | None,
        plans: dict[str, CompositePlan],
        overlay: dict[str, Channels],
    ) -> None:
        """Plan anew the composites whose matching(…) now takes this stream, or no longer does."""
        if before is not None and before.labels == stream.labels and before.read == stream.read:
            return
        on_it = dict(self.subscribers.get(stream.name, {}))
        for name in self.selectors:
            selector = self.streams[name]
            if name == stream.name or not isinstance(selector, Composite):
                continue
            old = (plans.get(name) or self.plans[name]).members
            members = {}
            for alias, given in selector.inputs.items():
                members[alias] = old[alias]
                if isinstance(given, Matching):
                    rest = [each for each in old[alias] if each != stream.name]
                    takes = self._takes(
                        selector, alias, given, stream, overlay, plans.get(name) or self.plans[name]
                    )
                    members[alias] = tuple(sorted([*rest, stream.name] if takes else rest))
            if members != old:
                if any(stream.name in names for names in members.values()):
                    on_it[name] = None
                else:
                    on_it.pop(name, None)
                channels_of = lambda each, selector=selector: self._channels(each, selector, overlay)  # noqa: E731
                plans[name] = plan(selector, members, channels_of, self.functions)
        self.quotas.check_fan_out(stream.name, len(self.subscribers.get(stream.name, ())), len(on_it))

    def _takes(
        self,
        selector: Composite,
        alias: str,
        given: Matching,
        stream: Stream,
        overlay: Mapping[str, Channels],
        current: CompositePlan,
    ) -> bool:
        if not given.fits(stream.labels):
            return False
        who = selector.owner
        if not (
            who == stream.owner or {"*", who} & set(stream.read) or self.open(selector.name, stream.name)
        ):
            return False
        channels = overlay.get(stream.name) or self.channels(stream.name) or {}
        known = current.kinds
        return all(
            channels.get(channel) == known.get((a, channel)) for a, channel in current.reads if a == alias
        )

    def _store(self, stream: Stream, before: Stream | None, plans: Mapping[str, CompositePlan]) -> None:
        name = stream.name
        if before is None:
            self.owned[stream.owner] = self.owned.get(stream.owner, 0) + 1
        self.streams[name] = stream
        self.rights.declare(stream, before)
        self.exports.pop(name, None)
        self.imports.pop(name, None)
        if stream.export:
            self.exports[name] = stream.export
        if stream.space is not None:
            self.imports[name] = None
        if isinstance(stream, Composite) and any(isinstance(g, Matching) for g in stream.inputs.values()):
            self.selectors[name] = None
        else:
            self.selectors.pop(name, None)
        self._adopt(plans)
        self._rank(name, before is None, set(plans))

    def _adopt(self, plans: Mapping[str, CompositePlan]) -> None:
        for each, found in plans.items():
            for other in self.plans[each].inputs if each in self.plans else ():
                self.subscribers.get(other, {}).pop(each, None)
            self.plans[each] = found
            for other in found.inputs:
                self.subscribers.setdefault(other, {})[each] = None

    def _rank(self, name: str, new: bool, planned: set[str]) -> None:
        """A new stream that nothing depends on is ranked by its inputs; otherwise, all are ranked again."""
        inputs = self.plans[name].inputs if name in self.plans else ()
        if new and planned <= {name} and not self.subscribers.get(name) and name not in inputs:
            self.rank[name] = max((self.rank[other] + 1 for other in inputs), default=1 if inputs else 0)
            if name in self.plans:
                self.rank[name] = max(self.rank[name], 1)
            return
        if new and name not in self.plans and all(self.rank.get(each, 0) >= 1 for each in planned):
            self.rank[name] = 0  # a source that existing composites now match
            return
        self.rank = self.ranked()

    def ranked(self) -> dict[str, int]:
        """The ranks of all streams, from the beginning."""
        inputs = {name: self.plans[name].inputs if name in self.plans else () for name in self.streams}
        found = ranks(inputs)
        return {name: max(rank, 1) if name in self.plans else 0 for name, rank in found.items()}

    # Drop, grant, revoke.

    def _drop(self, name: str, actor: str, cascade: bool) -> Applied:
        if name not in self.streams or actor != owner_of(name):
            raise PermissionDenied(f"{actor!r} may not drop {name!r}; only its owner may")
        gone = dropped(name, actor, cascade, self.plans, self.subscribers, self.exports)
        for each in gone:
            self._forget(each)
        self.rank = {each: rank for each, rank in self.rank.items() if each in self.streams}
        return Applied(dropped=gone)

    def _forget(self, name: str) -> None:
        for other in self.plans[name].inputs if name in self.plans else ():
            self.subscribers.get(other, {}).pop(name, None)
        for selector in self.subscribers.pop(name, {}):
            if selector in self.plans and selector != name:
                old = self.plans[selector]
                members = {
                    alias: tuple(n for n in names if n != name) for alias, names in old.members.items()
                }
                self.plans[selector] = CompositePlan(
                    old.stream, members, old.reads, old.steps, old.where, old.row_channels, old.channels,
                    old.query, old.monoids,
                )  # fmt: skip
        self.owned[owner_of(name)] -= 1
        self.rights.forget(name)
        for held in (self.streams, self.plans, self.selectors, self.imports):
            held.pop(name, None)

    def _grant(self, form: Mapping[str, Any], change: Change) -> Applied:
        name, right, to = form["name"], form.get("right"), form.get("to")
        if right not in RIGHTS or not isinstance(to, str) or not to:
            raise PipelineError(
                f"{change.operation}: right is one of {', '.join(RIGHTS)}, and to= a name or '*'"
            )
        if name not in self.streams or not self.may(change.actor, "grant", name):
            raise PermissionDenied(f"{change.actor!r} may not {change.operation} rights on {name!r}")
        if change.operation == "revoke":
            self.rights.revoke(name, right, to)
            return Applied()
        new = self.rights.grant(name, right, to)
        try:
            self._admit(name)
        except WindrowError:
            if new:
                self.rights.revoke(name, right, to)
            raise
        return Applied()

    def _admit(self, name: str) -> None:
        """Somebody has a right on a stream now: a matching(…) may take it."""
        plans: dict[str, CompositePlan] = {}
        self._enlist(self.streams[name], None, plans, {})
        self._check_crossings({}, plans)
        self._adopt(plans)
        self.rank = self.ranked() if plans else self.rank
