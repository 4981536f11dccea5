"""Streams that are hard for approximate windows, and their true results."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from numpy.lib.stride_tricks import sliding_window_view

import windrow as wr

RANGE, ROWS = 3000, 12_000
AGGREGATES = {
    "total": wr.Sum("x"), "n": wr.Count(), "mean": wr.Mean("x"), "most": wr.Max("x"), "least": wr.Min("x")
}  # fmt: skip


def streams() -> dict[str, Any]:
    draw = np.random.default_rng(7)
    steps = np.repeat(draw.integers(1, 100, 12), 1000)
    row = np.arange(ROWS)
    spikes = np.where(row % 997 == 5, 1_000_000, 10)
    return {
        "stationary": draw.integers(900, 1100, ROWS),
        "regimes": 10 * steps + draw.integers(0, 5, ROWS),
        "ramp": row,
        "falling": ROWS - row,
        "spikes": spikes,
        "alternating": np.where(row % 2 == 0, 1, -1) * draw.integers(1, 50, ROWS),
        "collapse": np.where(row < 5000, 1000, 3) + draw.integers(0, 2, ROWS),
        "zeros": np.zeros(ROWS, dtype=np.int64),
        "negative": -draw.integers(100, 200, ROWS),
        "rare": (row % 1500 == 0).astype(np.int64),
        "sign falls": np.where(row < 7000, 1, -1) * draw.integers(50, 150, ROWS),
    }


def true_results(x: Any, length: int) -> dict[str, Any]:
    windows = sliding_window_view(x, length)
    sums = np.append(0, np.cumsum(x))
    total = sums[length:] - sums[:-length]
    return {
        "total": total,
        "n": np.full(len(total), length),
        "mean": total / length,
        "most": windows.max(axis=1),
        "least": windows.min(axis=1),
    }


def run(query: wr.Query, x: Any, batch: int = 1000) -> tuple[pa.Table, wr.Operator, int]:
    """The windows of a stream, the operator, and the most leaves after any call."""
    schema = pa.schema({"ts": pa.int64(), "x": pa.int64()})
    operator, found, leaves = wr.Operator(query, schema), [], 0
    for begin in range(0, len(x), batch):
        rows = {"ts": np.arange(begin, min(begin + batch, len(x))), "x": x[begin : begin + batch]}
        found.append(operator.process(pa.table(rows, schema=schema)))
        found.append(operator.advance(begin + batch))
        leaves = max(leaves, operator.leaves)
    return pa.concat_tables([*found, operator.flush()]), operator, leaves


def errors_of(found: pa.Table, true: dict[str, Any], name: str) -> tuple[Any, Any]:
    """How far results are from the true ones, and how far they say they may be."""
    away = np.abs(found.column(name).to_numpy().astype(float) - true[name])
    return away, found.column(f"{name}_error").to_numpy()
