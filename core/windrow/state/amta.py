"""AMTA with its window in a store: what an operation touches is local, O(log n), the rest are pages."""

from __future__ import annotations

import os
import struct
from bisect import bisect_right
from collections.abc import Iterable, Mapping
from typing import Any

from windrow.aggregates.algebra import Aggregate, Monoid, Partial
from windrow.aggregates.encoding import decode, encode
from windrow.algorithms import amta
from windrow.algorithms.amta import DEPTH, TOP, last_of
from windrow.algorithms.base import HEAD, TAIL, monoid_of, place, take
from windrow.errors import CorruptSnapshot, FingerprintMismatch, StoreError, WindowError
from windrow.kernels.slots import Parts, allocate, slots
from windrow.kernels.specialise import specialise
from windrow.state import snapshot
from windrow.state.pages import HEADER, Pages

Node = tuple[int, int]
"""A level and an index in it, as in :class:`windrow.algorithms.amta.AMTA`."""

_PAGE = struct.Struct("<QBQ")  # session, level, index; the partial follows


class StoredAMTA:
    """An AMTA window that may be larger than memory: each node of a level is a page, ``name/level.index``.

    ::

        level 1    ab [ cd  ef  gh ] ij                 local: tails (the last pair of each level), stack, R₀ and R₁,
        level 0    a b [c d e f g h i j] k l               the nodes above the next ``cache`` positions
                   cache   in the store   tails         in the store: what lies between

    A node that leaves the tails waits in the buffer; ``buffer`` of them are written at once, and never if they are evicted
    before. When fewer than ``low_water`` positions are left in the cache, the nodes above the next ones are
    read at once: in the background, if the store has ``prefetch``. A bulk eviction reads two nodes per level in one request,
    wherever it ends; what it leaves behind is deleted bit by bit with later writes.

    :meth:`commit` makes the state durable. A window on the same pages and name goes on from there, whenever its
    process died; ``inserted`` and ``evicted`` tell how far it had come. Pages carry the session that made them, so that
    leftovers of a crash and stale bytes are recognised: a :class:`StoreError`, never a wrong answer.
    After an error inside an operation the window refuses to go on; make it again.

    - Order and operator: FIFO, any monoid; the same combines in the same grouping as AMTA, interpreted.
    - Local: at most 5 log₂ n + 2 cache + buffer partials, of 2n.
    - Requests: at most one write per ``buffer`` nodes, one read per ``cache - low_water`` evictions.
    - Paper: the MTA Window Framework, section 4.4.1 (Reducing Local Memory Footprint), and 4.5.1 for the sizes.

    >>> import windrow as wr
    >>> from windrow.state.pages import MemoryPages
    >>> pages = MemoryPages()
    >>> window = StoredAMTA(wr.Max(), pages)
    >>> for load in (3.0, 7.0, 5.0):
    ...     window.insert((load,))
    >>> window.commit()
    1
    >>> window = StoredAMTA(wr.Max(), pages)          # as after a crash
    >>> window.evict(2)
    >>> len(window), window.query(), window.inserted, window.evicted
    (1, (5.0,), 3, 2)
    """

    def __init__(
        self,
        aggregate: Aggregate | Monoid,
        pages: Pages,
        name: str = "amta",
        *,
        buffer: int = 512,
        cache: int = 512,
        low_water: int = 256,
        commit: int | None = None,
    ) -> None:
        """``commit``: the number of the commit that has to be there; an older one, of a stale store, is refused."""
        if not 1 <= low_water <= cache or buffer < 1:
            raise WindowError(
                f"StoredAMTA needs buffer ≥ 1 and 1 ≤ low_water ≤ cache, not {buffer}, {low_water} and {cache}"
            )
        self.monoid = monoid_of(aggregate)
        self.name, self.buffer, self.cache, self.low_water = name, buffer, cache, low_water
        self.commits = 0
        """How many commits the window has behind it, those of earlier processes included."""
        self._pages = pages
        self._kernel = specialise(amta, {**slots(self.monoid), "at": self._at}, compiled=False)
        self._slot = allocate(self.monoid, 1)
        self._state: tuple[Any, ...] = (
            [0, 0, 0, 0, 0],
            allocate(self.monoid, 64),
            allocate(self.monoid, 8),
            allocate(self.monoid, 2),
        )
        self._table: dict[Node, int] = {}  # where the local nodes are in the forest's arrays
        self._free = list(range(64))
        self._tails: dict[Node, None] = {}  # local only: go into the header
        self._waiting: dict[Node, None] = {}  # the buffer: local only, go into pages of their own
        self._swept: list[int] = []  # per level, nodes before this one are deleted
        self._sessions: list[tuple[int, int]] = []  # from which position on, which session made the nodes
        self._committed = 0  # the head at the last commit
        self._cached = self._horizon = 0  # nodes above positions before these are local, or asked for
        self._asked: list[Node] = []
        self._broken = False
        header = pages.get([self._page_name()]).get(self._page_name())
        self._recover(header, commit)
        self._sessions = [entry for entry in self._sessions if entry[0] < self.inserted]
        self._sessions.append((self.inserted, int.from_bytes(os.urandom(8), "little")))

    def insert(self, partial: Partial) -> None:
        """Append a partial as the newest of the window."""
        self._begin()
        place(self.monoid, self._slot, 0, partial)
        if len(self._waiting) >= self.buffer:
            self._write({})
        made = self._next_nodes()
        self._reserve(len(made))
        for node in made:
            self._table[node] = self._free.pop()
        self._run("insert", self._slot, 0)
        for level, index in made:
            self._tails[level, index] = None
            if index & 1 == 0:  # a new pair: the one before it is no tail any more
                for left in ((level, index - 2), (level, index - 1)):
                    if left in self._tails:
                        del self._tails[left]
                        self._waiting[left] = None

    def evict(self, n: int = 1) -> None:
        """Remove the ``n`` oldest partials."""
        if n < 0 or n > len(self):
            raise WindowError(
                f"StoredAMTA holds {len(self)} partials and cannot evict {n}; evict at most len(window)"
            )
        if n == 0:
            return
        before = self.evicted
        self._begin(before + n)
        self._run("evict_many", n)
        if n == 1:
            level = 0
            while (before + 1) >> level << level == before + 1:  # the nodes that end here
                self._drop((level, before >> level))
                level += 1
                if level > self._state[0][TOP] + 1:
                    break
        else:
            head = self.evicted
            for level, index in [node for node in self._table if node[1] < head >> node[0]]:
                self._drop((level, index))

    def query(self) -> Partial:
        """The aggregate of the window, from oldest to newest; the identity if it is empty."""
        self._begin()
        self._run("query", self._slot, 0)
        return take(self.monoid, self._slot, 0)

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
    def partials(self) -> int:
        """How many partials are local at this moment."""
        return len(self._table) + int(self._state[0][DEPTH]) + 2

    def commit(self) -> int:
        """Make the state durable, in one atomic write: the buffer, and a header of O(log n). Returns the commit's number."""
        self._begin()
        head = self.evicted
        while len(self._sessions) > 1 and self._sessions[1][0] <= head:
            del self._sessions[0]
        committed, self._committed = self._committed, head
        try:
            self._write({"commits": self.commits + 1})
        except BaseException:
            self._committed = committed
            raise
        self.commits += 1
        return self.commits

    def sweep(self) -> None:
        """Delete all pages of evicted nodes now, instead of bit by bit."""
        while not self._swept_to(self._committed):
            self._write({})

    # Local and stored nodes.

    def _at(self, _: int, level: int, index: int) -> int:
        """Where a node is locally; stands in for the array arithmetic of AMTA's kernels."""
        node = (level, index)
        if node not in self._table:
            self._load([node], self._pages.get([self._page_name(node)]), needed=True)
        return self._table[node]

    def _begin(self, head: int | None = None) -> None:
        """All reads that an operation needs, before it changes anything. ``head``: where it will set the head."""
        if self._broken:
            raise StoreError(
                f"the window {self.name!r} failed in the middle of an operation; make a new StoredAMTA on the same pages: "
                "it goes on from the last commit"
            )
        old, head = self.evicted, self.evicted if head is None else head
        self._reserve(0)
        if head > old and self._asked and head + 1 >= self._cached and head < self._horizon:
            names = [self._page_name(node) for node in self._asked]
            self._arrive(self._pages.get(names))
        if head >= self._cached:  # also: the first operation after recovery, and bulk evictions
            self._asked, self._horizon = [], head + 1
            self._ask(head, head)
            if self._asked:
                self._arrive(self._pages.get([self._page_name(node) for node in self._asked]))
            self._cached = self._horizon
        elif head == old + 1 and not self._asked and self._cached - head < self.low_water:
            self._horizon = head + self.cache
            self._ask(head, self._cached)
            names = [self._page_name(node) for node in self._asked]
            if not names:
                self._cached = self._horizon
            elif hasattr(self._pages, "prefetch"):
                self._pages.prefetch(names)
            else:
                self._arrive(self._pages.get(names))

    def _ask(self, head: int, begin: int) -> None:
        """Find the nodes above the positions from ``begin`` up to the horizon that are not local."""
        tail = self.inserted
        self._asked = [
            (level, index)
            for level in range(self._state[0][TOP] + 1)
            for index in range(
                max(begin, head) >> level, min((self._horizon - 1) >> level | 1, last_of(tail, level)) + 1
            )
            if (level, index) not in self._table
        ]

    def _arrive(self, pages: Mapping[str, bytes]) -> None:
        asked, self._asked, self._cached = self._asked, [], self._horizon
        self._load(asked, pages)

    def _load(self, nodes: Iterable[Node], pages: Mapping[str, bytes], needed: bool = False) -> None:
        """Make nodes local. Nodes that are read ahead may turn out to be missing or a crash's leftovers; needed ones not."""
        for node in nodes:
            level, index = node
            if node in self._table or index < self.evicted >> level:
                continue
            page = pages.get(self._page_name(node))
            if page is None or len(page) < _PAGE.size or _PAGE.unpack_from(page) != (self._maker(node), *node):
                if needed:
                    problem = "is missing" if page is None else "is stale or of another window"
                    raise StoreError(
                        f"the page {self._page_name(node)!r} {problem}: the store lost a write or returns old bytes; read from the "
                        "primary, and let one process at a time use a window"
                    )
                continue
            try:
                parts = decode(self.monoid, page[_PAGE.size :])
            except CorruptSnapshot as cause:
                raise StoreError(f"the page {self._page_name(node)!r} is damaged: {cause}") from cause
            if not self._free:
                self._reserve(1)
            slot = self._free.pop()
            for source, target in zip(parts, self._state[1], strict=True):
                target[slot] = source[0]
            self._table[node] = slot

    def _drop(self, node: Node) -> None:
        slot = self._table.pop(node, None)
        if slot is not None:
            self._free.append(slot)
            self._tails.pop(node, None)
            self._waiting.pop(node, None)

    def _next_nodes(self) -> list[Node]:
        """The nodes that the next insertion makes: a leaf, and a carry up the levels."""
        head, tail, top = self._state[0][HEAD], self._state[0][TAIL], self._state[0][TOP]
        made, level = [(0, tail)], 1
        while head < tail and level <= top + 1 and (tail + 2) & ((1 << level) - 1) == 0:
            index = last_of(tail + 1, level)
            if index < head >> level:
                break
            made.append((level, index))
            level += 1
        return made

    def _reserve(self, more: int) -> None:
        """Room for an operation, which must not move the arrays that it works on."""
        meta, forest, stack, result = self._state
        levels = meta[TOP] + 3
        if len(stack[0]) < levels:
            stack = self._resized(stack, 2 * levels)
        if len(self._free) < more + 3 * levels:
            size = len(forest[0])
            self._free.extend(range(size, 2 * size))
            forest = self._resized(forest, 2 * size)
        self._state = (meta, forest, stack, result)

    def _resized(self, parts: Parts, size: int) -> Parts:
        bigger = allocate(self.monoid, size)
        for source, target in zip(parts, bigger, strict=True):
            target[: len(source)] = source
        return bigger

    def _run(self, operation: str, *arguments: Any) -> None:
        try:
            getattr(self._kernel, operation)(self._state, *arguments)
        except BaseException:
            self._broken = True
            raise

    # The store.

    def _write(self, header: dict[str, Any]) -> None:
        """Write the buffer, delete a part of what is evicted, and with it the header, if this is a commit."""
        put = {self._page_name(node): self._page(node) for node in self._waiting}
        swept, delete = self._sweep(4 * self.buffer + 2 * len(put))
        if header:
            put[self._page_name()] = self._header({**header, "swept": swept})
        self._pages.commit(put, delete)
        self._swept = swept
        written, self._waiting = self._waiting, {}
        for level, index in written:
            if index > (self._horizon - 1) >> level | 1:
                self._drop((level, index))

    def _sweep(self, most: int) -> tuple[list[int], list[str]]:
        """Which pages to delete next, lowest level first; only what a recovery would not need."""
        swept = list(self._swept)
        swept += [0] * (self._state[0][TOP] + 1 - len(swept))
        names: list[str] = []
        for level, begin in enumerate(swept):
            end = min(self._committed >> level, begin + most - len(names))
            names.extend(self._page_name((level, index)) for index in range(begin, end))
            swept[level] = max(begin, end)
        return swept, names

    def _swept_to(self, head: int) -> bool:
        return all(index >= head >> level for level, index in enumerate(self._swept))

    def _page(self, node: Node) -> bytes:
        slot = self._table[node]
        return _PAGE.pack(self._maker(node), *node) + encode(self.monoid, self._state[1], slot, slot + 1)

    def _page_name(self, node: Node | None = None) -> str:
        return f"{self.name}/{HEADER}" if node is None else f"{self.name}/{node[0]}.{node[1]}"

    def _maker(self, node: Node) -> int:
        """The session in which a node was made: nodes are made at known positions."""
        level, index = node
        position = ((index + 2) << level) - 2
        return self._sessions[bisect_right(self._sessions, (position, 1 << 64)) - 1][1]

    def _described(self) -> str:
        fields = self.monoid.fields
        shape = "objects" if fields is None else ", ".join(f"{f.name}: {f.dtype}×{f.width}" for f in fields)
        return f"{self.monoid.name} ({shape})"

    def _header(self, more: dict[str, Any]) -> bytes:
        meta, forest, stack, result = self._state
        rows = [self._table[node] for node in self._tails]
        tails = tuple(part[rows] for part in forest)
        image = {
            **more,
            "query": self._described(),
            "meta": list(meta),
            "sessions": list(self._sessions),
            "tails": list(self._tails),
            "partials": encode(self.monoid, tails, 0, len(rows)),
            "stack": encode(self.monoid, stack, 0, meta[DEPTH]),
            "result": encode(self.monoid, result, 0, 2),
        }
        return snapshot.write(image, "AMTA")

    def _recover(self, header: bytes | None, commit: int | None) -> None:
        if header is not None:
            image = snapshot.read(header, "AMTA")
            if image["query"] != self._described():
                raise FingerprintMismatch(
                    f"the window {self.name!r} in the store aggregates {image['query']}, not {self._described()}; "
                    "use the aggregate that made it, or another name"
                )
            self._adopt(image)
        if commit is not None and commit != self.commits:
            raise StoreError(
                f"the store holds commit {self.commits} of the window {self.name!r}, and {commit} is expected: it lost a commit "
                "or returns old bytes"
            )

    def _adopt(self, image: dict[str, Any]) -> None:
        self.commits, self._swept, self._sessions = image["commits"], image["swept"], image["sessions"]
        self._state[0][:] = image["meta"]
        self._reserve(len(image["tails"]))
        _, forest, stack, result = self._state
        for node in image["tails"]:
            self._table[node] = self._free.pop()
            self._tails[node] = None
        for parts, rows, blob in (
            (forest, list(self._table.values()), image["partials"]),
            (stack, list(range(self._state[0][DEPTH])), image["stack"]),
            (result, [0, 1], image["result"]),
        ):
            for source, target in zip(decode(self.monoid, blob), parts, strict=True):
                target[rows] = source
        self._committed = self.evicted
        self._cached = self._horizon = self.evicted


