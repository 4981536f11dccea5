"""Latency of a stream: the first windows of a cold job, a steady micro-batch, the last windows.

Beside windrow runs Spark's own stateful tumbling ``groupBy`` over windows of the same range, on the same stream. It keeps one
value for each key. So does a Python operator that computes nothing, which shows the least that any costs. Every contender has a
process and a session of its own, so that its first micro-batch is cold. Two further contenders are windrow with Python workers
whose compile cache is empty, as on a machine that has not run it before: one has the driver's compiled code, the other does
not. The driver's own cache is filled for all.

The stream begins with a file that fills the window, as far as ``FILLED`` rows do, and goes on with small ones. Each key has a
row a second.
"""

from __future__ import annotations

import csv
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import asdict, astuple, dataclass, fields
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

FILLED = 3_600_000
FIRST, STEADY = 2, 24
"""Micro-batches until the first windows are final, and those after the window is filled. Of these the second half counts: until then
the JVM still compiles.
"""
TUMBLING, OURS = "tumbling groupBy", "windrow"
NOTHING = "a Python operator that does nothing"
EMPTY, ALONE = "windrow, empty cache on executors", "windrow, empty cache, nothing sent"


@dataclass(frozen=True)
class Load:
    """Rows of a micro-batch, keys, slices of a window, buckets."""

    rows: int
    keys: int
    slices: int
    buckets: int = 16


LOADS = [
    Load(10_000, 1_000, 60),
    Load(10_000, 1_000, 3_600),
    Load(100_000, 1_000, 3_600),
    Load(10_000, 1_000, 3_600, buckets=2),
    Load(1_000, 10, 60),
    Load(100_000, 100_000, 60),
    Load(1_000_000, 10, 86_400),
    Load(1_000_000, 1_000, 60),
]
QUICK = [
    Load(10_000, 1_000, 60),
    Load(10_000, 1_000, 3_600),
    Load(100_000, 1_000, 3_600),
    Load(1_000, 10, 60),
]
"""Some minutes."""


@dataclass(frozen=True)
class Latency:
    """What one contender took, in seconds."""

    rows_per_batch: int
    keys: int
    slices: int
    buckets: int
    contender: str
    first_windows: float
    steady_batch: float
    last_windows: float | str
    steady_ratio: float | str = ""


def measure(loads: list[Load], folder: Path) -> Iterator[Latency]:
    """The contenders of every load, one after the other; ours with the ratio to Spark's. Those with an empty cache have the first load."""
    for load in loads:
        contenders = [TUMBLING, OURS, NOTHING, *([EMPTY, ALONE] if load == loads[0] else [])]
        with tempfile.TemporaryDirectory(prefix="windrow-latency-", dir=folder) as place:
            if load == loads[0]:  # fills the driver's cache
                _in_own_process(load, OURS, Path(place) / "before")
            theirs, *others = (
                _in_own_process(load, who, Path(place) / str(number)) for number, who in enumerate(contenders)
            )
        yield theirs
        for ours in others:
            ratio = round(ours.steady_batch / theirs.steady_batch, 2)
            yield Latency(**{**asdict(ours), "steady_ratio": ratio})


def write(found: list[Latency], folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "latency.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow([field.name for field in fields(Latency)])
        writer.writerows(astuple(each) for each in found)


def _in_own_process(load: Load, contender: str, folder: Path) -> Latency:
    folder.mkdir()
    command = [
        sys.executable,
        "-m",
        "benchmarks.spark.latency",
        contender,
        json.dumps(asdict(load)),
        str(folder),
    ]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{contender} on {load} failed:\n{done.stderr[-2000:]}")
    return Latency(**json.loads(done.stdout.splitlines()[-1]))


def _one(contender: str, load: Load, folder: Path) -> Latency:
    """Run one contender in this process."""
    from benchmarks.spark.nothing import nothing
    from benchmarks.spark.session import session
    from benchmarks.spark.streaming import Stream, native, ours, peak
    from windrow_spark import remaining

    empty = (
        {"spark.executorEnv.NUMBA_CACHE_DIR": str(folder / "cache")} if contender in (EMPTY, ALONE) else {}
    )
    sending = {"spark.windrow.sendCompiled": "true" if contender == EMPTY else "auto"}
    spark = session(folder, **sending, **empty)
    stream = Stream(spark, folder)
    gap = 1_000_000 // load.keys if load.keys <= 1_000_000 else 1
    for _ in range(FIRST):
        stream.add(load.rows, load.keys, gap)
    filling = min(load.slices * load.keys, FILLED) - stream.rows
    if filling > 0:
        stream.add(filling, load.keys, gap)
    for _ in range(STEADY):
        stream.add(load.rows, load.keys, gap)
    mine = contender not in (TUMBLING, NOTHING)
    windows = ours(load.slices, buckets=load.buckets) if mine else native(load.slices, load.slices)
    began = perf_counter()
    frame = nothing(stream.read(), load.buckets) if contender == NOTHING else windows(stream.read())
    built = perf_counter() - began
    progress = stream.run(lambda _: frame)
    last: float | str = ""
    if mine:
        began = perf_counter()
        remaining(stream.read(), peak(load.slices), stream.checkpoint()).write.format("noop").mode(
            "overwrite"
        ).save()
        last = round(perf_counter() - began, 2)
    taken = [each["durationMs"]["triggerExecution"] / 1000 for each in progress]
    first, steady = built + sum(taken[:FIRST]), median(taken[-STEADY // 2 :])
    return Latency(*astuple(load), contender, round(first, 2), round(steady, 3), last)


def main(arguments: list[str]) -> None:
    contender, load, folder = arguments
    found: Any = asdict(_one(contender, Load(**json.loads(load)), Path(folder)))
    print(json.dumps(found))


if __name__ == "__main__":
    main(sys.argv[1:])
