"""Keyed state as a store of pages: the header in a ValueState, the other pages in a MapState, raw bytes in both."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from pyflink.common import Types
from pyflink.common.typeinfo import TypeInformation
from pyflink.datastream import RuntimeContext
from pyflink.datastream.state import MapStateDescriptor, StateTtlConfig, ValueStateDescriptor

from windrow.state.pages import HEADER
from windrow_flink.rowtypes import BYTES


class RawBytes(TypeInformation):
    """Bytes in keyed state when Python runs in the JVM's threads, where Flink's own type for them copies one byte at a time.

    What Flink does with a type that it does not know is just right: it hands the bytes to Java as they are,
    and stores them as such.
    """


def raw_bytes(context: RuntimeContext) -> TypeInformation:
    """The type of a state that holds bytes."""
    return RawBytes() if in_thread(context) else BYTES


def in_thread(context: RuntimeContext) -> bool:
    """Does this function run inside the JVM?"""
    return "embedded" in type(context).__module__


class FlinkPages:
    """The pages of the bucket that is Flink's current key.

    ``version`` counts the commits, so that what is decoded can be kept between them.
    """

    def __init__(self, context: RuntimeContext, ttl: StateTtlConfig | None = None) -> None:
        bytes_ = raw_bytes(context)
        descriptors = {
            "header": ValueStateDescriptor("windrow-header", bytes_),
            "version": ValueStateDescriptor("windrow-version", Types.LONG()),
            "pages": MapStateDescriptor("windrow-pages", Types.STRING(), bytes_),
        }
        for descriptor in descriptors.values():
            if ttl is not None:
                descriptor.enable_time_to_live(ttl)
        self._header = context.get_state(descriptors["header"])
        self._version = context.get_state(descriptors["version"])
        self._pages = context.get_map_state(descriptors["pages"])

    @property
    def version(self) -> int:
        return self._version.value() or 0

    def get(self, names: Iterable[str]) -> Mapping[str, bytes]:
        found: dict[str, Any] = {name: self._page(name) for name in names}
        return {name: bytes(page) for name, page in found.items() if page is not None}

    def commit(self, put: Mapping[str, bytes], delete: Iterable[str]) -> None:
        for name, page in put.items():
            if name == HEADER:
                self._header.update(page)
            else:
                self._pages.put(name, page)
        for name in delete:
            self._pages.remove(name)
        self._version.update(self.version + 1)

    def _page(self, name: str) -> Any:
        return self._header.value() if name == HEADER else self._pages.get(name)
