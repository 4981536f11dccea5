# SPDX-License-Identifier: Apache-2.0
"""What is kept of a stream: its latest update, its history, its figures. One page of a store for each stream.

A page is a checksum and JSON. Bytes from a store are data: they are checked before they are used. The newest updates of
the history are in the page itself; every 16 of them move to a page of their own, so a commit writes little.
"""

from __future__ import annotations

import json
import zlib
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from windrow.errors import CorruptSnapshot
from windrow.pipelines.changes import Id

__all__ = ["Figures", "StreamState", "read_page", "write_page"]

CHUNK = 16
"""How many updates of a history share a page."""

Values = tuple[Any, ...]
encode = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False, check_circular=False).encode


@dataclass
class Figures:
    """How often things happened to a stream."""

    emitted: int = 0
    filtered: int = 0
    """Updates for which ``where`` did not hold."""
    discarded: int = 0
    """Triggers that were not newer than the stream's own last update, or came again in one tree."""
    failed: int = 0
    blocked: int = 0
    """Updates of an input that the owner may no longer subscribe to."""

    def count(self, what: str, times: int = 1) -> None:
        setattr(self, what, getattr(self, what) + times)

    def emit(self, times: int = 1) -> None:
        self.emitted += times


@dataclass
class StreamState:
    """The state of one stream."""

    last: Id | None = None
    values: Values | None = None
    trigger: str = ""
    """The source, or the window, whose update made the latest one."""
    version: int = 0
    """The version of the graph that made the latest update."""
    current: dict[str, str] = field(default_factory=dict)
    """By input: the stream of it that had an update last."""
    figures: Figures = field(default_factory=Figures)
    rows: int = 0
    """How many updates its windows have taken."""
    history: deque[tuple[Id, Values]] = field(default_factory=deque)
    count: int = 0
    """How many updates have entered the history, those included that have left it."""
    tail: list[str] = field(default_factory=list)
    """The updates of the history since the last full page, as JSON."""
    fresh: int = 0
    """How many updates have entered the history since the last commit."""
    first: int = 0
    """The first page of history that the store may have."""

    @property
    def rate(self) -> float | None:
        """Updates per second of event time, in the history; None if it has no two times."""
        if not self.history or (span := self.history[-1][0].ts - self.history[0][0].ts) <= 0:
            return None
        return (len(self.history) - 1) * 1e6 / span

    def emit(self, at: Id, values: Values, trigger: str, version: int, keep: int) -> None:
        """A new latest update."""
        self.last, self.values, self.trigger, self.version = at, values, trigger, version
        self.figures.emit()
        if keep:
            self.remember(at, values, keep)

    def emit_many(
        self, updates: list[tuple[Id, Values]], count: int, trigger: str, version: int, keep: int
    ) -> None:
        """``count`` updates, of which these are the last ones: all that the history keeps, and at least one."""
        self.last, self.values = updates[-1]
        self.trigger, self.version = trigger, version
        self.figures.emit(count)
        if keep:
            kept = updates[-keep:]
            self.history.extend(kept)
            self._kept(len(kept), keep)

    def choose(self, alias: str, name: str) -> None:
        """This stream of an input had an update last."""
        self.current[alias] = name

    def forget_last(self) -> None:
        """Begin again: what is older than the last update is no longer discarded."""
        self.last = None

    def take_rows(self, count: int) -> None:
        self.rows += count

    def take_row(self) -> int:
        """Its window takes a row; the number of the row."""
        self.rows += 1
        return self.rows - 1

    def remember(self, at: Id, values: Values, keep: int) -> None:
        self.history.append((at, values))
        self._kept(1, keep)

    def _kept(self, count: int, keep: int) -> None:
        """So many updates have entered the history, which keeps so many."""
        self.fresh += count
        for _ in range(len(self.history) - keep):
            self.history.popleft()

    def restart(self) -> None:
        """Forget the values, which another definition made; what is older than the last update stays discarded."""
        self.values, self.current, self.rows = None, {}, 0
        self.history.clear()
        self.tail.clear()
        self.count = -(-self.count // CHUNK) * CHUNK
        self.fresh = 0

    def pages(self, name: str) -> tuple[dict[str, bytes], list[str]]:
        """What to write under ``s/name`` and ``h/name/…``, and what to delete. Called once per commit."""
        put: dict[str, bytes] = {}
        history, tail = self.history, self.tail
        new = min(self.fresh, len(history))
        self.fresh = 0
        rows = [(*at, values) for at, values in islice(history, len(history) - new, None)]
        begin = 0
        while begin < new:
            room = CHUNK - len(tail)
            part = rows[begin : begin + room]
            begin += len(part)
            self.count += len(part)
            if len(part) < room:
                tail += map(encode, part)
            else:
                full = ",".join([*tail, encode(part)[1:-1]])
                put[f"h/{name}/{self.count // CHUNK - 1}"] = write_page(f"[{full}]")
                tail.clear()
        kept = (self.count - len(history)) // CHUNK
        put = (
            {page: body for page, body in put.items() if int(page.rsplit("/", 1)[1]) >= kept} if put else put
        )
        gone = [f"h/{name}/{number}" for number in range(self.first, kept)]
        self.first = max(self.first, kept)
        if new and tail and self.values is not None and history[-1][0] == self.last:
            text = tail[-1]
        else:  # its history may have ended since
            text = encode((*(self.last or (None, None, None)), self.values))
        figures = self.figures
        head = (
            f'{text},"{self.trigger}",{self.version},{encode(self.current) if self.current else "{}"},'
            f"[{figures.emitted},{figures.filtered},{figures.discarded},{figures.failed},{figures.blocked}],"
            f"{self.rows},{self.count},{len(history)},{self.first}"
        )
        put[f"s/{name}"] = write_page(f"[[{head}],[{','.join(tail)}]]")
        return put, gone

    @classmethod
    def load(cls, name: str, page: bytes, get: Callable[[Iterable[str]], Mapping[str, bytes]]) -> StreamState:
        """The state that :meth:`pages` wrote."""
        try:
            head, tail = read_page(page, f"stream {name!r}")
            (*last, values), trigger, version, current, figures, rows, count, held, first = head
            if any(type(n) is not int for n in (version, rows, count, held, first, *figures)):
                raise ValueError("a number is not a whole number")
            if not (
                0 <= len(tail) <= count < 1 << 62 and 0 <= held <= count and first >= (count - held) // CHUNK
            ):
                raise ValueError(f"{held} of {count} updates from page {first} on")
            numbers = range((count - held) // CHUNK, (count - len(tail)) // CHUNK) if held else range(0)
            older = [row for number in numbers for row in _older(name, number, get)]
            updates = [
                (_id(ts, sequence, origin), tuple(row)) for ts, sequence, origin, row in (*older, *tail)
            ]
            state = cls(
                None if last[0] is None else _id(*last),
                None if values is None else tuple(values),
                str(trigger),
                int(version),
                {str(k): str(v) for k, v in current.items()},
                Figures(*map(int, figures)),
                int(rows),
                deque(updates[len(updates) - held :] if held else ()),
                int(count),
                [encode(row) for row in tail],
                0,
                int(first),
            )
        except CorruptSnapshot:
            raise
        except (LookupError, TypeError, ValueError, AttributeError) as cause:
            raise CorruptSnapshot(f"the state of stream {name!r} is damaged: {cause!r}") from cause
        return state


def _id(ts: Any, sequence: Any, origin: Any) -> Id:
    if not (type(ts) is type(sequence) is int and type(origin) is str):
        raise ValueError(f"{(ts, sequence, origin)!r} is not an id")
    return Id(ts, sequence, origin)


def _older(name: str, number: int, get: Callable[[Iterable[str]], Mapping[str, bytes]]) -> list[Any]:
    """A page of history. They are read one by one, so that a number of pages that there are not is found at the first."""
    page = f"h/{name}/{number}"
    rows: list[Any] = read_page(get([page])[page], f"history of {name!r}")
    return rows


def write_page(text: str) -> bytes:
    body = text.encode()
    return b"%08x" % zlib.crc32(body) + body


def read_page(page: bytes, what: str) -> Any:
    """The JSON of a page, if its checksum is right."""
    body = bytes(page[8:])
    if len(page) < 8 or bytes(page[:8]) != b"%08x" % zlib.crc32(body):
        raise CorruptSnapshot(f"the page of {what} is damaged: its checksum does not match")
    try:
        found = json.loads(body)
        if b"\\u" in body:  # an escape may stand for half a character, which could not be written again
            encode(found).encode()
    except (ValueError, RecursionError) as cause:
        raise CorruptSnapshot(f"the page of {what} is not JSON: {cause}") from None
    return found
