"""The loads of the soak test, and an operator that takes them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
import pyarrow as pa

import windrow as wr
from benchmarks.algorithms.measure import Row, rounded
from windrow.storage.pages import MemoryPages

SECOND = 1_000_000
YEAR = 365 * 86_400 * SECOND
SCHEMA = pa.schema({"k": pa.int64(), "ts": pa.int64(), "x": pa.float64()})
Batch = tuple[np.ndarray, np.ndarray, int | None]
"""Keys and times of rows, and the watermark after them, if there is one."""


@dataclass(frozen=True)
class Scenario:
    """A load, and how it is windowed."""

    name: str
    window: Any
    batches: Callable[[int], Iterator[Batch]]
    steps: int


def come_and_go(steps: int) -> Iterator[Batch]:
    """Every second 2,000 rows of 500 keys; every key lives for twenty seconds and is never seen again."""
    random = np.random.default_rng(1)
    for second in range(steps):
        keys = (second // 20) * 500 + random.integers(0, 500, 2000)
        yield keys, second * SECOND + np.sort(random.integers(0, SECOND, 2000)), (second + 1) * SECOND


def a_million_keys(steps: int) -> Iterator[Batch]:
    """A million keys, each of which has a row in every ten steps."""
    random = np.random.default_rng(2)
    order = random.permutation(1_000_000)
    for step in range(steps):
        part = order[step % 10 * 100_000 : (step % 10 + 1) * 100_000]
        yield part, np.full(len(part), step * SECOND), (step + 1) * SECOND


def stops_and_jumps(steps: int) -> Iterator[Batch]:
    """The watermark stands still for a third of the stream while rows come, then jumps to where they are."""
    random = np.random.default_rng(3)
    for second in range(steps):
        stopped = steps // 3 <= second < 2 * steps // 3
        times = second * SECOND + np.sort(random.integers(0, SECOND, 2000))
        yield random.integers(0, 100, 2000), times, None if stopped else (second + 1) * SECOND


def silent_for_years(steps: int) -> Iterator[Batch]:
    """One key is silent for a year at a time, over windows that slide by a second."""
    for year in range(steps):
        yield np.array([1, 1]), year * YEAR + np.array([0, SECOND]), year * YEAR + 2 * SECOND


def bursts(steps: int) -> Iterator[Batch]:
    """A hundred rows a second, and ten thousand in every tenth."""
    random = np.random.default_rng(4)
    for second in range(steps):
        count = 10_000 if second % 10 == 9 else 100
        times = second * SECOND + np.sort(random.integers(0, SECOND, count))
        yield random.integers(0, 100, count), times, (second + 1) * SECOND


SCENARIOS = (
    Scenario("keys come and go", wr.TimeWindow("10s", "1s"), come_and_go, 300),
    Scenario("a watermark stops and jumps", wr.TimeWindow("10s", "1s"), stops_and_jumps, 300),
    Scenario("a key silent for years", wr.TimeWindow("1h", "1s"), silent_for_years, 100),
    Scenario("bursts of a hundred times", wr.TimeWindow("10s", "1s"), bursts, 300),
    Scenario("a million keys", wr.TimeWindow("20s", "10s"), a_million_keys, 40),
)


def lived(name: str, hours: float) -> list[Row]:
    """What was seen after each step of a scenario."""
    scenario = next(each for each in SCENARIOS if each.name == name)
    query = wr.Query(
        by="k",
        window=scenario.window,
        aggregates={"n": wr.Count(), "peak": wr.Max("x"), "mean": wr.Mean("x")},
    )
    store, seen, began = MemoryPages(), [], perf_counter()
    operator = wr.Operator.open(query, SCHEMA, store)
    _warm(query)
    steps = scenario.steps
    while True:
        rows = windows = 0
        for step, (keys, times, watermark) in enumerate(scenario.batches(steps)):
            table = pa.table({"k": keys, "ts": times, "x": np.sin(times)}, schema=SCHEMA)
            begin = perf_counter()
            out = operator.process(table).num_rows
            out += 0 if watermark is None else operator.advance(watermark).num_rows
            operator.commit()
            taken = perf_counter() - begin
            rows, windows = rows + len(keys), windows + out
            seen.append(
                {
                    "scenario": name,
                    "step": step,
                    "rows": len(keys),
                    "windows": out,
                    "milliseconds": rounded(taken * 1000),
                    "resident_mb": rounded(_resident() / 2**20),
                    "store_kb": rounded(sum(map(len, store.held.values())) / 1024),
                    "pages": len(store.held),
                }
            )
        if perf_counter() - began > hours * 3600:
            return seen
        steps *= 2


def _warm(query: wr.Query) -> None:
    """Compile, so that the first step is no longer than the others."""
    operator = wr.Operator.open(query, SCHEMA, MemoryPages())
    operator.process(pa.table({"k": [1], "ts": [0], "x": [1.0]}, schema=SCHEMA))
    operator.flush()
    operator.commit()


def _resident() -> int:
    """Bytes of memory of this process."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096
