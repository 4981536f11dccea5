# SPDX-License-Identifier: Apache-2.0
"""Who may do what with a stream: its owner everything, others what they were granted."""

from __future__ import annotations

from collections.abc import Mapping

from windrow.pipelines.streams import Stream, owner_of

__all__ = ["Rights"]


class Rights:
    """The rights on streams, by stream and right: who has it."""

    def __init__(self, granted: Mapping[str, Mapping[str, set[str]]] | None = None) -> None:
        self._granted = {
            name: {right: set(people) for right, people in rights.items()}
            for name, rights in (granted or {}).items()
        }

    def copied(self) -> Rights:
        return Rights(self._granted)

    def may(self, who: str, right: str, name: str) -> bool:
        """Whether somebody has a right on a stream. Who may read it may subscribe to it."""
        if who == owner_of(name):
            return True
        granted = self._granted.get(name, {})
        people = granted.get(right, set())
        if right == "subscribe":
            people = people | granted.get("read", set())
        return who in people or "*" in people

    def declare(self, stream: Stream, before: Stream | None) -> None:
        """A stream is put: what it says about reading and writing takes the place of what it said before."""
        if before is not None and before.read == stream.read and before.write == stream.write:
            return
        granted = self._granted.setdefault(stream.name, {})
        for right, given in (("read", stream.read), ("write", stream.write)):
            old = set(getattr(before, right, ()))
            granted[right] = (granted.get(right, set()) - old) | set(given)

    def grant(self, name: str, right: str, to: str) -> bool:
        """Give a right; whether that is new."""
        people = self._granted.setdefault(name, {}).setdefault(right, set())
        new = to not in people
        people.add(to)
        return new

    def revoke(self, name: str, right: str, to: str) -> None:
        self._granted.get(name, {}).get(right, set()).discard(to)

    def forget(self, name: str) -> None:
        """The stream is no more."""
        self._granted.pop(name, None)
