"""A million silent keys: memory, the time of a watermark, and the bytes of a commit.

Each key has a few rows in the first minutes of a window of three hours that slides by a minute. Then 100 keys go on, ten rows each
a minute. Every run is a process of its own. A commit follows each 1,000 rows. ``segments`` is how windrow keeps its pages in
Spark's state, ``pages`` how it keeps them in Flink's, a value for each page; both are counted in bytes that the engine gets.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping
from time import perf_counter, process_time
from typing import Any

import numpy as np
import pyarrow as pa

import windrow as wr
from benchmarks.idle.linear_road import SECOND, resident
from windrow.storage.pages import MemoryPages
from windrow.storage.segments import Segments

MINUTE = 60 * SECOND
SCHEMA = pa.schema({"key": pa.int64(), "ts": pa.int64(), "load": pa.float64()})


class Counted(MemoryPages):
    """Counts what is written."""

    def __init__(self) -> None:
        super().__init__()
        self.bytes = 0

    def commit(self, put: Mapping[str, bytes], delete: Iterable[str]) -> None:
        self.bytes += sum(map(len, put.values()))
        super().commit(put, delete)


def table(keys: Any, minute: int, seed: int) -> pa.Table:
    random = np.random.default_rng(seed)
    ts = minute * MINUTE + np.sort(random.integers(0, MINUTE, len(keys)))
    return pa.table(
        {"key": keys, "ts": ts, "load": np.round(random.normal(20, 5, len(keys)), 1)}, schema=SCHEMA
    )


def measure(idle: Any, keys: int, stored: str) -> dict[str, Any]:
    query = wr.Query(
        by="key",
        time="ts",
        window=wr.TimeWindow("3h", "1m"),
        aggregates={"n": wr.Count(), "mean": wr.Mean("load"), "peak": wr.Max("load")},
    )
    store = Counted()
    before = resident()
    kept: dict[str, Any] = {"memory": None, "segments": Segments(store), "pages": store}
    operator = wr.Operator(query, SCHEMA, idle=idle, pages=kept[stored])
    spread = np.random.default_rng(0).permutation(keys)
    began = process_time()
    for minute in range(5):  # every key has a row in three of five minutes
        part = spread[np.arange(keys) % 5 != minute][: 3 * keys // 5 + keys // 5]
        operator.process(table(part, minute, minute))
        operator.advance((minute + 1) * MINUTE)
    filled = process_time() - began
    operator.advance(7 * MINUTE)
    if stored != "memory":
        operator.commit()
    written, watermarks = [], []
    for minute in range(7, 12):
        store.bytes = 0
        operator.process(table(np.repeat(np.arange(100), 10), minute, minute))
        at = perf_counter()
        operator.advance((minute + 1) * MINUTE)
        watermarks.append(perf_counter() - at)
        if stored != "memory":
            operator.commit()
            written.append(store.bytes)
    figures = operator.idle
    return {
        "keys": keys,
        "after": str(idle),
        "store": stored,
        "rss_mb": round((resident() - before) / 1e6, 1),
        "hot_mb": round(figures.hot_bytes / 1e6, 1),
        "cold_mb": round(figures.cold_bytes / 1e6, 2),
        "cold_keys": figures.cold_keys,
        "fill_cpu_seconds": round(filled, 2),
        "watermark_seconds": round(float(np.median(watermarks)), 3),
        "commit_bytes": int(np.median(written)) if written else "",
    }


def runs(keys: int) -> Iterator[dict[str, Any]]:
    """The lines of all runs."""
    for stored in ("memory", "segments", "pages"):
        for after in ("never", "60s"):
            command = [sys.executable, "-m", "benchmarks.idle.million", after, stored, str(keys)]
            found = subprocess.run(command, check=True, capture_output=True, text=True)
            yield json.loads(found.stdout.splitlines()[-1])


def main() -> None:
    after, stored, keys = sys.argv[1:]
    print(json.dumps(measure(None if after == "never" else after, int(keys), stored)))


if __name__ == "__main__":
    main()
