# SPDX-License-Identifier: Apache-2.0
"""Keyed state as a store of pages: the header in a ValueState, the other pages in a MapState, raw bytes in both."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from pyflink.common import Types
from pyflink.common.typeinfo import TypeInformation
from pyflink.datastream import RuntimeContext
from pyflink.datastream.state import MapStateDescriptor, ValueStateDescriptor

import windrow  # noqa: F401  # whole, before its parts: see the package
from windrow.storage.pages import HEADER
from windrow_flink.rowtypes import BYTES


class RawBytes(TypeInformation):
    """The type of bytes in keyed state when Python runs in the JVM's threads.

    Flink's own type for bytes copies them one by one there. A type that Flink does not know is handed to Java and stored
    as it is, which is what we want.
    """


def raw_bytes(context: RuntimeContext) -> TypeInformation:
    """The type of a state that holds bytes."""
    return RawBytes() if in_thread(context) else BYTES


def in_thread(context: RuntimeContext) -> bool:
    """Whether this function runs inside the JVM."""
    return "embedded" in type(context).__module__


class PageStates:
    """The states that hold the pages of every bucket of a slot."""

    def __init__(self, context: RuntimeContext) -> None:
        bytes_ = raw_bytes(context)
        self.header = context.get_state(ValueStateDescriptor("windrow-header", bytes_))
        self.pages = context.get_map_state(MapStateDescriptor("windrow-pages", Types.STRING(), bytes_))

    def clear(self) -> None:
        """Forget the bucket that is Flink's current key."""
        self.header.clear()
        self.pages.clear()


class BucketPages:
    """The pages of one bucket, which has to be Flink's current key whenever they are used."""

    def __init__(self, states: PageStates) -> None:
        self._states = states
        self._sizes: dict[str, int] = {}
        self.size = 0
        """How many bytes are in the pages that were read or written here."""

    def get(self, names: Iterable[str]) -> Mapping[str, bytes]:
        pages: dict[str, Any] = {name: self._page(name) for name in names}
        found = {name: bytes(page) for name, page in pages.items() if page is not None}
        for name, page in found.items():
            self._resize(name, len(page))
        return found

    def commit(self, put: Mapping[str, bytes], delete: Iterable[str]) -> None:
        for name, page in put.items():
            self._resize(name, len(page))
            if name == HEADER:
                self._states.header.update(page)
            else:
                self._states.pages.put(name, page)
        for name in delete:
            self._resize(name, 0)
            self._states.pages.remove(name)

    def _resize(self, name: str, size: int) -> None:
        self.size += size - self._sizes.pop(name, 0)
        if size:
            self._sizes[name] = size

    def _page(self, name: str) -> Any:
        return self._states.header.value() if name == HEADER else self._states.pages.get(name)
