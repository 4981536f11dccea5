"""What a checkpoint of a running Flink job writes, when a million keys are silent.

``windowed_packed`` in a mini-cluster, state in RocksDB with incremental checkpoints, the default number of buckets. The
rows are those of :mod:`benchmarks.idle.on_spark`: five batches that fill the state, then batches of 1,000 rows, seconds apart, with
a checkpoint every second. Every checkpoint is kept. Bytes are those of the files that came into the folder of checkpoints while
batches of 1,000 rows ran: the metadata of each checkpoint, small files of the database in it, and new files of the database.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa

from benchmarks.idle.million_rows import BUSY, QUERY, SCHEMA, fills, table

STEPS, COUNTED, PAUSE = 12, 6, 4.0
"""Batches of 1,000 rows, how many of them count, and the seconds between two."""


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


def measure(after: str, keys: int, folder: Path) -> dict[str, Any]:
    from pyflink.common import Types, WatermarkStrategy
    from pyflink.datastream.connectors.number_seq import NumberSequenceSource

    from windrow_flink import environment, windowed_packed
    from windrow_flink.rowtypes import BYTES

    log, checkpoints = folder / "log", folder / "checkpoints"
    checkpoints.mkdir()
    flink = environment(
        state="rocksdb",
        checkpoints=checkpoints,
        every="1s",
        settings={"execution.checkpointing.num-retained": "1000"},
    )
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
    new = [(path, stat.st_size) for path, stat in files if begun <= stat.st_mtime < ended]
    taken = sum(path.name == "_metadata" for path, _ in new)
    shared = sum(size for path, size in new if path.parent.name == "shared")
    return {
        "engine": "flink",
        "keys": keys,
        "after": after,
        "rows": len(BUSY),
        "batches": COUNTED,
        "checkpoints": taken,
        "written_bytes": round(sum(size for _, size in new) / COUNTED),
        "of_shared_bytes": round(shared / COUNTED),
        "first_bytes": sum(stat.st_size for _, stat in files if stat.st_mtime < done[5]),
    }


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
    """A line without freezing and one with, each of a process of its own."""
    for after in ("never", "60s"):
        command = [sys.executable, "-m", "benchmarks.idle.on_flink", after, str(keys)]
        found = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
        yield json.loads(found.stdout.splitlines()[-1])


def main() -> None:
    after, keys = sys.argv[1:]
    with TemporaryDirectory() as folder:
        print(json.dumps(measure(after, int(keys), Path(folder))))


if __name__ == "__main__":
    main()
