# SPDX-License-Identifier: Apache-2.0
"""What is in the store of a space: every page read and checked, its windows as those of an operator.

>>> from windrow.pipelines import Change, Runtime, Source
>>> from windrow.storage.pages import MemoryPages
>>> pages = MemoryPages()
>>> runtime = Runtime(pages)
>>> _ = runtime.process(changes=[Change.put(Source("o/a", {"v": "bigint"}).to_dict(), by="o")])
>>> runtime.commit("7")
>>> is_space(pages), scrub_space(pages).damaged
(True, {})
>>> pages.held["g/0"] = pages.held["g/0"][:-1]
>>> list(scrub_space(pages).damaged)
['g/0']
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from windrow.errors import CorruptSnapshot, SnapshotError, StoreError
from windrow.pipelines.header import SpaceHeader
from windrow.pipelines.state import StreamState, read_page
from windrow.storage.pages import HEADER
from windrow.storage.scrub import Kind, NamedPages, Scrub, read_all, scrub

__all__ = ["is_space", "scrub_space"]

KINDS = {"s": "streams", "h": "histories", "g": "changes", "w": "windows"}


def is_space(store: NamedPages) -> bool:
    """Whether the pages of a store are those of a space."""
    header = bytes(store.get([HEADER]).get(HEADER, b""))
    return header[8:9] == b"{" or any(name.startswith(("s/", "g/")) for name in store.names())


def scrub_space(store: NamedPages) -> Scrub:
    """Read all pages of a space and check them, each by itself and all together."""
    names = store.names()
    damaged: dict[str, str] = {}
    counts: Counter[str] = Counter()
    sizes: Counter[str] = Counter()
    windows: dict[str, list[str]] = {}
    generations: dict[str, Any] = {}
    header: dict[str, Any] | None = None
    for name, page in read_all(store, names):
        if page is None:
            continue
        kind = KINDS.get(name.partition("/")[0], "others") if name != HEADER else HEADER
        counts[kind] += 1
        sizes[kind] += len(page)
        if kind == "windows":
            prefix, _, inner = name.rpartition("/")
            windows.setdefault(f"{prefix}/", []).append(inner)
            continue
        try:
            if name == HEADER:
                header = _header(page)
            elif kind == "streams":
                StreamState.load(name.removeprefix("s/"), page, store.get)
            else:
                body = read_page(page, repr(name))
                generations = body if name == "generations" and isinstance(body, dict) else generations
        except (SnapshotError, StoreError) as error:
            damaged[name] = str(error)
    if HEADER not in names:
        damaged[HEADER] = "it is not there"
    for number in range(0 if header is None else header["changes"]):
        if f"g/{number}" not in names:
            damaged[f"g/{number}"] = f"it is not there, and {HEADER!r} names it"
            break  # a damaged number would name as many as it likes
    found = {prefix: scrub(_Under(store, prefix, inside)) for prefix, inside in windows.items()}
    damaged |= {
        f"{prefix}{name}": why for prefix, each in found.items() for name, why in each.damaged.items()
    }
    kinds = {kind: Kind(counts[kind], sizes[kind]) for kind in sorted(counts)}
    unneeded = [
        f"{prefix}{name}"
        for prefix, each in found.items()
        for name in (each.unneeded if _is_current(prefix, generations) else windows[prefix])
    ]
    return Scrub(header, sum(each.keys for each in found.values()), kinds, damaged, unneeded)


def _is_current(prefix: str, generations: Mapping[str, Any]) -> bool:
    """Whether windows are those of the definition that a stream has now. Others were left by one that was replaced."""
    _, generation, name = prefix.rstrip("/").split("/", 2)
    return generation == str(generations.get(name, 0))


def _header(page: bytes) -> dict[str, Any]:
    found = read_page(page, "the space")
    order = found.get("order") if isinstance(found, dict) else None
    if not isinstance(order, str):
        raise CorruptSnapshot("the header of the space has no order")
    read = SpaceHeader.read(page, order)
    names = ("order", "watermark", "source", "changes", "waiting")
    return {name: getattr(read, name) for name in names}


class _Under:
    """Pages under a prefix, as a store of their own."""

    def __init__(self, store: NamedPages, prefix: str, names: list[str]) -> None:
        self._store, self._prefix, self._names = store, prefix, names

    def names(self) -> list[str]:
        return self._names

    def get(self, names: Iterable[str]) -> Mapping[str, bytes]:
        found = self._store.get([f"{self._prefix}{name}" for name in names])
        return {name.removeprefix(self._prefix): page for name, page in found.items()}
