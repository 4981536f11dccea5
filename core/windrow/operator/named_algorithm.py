# SPDX-License-Identifier: Apache-2.0
"""An algorithm that the query names, in place of the boundary aggregator."""

from __future__ import annotations

from collections import deque
from concurrent.futures import Executor
from typing import Any

import numpy as np

from windrow.algorithms import REGISTRY, Algorithm
from windrow.kernels.slices.layout import NONE, DueWindows, Results
from windrow.operator.partials import AggregateState, FinalAggregation
from windrow.operator.plan import Ints
from windrow.operator.slices import SliceTable


class NamedAlgorithm(FinalAggregation):
    """Slides every window of every key with an instance of one algorithm of :mod:`windrow.algorithms`."""

    by_key = False
    tasks = 0

    def __init__(self, algorithm: str) -> None:
        self.kind = REGISTRY[algorithm]
        self.instances: dict[tuple[str, int, int], tuple[Algorithm, deque[tuple[int, Any]]]] = {}
        """By aggregate, window and key: an algorithm, and the slots and stamps of the slices it holds."""

    def results(
        self, table: SliceTable, due: DueWindows, count: int, pool: Executor | None
    ) -> dict[str, Results]:
        return {state.name: self._results(table, state, due, count) for state in table.aggregates}

    def rearranged(self, table: SliceTable, key: int, gone: Ints, new: Ints) -> None:
        self.forget(np.array([key]))

    def peeked(self) -> None:
        self.instances.clear()

    def forget(self, keys: Ints) -> None:
        some = set(keys.tolist())
        self.instances = {name: held for name, held in self.instances.items() if name[2] not in some}

    def _results(self, table: SliceTable, state: AggregateState, due: DueWindows, count: int) -> Results:
        results = state.room(count)
        columns = (due.which, due.key, due.lo, due.hi)
        windows = zip(*(column[:count].tolist() for column in columns), strict=True)
        for position, (which, key, lo, hi) in enumerate(windows):
            partial = self._slid(table, state, (which, key), lo, hi).query()
            results.ok[position] = state.monoid.defined is None or state.monoid.defined(partial)
            if results.ok[position]:
                results.out[position] = state.lowered(partial)
        return results

    def _slid(
        self, table: SliceTable, state: AggregateState, window: tuple[int, int], lo: int, hi: int
    ) -> Algorithm:
        """The instance of a window and key, slid to the slices lo to hi."""
        slices = table.slices
        name = (state.name, *window)
        if name not in self.instances:
            self.instances[name] = self.kind(state.monoid, compiled=table.compiled), deque()
        algorithm, held = self.instances[name]
        first, gone = (lo, slices.stamp[lo]), 0
        while held and held[0] != first:
            held.popleft()
            gone += 1
        if gone:
            algorithm.evict(gone)
        slot = slices.newer[held[-1][0]] if held else lo
        while slot != NONE and (not held or held[-1][0] != hi):
            algorithm.insert(state.partial(slot))
            held.append((int(slot), slices.stamp[slot]))
            slot = slices.newer[slot]
        return algorithm
