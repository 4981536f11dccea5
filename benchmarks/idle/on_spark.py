"""What a micro-batch of a running Spark job writes, when a million keys are silent.

Structured Streaming on two threads, state in RocksDB with changelog checkpoints, as :func:`windrow_spark.session_conf` sets it,
the default number of buckets. Every key has four rows in the first five minutes, in micro-batches of 800,000 rows. Then micro-batches of
1,000 rows of 100 keys come, each a minute later. Bytes are the sizes of the files that a version of the state has below
``state`` in the checkpoint folder, of both partitions: the changelog of the operator's state variables and of its timers. A snapshot of the
database, which Spark uploads in the background every ten versions or so, is counted apart.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.idle.million_rows import BUSY, QUERY, fills, table

STEPS = 10
"""Micro-batches of 1,000 rows, the later half of which counts."""
VERSION = re.compile(r"(\d+)(?:_\w[\w-]*)?\.(changelog|zip)")


def write_rows(folder: Path, keys: int) -> int:
    """A file for each micro-batch, in the order that Spark reads them; how many fill the state."""
    folder.mkdir()
    filling = list(fills(keys))
    busy = [table(BUSY, minute, minute) for minute in range(len(filling), len(filling) + STEPS)]
    for number, rows in enumerate([*filling, *busy]):
        at = rows.schema.get_field_index("ts")
        rows = rows.set_column(at, "ts", rows["ts"].cast(pa.timestamp("us", "UTC")))
        path = folder / f"{number:04}.parquet"
        pq.write_table(rows, path)
        os.utime(path, (1_000_000_000 + number, 1_000_000_000 + number))
    return len(filling)


def written(state: Path) -> dict[int, dict[str, int]]:
    """For every version of the state, the bytes of its changelogs and of its snapshots."""
    found: dict[int, dict[str, int]] = defaultdict(lambda: {"changelog": 0, "zip": 0})
    for path in state.glob("0/*/*"):
        if match := VERSION.fullmatch(path.name):
            found[int(match[1])][match[2]] += path.stat().st_size
    return found


def measure(after: str, keys: int, folder: Path) -> dict[str, Any]:
    from benchmarks.spark.session import session
    from windrow_spark import windowed

    filling = write_rows(folder / "rows", keys)
    spark = session(folder)
    frame = spark.readStream.schema("key long, ts timestamp, load double").option("maxFilesPerTrigger", 1)
    rows = frame.parquet(str(folder / "rows")).withWatermark("ts", "0 seconds")
    windows = windowed(rows, QUERY, idle=None if after == "never" else after)
    query = (
        windows.writeStream.format("noop")
        .option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    progress = {each["batchId"]: each for each in map(_plain, query.recentProgress)}
    files = written(folder / "checkpoint" / "state")
    steady = range(filling + STEPS // 2, filling + STEPS)
    told = [next(iter(progress[batch]["observedMetrics"].values())) for batch in steady]
    snapshots = [each["zip"] for version, each in files.items() if each["zip"]]
    spark.stop()
    return {
        "engine": "spark",
        "keys": keys,
        "after": after,
        "rows": progress[steady[-1]]["numInputRows"],
        "batches": len(steady),
        "written_bytes": round(median(files[batch + 1]["changelog"] for batch in steady)),
        "least_bytes": min(files[batch + 1]["changelog"] for batch in steady),
        "most_bytes": max(files[batch + 1]["changelog"] for batch in steady),
        "of_pages_bytes": round(median(each["bytes_written"] for each in told)),
        "first_bytes": sum(files[batch + 1]["changelog"] for batch in range(filling)),
        "cold_keys": told[-1]["cold_keys"],
        "seconds": round(
            median(progress[batch]["durationMs"]["triggerExecution"] for batch in steady) / 1000, 2
        ),
        "snapshots": len(snapshots),
    }


def _plain(progress: Any) -> Any:
    """The progress of a micro-batch as JSON."""
    return json.loads(progress.json)


def runs(keys: int) -> Iterator[dict[str, Any]]:
    """A line without freezing and one with, each of a process of its own."""
    for after in ("never", "60s"):
        command = [sys.executable, "-m", "benchmarks.idle.on_spark", after, str(keys)]
        found = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
        yield json.loads(found.stdout.splitlines()[-1])


def main() -> None:
    after, keys = sys.argv[1:]
    with TemporaryDirectory() as folder:
        print(json.dumps(measure(after, int(keys), Path(folder))))


if __name__ == "__main__":
    main()
