"""AMTA with its window in a store: what an operation touches is local, O(log n), the rest are pages."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from windrow.aggregates.algebra import Aggregate, Monoid, Partial
from windrow.aggregates.encoding import decode, encode
from windrow.algorithms import amta
from windrow.algorithms.amta import DEPTH, TOP, last_of
from windrow.algorithms.base import HEAD, TAIL, monoid_of, place, take
from windrow.errors import FingerprintMismatch, StoreError, WindowError
from windrow.kernels.slots import Parts, allocate, slots
from windrow.kernels.specialise import specialise
from windrow.state import snapshot
from windrow.state.nodes import Node, NodePages
from windrow.state.pages import Pages


class StoredAMTA:
    """An AMTA window that may be larger than memory.

    ::

        level 1    a b      c d   e f   g h      i j         local: tails (the last pair of each level),
        stack, R₀, R₁, and level 0    a b      c d e f g h i j      k l                the nodes above the
        next ``cache`` positions
                   cache    in the store         tails       in the store: the rest, a page per node

    A node that leaves the tails waits in the buffer; ``buffer`` of them are written at once, and never if
    they are evicted before. When fewer than ``low_water`` positions are left in the cache, the nodes above
    the next ones are read at once: in the background, if the store has ``prefetch``. A bulk eviction reads
    at most two nodes per level, in one request, wherever it ends; the pages that it leaves behind are
    deleted bit by bit with later writes.

    :meth:`commit` makes the state durable. A window on the same pages and of the same name goes on from
    there, whenever its process died; ``inserted`` and ``evicted`` tell how far it had come. Leftovers of a
    crash and stale bytes are recognised, and raise a :class:`StoreError` if they are needed. A call whose
    reading or writing fails has changed nothing and may be repeated, unless the window says that it has to
    be made again.

    - Order: FIFO. Operator: any monoid. The same combines in the same grouping as AMTA, interpreted.
    - Local: at most 7 log₂ n + 2 cache + buffer partials, of 2n.
    - Requests: one write per ``buffer`` nodes, one read per ``cache - low_water`` evictions.
    - Paper: the MTA Window Framework, section 4.4.1 (Reducing Local Memory Footprint); the sizes are those
    of 4.5.1.

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
        """``commit``: the number of the commit that must be there; if the store returns another, it is
        refused."""
        if not 1 <= low_water <= cache or buffer < 1:
            raise WindowError(
                f"StoredAMTA needs buffer ≥ 1 and 1 ≤ low_water ≤ cache, not {buffer}, {low_water} and {cache}"
            )
        self.monoid = monoid_of(aggregate)
        self.name, self.buffer, self.cache, self.low_water = name, buffer, cache, low_water
        self.commits = 0
        """How many commits the window has behind it, those of earlier processes included."""
        self._kernel = specialise(amta, {**slots(self.monoid), "at": self._at}, compiled=False)
        self._slot = allocate(self.monoid, 1)
        arrays = (allocate(self.monoid, size) for size in (64, 8, 2))
        self._state: tuple[Any, ...] = ([0, 0, 0, 0, 0], *arrays)
        self._table: dict[Node, int] = {}  # the local nodes' slots
        self._free = list(range(64))
        self._tails: dict[Node, None] = {}  # go into the header
        self._waiting: dict[Node, None] = {}  # the buffer
        self._cached = self._horizon = 0  # nodes above positions before these are local; local or asked for
        self._asked: list[Node] = []
        self._committed = 0  # the head at the last commit
        self._broken = False
        self._nodes = NodePages(self.monoid, pages, name)
        header = self._nodes.open()
        if header is not None:
            self._recover(snapshot.read(header, "AMTA"))
        if commit is not None and commit != self.commits:
            raise StoreError(
                f"the store has commit {self.commits} of the window {self.name!r}, not {commit}: it lost a commit or returns old bytes"
            )
        self._nodes.begin_session(self.inserted)

    def insert(self, partial: Partial) -> None:
        """Append a partial as the newest of the window."""
        place(self.monoid, self._slot, 0, partial)
        self._check()
        if len(self._waiting) >= self.buffer:
            self._write(None)
        self._make_ready(self.evicted)
        made = self._next_nodes()
        self._reserve(len(made))
        self._table.update((node, self._free.pop()) for node in made)
        self._run("insert", self._slot, 0)
        self._tails.update(dict.fromkeys(made))
        for level, index in made:
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
        self._check()
        if n == 0:
            return
        head = self.evicted + n
        self._make_ready(head)
        if n == 1:
            self._run("evict")
            level = 0
            while head >> level << level == head:  # the nodes that end here
                self._drop((level, (head >> level) - 1))
                level += 1
        else:
            self._run("evict_many", n)
            for level, index in list(self._table):
                if index < head >> level:
                    self._drop((level, index))

    def query(self) -> Partial:
        """The aggregate of the window, from oldest to newest; the identity if it is empty."""
        self._check()
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

    @property
    def nbytes(self) -> int:
        """The size of the arrays that hold local partials."""
        return sum(int(part.nbytes) for parts in self._state[1:] for part in parts)

    def commit(self) -> int:
        """Make the state durable, in one atomic write: the buffer, and a header of O(log n). Returns the
        commit's number."""
        self._check()
        self._nodes.forget_sessions(self.evicted)
        self._write(self.commits + 1)
        self.commits += 1
        self._committed = self.evicted
        return self.commits

    def sweep(self) -> None:
        """Delete all pages of partials that were evicted before the last commit, now."""
        self._check()
        while self._nodes.leftover(self._committed):
            self._write(None)

    # Nodes come and go.

    def _at(self, _: int, level: int, index: int) -> int:
        """The slot of a node: takes the place of the arithmetic in AMTA's kernels."""
        node = (level, index)
        if node not in self._table:  # not foreseen by _make_ready, so one by one
            self._place(self._nodes.read([node], needed=True))
        return self._table[node]

    def _make_ready(self, head: int) -> None:
        """Have the nodes that an operation which sets the head to this position will need, before anything
        changes."""
        steps = head - self.evicted
        one_by_one = 0 < steps <= max(self._state[0][TOP], 1)
        if head == self.inserted:
            self._asked, self._cached, self._horizon = [], head + self.cache, head + self.cache
        elif self._asked and self._cached <= head + 1 <= self._horizon:
            self._arrive(self._asked, self._horizon)
        if head >= self._cached and not one_by_one:
            self._arrive(self._missing(head, head, head + 1), head + 1)
            self._look_ahead(head)
        elif head >= self._cached:
            horizon = head + self.cache
            self._arrive(self._missing(self.evicted, self.evicted, horizon), horizon)
        elif (
            one_by_one
            and not self._asked
            and self._cached - head < self.low_water
            and not self._look_ahead(head)
        ):
            self._arrive(self._missing(head, self._cached, head + self.cache), head + self.cache)
        self._reserve(0)

    def _look_ahead(self, head: int) -> bool:
        """Ask for the nodes above the positions after the cached ones, if the store reads in the
        background."""
        missing = self._missing(head, self._cached, head + self.cache)
        if missing and not self._nodes.prefetch(missing):
            return False
        self._asked, self._horizon = missing, head + self.cache
        if not missing:
            self._cached = self._horizon
        return True

    def _missing(self, head: int, begin: int, horizon: int) -> list[Node]:
        """The nodes above the positions from ``begin`` up to the horizon, and their partners, that are not
        local."""
        tail, top = self.inserted, self._state[0][TOP]
        return [
            (level, index)
            for level in range(top + 1)
            for index in range(
                max(begin, head) >> level, min((horizon - 1) >> level | 1, last_of(tail, level)) + 1
            )
            if (level, index) not in self._table
        ]

    def _arrive(self, nodes: list[Node], horizon: int) -> None:
        found = self._nodes.read(nodes)
        self._reserve(len(found))
        self._place(found)
        self._asked, self._cached, self._horizon = [], horizon, horizon

    def _place(self, found: Mapping[Node, Parts]) -> None:
        for node, parts in found.items():
            if node not in self._table:
                slot = self._table[node] = self._free.pop()
                for source, target in zip(parts, self._state[1], strict=True):
                    target[slot] = source[0]

    def _drop(self, node: Node) -> None:
        slot = self._table.pop(node, None)
        if slot is not None:
            self._free.append(slot)
            self._tails.pop(node, None)
            self._waiting.pop(node, None)
            if not self.monoid.typed:
                self._state[1][0][slot] = self.monoid.identity

    def _next_nodes(self) -> list[Node]:
        """The nodes that the next insertion makes: a leaf, and what it carries up the levels."""
        head, tail, top = self.evicted, self.inserted, self._state[0][TOP]
        made, level = [(0, tail)], 1
        while head < tail and level <= top + 1 and (tail + 2) & ((1 << level) - 1) == 0:
            index = last_of(tail + 1, level)
            if index < head >> level:
                break
            made.append((level, index))
            level += 1
        return made

    def _reserve(self, more: int) -> None:
        """Room for an operation, during which the arrays must not move."""
        meta, forest, stack, result = self._state
        levels = meta[TOP] + 3
        if len(stack[0]) < levels:
            stack = self._resized(stack, 2 * levels)
        while len(self._free) < more + 3 * levels:
            size = len(forest[0])
            self._free.extend(range(size, 2 * size))
            forest = self._resized(forest, 2 * size)
        self._state = (meta, forest, stack, result)

    def _resized(self, parts: Parts, size: int) -> Parts:
        bigger = allocate(self.monoid, size)
        for source, target in zip(parts, bigger, strict=True):
            target[: len(source)] = source
        return bigger

    def _check(self) -> None:
        if self._broken:
            raise StoreError(
                f"the window {self.name!r} failed in the middle of an operation: make it again with the same pages and "
                "name, and it goes on from its last commit"
            )

    def _run(self, operation: str, *arguments: Any) -> None:
        try:
            getattr(self._kernel, operation)(self._state, *arguments)
        except BaseException:
            self._broken = True
            raise

    # What is written, and read again.

    def _write(self, commit: int | None) -> None:
        """Write the buffer; for a commit, the header with it."""
        evicted = self._committed if commit is None else self.evicted
        header = None if commit is None else self._header(commit)
        nodes = {node: self._table[node] for node in self._waiting}
        self._nodes.write(nodes, self._state[1], header, evicted, most=4 * self.buffer + 2 * len(nodes))
        self._waiting = {}
        for level, index in nodes:
            if index > (self._horizon - 1) >> level | 1:
                self._drop((level, index))

    def _header(self, commit: int) -> bytes:
        meta, forest, stack, result = self._state
        rows = [self._table[node] for node in self._tails]
        tails = tuple(part[rows] for part in forest)
        image = {
            "query": self._described(),
            "commits": commit,
            "meta": meta,
            "sessions": self._nodes.sessions,
            "tails": list(self._tails),
            "partials": encode(self.monoid, tails, 0, len(rows)),
            "stack": encode(self.monoid, stack, 0, meta[DEPTH]),
            "result": encode(self.monoid, result, 0, 2),
        }
        return snapshot.write(image, "AMTA")

    def _recover(self, image: dict[str, Any]) -> None:
        if image["query"] != self._described():
            raise FingerprintMismatch(
                f"the window {self.name!r} in the store aggregates {image['query']}, not {self._described()}; use the aggregate "
                "that made it, or another name"
            )
        self.commits, self._nodes.sessions = image["commits"], image["sessions"]
        self._state[0][:] = image["meta"]
        self._committed = self._cached = self._horizon = self.evicted
        self._reserve(len(image["tails"]))
        self._tails = dict.fromkeys(image["tails"])
        self._table = {node: self._free.pop() for node in self._tails}
        meta, forest, stack, result = self._state
        for parts, rows, blob in (
            (forest, list(self._table.values()), image["partials"]),
            (stack, list(range(meta[DEPTH])), image["stack"]),
            (result, [0, 1], image["result"]),
        ):
            for source, target in zip(decode(self.monoid, blob), parts, strict=True):
                target[rows] = source

    def _described(self) -> str:
        fields = self.monoid.fields
        if fields is None:
            return f"{self.monoid.name} (objects)"
        return f"{self.monoid.name} ({', '.join(f'{f.name} {f.dtype} {f.width}' for f in fields)})"
