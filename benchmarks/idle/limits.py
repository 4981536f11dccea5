"""What freezing costs at its worst: a D that thrashes, `auto` under a CPU cap, and floats that no codec makes smaller.

Every figure is processor time relative to ``idle=None``, of runs that alternate in one process, so that other work on the machine
disturbs all of them alike; the median of the ratios of each round.

``thrash``: vehicles report every 30 seconds, three in four leave halfway. D = 15 s freezes and thaws all of them for each report;
`auto` has to find a D beyond 30 s within its cap. ``floats``: keys with random doubles, all bits of which differ, are silent for
long and never come back: what is compared is the cost of packing what cannot be packed. ``codec="none"`` is the same without
a codec.
"""

from __future__ import annotations

from collections.abc import Iterator
from statistics import median
from time import process_time
from typing import Any

import numpy as np
import pyarrow as pa

import windrow as wr
from benchmarks.idle.linear_road import SECOND
from windrow.operator.shrinking import give_back

SCHEMA = pa.schema({"key": pa.int64(), "ts": pa.int64(), "load": pa.float64()})
QUERY = wr.Query(
    by="key",
    time="ts",
    window=wr.TimeWindow("1h", "1m"),
    aggregates={"mean": wr.Mean("load"), "peak": wr.Max("load")},
)
WAYS: dict[str, dict[str, Any]] = {
    "thrash": {
        "never": None,
        "60s": "60s",
        "15s": "15s",
        "auto, cpu=0.05": "auto",
        "auto, cpu=0.05, memory=1MB": wr.Idle("auto", memory="1MB"),
    },
    "floats": {"never": None, "60s": "60s", "60s, codec=none": wr.Idle("60s", codec="none")},
}


def thrash(keys: int) -> list[pa.Table]:
    """Reports every 30 seconds for 20 minutes; after ten of them one key in four goes on."""
    random = np.random.default_rng(0)
    batches = []
    for step in range(0, 1200, 5):
        some = np.arange(step // 5 % 6, keys if step < 600 else keys // 4, 6)
        ts = np.sort(random.integers(step, step + 5, len(some))) * SECOND
        load = np.round(random.normal(20, 5, len(some)), 1)
        batches.append(pa.table({"key": some, "ts": ts, "load": load}, schema=SCHEMA))
    return batches


def floats(keys: int) -> list[pa.Table]:
    """Six cohorts of keys, each for ten minutes, a row of each key every ten seconds; then silence."""
    random = np.random.default_rng(1)
    batches = []
    for step in range(0, 3600, 5):
        some = np.arange(keys // 6) + step // 600 * (keys // 6)
        some = some[step // 5 % 2 :: 2]
        ts = np.sort(random.integers(step, step + 5, len(some))) * SECOND
        load = random.normal(size=len(some))
        batches.append(pa.table({"key": some, "ts": ts, "load": load}, schema=SCHEMA))
    return batches


def run(batches: list[pa.Table], idle: Any) -> tuple[float, wr.IdleFigures]:
    give_back()  # so that no run finds memory that the one before has left behind
    operator = wr.Operator(QUERY, SCHEMA, idle=idle)
    began = process_time()
    for batch in batches:
        operator.process(batch)
        operator.advance(batch["ts"][-1].as_py())
    return process_time() - began, operator.idle


def limits(keys: int, rounds: int) -> Iterator[dict[str, Any]]:
    """The lines of both cases."""
    yield from measure("thrash", thrash(keys), rounds)
    yield from measure("floats", floats(keys // 2), rounds)


def measure(case: str, batches: list[pa.Table], rounds: int) -> Iterator[dict[str, Any]]:
    took: dict[str, list[float]] = {way: [] for way in WAYS[case]}
    figures: dict[str, wr.IdleFigures] = {}
    for number in range(rounds + 1):
        for way, idle in WAYS[case].items():
            seconds, figures[way] = run(batches, idle)
            took[way] += [seconds] if number else []  # the first round loads kernels
    for way, every in took.items():
        ratios = [a / b for a, b in zip(every, took["never"], strict=True)]
        found = figures[way]
        yield {
            "case": case,
            "idle": way,
            "rounds": rounds,
            "cpu_seconds": round(median(every), 3),
            "cpu_ratio": round(median(ratios), 3),
            "spread": f"{min(ratios):.2f}–{max(ratios):.2f}",
            "freezes": found.freezes,
            "thaws": found.thaws,
            "after_seconds": "" if found.after is None else round(found.after / SECOND),
            "cold_mb": round(found.cold_bytes / 1e6, 2),
            "why": found.why,
        }
