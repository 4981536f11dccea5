# SPDX-License-Identifier: Apache-2.0
"""From due windows to the table that comes out: expanded, sorted, with keys and types."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Executor
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa

from windrow.columns import arrow
from windrow.kernels.slices import sort_output
from windrow.kernels.slices.sort_output import Entries, Four
from windrow.kernels.specialise import specialise
from windrow.operator.keys import Keys
from windrow.operator.plan import Due
from windrow.query import BoundQuery
from windrow.windows import TimeWindow

Column = list[Any]
"""An array for each batch of due windows."""
BLOCK = 256
"""How many window ends are filled at a time: the places written to stay in the second cache."""
AT_ONCE = 4
"""How many columns are filled at a time."""
LARGE = 1 << 20
"""Outputs of so many windows are worth several threads."""


class Output:
    """Makes tables of due windows, sorted by window end, keys, start, label."""

    def __init__(self, bound: BoundQuery, keys: Keys, *, compiled: bool, pool: Executor | None) -> None:
        self.bound, self.keys, self.pool = bound, keys, pool
        self.kernels: SimpleNamespace = specialise(sort_output, {}, compiled=compiled)
        self.labelled, self.emits = bound.query.labelled, bound.query.emits
        self.outputs = bound.outputs
        self.labels = [label for label, _ in bound.query.windows]
        self.label_ranks = np.argsort(np.argsort(self.labels))
        self.slides = np.array([getattr(window, "slide", 0) for _, window in bound.query.windows])
        windows = [window for _, window in bound.query.windows]
        self.calendar = windows[0].calendar if isinstance(windows[0], TimeWindow) else None
        self.empty = bound.no_windows

    def table(self, found: list[Due], emission: str) -> pa.Table:
        """The windows and their results, as the query's output."""
        if not found:
            return self.empty
        order = self._counted(found) or self._sorted(found)
        nulls = [name for name in self.outputs if not all(due.results[name].ok.all() for due in found)]
        sources = self.keys.sources([due.key for due in found])
        sources += [[due.which for due in found]] if self.labelled else []
        sources += [[due.results[name].out for due in found] for name in self.outputs]
        sources += [[due.results[name].ok for due in found] for name in nulls]
        arranged = iter(order.rearrange(sources))
        columns = self.keys.columns([next(arranged) for _ in self.keys.fields])
        if self.labelled:
            columns.append(pa.array(self.labels).take(pa.array(next(arranged))))
        columns += [pa.array(bounds).view(self.bound.bound_type) for bounds in (order.starts, order.ends)]
        values = [next(arranged) for _ in self.outputs]
        valid = dict(zip(nulls, arranged, strict=True))
        types = [monoid.output for monoid in self.outputs.values()]
        columns += arrow.columns(values, [valid.get(name) for name in self.outputs], types)
        if self.emits:
            columns.append(pa.array([emission]).take(pa.array(np.zeros(len(order.ends), np.int64))))
        schema = self.bound.output_schema
        typed = [c if c.type == f.type else c.cast(f.type) for c, f in zip(columns, schema, strict=True)]
        return pa.table(typed, schema=schema)

    def _sorted(self, found: list[Due]) -> _Sorted:
        """Windows sorted by comparing them."""
        key, which, start, end, repeat = (
            _joined(list(column)) for column in zip(*(due[:5] for due in found), strict=True)
        )
        entry = None
        if int(repeat.sum()) > len(key):
            entry = np.repeat(np.arange(len(key)), repeat)
            later = np.arange(len(entry)) - np.repeat(np.cumsum(repeat) - repeat, repeat)
            step = self.slides[which][entry] * later
            key, which, start, end = key[entry], which[entry], start[entry] + step, end[entry] + step
        if self.calendar is not None:
            start, end = self.calendar.instants(start), self.calendar.instants(end)
        if bool((end[1:] > end[:-1]).all()):
            return _Sorted(entry, start, end)
        ranks = self.keys.ranks_of(key) if self.keys.count > 1 else key
        order = np.lexsort((self.label_ranks[which], start, ranks, end))
        return _Sorted(order if entry is None else entry[order], start[order], end[order])

    def _counted(self, found: list[Due]) -> _Counted | None:
        """Windows sorted by counting, if that is less work: entries of one window that stand for many."""
        entries = sum(len(due.repeat) for due in found)
        total = sum(int(due.repeat.sum()) for due in found)
        if len(self.slides) > 1 or total == entries or self.calendar is not None:
            return None
        slide = int(self.slides[0])
        extents = [self.kernels.extent(due.end, due.repeat, slide) for due in found]
        least, most = min(first for first, _ in extents), max(last for _, last in extents)
        ends = (most - least) // slide + 1
        return (
            _Counted(found, (least, slide, ends), self.kernels, self.pool)
            if ends <= 4 * total + 1024
            else None
        )


class _Sorted:
    """Where each window's entry is; without places, entries are in order already."""

    def __init__(self, entry: Any, starts: Any, ends: Any) -> None:
        self.entry, self.starts, self.ends = entry, starts, ends

    def rearrange(self, columns: list[Column]) -> list[Any]:
        """Columns of entries as columns of windows."""
        joined = [_joined(column) for column in columns]
        return joined if self.entry is None else [column[self.entry] for column in joined]


class _Counted:
    """Counting sort: entries come in the order of keys, so the place of a window follows from how many end
    before it. The ends are shared out among threads."""

    def __init__(
        self, found: list[Due], axis: tuple[int, int, int], kernels: SimpleNamespace, pool: Executor | None
    ) -> None:
        self.kernels = kernels
        least, slide, ends = axis
        counts = np.zeros(ends + 1, dtype=np.int64)
        self.entries = []
        for due in found:
            first = arrow.blank(len(due.end), np.int64)
            kernels.tally(due.end, due.repeat, least, slide, first, counts)
            begins = np.concatenate([[0], np.flatnonzero(due.key[1:] != due.key[:-1]) + 1, [len(due.key)]])
            self.entries.append((first, due.repeat, begins))
        self.places = np.zeros(ends + 1, dtype=np.int64)
        np.cumsum(np.cumsum(counts[:-1]), out=self.places[1:])
        self.total = int(self.places[-1])
        shares = 1 if pool is None or self.total < LARGE else 4
        at = np.searchsorted(self.places, np.arange(shares + 1) * (self.total / shares)).tolist()
        self.shares = list(pairwise([0, *at[1:-1], ends]))
        self.mapped: Any = map if shares == 1 or pool is None else pool.map
        self.starts, self.ends = arrow.blank(self.total, np.int64), arrow.blank(self.total, np.int64)
        length = int(found[0].end[0] - found[0].start[0])
        self._shared(
            lambda low, high: kernels.bounds(
                self.places, low, high, least, slide, length, self.starts, self.ends
            )
        )

    def rearrange(self, columns: list[Column]) -> list[Any]:
        """Columns of entries as columns of windows."""
        filled: list[Any] = [None] * len(columns)
        alike: dict[int, list[int]] = {}
        for place, column in enumerate(columns):
            dtype = column[0].dtype
            if dtype.hasobject or dtype.names is not None:
                joined = _joined(column)
                numbers = np.split(np.arange(len(joined)), np.cumsum([len(array) for array in column])[:-1])
                filled[place] = joined[self.rearrange([numbers])[0]]
            else:
                filled[place] = arrow.blank(self.total, dtype)
                alike.setdefault(dtype.itemsize, []).append(place)
        for size, places in alike.items():
            raw = np.dtype(f"u{size}")
            for some in _batched(places):
                sources = [[array.view(raw) for array in columns[n]] for n in some]
                self._spread(sources, [filled[n].view(raw) for n in some])
        return filled

    def _spread(self, sources: list[Column], targets: list[Any]) -> None:
        columns, spare = len(sources), AT_ONCE - len(sources)
        sources, targets = sources + sources[:1] * spare, targets + targets[:1] * spare
        following = self.places[:-1].copy()

        def fill(low: int, high: int) -> None:
            for n, (first, repeat, begins) in enumerate(self.entries):
                entries = Entries(first, repeat, begins, np.empty(len(begins) - 1, dtype=np.int64))
                batch = Four(*(source[n] for source in sources))
                self.kernels.spread(entries, following, low, high, BLOCK, columns, batch, Four(*targets))

        self._shared(fill)

    def _shared(self, work: Callable[[int, int], None]) -> None:
        list(self.mapped(lambda share: work(*share), self.shares))


def _joined(column: Column) -> Any:
    return column[0] if len(column) == 1 else np.concatenate(column)


def _batched(places: list[int]) -> Iterator[list[int]]:
    return (places[begin : begin + AT_ONCE] for begin in range(0, len(places), AT_ONCE))
