# SPDX-License-Identifier: Apache-2.0
"""AMTA with its window in a store: the O(log n) nodes that an operation touches are local, the rest are pages."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import Any

import numpy as np

from windrow.aggregates.algebra import Aggregate, Monoid, Partial
from windrow.algorithms import amta_runs
from windrow.algorithms.amta import DEPTH, END, LEAVES, R1, TOP, last_of, level_of
from windrow.algorithms.base import TAIL, monoid_of, place, take
from windrow.algorithms.policy import Beginning, cover
from windrow.algorithms.stored_amta import kernels
from windrow.algorithms.stored_amta.kernels import LEVELS, SPLIT
from windrow.algorithms.stored_amta.levels import Levels, runs_of
from windrow.algorithms.stored_amta.nodes import check_header
from windrow.columns.encoding import decode, encode
from windrow.errors import CorruptSnapshot, FingerprintMismatch, StoreError, WindowError
from windrow.kernels.columns.layout import ColumnOutput, Input
from windrow.kernels.columns.lifted import fusible
from windrow.kernels.partials import Parts, allocate
from windrow.storage import snapshot
from windrow.storage.pages import Pages

RUNS = (amta_runs.RUN, 256, amta_runs.LONG)
"""How long runs of rows may be. A page of leaves has a whole number of them."""


class StoredAMTA(Levels):
    """An AMTA window that may be larger than memory.

    ::

        level 1    ab       cd  ef  gh           ij
        level 0    a b      c d e f g h i j      k l
                   cache    in the store         tail

    Every level is a queue in batches of ``batch`` nodes. Local are the two batches around its head, the newest nodes (two
    batches at most), the stack and R₁. The rest is in the store, a page per batch: leaves, and nodes that cover a page of
    leaves or more. The nodes between follow from the leaves, and are made again when a page is read.

    A batch is written when there is no room for newer nodes, and never if it is evicted before. When fewer than
    ``low_water`` nodes of a level are left in the cache, its next batch is read: in the background, if the store has
    ``prefetch``. A bulk eviction reads at most two batches per level, in one request, wherever it ends; the pages that
    it leaves behind are deleted bit by bit with later writes.

    :meth:`commit` makes the state durable. A window on the same pages and of the same name goes on from
    there, whenever its process died; ``inserted`` and ``evicted`` tell how far it had come. Leftovers of a
    crash and stale bytes are recognised, and raise a :class:`StoreError` if they are needed. A call whose
    reading or writing fails has changed nothing and may be repeated, unless the window says that it has to
    be made again.

    - Order: FIFO; range queries by position; window slide policies. Operator: any monoid. The same combines in the same
      grouping as AMTA, and one a leaf more when pages are read; compiled if AMTA is.
    - Local: at most 4 · batch partials for each of log₂ n levels, of 2n.
    - Requests: one write and one read per ``batch`` rows. :meth:`slide` runs over a column as AMTA does, between them.
    - Paper: the MTA Window Framework, section 4.4.1 (Reducing Local Memory Footprint); the sizes are those
      of 4.5.1.

    >>> import windrow as wr
    >>> from windrow.storage.pages import MemoryPages
    >>> pages = MemoryPages()
    >>> window = StoredAMTA(wr.Max(), pages, compiled=False)
    >>> for load in (3.0, 7.0, 5.0):
    ...     window.insert((load,))
    >>> window.commit()
    1
    >>> window = StoredAMTA(wr.Max(), pages, compiled=False)          # as after a crash
    >>> window.enforce(valid=lambda largest: largest[0] < 6)
    2
    >>> len(window), window.query(), window.inserted, window.evicted
    (1, (5.0,), 3, 2)
    """

    def __init__(
        self,
        aggregate: Aggregate | Monoid,
        pages: Pages,
        name: str = "amta",
        *,
        batch: int = 512,
        low_water: int = 256,
        commit: int | None = None,
        compiled: bool = True,
    ) -> None:
        """``commit``: the number of the commit that must be there; if the store returns another, it is
        refused."""
        if batch < 4 or batch & (batch - 1) or not 1 <= low_water <= batch:
            raise WindowError(
                f"StoredAMTA needs a batch that is a power of two of at least 4, and 1 ≤ low_water ≤ batch, not {batch} and {low_water}"
            )
        super().__init__(monoid_of(aggregate), pages, name, batch, low_water, compiled)
        self.commits = 0
        """How many commits the window has behind it, those of earlier processes included."""
        header = self._nodes.open()
        if header is not None:
            self._recover(snapshot.read(header, "AMTA", check=check_header))
        if commit is not None and commit != self.commits:
            raise StoreError(
                f"the store has commit {self.commits} of the window {self.name!r}, not {commit}: it lost a commit or returns old bytes"
            )
        self._nodes.begin_session(self.inserted)

    def insert(self, partial: Partial) -> None:
        """Append a partial as the newest of the window."""
        place(self.monoid, self._slot, 0, partial)
        self._make_room()
        self._make_ready(self.evicted)  # if the leftmost tree grows, the stack is made anew
        self._run(self._kernel.insert, self._slot, 0)

    def evict(self, n: int = 1) -> None:
        """Remove the ``n`` oldest partials."""
        if n < 0 or n > len(self):
            raise WindowError(
                f"StoredAMTA holds {len(self)} partials and cannot evict {n}; evict at most len(window)"
            )
        self._check()
        if n == 0:
            return
        self._make_ready(self.evicted + n)
        if n == 1:
            self._run(self._kernel.evict)
        else:
            self._run(self._kernel.evict_run, n)

    def query(self) -> Partial:
        """The aggregate of the window, from oldest to newest; the identity if it is empty."""
        self._check()
        self._run(self._kernel.query, self._slot, 0)
        return take(self.monoid, self._slot, 0)

    def range_query(self, begin: int, end: int) -> Partial:
        """The aggregate of the partials that were inserted as number ``begin`` up to but without ``end``, counted from 0.

        Those that have left the window do not count. It reads at most two batches per level.
        """
        self._check()
        begin, end = max(begin, self.evicted), min(end, self.inserted)
        if begin >= end:
            return self.monoid.empty()
        nodes = list(cover(begin, end, self._highest))
        self._fetch(nodes)
        found = self._node(*nodes[0])
        for node in nodes[1:]:
            found = self.monoid.combine(found, self._node(*node))
        return found

    def enforce(
        self,
        valid: Callable[[Partial], bool] | None = None,
        evict: Callable[[Partial, Partial, Partial], bool] | None = None,
    ) -> int:
        """Evict what a window slide policy wants to be evicted, as :meth:`windrow.algorithms.tree.Tree.enforce`; how many.

        O(log n) calls, combines and batches that are read.
        """
        search = Beginning(self.monoid.combine, valid, evict)
        if len(self) < 2:
            return 0
        before = self.query()
        if (valid is None or valid(before)) and not (
            evict is not None and evict(self._node(0, self.evicted), self._without_oldest(), before)
        ):
            return 0
        nodes = list(cover(self.evicted, self.inserted - 1, self._highest))
        self._fetch(nodes)
        count = search.find(nodes, self._node, self._node(0, self.inserted - 1), before) - self.evicted
        self._extra = {}
        self.evict(count)
        return count

    def slide(self, columns: tuple[Any, ...], range_: int, out: ColumnOutput) -> None:
        """Insert rows, one by one; when the window has ``range_`` partials, the oldest leaves before each.

        Result r goes to ``out.values[r]``, and ``out.ok[r]`` says whether it is one: there is none before the window is full.
        """
        self._check()
        row, rows, run = 0, len(columns[0]), self._run_length(range_)
        out.ok[:] = False
        scratch, ahead = allocate(self.monoid, 2), allocate(self.monoid, 3 * run)
        in_runs = runs_of(self.monoid, run) if run else None
        while row < rows:
            self._make_room()
            held = len(self)
            self._make_ready(self.evicted + (held >= range_))
            count = min(rows - row, self._room_until - self.inserted)
            if in_runs is None or held < amta_runs.SHORTEST * run or run >> self._top > 1:
                until = rows if in_runs is None else min(rows, row + run)
                row = self._slide_rows(scratch, columns, row, until, range_, out)
            elif held < range_ - 1:
                count = min(count, range_ - 1 - held)
                self._run(in_runs.insert_on, _rows(columns, row, count), count)
                row += count
            elif held == range_:
                count = min(count, self._service_at - 1 - self.evicted)
                places = ColumnOutput(out.values[row : row + count], out.ok[row : row + count])
                self._run(in_runs.slide_on, ahead, _rows(columns, row, count), count, places)
                if self.monoid.defined is None:
                    places.ok[:] = True
                row += count
            else:
                row = self._slide_rows(scratch, columns, row, row + 1, range_, out)

    def _slide_rows(
        self, scratch: Parts, columns: tuple[Any, ...], row: int, until: int, range_: int, out: ColumnOutput
    ) -> int:
        """Row by row, as far as no node has to be read or written; the row that is next."""
        stop = np.array([until, self._room_until, self._service_at - 1], dtype=np.int64)
        return int(self._run(self._kernel.run, scratch, columns, row, range_, out, stop))

    def _run_length(self, range_: int) -> int:
        """How long the runs of a window of so many rows are; 0 if it is slid row by row."""
        if not (self.compiled and fusible(self.monoid)):
            return 0
        fit = [run for run in RUNS if run <= self.batch and amta_runs.SHORTEST * run <= range_]
        return max(fit, default=0)

    @property
    def nbytes(self) -> int:
        """The size of the arrays that hold local partials."""
        return sum(int(part.nbytes) for parts in self._state[1:] for part in parts)

    def commit(self) -> int:
        """Make the state durable, in one atomic write: the newest nodes, and a small header. Returns the
        commit's number."""
        self._check()
        self._nodes.forget_sessions(self.evicted)
        put, written = {}, list(self._written)
        for level in self._stored(self._top + 1):
            newest = last_of(self.inserted, level) + 1
            begin = max(written[level], self._splits[level])
            if newest > begin:
                for block in range(begin // self.batch, -(-newest // self.batch)):
                    put[level, block] = self._page(level, block, newest)
                written[level] = newest
        first, delete = self._swept(self.evicted)
        self._nodes.commit(put, self._header(self.commits + 1, first), delete)
        self._written, self._first, self._committed = written, first, self.evicted
        self._behind = True
        self.commits += 1
        return self.commits

    def sweep(self) -> None:
        """Delete all pages of partials that were evicted before the last commit, now."""
        self._check()
        while (swept := self._swept(self._committed))[1]:
            self._nodes.commit({}, None, swept[1])
            self._first = swept[0]

    def _without_oldest(self) -> Partial:
        """The aggregate of the window without its oldest partial: the stack has what follows the node that begins with it."""
        meta, _, stack, result = self._state
        parts = [take(self.monoid, result, R1)] if meta[END] < meta[TAIL] else []
        if meta[DEPTH] > 1:
            parts.append(take(self.monoid, stack, int(meta[DEPTH]) - 2))
        for level in range(level_of(self.evicted, self._top) - 1, -1, -1):
            parts.append(self._node(level, (self.evicted >> level) + 1))
        return reduce(lambda newer, older: self.monoid.combine(older, newer), parts)

    def _run(self, kernel: Callable[..., Any], *arguments: Any) -> Any:
        try:
            return kernel(self._state, *arguments)
        except BaseException:
            self._broken = True
            raise

    # What is written, and read again.

    def _header(self, commit: int, first: list[int]) -> bytes:
        meta, _, stack, result = self._state
        image = {
            "query": self._described(),
            "commits": commit,
            "batch": self.batch,
            "meta": meta[:LEAVES].tolist(),
            "splits": self._splits,
            "first": first,
            "older": [0, *self._written[1 : self._whole], *[0] * (LEVELS - self._whole)],
            "sessions": self._nodes.sessions,
            "stack": encode(self.monoid, stack, 0, int(meta[DEPTH])),
            "result": encode(self.monoid, result, 0, 1),
        }
        return snapshot.write(image, "AMTA")

    def _recover(self, image: dict[str, Any]) -> None:
        if (image["query"], image["batch"]) != (self._described(), self.batch):
            raise FingerprintMismatch(
                f"the window {self.name!r} in the store aggregates {image['query']} in batches of {image['batch']}, not "
                f"{self._described()} in batches of {self.batch}; use the same aggregate and batch, or another name"
            )
        self.commits = image["commits"]
        self._nodes.resume(image["sessions"])
        meta = self._state[0]
        meta[:LEAVES], meta[SPLIT:] = image["meta"], image["splits"]
        self._splits, self._first, self._behind = list(image["splits"]), list(image["first"]), True
        self._keep_above(self._splits[0])
        meta[SPLIT:] = self._splits
        self._committed = self.evicted
        self._reserve()
        meta, forest, stack, result = self._state
        wanted, older = {}, image.get("older")
        for level in range(LEVELS):
            split = image["splits"][level]
            newest = last_of(self.inserted, level) + 1 if level <= self._top else split
            if 0 < level < self._whole:  # earlier versions wrote these levels too; the pages are only deleted
                self._written[level] = (
                    max(split, -(-newest // self.batch) * self.batch) if older is None else older[level]
                )
                continue
            self._written[level] = max(split, newest)
            for block in range(
                (split if level else max(0, split - 2 * self.batch)) // self.batch, -(-newest // self.batch)
            ):
                if (block + 1) * self.batch > self.evicted >> level and len(self):
                    wanted[level, block] = min(newest - block * self.batch, self.batch)
        for (level, block), parts in self._nodes.read(wanted).items():
            begin, count = int(kernels.at(meta, level, block * self.batch)), wanted[level, block]
            for source, target in zip(parts, forest, strict=True):
                target[begin : begin + count] = source[:count]
        for level in range(1, min(self._top + 1, self._whole)):
            for node in range(
                max(self._splits[level], self.evicted >> level), last_of(self.inserted, level) + 1
            ):
                self._kernel.raise_pair(meta, forest, level, node)
        held, others = decode(self.monoid, image["stack"]), decode(self.monoid, image["result"])
        if len(others[0]) == 2:
            held, others = self._with_first_result(held, others)
        for target, source, count in ((stack, held, int(meta[DEPTH])), (result, others, 1)):
            if len(source[0]) != count:
                raise CorruptSnapshot("the stack or the result of the window does not have its length")
            for part, into in zip(source, target, strict=True):
                into[:count] = part

    def _with_first_result(self, held: Parts, results: Parts) -> tuple[Parts, Parts]:
        """R₀ was beside the stack in earlier versions, and the node that it begins with was taken apart already."""
        meta = self._state[0]
        level = 0
        while level < meta[TOP] and self.evicted & (1 << level) == 0:
            level += 1
        stay = max(len(held[0]) - level, 0)
        meta[DEPTH] = stay + 1 if len(self) else 0
        joined = tuple(
            np.concatenate([a[:stay], b[:1]])[: meta[DEPTH]] for a, b in zip(held, results, strict=True)
        )
        return joined, tuple(part[1:] for part in results)

    def _described(self) -> str:
        fields = self.monoid.fields
        if fields is None:
            return f"{self.monoid.name} (objects)"
        return f"{self.monoid.name} ({', '.join(f'{f.name} {f.dtype} {f.width}' for f in fields)})"


def _rows(columns: tuple[Any, ...], begin: int, count: int) -> Input:
    """So many rows of the columns, none of which is null."""
    return Input(tuple(column[begin : begin + count] for column in columns), np.ones(0, dtype=np.bool_))
