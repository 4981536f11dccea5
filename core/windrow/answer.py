"""From due windows to the table that is the answer: expanded, sorted, with keys and types."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa

from windrow.aggregates import arrow
from windrow.bound import BoundQuery
from windrow.keys import Keys
from windrow.runs import Due, Ints

Rearrange = Callable[[Any], Any]
BLOCK = 256
"""How many window ends are filled at a time: about as many as there are pages in the processor's reach."""


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
    rearrange, start, end = _arrangement(keys, key, which, start, end, times, slides, kernels)

    def column(name: str) -> pa.Array:
        values = _joined([due.results[name][0] for due in found])
        valid = _joined([due.results[name][1] for due in found])
        ok = None if valid.all() else rearrange(valid)
        return arrow.from_numpy(rearrange(values), ok, bound.monoids[name].output)

    mapped = map if pool is None else pool.map
    results = mapped(column, bound.monoids)
    columns: list[Any] = [*keys.columns(key, rearrange)]
    if bound.query.labelled:
        columns.append(pa.array([label for label, _ in bound.query.windows]).take(pa.array(rearrange(which))))
    columns += [bound.boundaries(start), bound.boundaries(end), *results]
    if bound.query.emits:
        columns.append(pa.array([emission]).take(pa.array(np.zeros(len(start), np.int64))))
    typed = [
        c if c.type == field.type else c.cast(field.type) for c, field in zip(columns, schema, strict=True)
    ]
    return pa.table(typed, schema=schema)


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
) -> tuple[Rearrange, Any, Any]:
    """How entries become sorted windows, and the starts and ends of those."""
    total = int(times.sum())
    if len(slides) == 1 and total > len(times):
        slide, least = int(slides[0]), int(end.min())
        ends = int((end + (times - 1) * slide).max() - least) // slide + 1
        if ends <= 4 * total + 1024:
            return _by_tally(key, start, end, times, slide, least, ends, kernels)
    if total > len(times):
        entry = np.repeat(np.arange(len(times)), times)
        later = np.arange(total) - np.repeat(np.cumsum(times) - times, times)
        step = slides[which][entry] * later
        key, which, start, end = key[entry], which[entry], start[entry] + step, end[entry] + step
    else:
        entry = np.arange(len(times))
    order = np.lexsort((which, keys.ranks()[key], start, end))
    chosen = entry[order]
    return lambda array: array[chosen], start[order], end[order]


def _by_tally(
    key: Ints, start: Any, end: Any, times: Ints, slide: int, least: int, ends: int, kernels: SimpleNamespace
) -> tuple[Rearrange, Any, Any]:
    """Counting sort: entries come in the order of keys, so the place of a window is known from how many end
    before it."""
    first = (end - least) // slide
    counts = np.zeros(ends + 1, dtype=np.int64)
    kernels.tally(first, times, counts)
    counts = counts[:-1]
    places = np.cumsum(counts) - counts
    total, length = int(times.sum()), int(end[0] - start[0])
    starts_and_ends = np.empty(total, dtype=np.int64), np.empty(total, dtype=np.int64)
    kernels.bounds(counts, least, slide, length, *starts_and_ends)
    begins = np.concatenate([[0], np.flatnonzero(key[1:] != key[:-1]) + 1, [len(key)]])

    def rearrange(array: Any) -> Any:
        if array.dtype == object:
            return array[rearrange(np.arange(len(array)))]
        target = np.empty(total, dtype=array.dtype)
        raw = np.dtype(f"u{array.dtype.itemsize}")
        source, cursor = array.view(raw), np.empty(len(begins) - 1, dtype=np.int64)
        kernels.spread(first, times, begins, cursor, places.copy(), source, target.view(raw), BLOCK)
        return target

    return rearrange, *starts_and_ends
