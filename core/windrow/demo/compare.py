# SPDX-License-Identifier: Apache-2.0
"""Compare an engine's windows with those of the in-process engine."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from windrow.demo.scenario import LOADS, QUERIES, Readings, each_load, read_windows
from windrow.local import aggregate

__all__ = ["Compared", "answers", "compare"]

TOLERANCE = 1e-9
"""How far sums and means may differ, relatively, because engines add in different orders. All else has to be equal."""


@dataclass(frozen=True)
class Compared:
    """The outcome for one query: how many windows, and where the first one differs, if any does."""

    windows: int
    furthest: float
    difference: str = ""

    @property
    def same(self) -> bool:
        return not self.difference


def answers(readings: Readings) -> dict[str, pa.Table]:
    """The windows of each query, computed at once in this process from all rows."""
    rows = pa.concat_tables(each_load(readings))
    return {name: aggregate(rows, query) for name, query in QUERIES.items()}


def compare(expected: pa.Table, query_name: str, folder: Path) -> Compared:
    """Compare the windows in a folder with the expected ones, value by value."""
    found = read_windows(folder)
    if missing := set(expected.column_names) - set(found.column_names):
        return Compared(found.num_rows, 0.0, f"no column {', '.join(sorted(missing))}")
    query = QUERIES[query_name]
    found = found.select(expected.column_names).cast(expected.schema)
    if found.num_rows != expected.num_rows:
        return Compared(found.num_rows, 0.0, f"{found.num_rows:,} windows instead of {expected.num_rows:,}")
    found = query.bind(LOADS).sort(found)
    furthest = 0.0
    for name in expected.column_names:
        ours, theirs = expected[name].combine_chunks(), found[name].combine_chunks()
        if ours.equals(theirs):
            continue
        if not pa.types.is_floating(ours.type):
            return Compared(found.num_rows, furthest, f"column {name} differs")
        distance = _furthest(np.asarray(ours), np.asarray(theirs))
        furthest = max(furthest, distance)
        if not distance <= TOLERANCE:
            return Compared(found.num_rows, furthest, f"column {name} differs by {distance:.2g}")
    return Compared(found.num_rows, furthest)


def _furthest(a: NDArray[np.float64], b: NDArray[np.float64]) -> float:
    scale = np.maximum(np.maximum(np.abs(a), np.abs(b)), 1e-300)
    return float(np.max(np.abs(a - b) / scale, initial=0.0))
