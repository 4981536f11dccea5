# SPDX-License-Identifier: Apache-2.0
"""The emitter of the agnostic worker model, for workers in other processes or on other machines.

De Matteis and Mencagli (*Parallel Patterns for Window-based Stateful Operators on Data Streams*, 2017): an emitter owns
the rows and finds the windows that are due; workers compute functions of their rows and know nothing of windows; a
collector puts the results in order. Memory cannot be shared here, so the emitter sends *window batches*
(:mod:`windrow.operator.window_batches`): consecutive windows, and each of their rows once.

All state is the emitter's. It is an operator that gives the extents of windows instead of results, so every kind of
window, late rows, snapshots and stores are as they are for an operator.

>>> import pyarrow as pa
>>> import windrow as wr
>>> from windrow.operator.window_batches import WindowWorker
>>> query = wr.Query(window=wr.SlideByTuple("3us", 2), aggregates={"middle": wr.Median("load")})
>>> rows = pa.table({"ts": [1, 2, 3, 5], "load": [4.0, 2.0, 7.0, 9.0]})
>>> emitter, worker = Emitter(query, rows.schema), WindowWorker(query, rows.schema)
>>> _ = emitter.process(rows)
>>> [worker.windows(batch)["middle"].to_pylist() for batch in emitter.advance(6)["batch"].to_pylist()]
[[3.0, 8.0]]
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from windrow.aggregates.extent import Positions
from windrow.aggregates.whole import Extents, WholeWindow
from windrow.columns.arrow import Array
from windrow.kernels.slices.layout import Results
from windrow.operator.operator import Operator
from windrow.operator.window_batches import BATCHES, SentRows, cut
from windrow.query import Query
from windrow.query.worker_models import extents_of
from windrow.storage.pages import Pages

__all__ = ["Emitter"]


class Emitter:
    """Rows and watermarks in, batches of due windows out: tables with the columns of ``BATCHES``.

    ``pages`` is where the state lives, as for :meth:`windrow.Operator.open`.
    """

    def __init__(self, query: Query, schema: pa.Schema, pages: Pages | None = None) -> None:
        self.query = query
        self._taken = TakenRows()
        self._operator = Operator(extents_of(query, schema), schema, workers=self._taken, pages=pages)

    def process(self, data: Any) -> pa.Table:
        """Take rows. They finish no window before the watermark does, so what is returned has no batch."""
        self._operator.process(data)
        return BATCHES.empty_table()

    def advance(self, watermark: int) -> pa.Table:
        """No row before this time will come any more; returns the windows that are final now, in batches."""
        windows = self._operator.advance(watermark)
        if not windows.num_rows:
            return BATCHES.empty_table()
        return cut(windows, self._operator.watermark, self._taken.take())

    def late(self) -> pa.Table:
        """The rows that came too late since the last call (``late="side"``)."""
        return self._operator.late()

    def commit(self) -> int:
        """As :meth:`windrow.Operator.commit`. The windows that were given out have to be committed with it."""
        return self._operator.commit()

    @property
    def watermark(self) -> int:
        return self._operator.watermark

    @property
    def late_rows(self) -> int:
        return self._operator.late_rows

    @property
    def lcs_tasks(self) -> int:
        return self._operator.lcs_tasks

    @property
    def wake(self) -> int | None:
        return self._operator.wake


class TakenRows:
    """Takes the rows of due windows, so that they can be sent; it has the place of the operator's workers.

    Rows that windows share are taken once.
    """

    def __init__(self) -> None:
        self._runs: dict[str, list[tuple[Array, ...]]] = {}
        self._types: dict[str, tuple[pa.DataType, ...]] = {}

    def compute(self, whole: WholeWindow, windows: Extents, results: Results) -> None:
        assert isinstance(whole, Positions)
        self._types[whole.name] = whole.stored
        known = self._runs.setdefault(whole.name, [])
        runs, shift = united(windows)
        shift += sum(len(columns[0]) for columns in known)
        whole.compute(Extents((), windows.lo + shift, windows.hi + shift), *results)
        known += [tuple(column[lo:hi].copy() for column in windows.columns) for lo, hi in runs]

    def take(self) -> dict[str, SentRows]:
        """All rows since the last call, for each function. The extents are positions in them."""
        taken = {
            name: SentRows(self._types[name], tuple(map(np.concatenate, zip(*runs, strict=True))))
            for name, runs in self._runs.items()
        }
        self._runs = {}
        return taken


def united(windows: Extents) -> tuple[list[tuple[int, int]], Any]:
    """The union of extents as runs of rows, and what to add to each window's bounds if only these rows were there.

    >>> import numpy as np
    >>> united(Extents((), np.array([5, 0, 2]), np.array([9, 3, 4])))
    ([(0, 4), (5, 9)], array([-1,  0,  0]))
    """
    order = np.argsort(windows.lo, kind="stable")
    lo, reach = windows.lo[order], np.maximum.accumulate(windows.hi[order])
    first = np.flatnonzero(np.append(True, lo[1:] > reach[:-1]))
    begins, ends = lo[first], reach[np.append(first[1:], len(lo)) - 1]
    before = np.cumsum(ends - begins) - (ends - begins)
    shift = np.empty(len(lo), np.int64)
    shift[order] = np.repeat(before - begins, np.diff(np.append(first, len(lo))))
    return list(zip(begins.tolist(), ends.tolist(), strict=True)), shift
