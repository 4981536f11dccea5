# SPDX-License-Identifier: Apache-2.0
"""A²MTA: the approximate AMTA, whose leaves are buckets of neighbouring updates.

Names are those of the thesis. It evicts a bucket whole, and predicts what the error will be. Here a bucket knows bounds of
what is left of it, so the error of every result is known, and a prediction may only decide how much memory is used.
:mod:`windrow.algorithms.histogram` has the rules; docs/theory/approximate-windows.md says why they differ from the thesis's.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple

from windrow.aggregates.algebra import Aggregate, Monoid, Partial
from windrow.algorithms import amta
from windrow.algorithms.a2mta_layout import NOTHING, OF_BOUNDS
from windrow.algorithms.a2mta_steps import CROWDED, DONE, DUE, FULL
from windrow.algorithms.amta import AMTA
from windrow.algorithms.base import take
from windrow.algorithms.histogram import Histogram
from windrow.algorithms.policy import Beginning, cover
from windrow.approximate.within import AtMost, Within
from windrow.errors import QueryError, WindowError
from windrow.kernels.partials import allocate


class Estimate(NamedTuple):
    """A result that is as near to the true one as its error says; an error of 0 means that it is exact."""

    value: Any
    error: float


class A2MTA(AMTA):
    """AMTA over buckets: an update joins the last bucket or starts one, as a promise about the error allows.

    ``within`` is what :class:`~windrow.Query` takes: :class:`~windrow.Within` for a bound on the error,
    :class:`~windrow.AtMost` for a bound on the leaves. Without it every update is a bucket, and this is AMTA. With it, a query
    gives the result and its error, which is certain whatever the data does. The newest update stays alone. The rules,
    the first that lets it go deciding:

    1. ``leaves=``: when there is no leaf left, the lowest level is evicted, so that pairs become the leaves. From then on
       buckets have ⌈count / leaves⌉ updates.
    2. ``hop=True``: updates that are expected inside one eviction share a bucket (hop histogram).
    3. ``Within``: a bucket is small against what follows it (smooth histogram), or a step of a staircase of extremes. With
       ``confidence=``, against the results that are expected (Student's t), or below the extremes that are (GEV).

    An eviction may end inside a bucket. A policy is searched on whole buckets; where it ends inside one, the error covers
    all that may be left of it. An eviction invariant has to see all that would go. If the window begins inside a
    bucket, that is not known, and the error is infinite until the window is empty.

    - Order: FIFO; window slide policies.
      Operator: any monoid. An error of a value needs Sum, Count, Mean, Min or Max, given as an aggregate; for all others it is
      the number of updates that may be missing.
    - Combines per slide: at most 16 amortised, as buckets are merged when there are a quarter more; O(leaves) worst. A bulk
      eviction: at most 4 log₂ n + 3.
    - Space: 2N partials, N being the number of leaves rounded up to a power of two, and 14 numbers for each leaf, three times.
    - Paper: Villalba's thesis (2019), chapter 5, Algorithms 8 and 9; Braverman and Ostrovsky, *Smooth Histograms for Sliding
      Windows*, FOCS 2007, for the promise that is certain.

    >>> import windrow as wr
    >>> window = A2MTA(wr.Sum(), compiled=False, within=wr.Within(relative=0.1))
    >>> for second in range(1000):
    ...     window.insert((20.0 + second % 3, 0.0))
    >>> len(window), window.leaves < 100, window.query()
    (1000, True, Estimate(value=20999.0, error=0.0))
    >>> window.evict(501)
    >>> value, error = window.query()
    >>> abs(value - 10479.0) <= error <= 0.1 * 10479.0
    True
    """

    kernels: ClassVar[str] = amta.__name__

    def __init__(
        self,
        aggregate: Aggregate | Monoid,
        capacity: int = 16,
        compiled: bool = True,
        within: Within | AtMost | None = None,
        hop: bool = False,
    ) -> None:
        super().__init__(aggregate, capacity, compiled)
        if hop and getattr(within, "confidence", None) is None:
            raise QueryError(
                "hop of A2MTA predicts evictions: give within=Within(relative=…, confidence=0.95)"
            )
        if within is not None and not isinstance(within, Within | AtMost):
            raise QueryError(f"within of A2MTA has to be a Within or an AtMost, not {within!r}")
        self._buckets: Histogram | None = None
        if within is not None:
            self._buckets = Histogram(aggregate, self.monoid, within, hop=hop, compiled=self.compiled)
            self._slot = allocate(self.monoid, 2)  # the second one is the newest update

    def insert(self, partial: Partial) -> None:
        """Append an update as the newest of the window."""
        buckets = self._buckets
        if buckets is None:
            super().insert(partial)
            return
        self._placed(partial)
        while (said := buckets.steps.insert(self._state, self._slot, buckets.known)) != DONE:
            self._prepare(said)

    def query(self) -> Any:
        """The result and its error, as an :class:`Estimate`. Without ``within``, the aggregate of the window: a partial."""
        buckets = self._buckets
        if buckets is None:
            return super().query()
        if len(self) == 0:
            return Estimate(self.monoid.result(self.monoid.identity), 0.0)
        buckets.steps.query(self._state, self._slot, buckets.known)
        found, middle, error = buckets.found
        if found == OF_BOUNDS:
            return Estimate(int(middle) if buckets.bucket.whole else middle, error)
        return Estimate(None if found == NOTHING else self.monoid.result(self._taken()), error)

    def enforce(
        self,
        valid: Callable[[Partial], bool] | None = None,
        evict: Callable[[Partial, Partial, Partial], bool] | None = None,
    ) -> int:
        """As :meth:`AMTA.enforce`; both functions see the aggregates of whole buckets. Returns how many updates are certain
        to be gone.
        """
        buckets = self._buckets
        if buckets is None:
            return super().enforce(valid, evict)
        search = Beginning(self.monoid.combine, valid, evict)
        if len(self) < 2:
            return 0
        if evict is not None and buckets.inside:
            buckets.lose()
        first, (head, tail) = buckets.first, self._span()
        before = self._after(head)
        holds = valid is None or valid(before)
        if head == tail:  # one bucket, in which the window begins, and the newest update
            if holds:
                buckets.begin_inside(0)
            else:
                buckets.leave_cut()
        elif holds and not (evict is not None and evict(self._node(0, head), self._after(head + 1), before)):
            self._begin(head, by_evict=evict is not None)
        else:
            nodes = list(cover(head, tail, self._highest))
            at = search.find(nodes, self._node, self._newest, before)
            by_evict = evict is not None and bool(evict(self._between(head, at), self._after(at), before))
            self._begin(at, by_evict=by_evict)
        buckets.hopped(first)
        return buckets.first - first

    def insert_at(self, time: int, partial: Partial) -> None:
        self._refuse("insert_at")
        super().insert_at(time, partial)

    def range_query(self, lo: int, hi: int) -> Partial:
        self._refuse("range_query")
        return super().range_query(lo, hi)

    def __len__(self) -> int:
        """How many updates are in the window; after a policy, how many may be."""
        return self._held() if self._buckets is None else self._buckets.seen - self._buckets.first

    @property
    def leaves(self) -> int:
        """How many leaves there are."""
        return self._held() if self._buckets is None else self._buckets.leaves

    def _evict(self, n: int) -> None:
        buckets = self._buckets
        if buckets is None:
            super()._evict(n)
        elif buckets.sure or n == len(self):
            buckets.steps.evict(self._state, self._slot, buckets.known, n)
        else:
            raise self._start_unknown(n)

    def _prepare(self, said: int) -> None:
        """What a step needs before it can be done: room, fewer buckets, or fewer leaves."""
        buckets = self._buckets
        assert buckets is not None
        if said == FULL:
            buckets.arrange()
            self._make_room()
        elif said == DUE:
            into, gone, stay = buckets.merges()
            if len(gone):
                fresh = self._allocate(self.capacity)
                buckets.steps.regroup(self._state, into, gone, stay, fresh)
                self._state = fresh
        elif said == CROWDED:
            buckets.drop_level(odd=bool(self._span()[0] & 1))
            self._kernel.drop_leaves(self._state)

    def _begin(self, at: int, *, by_evict: bool) -> None:
        """The first bucket that stays is at a position. What has gone last was evicted by the one or the other invariant."""
        assert self._buckets is not None
        gone = at - self._span()[0]
        if by_evict:
            self._drop(self._buckets.begin_within(gone))
        elif gone or self._buckets.inside:
            self._drop(self._buckets.begin_inside(gone))

    def _drop(self, leaves: int) -> None:
        if leaves:
            super()._evict(leaves)

    @property
    def _newest(self) -> Partial:
        return take(self.monoid, self._slot, 1)

    def _after(self, begin: int) -> Partial:
        """The aggregate of the buckets from a position on, and of the newest update."""
        head, tail = self._span()
        if begin == tail:
            return self._newest
        return self.monoid.combine(
            super().query() if begin == head else self._between(begin, tail), self._newest
        )

    def _start_unknown(self, n: int) -> WindowError:
        return WindowError(
            f"A2MTA cannot evict {n}: a policy has ended inside a bucket, so the start of the window is not known; "
            "use enforce only, or evict all"
        )

    def _refuse(self, name: str) -> None:
        if self._buckets is not None:
            raise WindowError(
                f"{name} of A2MTA needs every single update, but within= merges them into buckets; leave within out"
            )
