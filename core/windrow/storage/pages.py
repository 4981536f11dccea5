# SPDX-License-Identifier: Apache-2.0
"""Where an operator's state can live: a store of pages, bytes under short names.

The operator reads the header once, then pages only when a window reaches them;
:meth:`windrow.Operator.commit` writes what changed. A store needs no order and no transactions, but after a
crash it must hold what it held at one commit: engines give that with their own checkpoints, the others with
one atomic batch per commit.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Protocol

HEADER = "header"


class Pages(Protocol):
    """A store of pages. One that has ``prefetch(names)`` too is told which pages :meth:`get` will want soon."""

    def get(self, names: Iterable[str]) -> Mapping[str, bytes]:
        """The pages of these names; a name that is not there is left out. Called with few names, when they
        are needed at once."""

    def commit(self, put: Mapping[str, bytes], delete: Iterable[str]) -> None:
        """Write and delete pages, all or nothing. Called once per commit of the operator."""


class MemoryPages:
    """Pages in a dict.

    >>> pages = MemoryPages()
    >>> pages.commit({"header": b"h", "7": b"slices"}, delete=[])
    >>> pages.commit({}, delete=["7"])
    >>> pages.get(["header", "7"])
    {'header': b'h'}
    """

    def __init__(self) -> None:
        self.held: dict[str, bytes] = {}

    def get(self, names: Iterable[str]) -> dict[str, bytes]:
        return {name: self.held[name] for name in names if name in self.held}

    def names(self) -> list[str]:
        """The names of all pages, in order."""
        return sorted(self.held)

    def commit(self, put: Mapping[str, bytes], delete: Iterable[str]) -> None:
        self.held.update(put)
        for name in delete:
            self.held.pop(name, None)
