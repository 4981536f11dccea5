# SPDX-License-Identifier: Apache-2.0
"""What is in a store: every page read and checked, without the query, and without changing anything.

A page that no window has reached for a year is read by nobody, so nobody notices that its bytes have changed. A scrub
reads them all.

>>> import pyarrow as pa
>>> import windrow as wr
>>> from windrow.storage.pages import MemoryPages
>>> pages, query = MemoryPages(), wr.Query(window=wr.TimeWindow(4), aggregates={"n": wr.Count()})
>>> operator = wr.Operator.open(query, pa.schema({"ts": pa.int64()}), pages)
>>> _ = operator.process(pa.table({"ts": [0, 1]})), operator.commit()
>>> found = scrub(pages)
>>> found.commit, found.keys, found.kinds["leaves"].pages, found.damaged
(1, 1, 1, {})
>>> pages.held["leaf.0"] = pages.held["leaf.0"][:-1]
>>> list(scrub(pages).damaged)
['leaf.0']
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

import numpy as np

from windrow.errors import CorruptSnapshot, SnapshotError, StoreError
from windrow.storage import snapshot
from windrow.storage.codec import decompress
from windrow.storage.pages import HEADER
from windrow.storage.paging import page_name
from windrow.storage.validate import from_bytes

__all__ = ["Kind", "NamedPages", "Scrub", "read_all", "scrub"]

AT_ONCE = 256
"""How many pages are read at a time."""
KINDS = {
    "leaf": "leaves",
    "cold": "cold blocks",
    "rows": "rows that wait",
    "extent": "rows of windows",
    "shown": "windows that came out",
}
LISTED = ("waiting", "extents", "shown")
"""Entries of the header that name pages."""


class NamedPages(Protocol):
    """A store that can say what it holds."""

    def names(self) -> list[str]: ...

    def get(self, names: Iterable[str]) -> Mapping[str, bytes]: ...


class Kind(NamedTuple):
    """How many pages of a kind there are, and how many bytes they have."""

    pages: int
    size: int


@dataclass(frozen=True)
class Scrub:
    """What a store holds, and what is wrong with it."""

    header: dict[str, Any] | None = None
    """The plain values of the header; none if there is no header, or if it is damaged."""
    keys: int = 0
    kinds: dict[str, Kind] = field(default_factory=dict)
    damaged: dict[str, str] = field(default_factory=dict)
    """Pages that cannot be used, and why."""
    unneeded: list[str] = field(default_factory=list)
    """Pages that nothing names. They do no harm."""

    @property
    def commit(self) -> int:
        """The number of the last commit; 0 if there is none, or if the store is that of a space, which does not count them."""
        return 0 if self.header is None else int(self.header.get("commit", 0))


def scrub(store: NamedPages) -> Scrub:
    """Read all pages of a store and check them, each by itself and all together."""
    names = store.names()
    damaged: dict[str, str] = {}
    images: dict[str, dict[str, Any]] = {}
    sizes: Counter[str] = Counter()
    counts: Counter[str] = Counter()
    for name, page in read_all(store, [HEADER, *(name for name in names if name != HEADER)]):
        if page is None:
            if name != HEADER or len(names) > 0:
                damaged[name] = "it is not there"
            continue
        kind = _kind(name)
        sizes[kind] += len(page)
        counts[kind] += 1
        try:
            images[name] = _image(name, page, images.get(HEADER))
        except (SnapshotError, StoreError) as error:
            damaged[name] = str(error)
    kinds = {kind: Kind(counts[kind], sizes[kind]) for kind in sorted(counts)}
    header = images.pop(HEADER, None)
    if header is None:
        return Scrub(None, 0, kinds, damaged)
    needed, of_another = _named(header, images)
    damaged |= of_another
    for name, by in needed.items():
        if name not in images and name not in damaged:
            damaged[name] = f"it is not there, and {by!r} names it"
    keys = sum(len(image["tags"]) for image in images.values() if "tags" in image)
    keys += sum(_cold_keys(left, images.get(f"cold.{number}", {})) for number, left in header.get("cold", []))
    known = (name for name in images if _PAGE.fullmatch(name) or name.partition(".")[0] in KINDS)
    return Scrub(header, keys, kinds, damaged, sorted(name for name in known if name not in needed))


def read_all(store: NamedPages, names: list[str]) -> Iterator[tuple[str, bytes | None]]:
    """Pages by name, some at a time."""
    for begin in range(0, len(names), AT_ONCE):
        part = names[begin : begin + AT_ONCE]
        pages = store.get(part)
        for name in part:
            yield name, pages.get(name)


def _image(name: str, page: bytes, header: dict[str, Any] | None) -> dict[str, Any]:
    """The plain values of a page, if it is whole, and of the query of the header."""
    blob = decompress(page)
    image = snapshot.read(blob, None if header is None else header["fingerprint"])
    if image.get("name") != name:
        raise CorruptSnapshot(f"it holds {str(image.get('name'))[:40]!r} instead")
    return {part: image[part] for part in _NEEDED if part in image} if name != HEADER else image


_NEEDED = ("commit", "tags", "empty", "lengths", "slices", "pages")
"""What is kept of a page until all have been read."""


def _named(
    header: dict[str, Any], images: dict[str, dict[str, Any]]
) -> tuple[dict[str, str], dict[str, str]]:
    """The pages that the header and other pages name, each with one that names it; and those of a wrong commit."""
    needed: dict[str, str] = {name: HEADER for part in LISTED for name in header.get(part, [])}
    wrong: dict[str, str] = {}
    for leaf, commit in header["leaves"]:
        name = f"leaf.{leaf}"
        needed[name] = HEADER
        if name in images and images[name]["commit"] != commit:
            wrong[name] = (
                f"it is of commit {images[name]['commit']}; the header needs that of commit {commit}"
            )
    needed |= {f"cold.{number}": HEADER for number, _ in header.get("cold", [])}
    for name, image in images.items():
        needed |= dict.fromkeys(_below(name, image), name)
    return needed, wrong


def _below(name: str, image: dict[str, Any]) -> Iterator[str]:
    """The pages of slices that a leaf, or a page of folded slices, stands for."""
    if "tags" in image:  # the slices of a leaf stand key after key
        pages, begin = _numbers(image["slices"]["pages"]), 0
        for tag, length in zip(image["tags"], _numbers(image["lengths"]), strict=False):
            yield from (page_name(tag, page) for page in pages[begin : begin + length] if page)
            begin += length
    elif _PAGE.fullmatch(name):
        tag = int(name.partition(".")[0])
        yield from (page_name(tag, page) for page in _numbers(image["pages"]) if page)


def _cold_keys(left: bytes, image: dict[str, Any]) -> int:
    """How many keys of a block are still cold: a bit each in the header, or all of them."""
    return int.from_bytes(left, "big").bit_count() if left else len(image.get("empty", b"")) // 8


def _numbers(blob: bytes) -> list[int]:
    return list(from_bytes(blob, np.int64).tolist())


def _kind(name: str) -> str:
    if _PAGE.fullmatch(name):
        return "slices"
    return KINDS.get(name.partition(".")[0], name if name == HEADER else "others")


_PAGE = re.compile(r"[0-9]+\.[0-9]+\.[0-9]+")
