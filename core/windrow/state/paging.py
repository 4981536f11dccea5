"""State in a store: a small header, leaves of keys, and pages of old slices that nobody needs to look into.

A window changes at its two ends only. So of a long run only the ends stay in memory; the closed slices
between are *folded*, :data:`FOLD` at a time, into one slice that holds their aggregate and stands for a page
in the store; folded slices are folded again. When the beginning of a window comes to lie inside such a
slice, it is *unfolded*: the page is read, and deleted. A page never changes, so a commit writes the new
slices, a few folded ones, and the leaves of keys that changed: never a whole window.

====================  ==========================================================================================
``header``            query, schema, watermark, the number of this commit, and which leaf was written by
which commit
``leaf.N``            keys whose tag is in [N · LEAF, (N + 1) · LEAF): their counters and the slices they hold
``rows.N``            rows that wait for the watermark
``T.L.S``             page S of level L of the key with tag T: ``FOLD`` slices, or ``FOLD`` folded ones of
the level below
====================  ==========================================================================================

Every one carries the commit that wrote it and a checksum: a store that returns stale or damaged bytes is
found out, by name.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Any

import numpy as np

from windrow.disciplines import Discipline
from windrow.errors import CorruptSnapshot, StoreError
from windrow.kernels.layout import LEVEL, NONE
from windrow.keys import Keys
from windrow.runs import Ints, State
from windrow.state import snapshot
from windrow.state.codec import compress, decompress
from windrow.state.image import image_of, is_live, load_image, load_slices, slices_of
from windrow.state.pages import HEADER, Pages

FOLD = 32
"""How many slices are folded into one."""
LEAF = 32
"""How many keys share a leaf."""
AHEAD = 1024
"""How many pages a commit has read ahead at most: they wait in memory until windows reach them."""
_NUMBER = (1 << LEVEL) - 1


class Paging:
    """Connects the state of one operator with its store."""

    def __init__(
        self, pages: Pages, fingerprint: str, state: State, discipline: Discipline, keys: Keys
    ) -> None:
        self.pages, self.fingerprint = pages, fingerprint
        self.state, self.discipline, self.keys = state, discipline, keys
        self.commits = 0
        self.leaves: dict[int, int] = {}
        self.tags = self.made = np.empty(0, dtype=np.int64)
        self.owner: dict[int, int] = {}  # the key of every slice that stands for a page
        self.next_tag = 0
        self.dirty: set[int] = set()
        self.thinned: set[int] = set()  # leaves that lost a key
        self.put: dict[str, bytes] = {}
        self.delete: set[str] = set()
        self.reached: Counter[int] = Counter()  # pages of slices unfolded since the last commit, by key
        self.broken = False
        """Reading failed in the middle of something."""
        state.unfold, state.freed, state.fold = self.unfold, self.freed, FOLD

    def touch(self, numbers: Iterable[int]) -> None:
        """The state of these keys changed."""
        if self.broken:
            raise StoreError(
                "the store failed when windows were due, so some of them are missing here: open the operator again, and "
                "it goes on from its last commit"
            )
        self.dirty.update(numbers)

    def forget(self, numbers: Ints) -> None:
        """These keys have no state any more: their leaves are to be written without them."""
        tags = self._tags()
        self.thinned |= {int(tag) // LEAF for tag in tags[numbers] if tag != NONE}
        self.dirty.difference_update(numbers.tolist())
        tags[numbers] = NONE
        self._made()[numbers] = 0

    def load(self, header: dict[str, Any]) -> None:
        """All leaves that the header names."""
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
            numbers = load_image(image, self.state, self.discipline, self.keys)
            self._tags()[numbers], self._made()[numbers] = image["tags"], image["made"]
            for key in numbers.tolist():
                self._own(key, self.state.run(key))

    def read(self, names: list[str]) -> Iterator[tuple[str, dict[str, Any]]]:
        """Pages of these names."""
        found = self.pages.get(names) if names else {}
        for name in names:
            yield name, self._read(found, name)

    def commit(
        self, header: Mapping[str, Any], more: Mapping[str, bytes], gone: Iterable[str], reached: int
    ) -> int:
        """Write what changed, all at once; returns the number of bytes. After an error the same commit can
        be tried again."""
        self.touch(())
        self._fold_long_runs(reached)
        number = self.commits + 1
        put = {**self.put, **more}
        delete = {*self.delete, *gone}
        leaves = dict(self.leaves)
        for leaf, numbers in self._dirty_leaves().items():
            if len(numbers):
                image = image_of(self.state, self.discipline, self.keys, numbers)
                names = {"tags": self._tags()[numbers].tolist(), "made": self._made()[numbers].tolist()}
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
        self._look_ahead()
        self.put, self.delete, self.dirty, self.thinned = {}, set(), set(), set()
        return sum(map(len, put.values()))

    def _look_ahead(self) -> None:
        """Have the pages read that the windows of changed keys will reach next, if the store reads in the background."""
        prefetch = getattr(self.pages, "prefetch", None)
        if prefetch is not None:
            paged = [key for key in sorted(self.dirty) if self._made()[key]]
            prefetch(list(islice((name for key in paged for name in self._next(key)), AHEAD)))
        self.reached.clear()

    def _next(self, key: int) -> Iterator[str]:
        """The pages that a key's windows will reach if they go on as since the last commit, and one more of slices."""
        runs, left = self.state.runs, self.reached[key] + 1
        slot = int(runs.first[key])
        while slot != NONE:
            for page in _below(int(runs.page[slot])) if runs.page[slot] else ():
                yield self._page(key, page)
                left -= page >> LEVEL == 1
                if left == 0:
                    return
            slot = int(runs.follower[slot])

    def unfold(self, slot: int) -> None:
        """Put the slices of a page where the one is that stands for it; the page goes."""
        key = self.owner[slot]
        page = int(self.state.runs.page[slot])
        name = self._page(key, page)
        image = self._fetched([name])[name]
        if self.put.pop(name, None) is None:
            self.delete.add(name)
        del self.owner[slot]
        self.reached[key] += page >> LEVEL == 1
        placed = self.state.unfolded(key, slot, load_slices(image, self.state))
        self._own(key, placed)
        self.discipline.rearranged(key, gone=placed[:0], new=placed)
        self.touch([key])

    def unfold_copies(self, state: State, keys: Ints) -> None:
        """In another state, which has copies of some runs, put slices where one stands for a page; the pages stay."""
        left = [(key, slot) for key in keys.tolist() for slot in state.run(key).tolist()]
        while left := [(key, slot) for key, slot in left if state.runs.page[slot]]:
            names = [self._page(key, int(state.runs.page[slot])) for key, slot in left]
            images = self._fetched(names)
            below = []
            for (key, slot), name in zip(left, names, strict=True):
                placed = state.unfolded(key, slot, load_slices(images[name], state))
                below += [(key, each) for each in placed.tolist()]
            left = below

    def _fetched(self, names: list[str]) -> dict[str, dict[str, Any]]:
        """Pages that are to be written, or are in the store."""
        stored = [name for name in names if name not in self.put]
        try:
            found = {**(self.pages.get(stored) if stored else {}), **self.put}
            return {name: self._read(found, name) for name in names}
        except Exception:
            self.broken = True
            raise

    def unfold_all(self) -> None:
        """Have every slice in memory."""
        while len(folded := np.flatnonzero(self.state.runs.page)):
            self.unfold(int(folded[0]))

    def freed(self, slots: Ints) -> None:
        """Slices were evicted: the pages they stand for go too, with all below them."""
        runs = self.state.runs
        for slot in slots[runs.page[slots] != 0].tolist():
            key = self.owner.pop(slot)
            for name in (self._page(key, page) for page in _below(int(runs.page[slot]))):
                if self.put.pop(name, None) is None:
                    self.delete.add(name)
            runs.page[slot] = 0
            self.touch([key])  # its leaf must not name the page any more, even if nothing else has changed

    def _fold_long_runs(self, reached: int) -> None:
        held = self.state.runs.held
        for key in sorted(key for key in self.dirty if held[key] > 4 * FOLD):
            self._tag(key)
            self._fold_run(key, self.discipline.closed(key, reached))

    def _fold_run(self, key: int, closed: Any) -> None:
        """Fold slices that lie before ``closed``, then folded ones, while there are two folds of them."""
        runs = self.state.runs
        level, again = 0, True
        while again:
            slots = self.state.run(key)
            can = (runs.page[slots] >> LEVEL == level) & (runs.stop[slots] < closed)
            if level == 0:
                can &= ~self._in_use(key, slots)
            places = np.flatnonzero(can)[:-FOLD]
            groups = _groups(places, (runs.page[slots[places]] & _NUMBER) - 1)
            again = any([self._fold(key, slots[group], level) for group in groups])
            level += 1

    def _in_use(self, key: int, slots: Ints) -> Any:
        """Which slices of a run windows will leave next: a fold after the beginning of each, and what lies before all."""
        begins = np.flatnonzero(np.isin(slots, self.state.slides.lo[:, key]))
        used = np.arange(len(slots)) < (begins[0] if len(begins) else FOLD)
        for begin in begins.tolist():
            used[begin : begin + FOLD] = True
        return used

    def _fold(self, key: int, slots: Ints, level: int) -> bool:
        """Let the first of these slices stand for all of them; false if a window begins inside."""
        state = self.state
        runs, slides = state.runs, state.slides
        first, rest, last = int(slots[0]), slots[1:], int(slots[-1])
        if np.isin(slides.lo[:, key], slots).any():
            return False
        if level == 0:
            number = int(self._made()[key])
            self._made()[key] += 1
        else:
            number = ((int(runs.page[first]) & _NUMBER) - 1) // FOLD
        page = (level + 1) << LEVEL | number + 1
        name = self._page(key, page)
        self.put[name] = self.written(name, slices_of(state, slots))
        for which in range(state.windows):
            if slides.back[which, key] in slots[:-1]:
                slides.back[which, key] = NONE
            if slides.front[which, key] in slots[:-1] or slides.back[which, key] == NONE:
                slides.front[which, key] = NONE  # lcs is computed anew at the next window
            for pointer in (slides.front, slides.back):
                if pointer[which, key] == last:
                    pointer[which, key] = first
        for tower in state.towers:
            tower.kernels.fold(tower.parts, slots)
        newer = int(runs.follower[last])
        runs.stop[first], runs.page[first], runs.follower[first] = runs.stop[last], page, newer
        if newer == NONE:
            runs.last[key] = first
        else:
            runs.leader[newer] = first
        runs.held[key] -= len(rest)
        runs.cursor[key] = NONE
        self.owner[first] = key
        for slot in rest.tolist():
            self.owner.pop(slot, None)
        self.discipline.rearranged(key, gone=rest, new=slots[:1])
        state.rearranged.add(key)
        state.give_back(rest)
        return True

    def _page(self, key: int, page: int) -> str:
        return _name(int(self._tags()[key]), page)

    def _own(self, key: int, slots: Ints) -> None:
        for slot in slots[self.state.runs.page[slots] != 0].tolist():
            self.owner[slot] = key

    def _dirty_leaves(self) -> dict[int, Ints]:
        """The keys of every leaf that has to be written, those that still have state."""
        live = is_live(self.state, self.discipline)
        for key in sorted(self.dirty):
            if live[key]:
                self._tag(key)
        tags = self._tags()
        leaves = sorted(self.thinned | {int(tags[key]) // LEAF for key in self.dirty if tags[key] != NONE})
        chosen = np.flatnonzero(live & (tags != NONE) & np.isin(tags // LEAF, leaves))
        chosen = chosen[np.argsort(tags[chosen])]
        of = tags[chosen] // LEAF
        return {leaf: chosen[of == leaf] for leaf in leaves}

    def _tag(self, key: int) -> None:
        if self._tags()[key] == NONE:
            self._tags()[key] = self.next_tag
            self.next_tag += 1

    def _tags(self) -> Ints:
        """The tag of each key: its name in the store."""
        self.tags = _fitted(self.tags, self.state.keys, NONE)
        return self.tags

    def _made(self) -> Ints:
        """How many pages of slices each key has had."""
        self.made = _fitted(self.made, self.state.keys, 0)
        return self.made

    def written(self, name: str, image: Mapping[str, Any]) -> bytes:
        """An image as the bytes of the page of this name."""
        return compress(snapshot.write({**image, "name": name}, self.fingerprint))

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


def _groups(places: Ints, numbers: Ints) -> list[Ints]:
    """Which places of a run can be folded: FOLD side by side, whose pages, if they stand for any, are numbered likewise.

    >>> side_by_side = np.arange(70) + 5
    >>> [(int(group[0]), len(group)) for group in _groups(side_by_side, np.full(70, -1))]
    [(5, 32), (37, 32)]
    >>> [(int(group[0]), len(group)) for group in _groups(side_by_side, np.arange(70) + 20)]
    [(17, 32)]
    """
    groups = []
    for stretch in np.split(np.arange(len(places)), np.flatnonzero(np.diff(places) != 1) + 1):
        number = numbers[stretch] if (numbers[stretch] >= 0).all() else np.arange(len(stretch))
        for begin in np.flatnonzero(number[: max(len(number) - FOLD + 1, 0)] % FOLD == 0).tolist():
            if number[begin + FOLD - 1] - number[begin] == FOLD - 1:
                groups.append(places[stretch[begin : begin + FOLD]])
    return groups


def _below(page: int) -> Iterator[int]:
    """A page and all below it, in the order of their slices, each before those below it."""
    yield page
    level, number = page >> LEVEL, (page & _NUMBER) - 1
    if level > 1:
        for below in range(number * FOLD, (number + 1) * FOLD):
            yield from _below((level - 1) << LEVEL | below + 1)


def _name(tag: int, page: int) -> str:
    return f"{tag}.{page >> LEVEL}.{(page & _NUMBER) - 1}"


def _fitted(array: Ints, length: int, fill: int) -> Ints:
    if len(array) < length:
        array = np.append(array, np.full(length - len(array), fill, dtype=np.int64))
    return array
