# SPDX-License-Identifier: Apache-2.0
"""Order statistics of windows, window after window and call after call.

One object serves one key and one thread. The kernels run without the GIL, so objects of several threads run side by
side; what they compute does not depend on how windows are shared out among calls.

>>> import numpy as np
>>> values, out, ok = np.array([3.0, 1.0, 7.0, 4.0]), np.empty((2, 1)), np.empty(2, dtype=np.bool_)
>>> median = SlidingQuantiles(values.dtype, [0.5])
>>> median.run(values, None, np.array([0, 1]), np.array([3, 4]), out, ok)
>>> out[:, 0], ok
(array([3., 4.]), array([ True,  True]))
>>> largest = SlidingTopK(values.dtype, 2)
>>> largest.run(values, None, np.array([0, 1]), np.array([1, 4])).to_pylist()
[[3.0], [7.0, 4.0]]
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa

from windrow.kernels.extents import linked_rows, order_statistic
from windrow.kernels.extents.layout import HI, LO, KeyExtents, SortedRows
from windrow.kernels.extents.linked_rows import LinkedRows
from windrow.kernels.extents.linked_rows import linked_rows as make_linked_rows
from windrow.kernels.extents.ordering import ordering, word_dtype, words_of
from windrow.kernels.extents.sorted_rows import clear, sorted_rows
from windrow.kernels.specialise import specialise

__all__ = ["SlidingQuantiles", "SlidingTopK"]

Array = np.ndarray[Any, Any]
ALL_VALID: Array = np.empty(0, dtype=np.bool_)


class _Carried:
    """The sorted rows of the last window, with room for windows of any size."""

    def __init__(self, dtype: np.dtype[Any], fingers: int) -> None:
        self.word, self.fingers, self.room = word_dtype(dtype), fingers, 0
        self.rows: SortedRows = sorted_rows(0, fingers)

    def shift(self, rows: int) -> None:
        """Positions count from another row: what was row ``rows`` is row 0 now. Rows before it are gone."""
        self.rows.state[LO] -= rows
        self.rows.state[HI] -= rows
        if self.rows.state[LO] < 0:
            clear(self.rows.state)

    def restart(self) -> None:
        """The next call has other rows."""
        clear(self.rows.state)

    def extents(self, values: Array, valid: Array | None, lo: Array, hi: Array, most: int) -> KeyExtents:
        """What a kernel reads; afterwards there is room for windows of ``most`` rows."""
        if most > self.room:
            self.room = most + most // 2
            self.rows = sorted_rows(self.room, self.fingers)
        return KeyExtents(words_of(values, self.word), ALL_VALID if valid is None else valid, lo, hi)


class SlidingQuantiles:
    """Exact quantiles as :class:`windrow.Quantile` defines them, of windows over the rows of one key.

    A call with many ascending windows sorts its rows (:mod:`windrow.kernels.extents.linked_rows`). Others go on from the
    sorted rows of the call before (:mod:`windrow.kernels.extents.order_statistic`).
    """

    def __init__(self, dtype: np.dtype[Any], shares: Sequence[float], *, compiled: bool = True) -> None:
        self.carried = _Carried(dtype, len(shares))
        self.shares = np.array(shares, dtype=np.float64)
        self.going_on = _specialised(order_statistic, self.carried.word, compiled)
        self.at_once = _specialised(linked_rows, self.carried.word, compiled)
        self.links: LinkedRows = make_linked_rows(0, len(shares))

    def run(self, values: Array, valid: Array | None, lo: Array, hi: Array, out: Array, ok: Array) -> None:
        """``out[w, q]`` becomes quantile q of the rows ``lo[w]`` to ``hi[w] - 1``; ``ok[w]`` whether they have a value.

        Called with one array of numbers; ``valid`` says which of them are not null (``None``: all). Extents may be in
        any order. If they ascend, also from call to call, a window costs O(log n) for each row that it lost or gained.
        """
        ascending, most, visits = self.at_once.surveyed(lo, hi)
        extents = self.carried.extents(values, valid, lo, hi, int(most))
        if not (ascending and _many(lo, hi, int(most), int(visits))):
            self.going_on.quantiles(extents, self.carried.rows, self.shares, out, ok)
            return
        room = int(self.at_once.largest_block(lo, hi))
        if room > self.links.room:
            self.links = make_linked_rows(room, len(self.shares))
        self.at_once.quantiles(extents, self.links, self.shares, out, ok)


def _many(lo: Array, hi: Array, most: int, visits: int) -> bool:
    """Do windows that ascend overlap, and have as many new rows together as one of them has at most?"""
    if len(lo) < 2 or hi[-1] - hi[0] < most:
        return False
    changes = int(hi[-1] - hi[0] + lo[-1] - lo[0])
    return order_statistic.CHANGE * changes <= visits


@cache
def _specialised(module: ModuleType, word: np.dtype[Any], compiled: bool) -> SimpleNamespace:
    return specialise(module, ordering(word), compiled=compiled)


class SlidingTopK:
    """The ``k`` largest values as :class:`windrow.TopK` defines them, of windows over the rows of one key."""

    def __init__(self, dtype: np.dtype[Any], k: int, *, compiled: bool = True) -> None:
        self.dtype, self.k, self.carried = dtype, k, _Carried(dtype, 0)
        self.kernel = _specialised(order_statistic, self.carried.word, compiled).top_k

    def run(self, values: Array, valid: Array | None, lo: Array, hi: Array) -> pa.ListArray:
        """A list for each window. Called as :meth:`SlidingQuantiles.run` is."""
        words = np.empty((len(lo), self.k), dtype=np.int64)
        counts = np.empty(len(lo), dtype=np.int64)
        self.fill(values, valid, lo, hi, words, counts)
        return self.lists(words, counts)

    def fill(
        self, values: Array, valid: Array | None, lo: Array, hi: Array, words: Array, counts: Array
    ) -> None:
        """The same into given places: ``counts[w]`` values in the 64-bit words ``words[w]``."""
        extents = self.carried.extents(values, valid, lo, hi, int((hi - lo).max(initial=0)))
        self.kernel(extents, self.carried.rows, words, counts)

    def lists(self, words: Array, counts: Array) -> pa.ListArray:
        """Filled places as a column of lists."""
        filled = np.arange(self.k) < counts[:, None]
        found = words[filled].view(self.carried.word).astype(self.dtype, copy=False)
        offsets = np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)
        return pa.ListArray.from_arrays(pa.array(offsets), pa.array(found))
