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

Rearrange = Callable[[list[Any]], list[Any]]
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
    """The results as the query's output: sorted by window end, start, keys, label."""
    schema = bound.output_schema
    if not found:
        return schema.empty_table()
    parts = ("key", "which", "start", "end", "times")
    key, which, start, end, times = (_joined([getattr(due, part) for due in found]) for part in parts)
    slides = np.array([getattr(window, "slide", 0) for _, window in bound.query.windows])
    rearrange, start, end = _arrangement(keys, key, which, start, end, times, slides, kernels, pool)
    results = {
        name: tuple(_joined([due.results[name][part] for due in found]) for part in (0, 1))
        for name in bound.monoids
    }
    nulls = {name: valid for name, (_, valid) in results.items() if not valid.all()}
    sources = [keys.source(column, key) for column in range(len(keys.fields))]
    sources += [which] if bound.query.labelled else []
    sources += [values for values, _ in results.values()] + list(nulls.values())
    arranged = iter(rearrange(sources))
    columns: list[Any] = [keys.column(column, next(arranged)) for column in range(len(keys.fields))]
    if bound.query.labelled:
        columns.append(pa.array([label for label, _ in bound.query.windows]).take(pa.array(next(arranged))))
    columns += [bound.boundaries(start), bound.boundaries(end)]
    values = {name: next(arranged) for name in results}
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


def _joined(arrays: list[Any]) -> Any:
    return arrays[0] if len(arrays) == 1 else np.concatenate(arrays)


def _arrangement(
    keys: Keys,
    key: Ints,
    which: Ints,
    start: Any,
    end: Any,
    times: Ints,
    slides: Ints,
    kernels: SimpleNamespace,
    pool: Executor | None,
) -> tuple[Rearrange, Any, Any]:
    """How entries become sorted windows, and the starts and ends of those."""
    total = int(times.sum())
    if len(slides) == 1 and total > len(times):
        slide, least = int(slides[0]), int(end.min())
        ends = int((end + (times - 1) * slide).max() - least) // slide + 1
        if ends <= 4 * total + 1024:
            tally = _Tally(key, start, end, times, slide, least, ends, kernels, pool)
            return tally.rearrange, *tally.starts_and_ends()
    if total > len(times):
        entry = np.repeat(np.arange(len(times)), times)
        later = np.arange(total) - np.repeat(np.cumsum(times) - times, times)
        step = slides[which][entry] * later
        key, which, start, end = key[entry], which[entry], start[entry] + step, end[entry] + step
    else:
        entry = np.arange(len(times))
    order = np.lexsort((which, keys.ranks()[key], start, end))
    chosen = entry[order]
    return lambda arrays: [array[chosen] for array in arrays], start[order], end[order]


class _Tally:
    """Counting sort: entries come in the order of keys, so the place of a window is known from how many end
    before it. The ends are shared out among threads."""

    def __init__(
        self,
        key: Ints,
        start: Any,
        end: Any,
        times: Ints,
        slide: int,
        least: int,
        ends: int,
        kernels: SimpleNamespace,
        pool: Executor | None,
    ) -> None:
        self.kernels, self.times, self.first = kernels, times, (end - least) // slide
        counts = np.zeros(ends + 1, dtype=np.int64)
        kernels.tally(self.first, times, counts)
        self.places = np.zeros(ends + 1, dtype=np.int64)
        np.cumsum(counts[:-1], out=self.places[1:])
        self.total = int(self.places[-1])
        self.bounds = least, slide, int(end[0] - start[0])
        self.begins = np.concatenate([[0], np.flatnonzero(key[1:] != key[:-1]) + 1, [len(key)]])
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

    def rearrange(self, arrays: list[Any]) -> list[Any]:
        found: list[Any] = [None] * len(arrays)
        alike: dict[int, list[int]] = {}
        for place, array in enumerate(arrays):
            if array.dtype == object:
                found[place] = array[self.rearrange([np.arange(len(array))])[0]]
            else:
                found[place] = arrow.blank(self.total, array.dtype)
                alike.setdefault(array.dtype.itemsize, []).append(place)
        for size, places in alike.items():
            raw = np.dtype(f"u{size}")
            for some in _batched(places):
                self._spread([arrays[n].view(raw) for n in some], [found[n].view(raw) for n in some])
        return found

    def _spread(self, sources: list[Any], targets: list[Any]) -> None:
        columns, spare = len(sources), AT_ONCE - len(sources)
        sources, targets = sources + sources[:1] * spare, targets + targets[:1] * spare
        following = self.places[:-1].copy()

        def fill(low: int, high: int) -> None:
            cursor = np.empty(len(self.begins) - 1, dtype=np.int64)
            self.kernels.spread(
                self.first, self.times, self.begins, cursor, following, low, high, BLOCK, columns,
                *sources, *targets,
            )  # fmt: skip

        self._shared(fill)

    def _shared(self, work: Callable[[int, int], None]) -> None:
        list(self.mapped(lambda share: work(*share), self.shares))
