# SPDX-License-Identifier: Apache-2.0
"""The levels of a stored tree: which nodes are local, which are written, and which have to be read.

Leaves are stored, and nodes that cover a page of leaves or more. The levels between follow from the leaves: they are made
again when a page is read. So about one node for each row is written and read, not two.
"""

from __future__ import annotations

from functools import lru_cache
from types import SimpleNamespace
from typing import Any

import numpy as np

from windrow.aggregates.algebra import Monoid, Partial
from windrow.algorithms import amta, amta_runs
from windrow.algorithms.amta import LEAVES, TOP, last_of
from windrow.algorithms.base import HEAD, TAIL, take
from windrow.algorithms.stored_amta import kernels
from windrow.algorithms.stored_amta.kernels import LEVELS, SPLIT
from windrow.algorithms.stored_amta.nodes import Block, NodePages
from windrow.errors import StoreError
from windrow.kernels.columns.lifted import row_slots
from windrow.kernels.partials import Parts, allocate, slots
from windrow.kernels.specialise import specialise
from windrow.storage.pages import Pages

SWEPT = 4096
"""How many pages one write deletes at most."""
NEVER = 1 << 62


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
        self._above_full_at = self._above_at = 0  # and without a look at the levels above the leaves
        self._above_top = 0  # the highest level when they were looked at
        self._first = [0] * LEVELS  # the first batch of each level that was not deleted
        self._written = [0] * LEVELS  # how many nodes of each level are in the store
        self._behind = False  # whether there are pages to delete
        self._committed = 0  # the head at the last commit
        self._broken = False
        self._full = (
            2 * batch - batch // 4
        )  # other levels are written when they have so many nodes, together with the lowest
        self._whole = batch.bit_length() - 1  # the level whose nodes cover a page of leaves each
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

    def _stored(self, levels: int) -> list[int]:
        """The lowest levels, without those that are made again from the leaves."""
        return [0, *range(self._whole, levels)]

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
        above = self.inserted >= self._above_full_at
        for level in self._stored(self._levels) if above else (0,):
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
        if above:
            self._above_at = 0
            full_at = (
                ((self._splits[level] + self._full + 2) << level) - 2
                for level in range(self._whole, self._levels)
            )
            self._above_full_at = min(full_at, default=NEVER)
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
        return min(most, self._splits[0] + 2 * self.batch, self._above_full_at)

    def _turn(self, level: int, split: int) -> None:
        """What is before a node was written, or evicted. The last batch of it goes to the cache if the head is near."""
        block, near = split // self.batch - 1, (self.evicted >> level) // self.batch
        if near == block or (near == block - 1 and self._cached[level][1] == block):
            ring = 2 * self.batch
            source = 2 * ring * level + ring + ((block * self.batch) & (ring - 1))
            self._cache((level, block), tuple(part[source : source + self.batch] for part in self._state[1]))
        self._splits[level] = split
        self._written[level] = max(self._written[level], split)
        if level == 0:
            self._keep_above(split)
        self._state[0][SPLIT:] = self._splits

    def _keep_above(self, split: int) -> None:
        """Of the levels that are not stored, the newest nodes are local that a node to come may be made of."""
        for level in range(1, self._whole):
            self._splits[level] = max(0, split - 2 * self.batch) >> level

    def _make_ready(self, head: int) -> None:
        """Make local what an operation that sets the head to this position needs. Called before the operation
        changes anything, so that a failed read leaves the window as it was.
        """
        if head < self._service_at and head <= self.evicted + 1:
            return
        wanted: dict[Block, int] = {}
        soon: list[Block] = []
        above = head >= self._above_at or head > self.evicted + 1 or self._top != self._above_top
        levels = self._stored(self._top + 1) if above else [0]
        for level in levels:
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
        if wanted:
            for found, parts in self._nodes.read(wanted).items():
                self._cache(found, parts)
            self._asked.difference_update(wanted)
        if above:
            self._above_top = self._top
            self._above_at = min((self._low_at(level, head) for level in levels[1:]), default=NEVER)
        self._service_at = min(self._low_at(0, head), self._above_at)

    def _low_at(self, level: int, head: int) -> int:
        """The position of the head at which a level needs a batch, or is asked for it early."""
        end = self._cached[level][1]
        if max(end * self.batch, head >> level) >= self._splits[level]:  # nothing more is in the store
            return NEVER
        asked = (level, end) in self._asked
        return (end * self.batch - (1 if asked else self.low_water)) << level

    def _cache(self, block: Block, parts: Parts) -> None:
        level, number = block
        ring = 2 * self.batch
        at = 2 * ring * level + ((number * self.batch) & (ring - 1))
        for source, target in zip(parts, self._state[1], strict=True):
            target[at : at + self.batch] = source[: self.batch]
        if level == 0:
            self._kernel.raise_cached(self._state[1], self.batch, number)
        begin, end = self._cached[level]
        self._cached[level] = (max(begin, number - 1) if begin < end == number else number), number + 1

    def _node(self, level: int, index: int) -> Partial:
        """The partial of any node of the window."""
        block = self._block(level, index)
        begin, end = self._cached[block[0]]
        if index >= self._splits[level] or begin <= block[1] < end:
            return take(self.monoid, self._state[1], int(kernels.at(self._state[0], level, index)))
        if block not in self._extra:
            self._read_extra({block: self.batch})
        above = 0 if block[0] == level else 2 * self.batch - (2 * self.batch >> level)
        return take(
            self.monoid, self._extra[block], above + (index & ((self.batch >> (level - block[0])) - 1))
        )

    def _block(self, level: int, index: int) -> Block:
        """The page that a node is in, or that it is made from."""
        if 0 < level < self._whole:
            return 0, (index << level) // self.batch
        return level, index // self.batch

    def _fetch(self, nodes: list[tuple[int, int]]) -> None:
        """Read the batches of nodes that are not local, in one request."""
        self._extra = {}
        wanted = {}
        for level, index in nodes:
            block = self._block(level, index)
            begin, end = self._cached[block[0]]
            if index < self._splits[level] and not begin <= block[1] < end:
                wanted[block] = self.batch
        self._read_extra(wanted)

    def _read_extra(self, wanted: dict[Block, int]) -> None:
        """Read batches for a search; of leaves, the nodes above them are made too, after the leaves."""
        for block, parts in self._nodes.read(wanted).items():
            if block[0] == 0:
                leaves, parts = parts, allocate(self.monoid, 2 * self.batch)
                for source, target in zip(leaves, parts, strict=True):
                    target[: self.batch] = source[: self.batch]
                self._kernel.raise_alone(parts, self.batch)
            self._extra[block] = parts

    def _reserve(self) -> None:
        """Room for more levels than there are, and their stack."""
        meta, forest, stack, result = self._state
        levels = max(len(self).bit_length() + 4, 6, self._whole)
        if self._levels < levels:
            self._above_full_at = 0
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


@lru_cache(maxsize=256)
def _specialised(monoid: Monoid, compiled: bool) -> SimpleNamespace:
    """AMTA's operations on the rings of :mod:`windrow.algorithms.stored_amta.kernels`, and the loop over rows."""
    seam = slots(monoid)
    tree = specialise(amta, {**seam, "at": kernels.at}, compiled=compiled)
    names = ("insert", "evict", "query")
    bound = {name: getattr(tree, name).compiled if compiled else getattr(tree, name) for name in names}
    return SimpleNamespace(
        **{**vars(tree), **vars(specialise(kernels, {**seam, **bound}, compiled=compiled))}
    )


@lru_cache(maxsize=256)
def runs_of(monoid: Monoid, run: int) -> SimpleNamespace:
    """The loops of :mod:`windrow.algorithms.amta_runs` on these rings, in runs of so many rows."""
    tree = _specialised(monoid, True)
    names = ("evict_run", "grow_left", "compute_left_result", "compute_right_result")
    seam = {**row_slots(monoid, False), "RUN": run, "SELECTIVE": monoid.selective}
    seam |= {"at": kernels.at, "ring": kernels.ring}
    return specialise(amta_runs, {**seam, **{name: getattr(tree, name).compiled for name in names}})
