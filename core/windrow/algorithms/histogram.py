# SPDX-License-Identifier: Apache-2.0
"""What A²MTA knows of its buckets: their arrays, and what is done with them once in a while.

What is known of a bucket is what the operator's buckets know, and the same kernels decide and bound
(:mod:`windrow.kernels.slices.buckets`, :mod:`windrow.kernels.slices.bounds`). What is done for every update is in
:mod:`windrow.algorithms.a2mta_steps`, on the arrays of :mod:`windrow.algorithms.a2mta_layout`. Here is what looks at all
buckets, and what policies need.
"""

from __future__ import annotations

from functools import lru_cache
from types import SimpleNamespace
from typing import Any

import numpy as np

from windrow.aggregates.algebra import Aggregate, Monoid
from windrow.aggregates.monoid import link
from windrow.algorithms import a2mta_layout as layout
from windrow.algorithms import a2mta_steps as steps
from windrow.algorithms import amta
from windrow.algorithms.base import power_of_two, specialised
from windrow.approximate.bucket import Bucket, bucket_of
from windrow.approximate.hops import evicted
from windrow.approximate.promise import check_promise, no_rest, promise_of
from windrow.approximate.within import AtMost, Within
from windrow.kernels.partials import slots
from windrow.kernels.slices import buckets
from windrow.kernels.slices.bucket_layout import AVERAGE, COUNT, FIELDS, ROWS
from windrow.kernels.slices.layout import NONE, Slices, Slides
from windrow.kernels.specialise import specialise

LEAST = 32
"""Room for so many buckets at the least."""


class Histogram:
    """The buckets of one window."""

    def __init__(
        self, aggregate: Aggregate | Monoid, monoid: Monoid, within: Within | AtMost, *, hop: bool, compiled: bool
    ) -> None:  # fmt: skip
        self.bucket = bucket_of(monoid.name, aggregate, monoid)
        check_promise(monoid.name, self.bucket, monoid, within, counting=False)
        self.promise = promise_of(within, [self.bucket], counting=False, searched=True)
        self.rest = no_rest(1)
        self.steps = _specialised(monoid, self.bucket, compiled)
        self.thin = specialise(buckets, {}, compiled=compiled).thin
        self._meta, self._settings = np.zeros(layout.META, dtype=np.int64), np.zeros(layout.SETTINGS)
        self._describe(within, hop)
        self._allocate(LEAST)
        self.steps.close_again(self.known)

    def _describe(self, within: Within | AtMost, hop: bool) -> None:
        """What is promised, in the numbers that steps read."""
        meta, settings, promise = self._meta, self._settings, self.promise
        meta[layout.CERTAIN] = meta[layout.KEPT] = 1
        meta[layout.MOST], meta[layout.MERGES] = within.leaves or 0, isinstance(within, Within)
        meta[layout.HOP], meta[layout.SAMPLING] = hop, promise.confidence > 0.0
        meta[layout.KIND], meta[layout.WHOLE] = self.bucket.kind, self.bucket.whole
        meta[layout.ROUNDED], meta[layout.NEGATED] = self.bucket.rounded, self.bucket.negated
        settings[layout.RELATIVE], settings[layout.ABSOLUTE] = promise.relative[0], promise.absolute[0]
        settings[layout.MISSING_ROWS] = promise.rows[0]
        settings[layout.CONFIDENCE], settings[layout.Z] = promise.confidence, promise.z
        settings[layout.EXPECTED] = settings[layout.EXPECTED_ROWS] = np.nan

    @property
    def known(self) -> tuple[Any, ...]:
        """All arrays, as steps take them."""
        return self._meta, self._fields, self._starts, self._settings

    @property
    def leaves(self) -> int:
        """How many leaves there are: buckets, the newest update, and the bucket that the window begins in."""
        return self._held + int(self.seen > self.first) + int(self.inside)

    @property
    def seen(self) -> int:
        """How many updates there were."""
        return int(self._meta[layout.SEEN])

    @property
    def first(self) -> int:
        """The first update of the window, or the first that may be."""
        return int(self._meta[layout.FIRST])

    @property
    def inside(self) -> bool:
        """Does the window begin inside the cut?"""
        return bool(self._meta[layout.INSIDE])

    @property
    def sure(self) -> bool:
        """Is it known where?"""
        return bool(self._meta[layout.CERTAIN])

    @property
    def found(self) -> tuple[int, float, float]:
        """Where the result is that was asked for, the middle of its bounds, and its error."""
        settings = self._settings
        return int(self._meta[layout.FOUND]), float(settings[layout.VALUE]), float(settings[layout.ERROR])

    # Buckets become one.

    def merges(self) -> tuple[Any, Any, Any]:
        """Merge buckets as far as the promise allows, and renew predictions.

        Leaves counted from the oldest: ``gone[n]`` is in ``into[n]`` now; and which of all leaves stay.
        """
        held, begin = self._held, self._begin
        self._meta[layout.SINCE] = 0
        into, gone = np.empty(held + 1, dtype=np.int64), np.empty(held + 1, dtype=np.int64)
        slices, slides = _in_a_row(held + 1)
        leaves = self._fields[:, begin : begin + held + 1]
        count = self.thin(
            slices, slides, np.zeros(1, dtype=np.int64), np.array([held + 1]), (leaves,), self.promise,
            self.rest, 0, into, gone,
        )  # fmt: skip
        self._settings[layout.EXPECTED] = self.rest.expected[0]
        self._settings[layout.EXPECTED_ROWS] = self.rest.expected_rows[0]
        stay = np.ones(held + 1, dtype=np.bool_)
        stay[gone[:count]] = False
        if count:
            self.arrange(np.flatnonzero(stay) + begin)
        self._meta[layout.THINNED] = self._held
        return into[:count], gone[:count], stay

    def drop_level(self, odd: bool) -> None:
        """Neighbours become one. ``odd`` says that the oldest bucket has lost its neighbour."""
        begin, end = self._begin, self._begin + self._held
        self.steps.unite_pairs(self.known, begin + odd)
        self.arrange(np.concatenate((np.arange(begin, begin + odd), np.arange(begin + odd, end, 2), [end])))
        self._meta[layout.CONSTRAINED] = 1

    def arrange(self, slots: Any = None) -> None:
        """Some slots, of which the last is the newest update, are all that is left; without an argument, all. There is room for more."""
        if slots is None:
            slots = np.arange(self._begin, self._begin + self._held + 1)
        held = len(slots)
        fresh, first = self._fields[:, slots], self._starts[slots]
        room = power_of_two(max(LEAST, held + held // 2 + steps.SOME))
        if room > self._meta[layout.ROOM]:
            before, begin = self._fields, int(self._meta[layout.ROOM])
            self._allocate(room)
            self._fields[:, room : room + layout.WORK] = before[:, begin : begin + layout.WORK]
        self._fields[:, :held], self._starts[:held] = fresh, first
        self._meta[layout.BEGIN], self._meta[layout.END] = 0, held - 1
        self.steps.close_again(self.known)

    def _allocate(self, room: int) -> None:
        """Arrays for so many buckets."""
        self._fields, self._starts = (
            np.zeros((len(FIELDS), layout.columns_for(room))),
            np.zeros(room, dtype=np.int64),
        )
        self._meta[layout.ROOM] = room

    # Policies: the window begins later.

    def begin_inside(self, gone: int) -> int:
        """The window begins in the last of so many buckets, after its first update, or after the bucket."""
        meta = self._meta
        if gone:
            self.steps.cut(self.known, self._begin + gone - 1)
        if self.inside and meta[layout.CUT_LENGTH] > 1:
            self.steps.widen(self.known, False)
            meta[layout.FIRST] = max(self.first, self._start(self._begin) - int(meta[layout.CUT_LENGTH]) + 1)
        else:
            self.leave_cut()
        return gone

    def begin_within(self, gone: int) -> int:
        """So many buckets are gone. The window begins with the next one, or inside it; how many are gone or cut."""
        position, end = self._begin + gone, self._begin + self._held
        if gone or not self.inside:
            self.steps.begin_at(self.known, position)
            self._meta[layout.FIRST] = self._start(position)
        if position == end or self._start(position + 1) - self._start(position) == 1:
            return gone
        self.steps.cut(self.known, position)
        self.steps.widen(self.known, True)
        return gone + 1

    def leave_cut(self) -> None:
        """The window begins after the cut."""
        self.steps.begin_at(self.known, self._begin)
        self._meta[layout.FIRST] = self._start(self._begin)

    def hopped(self, before: int) -> None:
        """A policy has evicted updates; there were so many gone before. Of what is not known, the most counts."""
        size = self._start(self._begin) - before
        if self._meta[layout.HOP] and size:
            evicted(self._settings[layout.HOPS : layout.MAXIMA], size, self.seen - self.first)

    def lose(self) -> None:
        """What a policy decides of a cut bucket may not be what it decides of the true window."""
        self._meta[layout.LOST] = 1

    @property
    def _begin(self) -> int:
        return int(self._meta[layout.BEGIN])

    @property
    def _held(self) -> int:
        """How many buckets there are before the newest update."""
        return int(self._meta[layout.END]) - self._begin

    def _start(self, slot: int) -> int:
        return int(self._starts[slot])


@lru_cache(maxsize=64)
def _specialised(monoid: Monoid, bucket: Bucket, compiled: bool) -> SimpleNamespace:
    """The steps for an aggregate, made of AMTA's operations on its partials, and on what is known of closed buckets."""
    seam, inner = slots(monoid), slots(bucket.monoid)
    leaf, closed = (specialised(amta, each, compiled) for each in (monoid, bucket.monoid))

    def operation(kernel: SimpleNamespace, name: str) -> Any:
        return getattr(kernel, name).compiled if compiled else getattr(kernel, name)

    names = {"insert": "insert", "evict": "evict_many", "query": "query"}
    tree = {f"leaf_{name}": operation(leaf, of) for name, of in {**names, "extend": "extend"}.items()}
    tree |= {f"closed_{name}": operation(closed, of) for name, of in names.items()}
    tree |= {f"bucket_{name}": inner[name] for name in ("clear", "copy", "merge")}
    describe = {COUNT: steps.describe_count, ROWS: steps.describe_row, AVERAGE: steps.describe_mean}.get(
        bucket.kind, steps.describe_value
    )
    bound = {name: seam[name] for name in ("lower", "defined", "load")} | {"add_value": bucket.monoid.add}
    return specialise(steps, {**seam, **tree, "describe": link(describe, bound)}, compiled=compiled)


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
