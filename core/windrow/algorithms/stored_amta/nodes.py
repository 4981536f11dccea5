# SPDX-License-Identifier: Apache-2.0
"""Nodes of a tree in a store, a batch of one level per page: names, bytes, and the sessions that made them."""

from __future__ import annotations

import os
import struct
from bisect import bisect_right
from collections.abc import Iterable, Mapping
from typing import Any

from windrow.aggregates.algebra import Monoid
from windrow.columns.encoding import decode, encode
from windrow.errors import CorruptSnapshot, StoreError
from windrow.kernels.partials import Parts
from windrow.storage.pages import HEADER, Pages
from windrow.storage.validate import check_entries, check_number

Block = tuple[int, int]
"""A level, and which batch of it."""

_HEAD = struct.Struct("<BQII")  # level, batch, number of nodes, number of runs
_RUN = struct.Struct("<IQ")  # from which node of the batch on, which session


class NodePages:
    """Nodes in a store: batch b of a level is the page ``name/level.b``, the header ``name/header``.

    A node is made once, at a position that follows from its level and index, and never changes. A page that is
    written again has the same nodes, and more. Pages name the session (one opening of the window) that made each
    node, and the header lists from which position on which session was at work. So nodes that a crashed session
    left behind, or that a stale store returns, are not mistaken for the right ones.
    """

    def __init__(self, monoid: Monoid, pages: Pages, name: str, batch: int) -> None:
        self.monoid, self.pages, self.name, self.batch = monoid, pages, name, batch
        self.sessions: list[tuple[int, int]] = []
        """From which position on, which session."""
        self.header = f"{name}/{HEADER}"

    def open(self) -> bytes | None:
        """The header, if there is one."""
        return self.pages.get([self.header]).get(self.header)

    def resume(self, sessions: list[tuple[int, int]]) -> None:
        """Called once, with the sessions that the header lists."""
        self.sessions = sessions

    def begin_session(self, position: int) -> None:
        """Nodes that are made at this position or later are of a new session."""
        self.sessions = [entry for entry in self.sessions if entry[0] < position]
        self.sessions.append((position, int.from_bytes(os.urandom(8), "little")))

    def forget_sessions(self, head: int) -> None:
        """No node is wanted any more that was made before this position."""
        while len(self.sessions) > 1 and self.sessions[1][0] <= head:
            del self.sessions[0]

    def prefetch(self, blocks: Iterable[Block]) -> bool:
        """Begin to read batches in the background; false if the store cannot."""
        begin = getattr(self.pages, "prefetch", None)
        if begin is not None:
            begin([self.page_name(block) for block in blocks])
        return begin is not None

    def read(self, wanted: Mapping[Block, int]) -> dict[Block, Parts]:
        """The nodes of batches, in one request; of each batch, so many nodes have to be there."""
        pages = self.pages.get([self.page_name(block) for block in wanted]) if wanted else {}
        return {block: self._nodes(block, count, pages) for block, count in wanted.items()}

    def written(self, block: Block, parts: Parts, count: int) -> bytes:
        """The page of the first nodes of a batch, which are in the first slots of ``parts``."""
        runs = self._runs(block, count)
        head = _HEAD.pack(*block, count, len(runs)) + b"".join(_RUN.pack(*run) for run in runs)
        return head + encode(self.monoid, parts, 0, count)

    def commit(self, put: Mapping[Block, bytes], header: bytes | None, delete: Iterable[Block]) -> None:
        """Write and delete pages, all or nothing."""
        named = {self.page_name(block): page for block, page in put.items()}
        if header is not None:
            named[self.header] = header
        self.pages.commit(named, [self.page_name(block) for block in delete])

    def page_name(self, block: Block) -> str:
        return f"{self.name}/{block[0]}.{block[1]}"

    def _nodes(self, block: Block, count: int, pages: Mapping[str, bytes]) -> Parts:
        name = self.page_name(block)
        page = pages.get(name)
        if page is None:
            raise self._wrong(name, "is missing")
        try:
            level, batch, nodes, runs = _HEAD.unpack_from(page)
            body = _HEAD.size + runs * _RUN.size
            made = [_RUN.unpack_from(page, at) for at in range(_HEAD.size, body, _RUN.size)]
        except struct.error:
            raise self._wrong(name, "is stale") from None
        of_this = (level, batch) == block and nodes >= count
        if not of_this or self._clipped(block, made, count) != self._clipped(
            block, self._runs(block, count), count
        ):
            raise self._wrong(name, "is stale")
        try:
            parts = decode(self.monoid, page[body:])
        except CorruptSnapshot as cause:
            raise StoreError(f"the page {name!r} is damaged: {cause}") from cause
        if len(parts[0]) != nodes:
            raise StoreError(f"the page {name!r} is damaged: it has {len(parts[0])} nodes, not {nodes}")
        return parts

    def _wrong(self, name: str, problem: str) -> StoreError:
        return StoreError(
            f"the page {name!r} {problem}: the store lost a write or returns old bytes; read "
            "from the primary, and let one process at a time use a window"
        )

    def _clipped(self, block: Block, runs: list[Any], count: int) -> list[tuple[int, int]]:
        """Which session made which node, of those that may still be wanted: older ones have left the window."""
        made_at = ((block[1] * self.batch + 2) << block[0]) - 2
        begin = max(0, -((made_at - self.sessions[0][0]) >> block[0]))
        clipped: list[tuple[int, int]] = []
        for node, session in runs:
            if node <= begin:
                clipped = [(begin, session)]
            elif node < count:
                clipped.append((node, session))
        return clipped

    def _runs(self, block: Block, count: int) -> list[tuple[int, int]]:
        """Which session made the first nodes of a batch, and from which node on the next one was at work."""
        level, batch = block
        first = batch * self.batch
        made_at = ((first + 2) << level) - 2  # of the first node; 2 ** level later each that follows
        entry = max(bisect_right(self.sessions, (made_at, 1 << 64)) - 1, 0)
        runs = [(0, self.sessions[entry][1])]
        for position, session in self.sessions[entry + 1 :]:
            node = -((made_at - position) >> level)  # the first that was made at or after the position
            if node >= count:
                break
            if node == runs[-1][0]:
                runs.pop()
            runs.append((node, session))
        return runs


def check_header(image: Any) -> None:
    """The header of a window has the entries that the tree writes."""
    shape = {"query": str, "commits": int, "batch": int, "meta": list, "splits": list, "first": list}
    check_entries(image, {**shape, "sessions": list, "stack": bytes, "result": bytes}, "the window")
    if len(image["meta"]) != 5:
        raise CorruptSnapshot(f"the window has {len(image['meta'])} numbers in 'meta', not 5")
    for number in (*image["meta"], *image["splits"], *image["first"], image["batch"]):
        check_number(number, 0, 1 << 62, "a number of the header")
    head, tail, top, _, depth = image["meta"]
    if head > tail or top > 61 or depth > top + 3:
        raise CorruptSnapshot("the numbers in 'meta' are impossible")
    if image["batch"] < 4 or image["batch"] & (image["batch"] - 1) or image["batch"] > 1 << 30:
        raise CorruptSnapshot("the batch of a window has to be a power of two of at least 4")
    if len(image["splits"]) != 62 or len(image["first"]) != 62:
        raise CorruptSnapshot("'splits' and 'first' have to have 62 numbers")
    older = image.get("older", [])
    if "older" in image:
        if type(older) is not list or len(older) != 62:
            raise CorruptSnapshot("'older' has to have 62 numbers")
        for number in older:
            check_number(number, 0, 1 << 62, "a number of the header")
    between = range(1, image["batch"].bit_length() - 1) if older else range(0)
    for level, split in enumerate(image["splits"][: top + 1]):
        if level in between:  # these levels are not stored; earlier versions did, and 'older' tells how far
            continue
        newest = ((tail + 1) >> level) - 2
        if split % image["batch"] or not split <= newest + 1 <= split + 2 * image["batch"]:
            raise CorruptSnapshot(f"level {level} of the window does not end where the header says")
    if not all(type(pair) is tuple and list(map(type, pair)) == [int, int] for pair in image["sessions"]):
        raise CorruptSnapshot("'sessions' has to be pairs of numbers")
    if not image["sessions"]:
        raise CorruptSnapshot("'sessions' is empty")
