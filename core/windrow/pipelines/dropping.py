# SPDX-License-Identifier: Apache-2.0
"""What goes with a stream that is dropped, and what protects a stream from that."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from windrow.errors import PipelineError
from windrow.pipelines.plan import CompositePlan
from windrow.pipelines.streams import owner_of

__all__ = ["dropped"]


def dropped(
    name: str,
    actor: str,
    cascade: bool,
    plans: Mapping[str, CompositePlan],
    subscribers: Mapping[str, Iterable[str]],
    exports: Mapping[str, Iterable[str]],
) -> tuple[str, ...]:
    """The streams that go if the actor drops this one, itself first; an error if one of them cannot.

    A composite that names a stream as an input depends on it, and goes with it if ``cascade`` is set. One that only
    matches the stream goes on without it.
    """
    gone: dict[str, None] = {}
    going, left = [name], set[str]()
    while going:
        each = going.pop()
        gone[each] = None
        depending = {other for other in subscribers.get(each, ()) if plans[other].stream.names(each)}
        if cascade:
            going += sorted(depending.difference(gone, going))
        else:
            left |= depending - {each}
    for each in gone:
        if each in exports:
            raise PipelineError(
                f"{each!r} cannot be dropped: it is exported to {', '.join(map(repr, exports[each]))}; "
                f"put it without export= first"
            )
    foreign = {each for each in gone if owner_of(each) != actor}
    if foreign or left:
        names = ", ".join(map(repr, sorted(foreign | left)))
        hint = "" if foreign or cascade else "; drop them first, or cascade=True if they are all yours"
        raise PipelineError(f"{name!r} cannot be dropped: {names} depend(s) on it{hint}")
    return tuple(gone)
