# SPDX-License-Identifier: Apache-2.0
"""The rows of whole windows in snapshots and stores.

A row is written once, in a page with all rows that came since the last commit, and never again, until many small
pages are gathered into one. A page goes when windows need none of its rows any more.

The rows of a frozen key are in its cold block. When it thaws, they are written again; then they may also be in an
earlier page that other keys need. A position of a key stands for one row only, so either copy is as good.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np

from windrow.columns.ipc import columns_from_ipc, columns_to_ipc
from windrow.errors import CorruptSnapshot
from windrow.kernels.slices.layout import NONE
from windrow.operator.buffer import MOST_PAGES
from windrow.operator.extents import ExtentState
from windrow.operator.keys import Keys
from windrow.operator.plan import Ints
from windrow.operator.slices import SliceTable
from windrow.storage.validate import check_keys, numbers, to_bytes


class Page(NamedTuple):
    """What a page holds: for each of its keys, positions up to an end."""

    keys: Ints
    ends: Ints


class StoredRows:
    """Reads and writes the rows of one slice table, for each function of whole windows."""

    def __init__(self, table: SliceTable, keys: Keys) -> None:
        self.table, self.keys = table, keys
        self.states = {state.name: state for state in table.aggregates if isinstance(state, ExtentState)}
        self._pages: dict[str, dict[str, Page]] = {name: {} for name in self.states}
        self._written = {name: np.zeros(0, np.int64) for name in self.states}
        """For each key, positions before this one are in pages."""
        self._gone: list[str] = []

    @property
    def needed(self) -> int:
        """How many rows windows still need."""
        every = np.arange(len(self.table.slices.first))
        held = (state.rows.end - state.needed(self.table.slices, every) for state in self.states.values())
        return max((int(rows.sum()) for rows in held), default=0)

    def images(self, order: Ints) -> list[dict[str, Any]]:
        """The rows of these keys as plain values. Each key's first row has position 0."""
        found = []
        for state in self.states.values():
            begins = self._needed(state, order)
            image = self._image(state, order, begins, state.rows.end[order])
            found.append({**image, "firsts": to_bytes(np.zeros(len(order), np.int64))})
        return found

    def pages(self, commit: int) -> tuple[list[str], dict[str, dict[str, Any]], list[str]]:
        """For the pages of a commit: all names, what is new under its name, and names that are gone."""
        fresh: dict[str, dict[str, Any]] = {}
        for place, state in enumerate(self.states.values()):
            name = f"extent.{commit}.{place}"
            pages = self._pages[state.name]
            if name in pages:
                del pages[name]  # the commit is tried again
            else:
                self._drop_unneeded(state)
            image = self._new(state, name)
            fresh |= {} if image is None else {name: image}
        return [name for pages in self._pages.values() for name in pages], fresh, self._gone

    def committed(self) -> None:
        """The pages of the last commit are written, and those that are gone are deleted."""
        self._gone = []
        for state in self.states.values():
            self._written[state.name] = state.rows.end.copy()
            state.rows.committed()

    def load(self, entries: Iterable[tuple[str, dict[str, Any]]]) -> None:
        """Load what :meth:`images` or :meth:`pages` gave, after the slices of their keys."""
        pieces: dict[str, list[_Piece]] = {name: [] for name in self.states}
        for page, image in entries:
            state = self.states.get(image["of"])
            if state is None:
                raise CorruptSnapshot(
                    f"there are rows of {image['of']!r}, which is not a function of whole windows"
                )
            piece = self._piece(state, image)
            pieces[state.name].append(piece)
            if page:
                self._pages[state.name][page] = Page(piece.keys, piece.firsts + piece.counts)
        self.table.ensure_keys()
        for name, state in self.states.items():
            _fill(state, pieces[name], self.table)
            self._check_rows(state)
            self._written[name] = state.rows.end.copy()

    def _new(self, state: ExtentState, name: str) -> dict[str, Any] | None:
        """The page of all rows that are in no page yet; of all rows, if there are many pages."""
        rows, pages = state.rows, self._pages[state.name]
        if len(pages) >= MOST_PAGES:
            self._gone += list(pages)
            pages.clear()
            self._written[state.name] = np.zeros(0, np.int64)
        written = np.pad(self._written[state.name], (0, len(rows.end) - len(self._written[state.name])))
        written = np.where(rows.returned, 0, written)
        keys = np.flatnonzero(rows.end > written)
        begins = np.maximum(written[keys], self._needed(state, keys))
        some = rows.end[keys] > begins
        keys, begins = keys[some], begins[some]
        if not len(keys):
            return None
        pages[name] = Page(keys, rows.end[keys])
        return self._image(state, keys, begins, rows.end[keys])

    def _image(self, state: ExtentState, keys: Ints, begins: Ints, ends: Ints) -> dict[str, Any]:
        return {
            "of": state.name,
            "rows": columns_to_ipc(state.rows.rows(keys, begins, ends), state.whole.stored),
            "keys": self.keys.plain(keys),
            "firsts": to_bytes(begins),
            "counts": to_bytes(ends - begins),
        }

    def _piece(self, state: ExtentState, image: dict[str, Any]) -> _Piece:
        check_keys(image["keys"], self.keys.fields)
        firsts, counts = (numbers(image, name, len(image["keys"])) for name in ("firsts", "counts"))
        values = columns_from_ipc(image["rows"], state.whole.stored)
        held = len(values[0])
        within = (firsts >= 0) & (counts >= 0) & (firsts <= 1 << 60) & (counts <= held)
        if not within.all() or int(counts.sum()) != held:
            raise CorruptSnapshot(f"the number of rows of {state.name!r} does not match their keys")
        return _Piece(self.keys.load(image["keys"]), firsts, counts, values)

    def _needed(self, state: ExtentState, keys: Ints) -> Ints:
        return np.maximum(state.needed(self.table.slices, keys), state.rows.begin[keys])

    def _check_rows(self, state: ExtentState) -> None:
        """Every slice has its rows. A key whose rows were all left out goes on where its slices say."""
        slices, rows = self.table.slices, state.rows
        lo, hi = state.partials.parts
        keys = np.flatnonzero(slices.first != NONE)
        begins, ends = lo[slices.first[keys]], hi[slices.last[keys]]
        without = begins == ends
        rows.resume(keys[without], ends[without])
        if ((rows.begin[keys] > begins) | (rows.end[keys] < ends))[~without].any():
            raise CorruptSnapshot(f"the state does not have all rows of {state.name!r}")

    def _drop_unneeded(self, state: ExtentState) -> None:
        pages = self._pages[state.name]
        for name, page in list(pages.items()):
            if not (page.ends > self._needed(state, page.keys)).any():
                del pages[name]
                self._gone.append(name)


class _Piece(NamedTuple):
    """The rows of an image: for each key, how many, and the position of the first."""

    keys: Ints
    firsts: Ints
    counts: Ints
    values: tuple[Any, ...]


def _fill(state: ExtentState, pieces: list[_Piece], table: SliceTable) -> None:
    """Put the rows of all pieces into the row store, those of each key by position. Pages may have a row twice."""
    pieces = [piece for piece in pieces if len(piece.counts)]
    if not pieces:
        return
    keys = np.concatenate([np.repeat(piece.keys, piece.counts) for piece in pieces])
    positions = np.concatenate([_positions(piece) for piece in pieces])
    state.rows.expect(keys, positions)
    wanted = positions >= state.needed(table.slices, keys)
    order = np.flatnonzero(wanted)[np.lexsort((positions[wanted], keys[wanted]))]
    if table.paging is not None:
        again = (keys[order[1:]] == keys[order[:-1]]) & (positions[order[1:]] == positions[order[:-1]])
        order = order[np.append(True, ~again)[: len(order)]]
    values = [
        np.concatenate(columns)[order] for columns in zip(*(piece.values for piece in pieces), strict=True)
    ]
    if not state.rows.fill(keys[order], positions[order], values):
        raise CorruptSnapshot(f"rows of {state.name!r} are missing or duplicated")


def _positions(piece: _Piece) -> Ints:
    ends = np.cumsum(piece.counts)
    return np.repeat(piece.firsts - (ends - piece.counts), piece.counts) + np.arange(int(ends[-1]))
