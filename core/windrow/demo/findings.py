# SPDX-License-Identifier: Apache-2.0
"""What the demo's windows say, for the terminal and for the page."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from windrow.demo.scenario import PLUG

__all__ = ["Findings", "Line", "find"]

POINTS = 240  # of a line in a plot
BUSIEST = 6
STRONG = 60.0  # watts: what is worth a plot


@dataclass(frozen=True)
class Line:
    """A curve: times in microseconds, and values."""

    label: str
    times: NDArray[np.int64]
    values: NDArray[np.float64]


@dataclass(frozen=True)
class Findings:
    """The last hour of the data (kWh of each house, the busiest plugs), and the curves of the evening."""

    until: Any
    houses: list[dict[str, Any]]
    plugs: list[dict[str, Any]]
    totals: list[Line]
    plug: str
    curves: list[Line]


def find(answers: dict[str, pa.Table], loads: pa.Table) -> Findings:
    """Look at the windows that end with the data, and at those of the plug with the most ups and downs."""
    latest = int(np.asarray(loads["ts"].cast(pa.int64())).max()) // 1_000_000 * 1_000_000
    first = int(np.asarray(loads["ts"].cast(pa.int64())).min())
    houses, plugs = answers["houses"], answers["plugs"]
    at_end = _at(houses, latest).sort_by("house").to_pylist()
    by_load = _at(plugs, latest).sort_by([("mean", "descending")]).to_pylist()
    totals = [
        _line(
            f"house {row['house']}",
            houses.filter(pc.equal(houses["house"], row["house"])),
            "mean",
            first,
            latest,
        )
        for row in at_end
    ]
    strong = [row for row in by_load if row["peak"] >= STRONG] or by_load
    chosen = max(strong, key=lambda row: _switches(_of(loads, row)))
    mine, raw = _of(plugs, chosen), _of(loads, chosen)
    curves = [
        _thinned("load", np.asarray(raw["ts"].cast(pa.int64())), np.asarray(raw["load"])),
        *(_line(name, mine, name, first, latest) for name in ("peak", "p95", "mean")),
    ]
    return Findings(at_end[0]["window_end"], at_end, by_load[:BUSIEST], totals, name_of(chosen), curves)


def name_of(row: dict[str, Any]) -> str:
    """How a plug is called.

    >>> name_of({"house": 3, "household": 0, "plug": 6})
    'house 3, household 0, plug 6'
    """
    return ", ".join(f"{column} {row[column]}" for column in PLUG)


def kilowatt_hours(row: dict[str, Any]) -> float:
    """What a house used in an hour: its loads, one a second, in watt-seconds."""
    return float(row["total"]) / 3.6e6


def _switches(loads: pa.Table) -> int:
    """How often a plug goes over or under half of its peak."""
    values = np.asarray(loads["load"])
    return int(np.count_nonzero(np.diff(values > values.max() / 2)))


def _of(table: pa.Table, row: dict[str, Any]) -> pa.Table:
    for column in PLUG:
        table = table.filter(pc.equal(table[column], row[column]))
    return table


def _at(windows: pa.Table, end: int) -> pa.Table:
    return windows.filter(pc.equal(windows["window_end"].cast(pa.int64()), end))


def _line(label: str, windows: pa.Table, column: str, first: int, last: int) -> Line:
    """One value over the ends of windows, while there is data."""
    times = np.asarray(windows["window_end"].cast(pa.int64()))
    inside = (times > first) & (times <= last)
    return _thinned(label, times[inside], np.asarray(windows[column])[inside])


def _thinned(label: str, times: NDArray[np.int64], values: NDArray[np.float64]) -> Line:
    """A line with few enough points to draw: of each stretch the largest value, so that no peak is lost."""
    order = np.argsort(times, kind="stable")
    times, values = times[order], values[order]
    step = max(1, len(times) // POINTS)
    starts = np.arange(0, len(times), step)
    return Line(label, times[starts], np.maximum.reduceat(values, starts))
