"""The paper's stream, quotes at a steady rate, and its query: a polynomial fitted by Levenberg–Marquardt to every window."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

import windrow as wr


def quotes(seconds: float, rate: int) -> pa.Table:
    """Bids of one symbol, so many a second."""
    rows = int(seconds * rate)
    at = np.arange(rows) / rate
    bids = 100.0 + np.cumsum(np.random.default_rng(7).normal(0.0, 0.01, rows))
    return pa.table({"ts": (at * 1e6).astype(np.int64), "at": at % 60.0, "bid": bids})


def parabola(x: Any, p: Any) -> Any:
    return p[0] + x * (p[1] + x * p[2])


def decay(x: Any, p: Any) -> Any:
    """A stretched decay, which takes several steps."""
    return p[0] + p[1] * np.exp(-p[2] * np.sqrt(x + 0.01))


def fit() -> wr.Aggregate:
    return wr.LevenbergMarquardt(parabola, "at", "bid", p0=(100.0, 0.0, 0.0))


def fits(window: Any) -> wr.Query:
    """The paper's query."""
    return wr.Query(window=window, aggregates={"fit": fit()})
