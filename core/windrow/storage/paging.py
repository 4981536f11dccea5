# SPDX-License-Identifier: Apache-2.0
"""State in a store: a small header, leaves of keys, and pages of old slices that nobody needs to look into.

A window changes at its two ends only. So of many slices only those at the ends stay in memory. The closed slices
between are *folded*, :data:`FOLD` at a time, into one slice that holds their aggregate and stands for a page in the
store; folded slices are folded again. When the beginning of a window comes to lie inside a folded slice, it is
*unfolded*: the page is read, and deleted. A page never changes. So a commit writes the new slices, a few folded
ones, and the leaves of keys that got rows, never a whole window. How far the windows of other keys have slid since
their leaf was written follows from the watermark; they catch up when they are loaded.

====================  ==========================================================================================
``header``            query, schema, watermark, the number of this commit, and which commit wrote each leaf
``leaf.N``            keys whose tag is in [N · LEAF, (N + 1) · LEAF): their counters and the slices they hold
``cold.N``            keys that are frozen: :mod:`windrow.operator.cold_pages`
``rows.N``            rows that wait for the watermark
``T.L.S``             page S of level L of the key with tag T: ``FOLD`` slices, or ``FOLD`` folded ones of the
                      level below
====================  ==========================================================================================

Every one carries the commit that wrote it and a checksum. A store that returns stale or damaged bytes is found out,
by name.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np

from windrow.errors import CorruptSnapshot, StoreError
from windrow.kernels.slices.layout import FOLD, LEVEL, NONE
from windrow.operator.folding import fold, unfold
from windrow.operator.keys import Keys
from windrow.operator.plan import Ints
from windrow.storage import snapshot
from windrow.storage.codec import compress, decompress
from windrow.storage.foldable import among, groups_of, in_use
from windrow.storage.image import image_of, load_image, load_slices, slices_of
from windrow.storage.pages import HEADER, Pages

if TYPE_CHECKING:
    from windrow.operator.slices import SliceTable
    from windrow.query import Query

LEAF = 32
"""How many keys share a leaf."""
AHEAD = 1024
"""How many pages a commit has read ahead at most: they wait in memory until windows reach them."""
TOGETHER = 128
"""How many pages are read at once when many are unfolded."""
_NUMBER = (1 << LEVEL) - 1


class Paging:
    """What of a slice table is in a store, and what has to be written there."""

    def __init__(self, pages: Pages, fingerprint: str) -> None:
        self.pages, self.fingerprint, self.fold = pages, fingerprint, FOLD
        self.commits = 0
        self.leaves: dict[int, int] = {}
        self.tags = self.made = self.folded = np.empty(0, dtype=np.int64)
        """For each key its name in the store, how many pages of slices it has had, and how many slices when it was folded last."""
        self.waits: dict[int, Any] = {}
        """The stop of a slice that was open when its key was folded last; once it is closed, so is a fold of others."""
        self.owner: dict[int, int] = {}  # the key of every slice that stands for a page
        self.next_tag = 0
        self.dirty: set[int] = set()
        self.thinned: set[int] = set()  # leaves that lost a key
        self.put: dict[str, bytes] = {}
        self.delete: set[str] = set()
        self.reached: Counter[int] = Counter()  # pages of slices unfolded since the last commit, by key

    def touch(self, numbers: Iterable[int]) -> None:
        """The state of these keys changed."""
        self.dirty.update(numbers)

    def forget(self, numbers: Ints) -> None:
        """These keys have no state any more: their leaves are to be written without them."""
        tags = self._fit(int(numbers.max(initial=-1)) + 1)
        self.thinned |= {int(tag) // LEAF for tag in tags[numbers] if tag != NONE}
        self.dirty.difference_update(numbers.tolist())
        tags[numbers] = NONE
        self.made[numbers] = self.folded[numbers] = 0
        for key in numbers.tolist():
            self.waits.pop(key, None)

    def keep(self, name: str, image: Mapping[str, Any]) -> None:
        """A page that will not change; the next commit writes it."""
        self.put[name] = self.written(name, image)

    def drop(self, name: str) -> None:
        """Nothing needs this page any more."""
        if self.put.pop(name, None) is None:
            self.delete.add(name)

    def renumber(self, number: Any) -> None:
        """Slices moved: the slot that each has now, by the one that it had."""
        self.owner = {int(number[slot]): key for slot, key in self.owner.items()}

    def load(self, header: dict[str, Any], table: SliceTable, keys: Keys) -> None:
        """Load all leaves that the header names."""
        self.commits, self.next_tag = header["commit"], header["next_tag"]
        self.leaves = {int(leaf): commit for leaf, commit in header["leaves"]}
        names = {leaf: f"leaf.{leaf}" for leaf in self.leaves}
        found = self.pages.get(names.values()) if names else {}
        for leaf, commit in sorted(self.leaves.items()):
            image = self._read(found, names[leaf])
            if image["commit"] != commit:
                raise StoreError(
                    f"the store returned {names[leaf]!r} of commit {image['commit']}; commit {self.commits} needs that of "
                    f"commit {commit}: it has lost or reordered writes; restore the store from a backup"
                )
            numbers = load_image(image, table, keys)
            self._fit(table.key_room)
            self.tags[numbers], self.made[numbers] = image["tags"], image["made"]
            self.folded[numbers] = 0  # what was open when it was written may be closed now
            for key in numbers.tolist():
                self._own(table, key, table.slots_of(key))

    def read(self, names: list[str]) -> Iterator[tuple[str, dict[str, Any]]]:
        """The pages of these names, as plain values."""
        found = self.pages.get(names) if names else {}
        for name in names:
            yield name, self._read(found, name)

    def fold_long(self, table: SliceTable, reached: int) -> None:
        """Fold the slices of keys that have changed and have many. Called before each commit.

        A key is looked at when it has more slices than after it was folded last, and when slices that were open then are
        closed: a window that is full has as many slices as before, however far it has slid.
        """
        self._fit(table.key_room)
        held = table.slices.held
        for key in sorted(key for key in self.dirty if held[key] > 4 * FOLD):
            closed = table.slicer.closed(key, reached)
            if held[key] >= self.folded[key] + FOLD // 2 or (key in self.waits and self.waits[key] < closed):
                self._tag(key)
                self._fold_key(table, key, closed)
                self.folded[key] = held[key]
                stops = table.slices.stop[table.slots_of(key)]
                self.waits.pop(key, None)
                if len(still_open := stops[stops >= closed]) >= FOLD:
                    self.waits[key] = still_open[FOLD - 1]

    def commit(
        self,
        table: SliceTable,
        keys: Keys,
        header: Mapping[str, Any],
        rows: Mapping[str, Mapping[str, Any]],
        gone: Iterable[str],
    ) -> int:
        """Write what changed, all at once; returns the number of bytes. After an error it can be tried again.

        ``rows`` are pages of rows that wait, ``gone`` those that wait no more.
        """
        self._fit(table.key_room)
        number = self.commits + 1
        put = {**self.put, **{name: self.written(name, image) for name, image in rows.items()}}
        delete = {*self.delete, *gone}
        leaves = dict(self.leaves)
        for leaf, numbers in self._dirty_leaves(table).items():
            if len(numbers):
                image = image_of(table, keys, numbers)
                names = {"tags": self.tags[numbers].tolist(), "made": self.made[numbers].tolist()}
                put[f"leaf.{leaf}"] = self.written(f"leaf.{leaf}", {**image, **names, "commit": number})
                leaves[leaf] = number
            elif leaf in leaves:
                delete.add(f"leaf.{leaf}")
                del leaves[leaf]
        put[HEADER] = self.written(
            HEADER,
            {**header, "commit": number, "next_tag": self.next_tag, "leaves": sorted(leaves.items())},
        )
        self.pages.commit(put, sorted(delete - set(put)))
        self.commits, self.leaves = number, leaves
        self._look_ahead(table)
        self.put, self.delete, self.dirty, self.thinned = {}, set(), set(), set()
        return sum(map(len, put.values()))

    def _look_ahead(self, table: SliceTable) -> None:
        """Ask a store that reads in the background for the pages that the windows of changed keys reach next."""
        prefetch = getattr(self.pages, "prefetch", None)
        if prefetch is not None:
            paged = [key for key in sorted(self.dirty) if self.made[key]]
            prefetch(list(islice((name for key in paged for name in self._next(table, key)), AHEAD)))
        self.reached.clear()

    def _next(self, table: SliceTable, key: int) -> Iterator[str]:
        """The pages that a key's windows reach if they go on as since the last commit, and one more of slices."""
        slices, left = table.slices, self.reached[key] + 1
        slot = int(slices.first[key])
        while slot != NONE:
            for page in _below(int(slices.page[slot])) if slices.page[slot] else ():
                yield self._page(key, page)
                left -= page >> LEVEL == 1
                if left == 0:
                    return
            slot = int(slices.newer[slot])

    def unfold(self, table: SliceTable, slot: int, ahead: int | None = None) -> None:
        """Put the slices of a page in the place of the folded one; the page goes. Called when a window begins there.

        With ``ahead``, windows will begin in all folded slices before it, of all keys: these are unfolded too. Together
        that takes a fraction of the time, because nothing is computed between.
        """
        self._unfold(table, [slot])
        while ahead is not None and (slots := self._folded(table, ahead)):
            self._unfold(table, slots)

    def _folded(self, table: SliceTable, before: int) -> list[int]:
        """The folded slices that begin before a place, in their order, which is that of pages in segments."""
        slots = np.fromiter(self.owner, dtype=np.int64, count=len(self.owner))
        slots = slots[table.slices.stamp[slots] < before]
        found: list[int] = slots[np.argsort(table.slices.stamp[slots], kind="stable")].tolist()
        return found

    def _unfold(self, table: SliceTable, folded: list[int]) -> None:
        """Unfold these slices, with room made and pages read for many at once."""
        missing = len(folded) * self.fold - int(table.slices.unused[0])
        if len(folded) > 1 and missing > 0:
            table.grow_slots(table.slot_room + missing)
        for begin in range(0, len(folded), TOGETHER):
            some = folded[begin : begin + TOGETHER]
            names = [self._page(self.owner[slot], int(table.slices.page[slot])) for slot in some]
            images = self._fetched(names)
            for slot, name in zip(some, names, strict=True):
                self.drop(name)
                key = self.owner.pop(slot)
                self.reached[key] += int(table.slices.page[slot]) >> LEVEL == 1
                self._own(table, key, unfold(table, key, slot, load_slices(images[name], table, slot)))
                self.touch([key])

    def unfold_copies(self, table: SliceTable, keys: Ints) -> None:
        """Unfold the slices of some keys in another table, which has copies of them. The pages stay."""
        self._fit(table.key_room)
        left = [(key, slot) for key in keys.tolist() for slot in table.slots_of(key).tolist()]
        while left := [(key, slot) for key, slot in left if table.slices.page[slot]]:
            names = [self._page(key, int(table.slices.page[slot])) for key, slot in left]
            images = self._fetched(names)
            below = []
            for (key, slot), name in zip(left, names, strict=True):
                placed = unfold(table, key, slot, load_slices(images[name], table, slot))
                below += [(key, each) for each in placed.tolist()]
            left = below

    def _fetched(self, names: list[str]) -> dict[str, dict[str, Any]]:
        """Pages that are in the store, or are still to be written."""
        stored = [name for name in names if name not in self.put]
        found = {**(self.pages.get(stored) if stored else {}), **self.put}
        return {name: self._read(found, name) for name in names}

    def unfold_all(self, table: SliceTable) -> None:
        """Have every slice in memory."""
        while self.owner:
            self._unfold(table, list(self.owner))

    def freed(self, table: SliceTable, slots: Ints, held: Ints) -> None:
        """Slices were evicted: the pages they stand for go too, with all below them.

        ``held`` is how many slices each key had before. The leaf of a key that has fewer now is to be written.
        """
        slices = table.slices
        for slot in slots[slices.page[slots] != 0].tolist():
            key = self.owner.pop(slot)
            for page in _below(int(slices.page[slot])):
                self.drop(self._page(key, page))
            slices.page[slot] = 0
        if len(slots):
            self.touch(np.flatnonzero(slices.held != held).tolist())

    def _fold_key(self, table: SliceTable, key: int, closed: Any) -> None:
        """Fold slices that lie before ``closed``, then folded ones, while there are two folds of them."""
        slices = table.slices
        level, again = 0, True
        while again:
            slots = table.slots_of(key)
            can = (slices.page[slots] >> LEVEL == level) & (slices.stop[slots] < closed)
            if level == 0:
                can &= ~in_use(table, key, slots, FOLD)
            places = np.flatnonzero(can)[:-FOLD]
            if len(places) < FOLD:
                return
            groups = groups_of(places, (slices.page[slots[places]] & _NUMBER) - 1, FOLD)
            again = any([self._fold(table, key, slots[group], level) for group in groups])
            level += 1

    def _fold(self, table: SliceTable, key: int, slots: Ints, level: int) -> bool:
        """Let the first of these slices stand for a page of all of them; false if a window begins inside."""
        if among(slots, table.slides.lo[:, key]).any():
            return False
        if level == 0:
            number = int(self.made[key])
            self.made[key] += 1
        else:
            number = ((int(table.slices.page[slots[0]]) & _NUMBER) - 1) // FOLD
        page = (level + 1) << LEVEL | number + 1
        name = self._page(key, page)
        self.put[name] = self.written(name, slices_of(table, slots))
        fold(table, key, slots, page)
        self.owner[int(slots[0])] = key
        for slot in slots[1:].tolist():
            self.owner.pop(slot, None)
        return True

    def _page(self, key: int, page: int) -> str:
        return page_name(int(self.tags[key]), page)

    def _own(self, table: SliceTable, key: int, slots: Ints) -> None:
        for slot in slots[table.slices.page[slots] != 0].tolist():
            self.owner[slot] = key

    def _dirty_leaves(self, table: SliceTable) -> dict[int, Ints]:
        """The keys of every leaf that has to be written, those that still have state."""
        live = table.live()
        for key in sorted(self.dirty):
            if live[key]:
                self._tag(key)
        tags = self.tags
        dirty = {int(tags[key]) // LEAF for key in self.dirty if tags[key] != NONE}
        alive = np.unique(tags[live & (tags != NONE)] // LEAF)
        leaves = sorted(self.thinned | dirty | (set(self.leaves) - set(alive.tolist())))
        chosen = np.flatnonzero(live & (tags != NONE) & np.isin(tags // LEAF, leaves))
        chosen = chosen[np.argsort(tags[chosen])]
        of = tags[chosen] // LEAF
        return {leaf: chosen[of == leaf] for leaf in leaves}

    def _tag(self, key: int) -> None:
        if self.tags[key] == NONE:
            self.tags[key] = self.next_tag
            self.next_tag += 1

    def _fit(self, keys: int) -> Ints:
        """Make room for so many keys; returns their tags."""
        self.tags, self.made = _fitted(self.tags, keys, NONE), _fitted(self.made, keys, 0)
        self.folded = _fitted(self.folded, keys, 0)
        return self.tags

    def written(self, name: str, image: Mapping[str, Any]) -> bytes:
        """An image as the bytes of the page of this name."""
        version = snapshot.CATCHING_UP if name == HEADER else snapshot.FIRST
        return compress(snapshot.write({**image, "name": name}, self.fingerprint, version=version))

    def _read(self, found: Mapping[str, bytes], name: str) -> dict[str, Any]:
        if name not in found:
            raise StoreError(
                f"the store has no {name!r}, which the state of commit {self.commits} needs: restore it from a backup"
            )
        try:
            image = snapshot.read(decompress(found[name]), self.fingerprint)
        except CorruptSnapshot as cause:
            raise StoreError(f"the store returned damaged bytes for {name!r}: {cause}") from cause
        if image["name"] != name:
            raise StoreError(
                f"the store returned {image['name']!r} when asked for {name!r}: restore it from a backup"
            )
        return image


def read_header(pages: Pages, query: Query) -> dict[str, Any] | None:
    """The header of a store, if it holds any state, and that of this query."""
    page = pages.get([HEADER]).get(HEADER)
    if page is None:
        return None
    header = snapshot.read(decompress(page), query.fingerprint, query.described, holder="state")
    if header.get("name") != HEADER:
        raise StoreError(
            f"the store returned {header.get('name')!r} when asked for {HEADER!r}: restore it from a backup"
        )
    return header


def _below(page: int) -> Iterator[int]:
    """A page and all below it, in the order of their slices, each before those below it."""
    yield page
    level, number = page >> LEVEL, (page & _NUMBER) - 1
    if level > 1:
        for below in range(number * FOLD, (number + 1) * FOLD):
            yield from _below((level - 1) << LEVEL | below + 1)


def page_name(tag: int, page: int) -> str:
    """The name under which the store has a page of the key with this tag."""
    return f"{tag}.{page >> LEVEL}.{(page & _NUMBER) - 1}"


def _fitted(array: Ints, length: int, fill: int) -> Ints:
    if len(array) < length:
        array = np.append(array, np.full(length - len(array), fill, dtype=np.int64))
    return array
