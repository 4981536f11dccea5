# SPDX-License-Identifier: Apache-2.0
"""Pages in few values: for stores in which a call costs more than its bytes do.

An operator's commit is a header, leaves of keys and many small pages. Here a commit is one value with the header and
what has changed, and the new pages of the commit put together into *segments*. A log-structured file system does the
same (Rosenblum and Ousterhout, "The design and implementation of a log-structured file system", 1992).

=================  ===============================================================================================
``header``         the header, leaves that changed lately, the newest block of the directory
``segment.N``      pages, or leaves that have not changed for a while; never changes
``block.N``        a block of the directory: which pages the segments 16·N … 16·N + 15 still hold
=================  ===============================================================================================

Pages of a segment are in the order of their slices, so what is read together is stored together. A segment goes when
none of its pages is needed any more. What is left of a segment that is almost empty moves into a new one.

>>> from windrow.storage.pages import MemoryPages
>>> store = MemoryPages()
>>> pages = Segments(store)
>>> pages.commit({"header": b"h", "leaf.0": b"keys", "0.1.0": b"slices", "1.1.0": b"slices too"}, delete=[])
>>> sorted(store.held)
['header', 'segment.0']
>>> Segments(store).get(["leaf.0", "1.1.0", "1.1.1"])
{'leaf.0': b'keys', '1.1.0': b'slices too'}
>>> pages.commit({"header": b"h"}, delete=["0.1.0", "1.1.0"])
>>> sorted(store.held)
['header']

A store whose pages lie in it one by one is read too; it is changed to segments as pages are written.
"""

from __future__ import annotations

import re
import zlib
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np

from windrow.columns.encoding import decode_value, encode_value
from windrow.errors import CorruptSnapshot, FormatTooNew, StoreError
from windrow.storage.codec import CODECS, compress, decompress
from windrow.storage.directory import BLOCK, Directory
from windrow.storage.pages import HEADER, Pages

__all__ = ["Segments", "header_in"]

MAGIC, VERSION = b"segments", 1
SMALL = 1 << 16
"""Bytes of unchanged leaves that are written again with the header rather than moved to a segment."""
LARGE = 1 << 18
"""Bytes of a segment, unless one page alone has more."""
READ_AHEAD = 32
"""How many segments that were read stay in memory, because their other pages will be wanted soon."""
MOVED = 4
"""How many almost empty segments a commit moves at most."""


class Segments:
    """A store of pages that keeps them in few values of another store."""

    def __init__(self, store: Pages) -> None:
        self.store = store
        self._known = False
        self._inline: dict[str, bytes] = {}  # what is in the header's value
        self._directory = Directory()
        self._loose = False  # whether the store may hold pages one by one
        self._read: OrderedDict[int, _Segment] = OrderedDict()

    def get(self, names: Iterable[str]) -> dict[str, bytes]:
        self._load()
        found, away, loose = {}, [], []
        for name in names:
            if name in self._inline:
                found[name] = self._inline[name]
            elif (number := self._directory.where(name)) is not None:
                away.append((name, number))
            elif self._loose:
                loose.append(name)
        found |= self.store.get(loose) if loose else {}
        segments = self._segments({number for _, number in away})
        return found | {name: segments[number].page(name) for name, number in away}

    def commit(self, put: Mapping[str, bytes], delete: Iterable[str]) -> None:
        self._load()
        try:
            written, gone = self._commit(put, set(delete) - set(put))
            self.store.commit(written, gone)
        except Exception:
            self._known = False  # what the store holds now is read from it
            raise

    def _commit(self, put: Mapping[str, bytes], delete: set[str]) -> tuple[dict[str, bytes], list[str]]:
        """What to write to the store and what to delete there."""
        directory, gone = self._directory, {*put, *delete}
        old = gone if self._loose else set()
        loose = [name for name in sorted(old) if not (self._knows(name) or (name in put and _slices(name)))]
        kept = {name: page for name, page in self._inline.items() if name not in gone}
        for name in gone:
            directory.remove(name)
        fresh: dict[str, bytes] = {}
        pages: dict[str, bytes] = {}
        for name, page in (*put.items(), *self._moved()):
            (pages if _is_page(name, page) else fresh)[name] = page
        groups = list(_cut(pages))
        if _size(kept) > _size(fresh) + SMALL:
            groups += _cut(kept)
            kept = {}
        self._inline = kept | fresh
        written = {f"segment.{directory.add(group)}": _packed(group) for group in groups}
        emptied = directory.emptied()
        for number in emptied:
            self._read.pop(number, None)
        changed = directory.changed_blocks()
        written |= {f"block.{block}": _sealed(compress(text)) for block, text in changed.items() if text}
        written[HEADER] = self._head()
        removed = [f"block.{block}" for block, text in changed.items() if not text]
        return written, [*loose, *removed, *(f"segment.{number}" for number in emptied)]

    def _moved(self) -> Iterator[tuple[str, bytes]]:
        """The pages of segments that hold few. Segments that are being read are about to be empty anyway."""
        sparse = [number for number in self._directory.sparse() if number not in self._read][:MOVED]
        segments = self._segments(set(sparse))
        for number in sparse:
            for name in self._directory.names(number):
                yield name, segments[number].page(name)
                self._directory.remove(name)

    def _segments(self, numbers: set[int]) -> dict[int, _Segment]:
        found = {number: self._read[number] for number in numbers if number in self._read}
        names = {number: f"segment.{number}" for number in sorted(numbers - set(found))}
        values = self.store.get(names.values()) if names else {}
        for number, name in names.items():
            if name not in values:
                raise StoreError(f"the store has no {name!r}, which its directory names: {_RESTORE}")
            self._read[number] = found[number] = _Segment(bytes(values[name]), name)
        while len(self._read) > max(READ_AHEAD, len(numbers)):
            self._read.popitem(last=False)
        return found

    def _knows(self, name: str) -> bool:
        return name in self._inline or self._directory.where(name) is not None

    def _head(self) -> bytes:
        """The value of the header."""
        body = encode_value(
            {
                "pages": self._inline,
                "next": self._directory.next,
                "blocks": self._directory.stored_blocks(),
                "block": compress(self._directory.newest_block()),
                "loose": self._loose,
            }
        )
        return MAGIC + bytes([VERSION]) + _sealed(body)

    def _load(self) -> None:
        """Read the header's value and the directory, if they are not known yet."""
        if self._known:
            return
        self._inline, self._directory, self._loose = {}, Directory(), False
        self._read.clear()
        value = self.store.get([HEADER]).get(HEADER)
        if value is not None:
            value = bytes(value)
            if value.startswith(MAGIC):
                self._load_head(_checked_head(value))
            elif value[:1] in CODECS:
                self._inline, self._loose = {HEADER: value}, True
            else:
                raise StoreError(f"the store returned damaged bytes for 'header': {_RESTORE}")
        self._known = True

    def _load_head(self, head: dict[str, Any]) -> None:
        self._inline, self._loose = head["pages"], head["loose"]
        names = {block: f"block.{block}" for block in head["blocks"]}
        found = self.store.get(names.values()) if names else {}
        if missing := [name for name in names.values() if name not in found]:
            raise StoreError(f"the store has no {missing[0]!r}, which its header names: {_RESTORE}")
        texts = {block: decompress(_opened(bytes(found[name]), name)) for block, name in names.items()}
        if newest := decompress(head["block"]):
            texts[(head["next"] - 1) // BLOCK] = newest
        self._directory = Directory.load(texts, head["next"])


def header_in(value: bytes) -> bytes:
    """The operator's header in the value that a store has under ``header``, whether its pages are in segments or not.

    Nothing else of the store is read, so this also tells whose state it is where only the header was fetched.

    >>> from windrow.storage.pages import MemoryPages
    >>> store = MemoryPages()
    >>> Segments(store).commit({"header": b"h"}, delete=[])
    >>> header_in(store.held["header"])
    b'h'
    """
    if not value.startswith(MAGIC):
        return value
    held = _checked_head(value)["pages"].get(HEADER)
    if held is None:
        raise CorruptSnapshot("the header of segments holds no header of an operator")
    return bytes(held)


_RESTORE = "restore it from a backup"
_HEAD_TYPES = {"pages": dict, "next": int, "blocks": list, "block": bytes, "loose": bool}


def _checked_head(value: bytes) -> dict[str, Any]:
    version = value[len(MAGIC) : len(MAGIC) + 1]
    if version > bytes([VERSION]):
        raise FormatTooNew(
            f"the state is in segments of version {version[0]}, this windrow reads up to {VERSION}; upgrade windrow"
        )
    body = _opened(value[len(MAGIC) + 1 :], HEADER)
    head = decode_value(body)
    if not isinstance(head, dict) or {name: type(each) for name, each in head.items()} != _HEAD_TYPES:
        raise CorruptSnapshot("the header of segments does not have the expected entries")
    blocks, newest = head["blocks"], (head["next"] - 1) // BLOCK
    if not all(type(block) is int and 0 <= block < newest for block in blocks) or head["next"] < 0:
        raise CorruptSnapshot("the header of segments names blocks of its directory that cannot exist")
    _check_pages(head["pages"], "header")
    return head


def _sealed(body: bytes) -> bytes:
    return zlib.crc32(body).to_bytes(4, "little") + body


def _opened(value: bytes, name: str) -> bytes:
    """What :func:`_sealed` was given, if it has not changed."""
    if zlib.crc32(value[4:]).to_bytes(4, "little") != value[:4]:
        raise StoreError(f"the store returned damaged bytes for {name!r}: {_RESTORE}")
    return value[4:]


def _packed(pages: Mapping[str, bytes]) -> bytes:
    """Pages as the bytes of a segment: their names and lengths, then one after the other."""
    names = " ".join(pages).encode()
    lengths = np.array([len(page) for page in pages.values()], dtype="<u4").tobytes()
    index = len(names).to_bytes(4, "little") + names + lengths
    return _sealed(index)[:4] + len(index).to_bytes(4, "little") + index + b"".join(pages.values())


class _Segment:
    """The bytes of a segment, and where its pages lie in them. Each page carries its own checksum."""

    def __init__(self, value: bytes, name: str) -> None:
        self.value, self.name = value, name
        begin = 8 + int.from_bytes(value[4:8], "little")
        index = _opened(value[:4] + value[8:begin], name)
        split = 4 + int.from_bytes(index[:4], "little")
        names = index[4:split].decode().split(" ")
        ends = begin + np.cumsum(np.frombuffer(index[split:], dtype="<u4"), dtype=np.int64)
        if len(names) != len(ends) or ends[-1] != len(value):
            raise StoreError(f"the store returned only a part of {name!r}: {_RESTORE}")
        self.places = dict(
            zip(names, zip([begin, *ends[:-1].tolist()], ends.tolist(), strict=True), strict=True)
        )

    def page(self, name: str) -> bytes:
        if name not in self.places:
            raise StoreError(f"the store returned a {self.name!r} without {name!r}: {_RESTORE}")
        begin, end = self.places[name]
        return self.value[begin:end]


def _check_pages(pages: Any, where: str) -> None:
    if not isinstance(pages, dict) or not all(
        type(name) is str and type(page) is bytes for name, page in pages.items()
    ):
        raise StoreError(f"the store returned something other than pages for {where!r}: {_RESTORE}")


def _is_page(name: str, page: bytes) -> bool:
    """Whether this is a page that never changes, or too large to be written again with the header."""
    return _slices(name) or name.startswith("cold.") or (len(page) > LARGE and name != HEADER)


def _slices(name: str) -> bool:
    return _PAGE.fullmatch(name) is not None


_PAGE = re.compile(r"[0-9]+\.[0-9]+\.[0-9]+")


def _cut(pages: Mapping[str, bytes]) -> Iterator[dict[str, bytes]]:
    """Pages in the order of their slices, in groups of the size of a segment."""
    group: dict[str, bytes] = {}
    size = 0
    for name in sorted(pages, key=_place):
        if group and size + len(pages[name]) > LARGE:
            yield group
            group, size = {}, 0
        group[name] = pages[name]
        size += len(pages[name])
    if group:
        yield group


def _place(name: str) -> tuple[int, ...]:
    """Level, number and tag of a page; other names come first."""
    if not _slices(name):
        return (0,)
    tag, level, number = name.split(".")
    return int(level), int(number), int(tag)


def _size(pages: Mapping[str, bytes]) -> int:
    return sum(map(len, pages.values()))
