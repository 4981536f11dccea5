# SPDX-License-Identifier: Apache-2.0
"""Which segment holds each page, in blocks of 16 segments, so that a change rewrites few of them.

>>> directory = Directory()
>>> directory.add(["0.1.0", "1.1.0"]), directory.add(["0.1.1"])
(0, 1)
>>> directory.remove("0.1.0")
>>> directory.newest_block()
b'0 2 1.1.0\\n1 1 0.1.1'
>>> Directory.load({0: directory.newest_block()}, 2).where("0.1.1")
1
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from windrow.errors import CorruptSnapshot

__all__ = ["BLOCK", "Directory"]

BLOCK = 16
"""How many segments share a block."""
SPARSE = 8
"""A segment is sparse if fewer than one in so many of its pages are left."""


class Directory:
    """The pages that are still needed, by segment. Segments are numbered in the order in which they were made."""

    def __init__(self) -> None:
        self.next = 0
        """The number of the next segment."""
        self._where: dict[str, int] = {}
        self._live: dict[int, dict[str, None]] = {}
        self._made: dict[int, int] = {}  # how many pages a segment had at first
        self._changed: set[int] = set()
        self._emptied: list[int] = []
        self._stored: set[int] = set()  # blocks that the store has values for

    @classmethod
    def load(cls, texts: Mapping[int, bytes], following: int) -> Directory:
        """The directory whose blocks have these texts; ``following`` is the number of its next segment."""
        directory = cls()
        directory._fill(texts, following)
        return directory

    def where(self, name: str) -> int | None:
        """The segment that holds a page; none if no segment does."""
        return self._where.get(name)

    def names(self, number: int) -> list[str]:
        """The pages that a segment still holds."""
        return list(self._live[number])

    def add(self, names: Collection[str]) -> int:
        """Give a new segment with these pages its number."""
        number, self.next = self.next, self.next + 1
        self._live[number], self._made[number] = dict.fromkeys(names), len(names)
        self._where.update(dict.fromkeys(names, number))
        # The block before is full if this segment begins a new one; until now the header had it.
        self._changed |= {number // BLOCK, (number - 1) // BLOCK} - {-1}
        return number

    def remove(self, name: str) -> None:
        """A page is not needed any more, or is somewhere else now."""
        number = self._where.pop(name, None)
        if number is None:
            return
        del self._live[number][name]
        self._changed.add(number // BLOCK)
        if not self._live[number]:
            del self._live[number], self._made[number]
            self._emptied.append(number)

    def sparse(self) -> list[int]:
        """Segments of which little is left."""
        return [n for n, names in self._live.items() if len(names) * SPARSE < self._made[n]]

    def emptied(self) -> list[int]:
        """Segments of which nothing is left since the last call."""
        emptied, self._emptied = self._emptied, []
        return emptied

    def newest_block(self) -> bytes:
        """The text of the block that the next segment, or the last one, belongs to. It changes at every commit."""
        return self._text(self._newest())

    def changed_blocks(self) -> dict[int, bytes]:
        """The texts of the other blocks that changed since the last call; empty if no segment of a block is left."""
        changed, self._changed = self._changed - {self._newest()}, set()
        texts = {block: self._text(block) for block in sorted(changed)}
        gone = {block for block, text in texts.items() if not text}
        texts = {block: text for block, text in texts.items() if text or block in self._stored}
        self._stored = (self._stored | set(texts)) - gone
        return texts

    def stored_blocks(self) -> list[int]:
        """The blocks that have a value of their own in the store."""
        return sorted(self._stored)

    def _newest(self) -> int:
        return (self.next - 1) // BLOCK

    def _text(self, block: int) -> bytes:
        """Lines of a segment's number, how many pages it had, and the names of those that are left."""
        numbers = range(max(block, 0) * BLOCK, (block + 1) * BLOCK)
        lines = (f"{n} {self._made[n]} {' '.join(self._live[n])}" for n in numbers if n in self._live)
        return "\n".join(lines).encode()

    def _fill(self, texts: Mapping[int, bytes], following: int) -> None:
        self.next = following
        for block, text in texts.items():
            for line in text.decode("utf-8", "replace").splitlines():
                self._fill_line(block, line)
        self._stored = set(texts) - {self._newest()}

    def _fill_line(self, block: int, line: str) -> None:
        number, made, *names = line.split(" ")
        if not (number.isdecimal() and made.isdecimal() and int(number) // BLOCK == block):
            raise CorruptSnapshot(f"block {block} of the directory of segments has the line {line[:40]!r}")
        self._live[int(number)], self._made[int(number)] = dict.fromkeys(names), int(made)
        self._where.update(dict.fromkeys(names, int(number)))
