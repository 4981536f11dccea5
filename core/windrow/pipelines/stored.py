# SPDX-License-Identifier: Apache-2.0
"""The states of a space's streams, and the pages of its next commit."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import pairwise

from windrow.errors import CorruptSnapshot
from windrow.pipelines.graph import Graph
from windrow.pipelines.state import StreamState
from windrow.pipelines.values import fits
from windrow.storage.pages import Pages

__all__ = ["StoredStreams"]


class StoredStreams:
    """The states of streams over a store. What is ``put``, and what is ``gone``, waits for the commit."""

    def __init__(self, pages: Pages, graph: Graph) -> None:
        self.pages, self.graph = pages, graph
        self.put: dict[str, bytes] = {}
        self.gone: dict[str, None] = {}
        self._states: dict[str, StreamState] = {}

    def of(self, name: str) -> StreamState:
        """The state of a stream; it is read from the store when it is first needed."""
        found = self._states.get(name)
        if found is None:
            found = self._stored(name)
            self._check(name, found)
            self._states[name] = found
        return found

    def write(self, changed: Iterable[str]) -> None:
        """The pages of these streams, as far as they are still there, belong to the commit."""
        for name in changed:
            if name in self.graph.streams:
                put, gone = self.of(name).pages(name)
                self.put |= put
                self.gone |= dict.fromkeys(gone)

    def commit(self, put: Mapping[str, bytes], gone: Iterable[str]) -> None:
        """Write everything, and these pages too, all or nothing."""
        self.put.update(put)
        self.pages.commit(self.put, [name for name in (*self.gone, *gone) if name not in self.put])
        self.put.clear()
        self.gone.clear()

    def forget(self, pages: Iterable[str]) -> None:
        self.gone |= dict.fromkeys(pages)

    def restart(self, name: str) -> StreamState:
        """The state of a stream with another definition. Values are of the old one's channels: forgotten, not checked."""
        state = self._states[name] = self._states.get(name) or self._stored(name)
        state.restart()
        return state

    def drop(self, name: str) -> None:
        put, gone = self.restart(name).pages(name)
        self.forget((*put, *gone))
        for page in self.gone:  # in place: windows put their pages here
            self.put.pop(page, None)
        del self._states[name]

    def _stored(self, name: str) -> StreamState:
        page = self.pages.get([f"s/{name}"]).get(f"s/{name}") if f"s/{name}" not in self.gone else None
        return StreamState() if page is None else StreamState.load(name, page, self.pages.get)

    def _check(self, name: str, state: StreamState) -> None:
        """Values from a store are of the channels' types, and in order."""
        channels = self.graph.channels(name) or {}
        rows = [values for _, values in state.history] + ([state.values] if state.values is not None else [])
        ids = [at for at, _ in state.history]
        if not all(fits(values, channels) for values in rows) or any(a > b for a, b in pairwise(ids)):
            raise CorruptSnapshot(f"the state of stream {name!r} does not fit its channels")
