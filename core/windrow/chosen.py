"""An algorithm that the query names, in place of the boundary aggregator that the operator otherwise uses."""

from __future__ import annotations

from collections import deque
from typing import Any

import numpy as np

from windrow.aggregates import arrow
from windrow.algorithms import REGISTRY, Algorithm
from windrow.kernels.layout import NONE, Windows
from windrow.runs import Results, State, Tower


class Chosen:
    """Slides every window over every run with instances of one algorithm of :mod:`windrow.algorithms`."""

    def __init__(self, algorithm: str) -> None:
        self.kind = REGISTRY[algorithm]
        self.held: dict[tuple[str, int, int], tuple[Algorithm, deque[tuple[int, Any]]]] = {}

    def slide(self, state: State, windows: Windows, count: int) -> Results:
        """The results of planned windows."""
        if state.rearranged:
            self.held = {name: held for name, held in self.held.items() if name[2] not in state.rearranged}
            state.rearranged.clear()
        return {tower.name: self._results(state, tower, windows, count) for tower in state.towers}

    def _results(self, state: State, tower: Tower, windows: Windows, count: int) -> tuple[Any, Any]:
        out = np.zeros(count, dtype=arrow.physical_dtype(tower.monoid.output))
        ok = np.zeros(count, dtype=np.bool_)
        columns = (windows.which, windows.key, windows.lo, windows.hi)
        for position, (which, key, lo, hi) in enumerate(
            zip(*(c[:count].tolist() for c in columns), strict=True)
        ):
            partial = self._window(state, tower, which, key, lo, hi).query()
            ok[position] = tower.monoid.defined is None or tower.monoid.defined(partial)
            if ok[position]:
                out[position] = tower.lowered(partial)
        return out, ok

    def _window(self, state: State, tower: Tower, which: int, key: int, lo: int, hi: int) -> Algorithm:
        """The key's instance, slid to the slices lo … hi."""
        runs = state.runs
        name = (tower.name, which, key)
        if name not in self.held:
            self.held[name] = self.kind(tower.monoid, compiled=state.compiled), deque()
        algorithm, slices = self.held[name]
        first, gone = (lo, runs.stamp[lo]), 0
        while slices and slices[0] != first:
            slices.popleft()
            gone += 1
        if gone:
            algorithm.evict(gone)
        slot = runs.follower[slices[-1][0]] if slices else lo
        while slot != NONE and (not slices or slices[-1][0] != hi):
            algorithm.insert(tower.partial(slot))
            slices.append((int(slot), runs.stamp[slot]))
            slot = runs.follower[slot]
        return algorithm
