"""The nodes of a tree as pages: their names and bytes, who made them, and which of them can be deleted."""

from __future__ import annotations

import os
import struct
from bisect import bisect_right
from collections.abc import Iterable, Mapping

from windrow.aggregates.algebra import Monoid
from windrow.aggregates.encoding import decode, decode_value, encode, encode_value
from windrow.errors import CorruptSnapshot, StoreError
from windrow.kernels.slots import Parts
from windrow.state.pages import HEADER, Pages

Node = tuple[int, int]
"""A level and an index in it, as in :class:`windrow.algorithms.amta.AMTA`."""

EXTENTS = "extents"

_HEAD = struct.Struct("<QBQ")  # session, level, index; the partial follows


class NodePages:
    """Nodes in a store: node (level, index) is the page ``name/level.index``, the header ``name/header``.

    A node is made once, at a position that follows from its level and index, and never changes. Its page
    names the session (one opening of the window) that made it, and the header lists from which position on
    which session was at work. So a page that a crashed session left behind, or that a stale store returns,
    is told from the one that is wanted.

    The page ``name/extents`` lists which nodes were ever written and not deleted, so that leftovers are
    deleted too.
    """

    def __init__(self, monoid: Monoid, pages: Pages, name: str) -> None:
        self.monoid, self.pages, self.name = monoid, pages, name
        self.sessions: list[tuple[int, int]] = []
        """From which position on, which session."""
        self._extents: dict[int, list[tuple[int, int]]] = {}
        self.header = f"{name}/{HEADER}"

    def open(self) -> bytes | None:
        """The header, if there is one."""
        found = self.pages.get([self.header, self._extents_name()])
        if self._extents_name() in found:
            self._extents = decode_value(found[self._extents_name()])
        return found.get(self.header)

    def begin_session(self, position: int) -> None:
        """Nodes that are made at this position or later are of a new session."""
        self.sessions = [entry for entry in self.sessions if entry[0] < position]
        self.sessions.append((position, int.from_bytes(os.urandom(8), "little")))

    def forget_sessions(self, head: int) -> None:
        """No node is wanted any more that was made before this position."""
        while len(self.sessions) > 1 and self.sessions[1][0] <= head:
            del self.sessions[0]

    def prefetch(self, nodes: Iterable[Node]) -> bool:
        """Begin to read nodes in the background; false if the store cannot."""
        begin = getattr(self.pages, "prefetch", None)
        if begin is not None:
            begin([self._page_name(node) for node in nodes])
        return begin is not None

    def read(self, nodes: list[Node], needed: bool = False) -> dict[Node, Parts]:
        """The partials of nodes, in slot 0 each, in one request.

        Nodes that are read ahead may be missing, or a crash's leftovers; they are left out. Needed ones must
        be there."""
        if not nodes:
            return {}
        pages = self.pages.get([self._page_name(node) for node in nodes])
        found = {}
        for node in nodes:
            page = pages.get(self._page_name(node))
            if page is not None and page[: _HEAD.size] == self._head(node):
                try:
                    found[node] = decode(self.monoid, page[_HEAD.size :])
                except CorruptSnapshot as cause:
                    raise StoreError(f"the page {self._page_name(node)!r} is damaged: {cause}") from cause
            elif needed:
                problem = "is missing" if page is None else "is stale"
                raise StoreError(
                    f"the page {self._page_name(node)!r} {problem}: the store lost a write or returns old bytes; read "
                    "from the primary, and let one process at a time use a window"
                )
        return found

    def write(
        self, nodes: Mapping[Node, int], parts: Parts, header: bytes | None, evicted: int, most: int
    ) -> None:
        """Write nodes (with their slots in ``parts``) and the header, and delete up to ``most`` nodes before
        position ``evicted``, all or nothing.
        """
        put = {
            self._page_name(node): self._head(node) + encode(self.monoid, parts, slot, slot + 1)
            for node, slot in nodes.items()
        }
        if header is not None:
            put[self.header] = header
        extents, delete = _swept(_extended(self._extents, nodes), evicted, most)
        if nodes or delete:
            put[self._extents_name()] = encode_value(extents)
        self.pages.commit(put, [self._page_name(node) for node in delete])
        self._extents = extents

    def leftover(self, evicted: int) -> bool:
        """Are there pages of nodes before this position?"""
        return bool(_swept(self._extents, evicted, 1)[1])

    def _head(self, node: Node) -> bytes:
        level, index = node
        made_at = ((index + 2) << level) - 2
        session = self.sessions[bisect_right(self.sessions, (made_at, 1 << 64)) - 1][1]
        return _HEAD.pack(session, level, index)

    def _page_name(self, node: Node) -> str:
        return f"{self.name}/{node[0]}.{node[1]}"

    def _extents_name(self) -> str:
        return f"{self.name}/{EXTENTS}"


Extents = Mapping[int, list[tuple[int, int]]]


def _extended(extents: Extents, nodes: Iterable[Node]) -> dict[int, list[tuple[int, int]]]:
    """With these nodes added, which come in rising order on each level.

    >>> _extended({0: [(2, 4), (8, 9)]}, [(0, 3), (0, 4), (1, 7), (0, 5)])
    {0: [(2, 6), (8, 9)], 1: [(7, 8)]}
    """
    runs: dict[int, list[tuple[int, int]]] = {}
    for level, index in nodes:
        run = runs.setdefault(level, [])
        if run and run[-1][1] == index:
            run[-1] = (run[-1][0], index + 1)
        else:
            run.append((index, index + 1))
    extended = dict(extents)
    for level, run in runs.items():
        joined: list[tuple[int, int]] = []
        for begin, end in sorted([*extents.get(level, []), *run]):
            if joined and begin <= joined[-1][1]:
                joined[-1] = (joined[-1][0], max(joined[-1][1], end))
            else:
                joined.append((begin, end))
        extended[level] = joined
    return extended


def _swept(extents: Extents, evicted: int, most: int) -> tuple[dict[int, list[tuple[int, int]]], list[Node]]:
    """Without the first nodes (``most`` of them at most) that lie before a position; and those nodes.

    >>> _swept({0: [(2, 4), (8, 12)], 1: [(0, 1)]}, evicted=10, most=9)
    ({0: [(10, 12)]}, [(0, 2), (0, 3), (0, 8), (0, 9), (1, 0)])
    """
    left: dict[int, list[tuple[int, int]]] = {}
    gone: list[Node] = []
    for level, run in extents.items():
        for begin, end in run:
            stop = max(begin, min(end, evicted >> level, begin + most - len(gone)))
            gone.extend((level, index) for index in range(begin, stop))
            if stop < end:
                left.setdefault(level, []).append((stop, end))
    return left, gone
