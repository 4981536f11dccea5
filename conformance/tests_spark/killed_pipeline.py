"""The pipelined job that tests kill: files of updates and changes, one of each per micro-batch, to parquet. Run as a program.

It can kill itself, at a place that is the same in every run: when a worker reads an update, or when one hands out what the
update has done, before anything of the micro-batch is committed.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from windrow.pipelines import CHANGES, UPDATES, Change, changes_to_table
from windrow_conformance.pipelines.joined_story import ROUNDS, SPACES, JoinedStory

SPACED = {
    "updates": pa.schema([*UPDATES, ("space", pa.string())]),
    "changes": pa.schema([*CHANGES, ("space", pa.string())]),
}
LAST = 1 << 50
"""A time after all others: updates at it bring the watermark past them."""
BEGAN = 1_700_000_000


def prepare(folder: Path, story: JoinedStory, files: int) -> None:
    """The files of a story. Spark reads them by the time they were written, so each is a second younger than the one before."""
    size = -(-story.count // files)
    parts = [slice(begin, begin + size) for begin in range(0, story.count, size)]
    later = story.middle // size
    for number, part in enumerate(parts):
        updates = {space: story.updates(space)[part] for space in SPACES}
        told = story.first if number == 0 else story.later if number == later else None
        _write(folder, number, updates, {} if told is None else {space: told(space) for space in SPACES})
    for number in range(2):  # the watermark of a micro-batch is known in the next one
        _write(
            folder, len(parts) + number, {space: [("o/end", LAST + number, 0, "{}")] for space in SPACES}, {}
        )


def _write(
    folder: Path,
    number: int,
    updates: Mapping[str, list[tuple[str, int, int, str]]],
    changes: Mapping[str, list[Change]],
) -> None:
    """The files of a micro-batch: what each space has."""
    tables = {
        "updates": {
            space: pa.table(list(zip(*rows, strict=True)), schema=UPDATES) for space, rows in updates.items()
        },
        "changes": {space: changes_to_table(made) for space, made in changes.items()},
    }
    for name, of_spaces in tables.items():
        spaced = [
            table.append_column("space", pa.repeat(space, len(table))) for space, table in of_spaces.items()
        ]
        path = folder / name / f"{number:04}.parquet"
        path.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(
            pa.concat_tables([SPACED[name].empty_table(), *(t.cast(SPACED[name]) for t in spaced)]), path
        )
        os.utime(path, (BEGAN + number, BEGAN + number))


def start(folder: Path, *kill: object) -> subprocess.Popen[bytes]:
    """The job in a process group of its own; it goes on from its checkpoint."""
    with (folder / "log").open("ab") as log:
        script = [sys.executable, __file__, str(folder), *map(str, kill)]
        path = os.pathsep.join(filter(None, sys.path))
        environment = {**os.environ, "PYTHONPATH": path, "SPARK_LOCAL_IP": "127.0.0.1"}
        return subprocess.Popen(script, stdout=log, stderr=log, start_new_session=True, env=environment)


def commits(folder: Path) -> int:
    """How many micro-batches are committed."""
    done = folder / "checkpoint" / "commits"
    return sum(not name.startswith(".") for name in os.listdir(done)) if done.exists() else 0


def written(folder: Path) -> list[dict[str, Any]]:
    """The rows in the files that the sink's log names: others are of micro-batches that were not committed."""
    names: set[str] = set()
    for log in (folder / "out" / "_spark_metadata").iterdir():
        if not log.name.startswith("."):
            names |= {Path(json.loads(line)["path"]).name for line in log.read_text().splitlines()[1:]}
    found = pa.concat_tables([pq.read_table(folder / "out" / name) for name in sorted(names)])
    time = found.column("ts").cast(pa.timestamp("us", "UTC")).cast(pa.int64())
    return found.set_column(found.column_names.index("ts"), "ts", time).to_pylist()


def run(spark: Any, folder: Path, kill_at: tuple[str, int] | None = None) -> None:
    """Until all files are read, or until the job kills itself."""
    from windrow_spark import pipelined

    frames = {}
    for name, schema in SPACED.items():
        types = spark.createDataFrame(schema.empty_table()).schema
        read = spark.readStream.option("maxFilesPerTrigger", 1).schema(types)
        frames[name] = read.parquet(str(folder / name))
    place, number = kill_at or ("", 0)
    updates = frames["updates"].selectExpr(
        "stream", "timestamp_micros(ts) as ts", "sequence", "values", "space"
    )
    if place == "read":
        updates = updates.mapInArrow(killing(number), updates.schema)
    timed = updates.withWatermark("ts", "100 milliseconds")
    found = pipelined(timed, frames["changes"], reports=True, rounds=ROUNDS)
    if place == "emitted":
        found = found.mapInArrow(killing(number), found.schema)
    writer = found.writeStream.trigger(availableNow=True).format("parquet")
    writer = writer.option("checkpointLocation", str(folder / "checkpoint"))
    writer.option("path", str(folder / "out")).start().awaitTermination()


def killing(number: int) -> Any:
    """A step that kills the job at the first row of the last space that has at least this sequence."""
    group = os.getpgrp()

    def passed(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            late = pc.and_(
                pc.greater_equal(batch.column("sequence"), number),
                pc.equal(batch.column("space"), SPACES[-1]),
            )
            if pc.any(late).as_py():
                os.killpg(group, signal.SIGKILL)
                signal.pause()  # until Spark is seen to be dead: nothing of this batch gets out
            yield batch

    return passed


def main() -> None:
    parse = argparse.ArgumentParser()
    parse.add_argument("folder", type=Path)
    parse.add_argument("place", nargs="?", choices=["read", "emitted"])
    parse.add_argument("number", nargs="?", type=int, default=0)
    parse.add_argument("--master", default="local[2]")
    asked = parse.parse_args()
    from windrow_spark.session import local_session

    with local_session("killed pipeline", asked.folder / "spark", asked.master) as spark:
        run(spark, asked.folder, (asked.place, asked.number) if asked.place else None)


if __name__ == "__main__":
    main()
