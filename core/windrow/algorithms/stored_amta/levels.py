# SPDX-License-Identifier: Apache-2.0
"""The levels of a stored tree: which nodes are local, which are written, and which have to be read."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np

from windrow.aggregates.algebra import Monoid, Partial
from windrow.algorithms import amta
from windrow.algorithms.amta import LEAVES, TOP, last_of
from windrow.algorithms.base import HEAD, TAIL, take
from windrow.algorithms.stored_amta import kernels
from windrow.algorithms.stored_amta.kernels import LEVELS, SPLIT
from windrow.algorithms.stored_amta.nodes import Block, NodePages
from windrow.errors import StoreError
from windrow.kernels.partials import Parts, allocate, slots
from windrow.kernels.specialise import specialise
from windrow.storage.pages import Pages

SWEPT = 4096
"""How many pages one write deletes at most."""


class Levels:
    """The local part of a tree, and its requests to the store. What is done with it is in :class:`StoredAMTA`."""

    def __init__(
        self, monoid: Monoid, pages: Pages, name: str, batch: int, low_water: int, compiled: bool
    ) -> None:
        self.monoid, self.name = monoid, name
        self.batch, self.low_water = batch, low_water
        self.compiled = compiled and self.monoid.typed
        self._kernel = _specialised(self.monoid, self.compiled)
        self._slot = allocate(self.monoid, 1)
        meta = np.zeros(SPLIT + LEVELS, dtype=np.int64)
        meta[LEAVES] = 2 * batch
        self._state: tuple[Any, ...] = (meta, *(allocate(self.monoid, size) for size in (0, 8, 1)))
        self._splits = [0] * LEVELS  # as in the meta data
        self._cached = [(0, 0)] * LEVELS  # of each level, from which batch to which
        self._asked: set[Block] = set()
        self._ahead = hasattr(pages, "prefetch")
        self._extra: dict[Block, Parts] = {}  # what a search or a range query has read
        self._room_until = self._service_at = (
            0  # so far rows may be inserted and evicted without a look at the levels
        )
        self._first = [0] * LEVELS  # the first batch of each level that was not deleted
        self._written = [0] * LEVELS  # how many nodes of each level are in the store
        self._behind = False  # whether there are pages to delete
        self._committed = 0  # the head at the last commit
        self._broken = False
        self._full = (
            2 * batch - batch // 4
        )  # other levels are written when they have so many nodes, together with the lowest
        self._nodes = NodePages(self.monoid, pages, name, batch)
        self._reserve()

    def __len__(self) -> int:
        return self.inserted - self.evicted

    @property
    def inserted(self) -> int:
        """How many partials were ever inserted."""
        return int(self._state[0][TAIL])

    @property
    def evicted(self) -> int:
        """How many partials were ever evicted."""
        return int(self._state[0][HEAD])

    @property
    def _top(self) -> int:
        return int(self._state[0][TOP])

    @property
    def _levels(self) -> int:
        return len(self._state[1][0]) // (4 * self.batch)

    def _highest(self, begin: int) -> int:
        """The highest level at which the node that begins at a position is there."""
        level = self._top
        while level and begin >> level > last_of(self.inserted, level):
            level -= 1
        return level

    def _make_room(self) -> None:
        """Before an insertion: write the batches of levels that are full, and of those that soon will be."""
        self._check()
        if self.inserted < self._room_until:
            return
        self._reserve()
        put: dict[Block, bytes] = {}
        full: dict[int, int] = {}
        for level in range(self._levels):
            split = self._skipped(level)
            if last_of(self.inserted + 1, level) >= split + self._full:
                block, split = split // self.batch, split + self.batch
                if self._written[level] < split:
                    put[level, block] = self._page(level, block, split)
            if split > self._splits[level]:
                full[level] = split
        first, delete = self._swept(self._committed)
        if put or delete:
            self._nodes.commit(put, None, delete)
        self._first, self._service_at = first, 0
        for level, split in full.items():
            self._turn(level, split)
        self._room_until = self._tail_limit()

    def _skipped(self, level: int) -> int:
        """From which node on a level is not in the store, without the batches that nobody will want."""
        split, live = self._splits[level], (self.evicted >> level) // self.batch * self.batch
        if live <= split:
            return split
        return max(split, min(live, (last_of(self.inserted, level) + 1) // self.batch * self.batch))

    def _tail_limit(self) -> int:
        """The first position that cannot be inserted: a level has no room, or the window no level."""
        most = self.evicted + (1 << (self._levels - 3))
        for level in range(self._levels):
            room = self._splits[level] + 2 * self.batch + 2
            most = min(most, (room << level) - 2)
        return most

    def _turn(self, level: int, split: int) -> None:
        """What is before a node was written, or evicted. The last batch of it goes to the cache if the head is near."""
        block, near = split // self.batch - 1, (self.evicted >> level) // self.batch
        begin, end = self._cached[level]
        if near == block or (near == block - 1 and end == block):
            ring = 2 * self.batch
            source = 2 * ring * level + ring + ((block * self.batch) & (ring - 1))
            for part in self._state[1]:
                part[source - ring : source - ring + self.batch] = part[source : source + self.batch]
            self._cached[level] = (max(begin, block - 1) if begin < end == block else block), block + 1
        self._splits[level] = split
        self._state[0][SPLIT + level] = split
        self._written[level] = max(self._written[level], split)

    def _make_ready(self, head: int) -> None:
        """Make local what an operation that sets the head to this position needs. Called before the operation
        changes anything, so that a failed read leaves the window as it was.
        """
        if head < self._service_at and head <= self.evicted + 1:
            return
        wanted: dict[Block, int] = {}
        soon: list[Block] = []
        for level in range(self._top + 1):
            node, written = head >> level, self._splits[level]
            if node >= written:
                continue
            written, (begin, end) = written // self.batch, self._cached[level]
            block, following = node // self.batch, (node + 1) // self.batch
            for needed in range(block, min(following + 1, written)):
                if not begin <= needed < end:
                    wanted[level, needed] = self.batch
            near = (block + 1) * self.batch - node <= self.low_water
            if near and following == block and block + 1 < written and end <= block + 1:
                soon += [] if (level, block + 1) in self._asked else [(level, block + 1)]
        if soon and self._ahead:
            self._nodes.prefetch(soon)
            self._asked.update(soon)
        else:
            wanted.update(dict.fromkeys(soon, self.batch))
        for found, parts in self._nodes.read(wanted).items():
            self._cache(found, parts)
        self._asked.difference_update(wanted)
        self._service_at = min(self._low_at(level, head) for level in range(self._top + 1))

    def _low_at(self, level: int, head: int) -> int:
        """The position of the head at which a level needs a batch. The lowest level is asked early, and the others with it."""
        end = self._cached[level][1]
        if max(end * self.batch, head >> level) >= self._splits[level]:  # nothing more is in the store
            return 1 << 62
        asked = level > 0 or (level, end) in self._asked
        return (end * self.batch - (1 if asked else self.low_water)) << level

    def _cache(self, block: Block, parts: Parts) -> None:
        level, number = block
        ring = 2 * self.batch
        at = 2 * ring * level + ((number * self.batch) & (ring - 1))
        for source, target in zip(parts, self._state[1], strict=True):
            target[at : at + self.batch] = source[: self.batch]
        begin, end = self._cached[level]
        self._cached[level] = (max(begin, number - 1) if begin < end == number else number), number + 1

    def _node(self, level: int, index: int) -> Partial:
        """The partial of any node of the window."""
        begin, end = self._cached[level]
        if index >= self._splits[level] or begin <= index // self.batch < end:
            return take(self.monoid, self._state[1], int(kernels.at(self._state[0], level, index)))
        block = (level, index // self.batch)
        if block not in self._extra:
            self._extra.update(self._nodes.read({block: self.batch}))
        return take(self.monoid, self._extra[block], index % self.batch)

    def _fetch(self, nodes: list[tuple[int, int]]) -> None:
        """Read the batches of nodes that are not local, in one request."""
        self._extra = {}
        wanted = {}
        for level, index in nodes:
            begin, end = self._cached[level]
            if index < self._splits[level] and not begin <= index // self.batch < end:
                wanted[level, index // self.batch] = self.batch
        self._extra.update(self._nodes.read(wanted))

    def _reserve(self) -> None:
        """Room for more levels than there are, and their stack."""
        meta, forest, stack, result = self._state
        levels = max(len(self).bit_length() + 4, 6)
        if self._levels < levels:
            forest = self._resized(forest, levels * 4 * self.batch)
            stack = self._resized(stack, 2 * levels)
        self._state = (meta, forest, stack, result)

    def _resized(self, parts: Parts, size: int) -> Parts:
        bigger = allocate(self.monoid, size)
        for source, target in zip(parts, bigger, strict=True):
            target[: len(source)] = source
        return bigger

    def _check(self) -> None:
        if self._broken:
            raise StoreError(
                f"the window {self.name!r} failed in the middle of an operation: open it again with the same pages and "
                "name, and it continues from its last commit"
            )

    def _page(self, level: int, block: int, newest: int) -> bytes:
        """The page of a batch, up to but without a node."""
        ring = 2 * self.batch
        begin = 2 * ring * level + ring + ((block * self.batch) & (ring - 1))
        count = min(newest - block * self.batch, self.batch)
        return self._nodes.written(
            (level, block), tuple(p[begin : begin + count] for p in self._state[1]), count
        )

    def _swept(self, evicted: int) -> tuple[list[int], list[Block]]:
        """The first batch of each level after some of those before a position are deleted; and these."""
        first, gone = list(self._first), list[Block]()
        if self._behind or evicted > self._committed:
            for level in range(LEVELS):
                end = min(evicted >> level, self._written[level]) // self.batch
                stop = min(end, first[level] + SWEPT - len(gone))
                gone.extend((level, block) for block in range(first[level], stop))
                first[level] = max(first[level], stop)
        self._behind = len(gone) > 0
        return first, gone


def _specialised(monoid: Monoid, compiled: bool) -> SimpleNamespace:
    """AMTA's operations on the rings of :mod:`windrow.algorithms.stored_amta.kernels`, and the loop over rows."""
    seam = slots(monoid)
    tree = specialise(amta, {**seam, "at": kernels.at}, compiled=compiled)
    names = ("insert", "evict", "query")
    bound = {name: getattr(tree, name).compiled if compiled else getattr(tree, name) for name in names}
    return SimpleNamespace(**vars(tree), run=specialise(kernels, {**seam, **bound}, compiled=compiled).run)
