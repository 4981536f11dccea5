# SPDX-License-Identifier: Apache-2.0
"""What A²MTA knows of its buckets: which update joins one, and how far a result may be from the true one.

What is known of a bucket is what the operator's buckets know, and the same kernels decide and bound
(:mod:`windrow.kernels.slices.buckets`, :mod:`windrow.kernels.slices.bounds`). The leaves lie side by side: slot ``end`` is the
newest update, which stays alone, and the slots from ``begin`` on are the buckets before it.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from windrow.aggregates.algebra import Aggregate, Monoid, Partial
from windrow.algorithms.amta import AMTA
from windrow.algorithms.base import place, take
from windrow.approximate.bucket import bucket_of
from windrow.approximate.estimate import BOUNDS, with_error
from windrow.approximate.hops import Hops
from windrow.approximate.promise import check_promise, no_rest, promise_of
from windrow.approximate.within import AtMost, Within
from windrow.columns import arrow
from windrow.kernels.partials import allocate, slots
from windrow.kernels.slices import bounds, buckets
from windrow.kernels.slices.bucket_layout import (
    AVERAGE,
    COUNT,
    FEW,
    HIGH,
    LARGEST,
    LOW,
    MANY,
    ROWS,
    SMALLEST,
    Bounds,
    N,
)
from windrow.kernels.slices.layout import NONE, Results, Slices, Slides
from windrow.kernels.specialise import specialise

SOME = 16
"""So many leaves more than after the last time are not worth merging."""
CUT, BLANK, REST = 0, 1, 2
"""Slots of ``work``: the bucket that the window begins in, a bucket without updates, and what follows the cut."""


class Histogram:
    """The buckets of one window. Updates are numbered from 0 on; ``starts`` has the number of each leaf's first update."""

    def __init__(
        self, aggregate: Aggregate | Monoid, monoid: Monoid, within: Within | AtMost, *, hop: bool, compiled: bool
    ) -> None:  # fmt: skip
        self.monoid, self.within = monoid, within
        self.bucket = bucket_of(monoid.name, aggregate, monoid)
        check_promise(monoid.name, self.bucket, monoid, within, counting=False)
        self.promise = promise_of(within, [self.bucket], counting=False, searched=True)
        self.hops = Hops(self.promise.confidence) if hop else None
        self.rest, self.seam = no_rest(1), slots(self.bucket.monoid)
        self.buckets = specialise(
            buckets, {}, compiled=False
        )  # to call compiled code takes longer than one step
        self.bounds = specialise(bounds, self.seam, compiled=False)
        self.thin = specialise(buckets, {}, compiled=compiled).thin
        self.parts, self.starts = allocate(self.bucket.monoid, 2 * SOME), np.zeros(2 * SOME, dtype=np.int64)
        self.work = allocate(self.bucket.monoid, 3)
        self.begin = self.end = 0
        self.first = self.seen = 0
        """The first update of the window, or the first that may be; and how many updates there were."""
        self.inside, self.sure, self.lost = False, True, False
        """Does the window begin inside the cut? Is it known where? Is nothing known any more?"""
        self.cut_length = 0
        self.closed = self._closed()
        """What is known of all buckets but the last."""
        self.constrained = False
        """A level was evicted: from then on buckets are of about equal size."""
        self._thinned, self._since, self._sampled = 0, 0, True

    @property
    def leaves(self) -> int:
        """How many leaves there are: buckets, the newest update, and the bucket that the window begins in."""
        return self.end - self.begin + int(self.seen > self.first) + int(self.inside)

    @property
    def full(self) -> bool:
        """No bucket may come before a level is evicted. The newest update and the cut are leaves too."""
        return self.within.leaves is not None and self.end - self.begin + 2 >= self.within.leaves

    # An update comes.

    def place(self, partial: Partial) -> None:
        """An update has come. What is known of it is put behind the newest one, until ``settle``. Its rows stay together."""
        self._make_room()
        slot, monoid, kind = self.end + 1, self.bucket.monoid, self.bucket.kind
        place(monoid, self.parts, slot, monoid.identity)
        value = self.monoid.result(partial)
        if kind in (COUNT, ROWS):
            self.parts[N][slot] = value if kind == COUNT else 1
        elif value is not None:
            self.seam["add"](self.parts, slot, 0, (np.array([value]),))
            if kind == AVERAGE and partial[-1] != 1:
                rows, off = partial[-1], 8e-16 * abs(value * partial[-1])
                self.parts[LOW][slot], self.parts[HIGH][slot] = value * rows - off, value * rows + off
                self.parts[SMALLEST][slot] = np.nextafter(value, -np.inf)
                self.parts[LARGEST][slot] = np.nextafter(value, np.inf)
                self.parts[N][slot] = rows

    def joins(self) -> bool:
        """Whether the newest update joins the last bucket, now that there is another one after it."""
        if self.end == self.begin:
            return False
        start = int(self.starts[self.end - 1])
        span, held = self.seen - start, self.seen - self.first
        if self.constrained and span <= -(-held // ((self.within.leaves or 3) - 2)):
            return True
        if self.hops is not None and self.hops.share(start - self.first, held - 1):
            return True
        rest, after = self.rest, self.end + 1
        pairs = (
            (rest.low, LOW),
            (rest.high, HIGH),
            (rest.smallest, SMALLEST),
            (rest.largest, LARGEST),
            (rest.n, N),
        )
        for field, part in pairs:
            field[0] = self.parts[part][after]
        return bool(self.buckets.fits(self.parts, self.end - 1, self.end, self.promise, 0, rest, span))

    def settle(self, joined: bool) -> None:
        """The update that has come is the newest. The one before it has joined the last bucket, or is a bucket now."""
        if joined:
            self.buckets.unite(self.parts, self.end - 1, self.end, self.bucket.kind)
        if joined or self.seen == self.first:
            for part in self.parts:
                part[self.end] = part[self.end + 1]
        else:
            if self.end > self.begin:
                self.closed.insert(self._leaf(self.end - 1))
            self.end += 1
        self.starts[self.end] = self.seen
        self.seen, self._since, self._sampled = self.seen + 1, self._since + 1, False

    # Buckets become one.

    def merges(self) -> list[tuple[int, int]]:
        """Merge buckets as far as the promise allows. Pairs of leaves, counted from the oldest: the second is in the first now.

        That is done when there are a quarter more of them than after the last time, and predictions are renewed then.
        """
        held = self.end - self.begin
        due = held > self._thinned + max(SOME, self._thinned // 4)
        stale = self.sampling and self._since > held + SOME
        if isinstance(self.within, AtMost) or not (due or stale):
            return []
        self._since = 0
        into, gone = np.empty(held + 1, dtype=np.int64), np.empty(held + 1, dtype=np.int64)
        slices, slides = _in_a_row(held + 1)
        leaves = tuple(part[self.begin : self.end + 1] for part in self.parts)
        count = self.thin(
            slices, slides, np.zeros(1, dtype=np.int64), np.array([held + 1]), (leaves,), self.promise,
            self.rest, 0, into, gone,
        )  # fmt: skip
        if count:
            stay = np.ones(held + 1, dtype=np.bool_)
            stay[gone[:count]] = False
            self._keep(np.flatnonzero(stay) + self.begin)
        self._thinned = self.end - self.begin
        return list(zip(into[:count].tolist(), gone[:count].tolist(), strict=True))

    def drop_level(self, odd: bool) -> None:
        """Neighbours become one. ``odd`` says that the oldest bucket has lost its neighbour."""
        stay = [self.begin] if odd else []
        for slot in range(self.begin + odd, self.end, 2):
            stay.append(slot)
            if slot + 1 < self.end:
                self.buckets.unite(self.parts, slot, slot + 1, self.bucket.kind)
        self._keep(np.array([*stay, self.end]))
        self.constrained = True

    # The window begins later.

    def evict(self, n: int) -> int:
        """The window begins n updates later, with one that is there; how many buckets are gone or cut."""
        first = self.first + n
        position = int(np.searchsorted(self.starts[self.begin : self.end + 1], first)) + self.begin
        gone, exact = position - self.begin, self.starts[position] == first
        if exact:
            self._evict(position)
        elif gone:
            self._cut(position - 1)
        self.first = first
        if self.hops is not None:
            self.hops.evicted(n, self.seen - first)
        return gone

    def begin_inside(self, gone: int) -> int:
        """The window begins in the last of so many buckets, after its first update, or after the bucket."""
        if gone:
            self._cut(self.begin + gone - 1)
        if self.inside and self.cut_length > 1:
            self._widen(whole=False)
            self.first = max(self.first, int(self.starts[self.begin]) - self.cut_length + 1)
        else:
            self._evict(self.begin)
            self.first = int(self.starts[self.begin])
        return gone

    def begin_within(self, gone: int) -> int:
        """So many buckets are gone. The window begins with the next one, or inside it; how many are gone or cut."""
        position = self.begin + gone
        if gone or not self.inside:
            self._evict(position)
            self.first = int(self.starts[position])
        if position == self.end or self.starts[position + 1] - self.starts[position] == 1:
            return gone
        self._cut(position)
        self._widen(whole=True)
        return gone + 1

    def leave_cut(self) -> None:
        """The window begins after the cut."""
        self._evict(self.begin)
        self.first = int(self.starts[self.begin])

    def hopped(self, before: int) -> None:
        """A policy has evicted updates; there were so many gone before. Of what is not known, the most counts."""
        size = int(self.starts[self.begin]) - before
        if self.hops is not None and size:
            self.hops.evicted(size, self.seen - self.first)

    def lose(self) -> None:
        """What a policy decides of a cut bucket may not be what it decides of the true window."""
        self.lost = True

    def clear(self) -> None:
        """All updates are gone."""
        if self.hops is not None:
            self.hops.evicted(self.seen - self.first, 0)
        self.begin = self.end = 0
        self.first, self.inside, self.sure, self.lost = self.seen, False, True, False
        self.closed, self._thinned = self._closed(), 0

    # Results.

    @property
    def sampling(self) -> bool:
        """Are results kept for predictions?"""
        return bool(self.promise.confidence > 0.0)

    def estimate(self, partial: Partial) -> tuple[Any, float]:
        """A result and its error, from the aggregate of all leaves but the cut."""
        value, kind = self.monoid.result(partial), self.bucket.kind
        found = arrow.blanks(Bounds, 1, BOUNDS, fill=0)
        found.inside[0] = self.inside
        rest = self._rest() if self.inside or self.sampling else ()
        if self.inside:
            self.bounds.bound_inside(self.work, CUT, rest, kind, self._suffix(), found, 0)
        if self.sampling and not self._sampled and kind != ROWS:
            self.bounds.keep_result(self.parts, self.end, rest, kind, found, 0)
            self._sampled = True
        if self.lost or not self.inside:
            return value, math.inf if self.lost else 0.0
        if kind == ROWS:
            return value, float(found.missing[0])
        one = Results(np.zeros(1, dtype=self.monoid.results), np.ones(1, dtype=np.bool_))
        results, error = with_error(self.bucket, one, found)
        return results.out[0].item() if results.ok[0] else None, float(error[0])

    def _suffix(self) -> tuple[int, int]:
        """How many rows of the cut are in the window, at the least and at the most."""
        if self.sure and self.work[N][CUT] == self.cut_length:  # an update is a row
            left = int(self.starts[self.begin]) - self.first
            return left, left
        return int(self.work[FEW][CUT]), int(self.work[MANY][CUT])

    def _rest(self) -> Any:
        """What is known of all that follows the cut."""
        place(self.bucket.monoid, self.work, REST, self.closed.query())
        for slot in range(max(self.end - 1, self.begin), self.end + 1):
            self.seam["merge"](self.work, REST, self.work, REST, self.parts, slot)
        return tuple(part[REST : REST + 1] for part in self.work)

    # The arrays.

    def _evict(self, position: int) -> None:
        """The leaves before a position are gone, and the window begins there."""
        self.closed.evict(min(position - self.begin, len(self.closed)))
        self.begin, self.inside, self.sure = position, False, True

    def _cut(self, position: int) -> None:
        """The leaves before a position are gone, and the window begins inside the leaf at it."""
        place(self.bucket.monoid, self.work, CUT, self._leaf(position))
        self.cut_length = int(self.starts[position + 1] - self.starts[position])
        self._evict(position + 1)
        self.inside = True

    def _widen(self, *, whole: bool) -> None:
        """It is not known where in the cut the window begins: all of it may be there, or nothing."""
        monoid, work = self.bucket.monoid, self.work
        place(monoid, work, BLANK, monoid.identity)
        if whole:
            self.buckets.unite(work, BLANK, CUT, self.bucket.kind)
            place(monoid, work, CUT, take(monoid, work, BLANK))
        else:
            self.buckets.unite(work, CUT, BLANK, self.bucket.kind)
        self.sure = False

    def _leaf(self, slot: int) -> Partial:
        return take(self.bucket.monoid, self.parts, slot)

    def _keep(self, slots: Any) -> None:
        """Some slots, of which the last is the newest update, are all that is left. Behind it is one that has come."""
        for array in (*self.parts, self.starts):
            coming = array[self.end + 1]
            array[: len(slots)] = array[slots]
            array[len(slots)] = coming
        self.begin, self.end = 0, len(slots) - 1
        self.closed = self._closed()
        for slot in range(self.end - 1):
            self.closed.insert(self._leaf(slot))

    def _closed(self) -> AMTA:
        return AMTA(self.bucket.monoid, 2 * SOME, compiled=False)

    def _make_room(self) -> None:
        """Have two slots behind the newest update."""
        if self.end + 2 < len(self.starts):
            return
        held = self.end - self.begin + 1
        parts, starts = allocate(self.bucket.monoid, max(2 * SOME, 4 * held)), self.starts
        self.starts = np.zeros(len(parts[0]), dtype=np.int64)
        for old, new in zip((*self.parts, starts), (*parts, self.starts), strict=True):
            new[:held] = old[self.begin : self.end + 1]
        self.parts, self.begin, self.end = parts, 0, held - 1


def _in_a_row(count: int) -> tuple[Slices, Slides]:
    """So many slices of one key, as kernels see them."""
    slots = np.arange(count)
    newer, older = np.append(slots[1:], NONE), np.append(NONE, slots[:-1])
    nothing, none = np.zeros(0, dtype=np.int64), np.full((1, 1), NONE)
    first, last, held = np.zeros(1, dtype=np.int64), np.array([count - 1]), np.array([count])
    slices = Slices(
        slots, slots.copy(), newer, older, nothing, nothing, nothing, first, last, first.copy(), held
    )
    return slices, Slides(none, none, none, none)
