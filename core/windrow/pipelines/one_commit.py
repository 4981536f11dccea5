# SPDX-License-Identifier: Apache-2.0
"""A store that has to hold one known commit while a space reads from it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from windrow.errors import StoreTaken
from windrow.storage.pages import HEADER, Pages

__all__ = ["OneCommit"]


class OneCommit:
    """Pages of the commit that was read or written last, and of no other.

    A stream without a page is one that had no update yet. So a space that reads a page when it first needs it would take
    a store that has lost its pages, or that another process has changed, for one of streams without updates. Every read
    asks for the header too, which no two commits that matter have in common.
    """

    def __init__(self, pages: Pages) -> None:
        self.pages = pages
        self._headers: list[bytes | None] = []
        """What the header may be: that of the last commit, and of those since then that reported an error."""

    def get(self, names: Iterable[str]) -> dict[str, bytes]:
        wanted = list(names)
        found = self.pages.get(list(dict.fromkeys((HEADER, *wanted))))
        page = found.get(HEADER)
        header = None if page is None else bytes(page)
        self._headers = self._headers or [header]
        if header not in self._headers:
            raise StoreTaken(
                "the store of the space does not hold its last commit any more: another process has it, or it has lost "
                "commits; end the other one, and open the space again: it goes on from what is there"
            )
        return {name: found[name] for name in wanted if name in found}

    def commit(self, put: Mapping[str, bytes], delete: Iterable[str]) -> None:
        self._headers.append(bytes(put[HEADER]))  # if an error follows, nobody knows which of them is there
        self.pages.commit(put, delete)
        del self._headers[:-1]
