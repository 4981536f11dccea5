"""The rows and the query that all contenders get."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

import windrow as wr

AGGREGATES = {"peak": wr.Max("load"), "mean": wr.Mean("load"), "n": wr.Count()}
SECOND = 10**6


@dataclass(frozen=True)
class Case:
    """Rows of some plugs, at random times, in the order of time; and a window of so many seconds that slides by one."""

    name: str
    rows: int
    keys: int
    seconds: int
    """How long the readings go on."""
    range: int
    """The window's range in seconds."""

    @property
    def per_slice(self) -> float:
        """How many rows a slice of a key has."""
        return self.rows / self.keys / self.seconds

    @property
    def query(self) -> wr.Query:
        window = wr.TimeWindow(f"{self.range}s", "1s")
        return wr.Query(by="plug", window=window, aggregates=AGGREGATES)

    def table(self) -> pa.Table:
        random = np.random.default_rng(7)
        return pa.table(
            {
                "plug": random.integers(0, self.keys, self.rows),
                "ts": pa.array(
                    np.sort(random.integers(0, self.seconds * SECOND, self.rows)), pa.timestamp("us")
                ),
                "load": random.random(self.rows),
            }
        )
