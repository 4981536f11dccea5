"""What a checkpoint of a running Flink job writes, when a million keys are silent.

``windowed_packed`` in a mini-cluster, state in RocksDB with incremental checkpoints, the default number of buckets. The
rows are those of :mod:`benchmarks.idle.on_spark`: five batches that fill the state, then batches of 1,000 rows, seconds apart, and
a checkpoint after each. Every checkpoint is kept. Bytes are those of the files that came into the folder of checkpoints while
batches of 1,000 rows ran: the metadata of each checkpoint, small files of the database in it, and new files of the database.

``settings`` are those of ``windrow_flink.environment``, or Flink's defaults for how RocksDB merges its files (by levels) and for which
files go into the metadata (less than 20 KB). By RocksDB's log, ``flushed`` is what batches wrote to the database, and ``merged`` what it
wrote anew when it made one file of others.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa

from benchmarks.idle.million_rows import BUSY, QUERY, SCHEMA, fills, table

STEPS, COUNTED, PAUSE = 28, 16, 3.0
"""Batches of 1,000 rows, how many of them count, and the seconds between two."""
DEFAULTS = {
    "state.backend.rocksdb.compaction.style": "LEVEL",
    "execution.checkpointing.data-inline-threshold": "20kb",
}
EVENT = re.compile(r"EVENT_LOG_v1 (\{.*\})")


class Batches:
    """Makes the batch with a number, as bytes. Batches of few rows wait, so that checkpoints come between them."""

    def __init__(self, keys: int, log: Path) -> None:
        self.keys, self.log = keys, log

    def __call__(self, number: int) -> bytes:
        filling = 5
        rows = SCHEMA.empty_table()
        if number < filling:
            rows = next(each for place, each in enumerate(fills(self.keys)) if place == number)
        elif number < filling + STEPS:
            time.sleep(PAUSE)
            rows = table(BUSY, number, number)
        with self.log.open("a", encoding="ascii") as log:
            log.write(f"{number} {time.time()}\n")
        if number >= filling + STEPS:
            time.sleep(3600)  # at the end of a stream all windows are finished; the job is cancelled before
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, SCHEMA) as writer:
            writer.write_table(rows)
        return sink.getvalue().to_pybytes()


def measure(after: str, chosen: str, keys: int, folder: Path) -> dict[str, Any]:
    from pyflink.common import Types, WatermarkStrategy
    from pyflink.datastream.connectors.number_seq import NumberSequenceSource

    from windrow_flink import environment, windowed_packed
    from windrow_flink.rowtypes import BYTES

    log, checkpoints, database = folder / "log", folder / "checkpoints", folder / "database"
    checkpoints.mkdir()
    database.mkdir()
    settings = {
        "execution.checkpointing.num-retained": "1000",
        "state.backend.rocksdb.log.level": "INFO_LEVEL",
        "state.backend.rocksdb.log.dir": str(database),
        "state.backend.rocksdb.log.max-file-size": "100mb",
    }
    if chosen == "defaults":
        settings |= DEFAULTS
    flink = environment(state="rocksdb", checkpoints=checkpoints, every="1s", settings=settings)
    source = NumberSequenceSource(0, 5 + STEPS)
    numbers = flink.from_source(source, WatermarkStrategy.no_watermarks(), "numbers", Types.LONG())
    sent = numbers.map(Batches(keys, log), BYTES)
    options = {} if after == "never" else {"idle": after}
    windows = windowed_packed(sent, QUERY, SCHEMA, disorder=0, packed_output=True, **options)
    windows.map(len, Types.LONG()).filter(lambda size: size < 0).print()
    job = flink.execute_async("idle windows")
    try:
        done = _wait(log, 5 + STEPS)
    finally:
        job.cancel().result()
    begun, ended = done[5 + STEPS - COUNTED - 1], done[5 + STEPS]
    files = [(path, path.stat()) for path in checkpoints.rglob("*") if path.is_file()]
    new = sorted(
        (stat.st_mtime, path, stat.st_size) for path, stat in files if begun <= stat.st_mtime < ended
    )
    each = [0]  # what each checkpoint wrote; its metadata comes last
    for _, path, size in new:
        each[-1] += size
        each += [0] if path.name == "_metadata" else []
    merged = compactions(database, begun, ended)
    return {
        "engine": "flink",
        "keys": keys,
        "after": after,
        "settings": chosen,
        "rows": len(BUSY),
        "batches": COUNTED,
        "checkpoints": len(each) - 1,
        "written_bytes": round(sum(each) / COUNTED),
        "median_bytes": round(median(each[:-1])),
        "most_bytes": max(each),
        "of_metadata_bytes": round(sum(size for _, path, size in new if path.name == "_metadata") / COUNTED),
        "flushed_bytes": round(merged["flush"] / COUNTED),
        "merged_bytes": round(merged["compaction"] / COUNTED),
        "first_bytes": sum(stat.st_size for _, stat in files if stat.st_mtime < done[5]),
    }


def compactions(folder: Path, begun: float, ended: float) -> dict[str, int]:
    """The bytes of the files that RocksDB flushed, and of those that it made of others, by its own log."""
    found, jobs = {"flush": 0, "compaction": 0}, {}
    (log,) = folder.glob("*LOG")
    for line in log.read_text(encoding="utf-8").splitlines():
        event = EVENT.search(line)
        told = json.loads(event[1]) if event else {}
        kind, _, moment = str(told.get("event", "")).partition("_")
        if moment == "started" and kind in found:
            jobs[told["job"]] = kind
        elif told.get("event") == "table_file_creation" and begun <= told["time_micros"] / 1e6 < ended:
            found[jobs[told["job"]]] += told["file_size"]
    return found


def _wait(log: Path, last: int) -> dict[int, float]:
    """When each batch was made, once the last one was."""
    for _ in range(900):
        time.sleep(1)
        lines = log.read_text(encoding="ascii").splitlines() if log.exists() else []
        done = {int(number): float(at) for number, at in map(str.split, lines)}
        if last in done:
            return done
    raise TimeoutError("the job did not read its rows in 15 minutes")


def runs(keys: int) -> Iterator[dict[str, Any]]:
    """Lines without freezing and with, each of a process of its own."""
    for after, chosen in (("never", "windrow"), ("60s", "windrow"), ("60s", "defaults")):
        command = [sys.executable, "-m", "benchmarks.idle.on_flink", after, chosen, str(keys)]
        found = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
        yield json.loads(found.stdout.splitlines()[-1])


def main() -> None:
    after, chosen, keys = sys.argv[1:]
    with TemporaryDirectory() as folder:
        print(json.dumps(measure(after, chosen, int(keys), Path(folder))))


if __name__ == "__main__":
    main()
