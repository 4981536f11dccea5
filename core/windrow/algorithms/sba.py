# SPDX-License-Identifier: Apache-2.0
"""SBA: the sequential boundary aggregator, for one window whose slices a caller inserts and evicts.

These are also the kernels of PBA. The other forms of SBA, and why there are several, are listed in
:mod:`windrow.kernels.columns.boundary`.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from windrow.aggregates.algebra import Aggregate, Monoid
from windrow.algorithms.base import HEAD, TAIL, Algorithm, State, slot
from windrow.algorithms.chunk import chunk_size_count
from windrow.kernels.partials import allocate, clear, copy, merge

CHUNK, FIRST, MIDDLE, LAST = 2, 3, 4, 5
"""The chunk size, and where the first, the middle and the last chunk begin."""

INLINE, LCS_BEGIN, LCS_END = 6, 7, 8
"""Whether a finished chunk's lcs is computed at once; if not, the chunk whose lcs is wanted."""

CSA, CA_MIDDLE, CA_FIRST = 0, 1, 2


class SBA(Algorithm):
    """Aggregates that run up to chunk boundaries from the left, and away from them to the right.

    ::

            HEAD
        FIRST |     MIDDLE          LAST      TAIL
          |···| lcs     |  ca, lcs    |  saa    |
          |   '– lcs[i]–'––––– ca ––––'– csa –––'

    The stream is cut into chunks of ``chunk`` slices. The last chunk collects its slice aggregates (``saa``)
    and their running combination (``csa``). When it is full, ``csa`` is the chunk's aggregate (``ca``), and
    ``lcs``, the combination from each slice to the end of the chunk, overwrites ``saa``. A window is ``lcs[i]
    ⊕ ca ⊕ csa``, at most two combines. ``range`` is the number of slices in a window and gives the optimal
    chunk size, unless ``chunk`` does. Any size is right, for any order of insertions and evictions: while
    there is a middle chunk the last one goes on growing, so there are never more than three.

    - Order: FIFO. Operator: any monoid.
    - Combines per slide: fewer than 4 amortised; 3 + chunk worst, at a boundary.
    - Space: n + 3 partials.
    - Paper: Zhang, Akbarinia and Toumani, *Efficient Incremental Computation of Aggregations over Sliding
      Windows*, KDD 2021, section 5.1.

    >>> import windrow as wr
    >>> window = SBA(wr.Max(), range=3, compiled=False)
    >>> for load in (3.0, 7.0, 5.0):
    ...     window.insert((load,))
    >>> window.evict(2)
    >>> window.query(), window.chunk
    ((5.0,), 2)
    """

    inline: ClassVar[bool] = True

    def __init__(
        self,
        aggregate: Aggregate | Monoid,
        range: int | None = None,
        capacity: int = 16,
        compiled: bool = True,
        chunk: int | None = None,
    ) -> None:
        self.chunk = (
            chunk_size_count(capacity if range is None else range) if chunk is None else max(chunk, 1)
        )
        super().__init__(aggregate, max(capacity, range or 1), compiled)

    @classmethod
    def for_range(cls, monoid: Monoid, slices: int, compiled: bool = True) -> Algorithm:
        return cls(monoid, range=max(slices, 1), compiled=compiled)

    def _allocate(self, capacity: int) -> State:
        meta = np.zeros(9, dtype=np.int64)
        meta[CHUNK], meta[INLINE] = self.chunk, self.inline
        return meta, allocate(self.monoid, capacity), allocate(self.monoid, 3)


def insert(state: Any, parts: Any, i: int) -> None:
    meta, saa, sums = state
    tail = meta[TAIL]
    copy(saa, slot(saa, tail), parts, i)
    if tail == meta[LAST]:
        copy(sums, CSA, parts, i)
    else:
        merge(sums, CSA, sums, CSA, parts, i)
    meta[TAIL] = tail + 1
    finish_if_full(state)


def evict(state: Any) -> None:
    meta = state[0]
    if meta[HEAD] == meta[LAST]:
        evict_many(state, 1)
        return
    meta[HEAD] += 1
    if meta[HEAD] == meta[MIDDLE]:
        leave_first(state)


def evict_many(state: Any, n: int) -> None:
    meta, saa, _ = state
    head, tail = meta[HEAD] + n, meta[TAIL]
    if head >= meta[LAST]:
        # The window is now within the last chunk: that becomes a first chunk that has lost its beginning.
        fill_lcs(saa, head, tail)
        meta[FIRST] = head - 1
        meta[MIDDLE] = meta[LAST] = tail
        meta[HEAD] = head
    elif head >= meta[MIDDLE]:
        meta[HEAD] = head
        leave_first(state)
    else:
        meta[HEAD] = head


def query(state: Any, out: Any, i: int) -> None:
    meta, lcs, sums = state
    head, middle, last, tail = meta[HEAD], meta[MIDDLE], meta[LAST], meta[TAIL]
    parts = 0
    if head < middle:
        if head == meta[FIRST]:
            copy(out, i, sums, CA_FIRST)
        else:
            copy(out, i, lcs, slot(lcs, head))
        parts = 1
    if middle < last:
        if parts == 0:
            copy(out, i, sums, CA_MIDDLE)
        else:
            merge(out, i, out, i, sums, CA_MIDDLE)
        parts = 1
    if last < tail:
        if parts == 0:
            copy(out, i, sums, CSA)
        else:
            merge(out, i, out, i, sums, CSA)
        parts = 1
    if parts == 0:
        clear(out, i)


def leave_first(state: Any) -> None:
    """No slice of the first chunk is left: the middle one takes its place."""
    meta, _, sums = state
    meta[FIRST] = meta[MIDDLE]
    meta[MIDDLE] = meta[LAST]
    copy(sums, CA_FIRST, sums, CA_MIDDLE)
    finish_if_full(state)


def finish_if_full(state: Any) -> None:
    """Finish the last chunk if it is full and there is no middle chunk; it becomes that, or the first."""
    meta, saa, sums = state
    last, tail = meta[LAST], meta[TAIL]
    if tail - last < meta[CHUNK] or meta[MIDDLE] < last:
        return
    if meta[HEAD] == last:
        meta[FIRST] = last
        meta[MIDDLE] = tail
        copy(sums, CA_FIRST, sums, CSA)
    else:
        copy(sums, CA_MIDDLE, sums, CSA)
    meta[LAST] = tail
    if meta[INLINE] == 1:
        fill_lcs(saa, last + 1, tail)  # the first entry would be ca
    else:
        meta[LCS_BEGIN] = last
        meta[LCS_END] = tail


def fill_lcs(saa: Any, begin: int, end: int) -> None:
    """Turn slice aggregates into their combinations up to the end, in place."""
    for position in range(end - 2, begin - 1, -1):
        merge(saa, slot(saa, position), saa, slot(saa, position), saa, slot(saa, position + 1))
