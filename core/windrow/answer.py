"""From due windows to the table that is the answer: expanded, sorted, with keys and types."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Executor
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa

from windrow.aggregates import arrow
from windrow.bound import BoundQuery
from windrow.keys import Keys
from windrow.runs import Due, Ints

Column = list[Any]
"""An array for each batch of due windows."""
Rearrange = Callable[[list[Column]], list[Any]]
BLOCK = 256
"""How many window ends are filled at a time: the places written to stay in the second cache."""
AT_ONCE = 4
"""How many columns are filled at a time."""
LARGE = 1 << 20
"""Answers of so many windows are worth several threads."""


def answer(
    bound: BoundQuery,
    keys: Keys,
    found: list[Due],
    emission: str,
    kernels: SimpleNamespace,
    pool: Executor | None = None,
) -> pa.Table:
    """The results as the query's output: sorted by window end, keys, start, label."""
    schema = bound.output_schema
    if not found:
        return schema.empty_table()
    slides = np.array([getattr(window, "slide", 0) for _, window in bound.query.windows])
    labels = np.argsort(np.argsort([label for label, _ in bound.query.windows]))
    rearrange, start, end = _arrangement(keys, found, slides, labels, kernels, pool)
    nulls = [name for name in bound.monoids if not all(due.results[name][1].all() for due in found)]
    sources = [[keys.source(column, due.key) for due in found] for column in range(len(keys.fields))]
    sources += [[due.which for due in found]] if bound.query.labelled else []
    sources += [[due.results[name][0] for due in found] for name in bound.monoids]
    sources += [[due.results[name][1] for due in found] for name in nulls]
    arranged = iter(rearrange(sources))
    columns: list[Any] = [keys.column(column, next(arranged)) for column in range(len(keys.fields))]
    if bound.query.labelled:
        columns.append(pa.array([label for label, _ in bound.query.windows]).take(pa.array(next(arranged))))
    columns += [bound.boundaries(start), bound.boundaries(end)]
    values = {name: next(arranged) for name in bound.monoids}
    valid = {name: next(arranged) for name in nulls}
    columns += [
        arrow.from_numpy(values[name], valid.get(name), monoid.output)
        for name, monoid in bound.monoids.items()
    ]
    if bound.query.emits:
        columns.append(pa.array([emission]).take(pa.array(np.zeros(len(start), np.int64))))
    typed = [
        c if c.type == field.type else c.cast(field.type) for c, field in zip(columns, schema, strict=True)
    ]
    return pa.table(typed, schema=schema)


def _batched(places: list[int]) -> Iterator[list[int]]:
    return (places[begin : begin + AT_ONCE] for begin in range(0, len(places), AT_ONCE))


def _arrangement(
    keys: Keys, found: list[Due], slides: Ints, labels: Ints, kernels: SimpleNamespace, pool: Executor | None
) -> tuple[Rearrange, Any, Any]:
    """How entries become sorted windows, and the starts and ends of those."""
    entries = sum(len(due.times) for due in found)
    total = sum(int(due.times.sum()) for due in found)
    if len(slides) == 1 and total > entries:
        slide = int(slides[0])
        extents = [kernels.extent(due.end, due.times, slide) for due in found]
        least, most = min(first for first, _ in extents), max(last for _, last in extents)
        ends = (most - least) // slide + 1
        if ends <= 4 * total + 1024:
            tally = _Tally(found, slide, least, ends, kernels, pool)
            return tally.rearrange, *tally.starts_and_ends()
    key, which, start, end, times = (
        _joined([getattr(due, part) for due in found]) for part in ("key", "which", "start", "end", "times")
    )
    entry = np.arange(entries)
    if total > entries:
        entry = np.repeat(entry, times)
        later = np.arange(total) - np.repeat(np.cumsum(times) - times, times)
        step = slides[which][entry] * later
        key, which, start, end = key[entry], which[entry], start[entry] + step, end[entry] + step
    order = np.lexsort((labels[which], start, keys.ranks()[key], end))
    chosen = entry[order]
    return lambda columns: [_joined(column)[chosen] for column in columns], start[order], end[order]


def _joined(column: Column) -> Any:
    return column[0] if len(column) == 1 else np.concatenate(column)


class _Tally:
    """Counting sort: entries come in the order of keys, so the place of a window is known from how many end
    before it. The ends are shared out among threads."""

    def __init__(
        self,
        found: list[Due],
        slide: int,
        least: int,
        ends: int,
        kernels: SimpleNamespace,
        pool: Executor | None,
    ) -> None:
        self.kernels = kernels
        counts = np.zeros(ends + 1, dtype=np.int64)
        self.entries = []
        for due in found:
            first = arrow.blank(len(due.end), np.int64)
            kernels.tally(due.end, due.times, least, slide, first, counts)
            begins = np.concatenate([[0], np.flatnonzero(due.key[1:] != due.key[:-1]) + 1, [len(due.key)]])
            self.entries.append((first, due.times, begins))
        self.places = np.zeros(ends + 1, dtype=np.int64)
        np.cumsum(np.cumsum(counts[:-1]), out=self.places[1:])
        self.total = int(self.places[-1])
        self.bounds = least, slide, int(found[0].end[0] - found[0].start[0])
        shares = 1 if pool is None or self.total < LARGE else 4
        at = np.searchsorted(self.places, np.arange(shares + 1) * (self.total / shares)).tolist()
        self.shares = list(pairwise([0, *at[1:-1], ends]))
        self.mapped: Any = map if shares == 1 or pool is None else pool.map

    def starts_and_ends(self) -> tuple[Any, Any]:
        starts, ends = arrow.blank(self.total, np.int64), arrow.blank(self.total, np.int64)
        self._shared(
            lambda low, high: self.kernels.bounds(self.places, low, high, *self.bounds, starts, ends)
        )
        return starts, ends

    def rearrange(self, columns: list[Column]) -> list[Any]:
        filled: list[Any] = [None] * len(columns)
        alike: dict[int, list[int]] = {}
        for place, column in enumerate(columns):
            dtype = column[0].dtype
            if dtype.hasobject:
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
            for n, (first, times, begins) in enumerate(self.entries):
                cursor = np.empty(len(begins) - 1, dtype=np.int64)
                self.kernels.spread(
                    first, times, begins, cursor, following, low, high, BLOCK, columns,
                    *(source[n] for source in sources), *targets,
                )  # fmt: skip

        self._shared(fill)

    def _shared(self, work: Callable[[int, int], None]) -> None:
        list(self.mapped(lambda share: work(*share), self.shares))
