"""The rows of a million keys that fall silent, and the query over them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa

import windrow as wr

MINUTE = 60_000_000
SCHEMA = pa.schema({"key": pa.int64(), "ts": pa.int64(), "load": pa.float64()})
QUERY = wr.Query(
    by="key",
    time="ts",
    window=wr.TimeWindow("3h", "1m"),
    aggregates={"n": wr.Count(), "mean": wr.Mean("load"), "peak": wr.Max("load")},
)
BUSY = np.repeat(np.arange(100), 10)
"""The keys that go on, ten rows each a minute."""


def table(keys: Any, minute: int, seed: int) -> pa.Table:
    """A row of each of these keys, at some time of a minute."""
    random = np.random.default_rng(seed)
    ts = minute * MINUTE + np.sort(random.integers(0, MINUTE, len(keys)))
    load = np.round(random.normal(20, 5, len(keys)), 1)
    return pa.table({"key": keys, "ts": ts, "load": load}, schema=SCHEMA)


def fills(keys: int) -> Iterator[pa.Table]:
    """Five minutes, in four of which every key has a row."""
    spread = np.random.default_rng(0).permutation(keys)
    for minute in range(5):
        yield table(spread[np.arange(keys) % 5 != minute], minute, minute)
