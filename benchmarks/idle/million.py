"""A million silent keys: memory, the time of a watermark, and the bytes of a commit.

Each key has a few rows in the first minutes of a window of three hours that slides by a minute. Then 100 keys go on, ten rows each
a minute. Every run is a process of its own. A commit follows each 1,000 rows. ``spark`` and ``flink`` are what a micro-batch
writes there: 8 buckets of keys, as both adapters have by default, and their pages in segments for Spark, a value for each
for Flink. ``rocksdb`` is a database of the operator's own. What is counted is bytes that the engine or the database gets.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping
from tempfile import TemporaryDirectory
from time import perf_counter, process_time
from typing import Any

import numpy as np
import pyarrow as pa

import windrow as wr
from benchmarks.idle.linear_road import resident
from benchmarks.idle.million_rows import BUSY, MINUTE, QUERY, SCHEMA, fills, table
from windrow.operator.shrinking import give_back
from windrow.storage.pages import MemoryPages, Pages
from windrow.storage.rocksdb import RocksDBPages
from windrow.storage.segments import Segments

BUCKETS = 8


class Counted:
    """A store that counts what is written to it."""

    def __init__(self, store: Pages) -> None:
        self.store, self.bytes = store, 0

    def get(self, names: Iterable[str]) -> Mapping[str, bytes]:
        return self.store.get(names)

    def commit(self, put: Mapping[str, bytes], delete: Iterable[str]) -> None:
        self.bytes += sum(map(len, put.values()))
        self.store.commit(put, delete)


class Buckets:
    """Operators that share the keys, as on an engine."""

    def __init__(self, stores: list[Any], idle: Any) -> None:
        self.operators = [wr.Operator(QUERY, SCHEMA, idle=idle, pages=store) for store in stores]

    def step(self, rows: pa.Table, watermark: int) -> float:
        """Rows and a watermark; how long the watermark took."""
        of = rows["key"].to_numpy() % len(self.operators)
        seconds = 0.0
        for bucket, operator in enumerate(self.operators):
            operator.process(rows.filter(pa.array(of == bucket)))
            began = perf_counter()
            operator.advance(watermark)
            seconds += perf_counter() - began
        return seconds

    def commit(self) -> None:
        for operator in self.operators:
            operator.commit()

    def figure(self, name: str) -> int:
        return sum(getattr(operator.idle, name) for operator in self.operators)


def fill(buckets: Buckets, keys: int) -> None:
    """Five minutes with rows, and two of silence."""
    for minute, rows in enumerate(fills(keys)):
        buckets.step(rows, (minute + 1) * MINUTE)
    buckets.step(SCHEMA.empty_table(), 7 * MINUTE)


def stores_for(stored: str, folder: str) -> tuple[list[Counted], list[Any]]:
    """The stores whose bytes are counted, and what operators see of them."""
    if stored == "memory":
        return [], [None]
    if stored == "rocksdb":
        counted = [Counted(RocksDBPages(folder))]
        return counted, list(counted)
    counted = [Counted(MemoryPages()) for _ in range(BUCKETS)]
    return counted, [Segments(each) for each in counted] if stored == "spark" else list(counted)


def measure(idle: Any, keys: int, stored: str, folder: str) -> dict[str, Any]:
    fill(Buckets([None], wr.Idle("60s", cohort=64)), 2000)  # kernels are loaded
    give_back()
    before = resident()
    counted, stores = stores_for(stored, folder)
    buckets = Buckets(stores, idle)
    began = process_time()
    fill(buckets, keys)
    filled = process_time() - began
    if counted:
        buckets.commit()
    written, watermarks = [], []
    for minute in range(7, 12):
        earlier = sum(store.bytes for store in counted)
        watermarks.append(buckets.step(table(BUSY, minute, minute), (minute + 1) * MINUTE))
        if counted:
            buckets.commit()
            written.append(sum(store.bytes for store in counted) - earlier)
    return {
        "keys": keys,
        "after": str(idle),
        "store": stored,
        "rss_mb": round((resident() - before) / 1e6, 1),
        "hot_mb": round(buckets.figure("hot_bytes") / 1e6, 1),
        "cold_mb": round(buckets.figure("cold_bytes") / 1e6, 2),
        "cold_keys": buckets.figure("cold_keys"),
        "fill_cpu_seconds": round(filled, 2),
        "watermark_seconds": round(float(np.median(watermarks)), 3),
        "commit_bytes": int(np.median(written)) if written else "",
    }


def runs(keys: int) -> Iterator[dict[str, Any]]:
    """The lines of all runs."""
    for stored in ("memory", "rocksdb", "spark", "flink"):
        for after in ("never", "60s"):
            command = [sys.executable, "-m", "benchmarks.idle.million", after, stored, str(keys)]
            found = subprocess.run(command, check=True, capture_output=True, text=True)
            yield json.loads(found.stdout.splitlines()[-1])


def main() -> None:
    after, stored, keys = sys.argv[1:]
    with TemporaryDirectory() as folder:
        print(json.dumps(measure(None if after == "never" else after, int(keys), stored, folder)))


if __name__ == "__main__":
    main()
