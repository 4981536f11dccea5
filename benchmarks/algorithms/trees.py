"""Window sizes and bulk eviction: Figures 4.6 and 4.7 of the MTA thesis, over all our algorithms, compiled.

Size: a window of n rows, full, slides n times by one; the mean time of a slide. Bulk eviction: a window of n
partials; then n' ≤ n leave at once and the result is asked for; the time of that, each time from a copy of
the same full window.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa

import windrow as wr
from benchmarks.algorithms import filling
from benchmarks.algorithms.measure import Row, in_turns, rounded
from windrow.algorithms import REGISTRY
from windrow.algorithms.base import linked
from windrow.kernels.partials import allocate, slots
from windrow.kernels.specialise import specialise

NAIVE = 1 << 9
SIZES = (
    "Recal",
    "TwoStacks",
    "TwoStacksLite",
    "DABA",
    "DABALite",
    "FlatFAT",
    "FlatFIT",
    "LMTA",
    "AMTA",
    "FiBA",
    "SBA",
    "PBA",
)
BULK = ("Recal", "TwoStacks", "TwoStacksLite", "DABA", "DABALite", "FlatFAT", "LMTA", "AMTA", "FiBA", "SBA")


def window_sizes(sizes: list[int], rounds: int) -> Iterator[list[Row]]:
    for size in sizes:
        slides = max(size, 100_000)
        values = np.random.default_rng(7).random(size + slides)
        contenders = {
            name: lambda name=name: wr.sliding(values, wr.Max(), size, algorithm=name)  # noqa: B023
            for name in SIZES
            if name != "Recal" or size <= NAIVE
        }
        measured = in_turns(contenders, rounds)
        yield [
            {"size": size, "algorithm": name, "ns_per_slide": rounded(min(seconds) / (size + slides) * 1e9)}
            for name, seconds in measured.items()
        ]


def bulk_evictions(size: int, evictions: list[int], rounds: int) -> Iterator[list[Row]]:
    monoid = wr.Max().dense([pa.float64()])
    parts = allocate(monoid, size)
    parts[0][:] = np.random.default_rng(8).random(size)
    for name in BULK:
        kind = REGISTRY[name]
        window = kind.for_range(monoid, size)
        seam = slots(monoid)
        seam.update(linked(kind._kernel_module(), seam))
        compiled = specialise(filling, seam)
        compiled.fill(window._state, parts, size)
        full = _copied(window._state)
        evict = getattr(window._kernel, "evict_many", compiled.evict_one_by_one)
        rows = []
        for evicted in evictions:
            taken = []
            for _ in range(rounds + 1):
                window._state = _copied(full)
                begin = time.perf_counter_ns()
                evict(window._state, evicted)
                window.query()
                taken.append(time.perf_counter_ns() - begin)
            rows.append(
                {
                    "size": size,
                    "evicted": evicted,
                    "algorithm": name,
                    "microseconds": rounded(min(taken[1:]) / 1e3),
                }
            )
        yield rows


def _copied(state: Any) -> Any:
    return tuple(part.copy() if isinstance(part, np.ndarray) else _copied(part) for part in state)
