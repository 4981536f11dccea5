"""The pipelined job that tests kill, and let fail: updates and changes from two sources, rows to files. Run as a program.

It can kill itself, or fail, at an update that it reads, or at what the update has done, but not before there is a checkpoint
to go on from. The files are Flink's own sink: a row is in a finished file once, if state and sources are right.

Nothing orders the elements of two sources. So the updates pass two *gates*: before the first update, and in the middle, where
the later changes come. In a gate, updates of no interest move the watermark a little, until a change that is refused has been
reported; so all changes before it have come.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pyflink.common import Encoder, Row, Types, WatermarkStrategy
from pyflink.datastream import FlatMapFunction, MapFunction
from pyflink.datastream.connectors.file_system import (
    BucketAssigner,
    FileSink,
    OutputFileConfig,
    RollingPolicy,
)
from pyflink.datastream.connectors.number_seq import NumberSequenceSource

from windrow.pipelines import Change, changes_to_table
from windrow_conformance.pipelines.story import SPACES, Story
from windrow_flink import environment, pipelined, reports

LONG, TEXT = Types.LONG(), Types.STRING()
UPDATE = Types.ROW_NAMED(["space", "stream", "ts", "sequence", "values"], [TEXT, TEXT, LONG, LONG, TEXT])
CHANGE = Types.ROW_NAMED(
    ["space", "operation", "actor", "document", "ts", "sequence"], [TEXT, TEXT, TEXT, TEXT, LONG, LONG]
)
TICKS = 300
"""Updates that a gate has, one every millisecond of event time. Each waits for a while."""
DISORDER = "400ms"
"""More than a gate takes."""
BEHIND = 50
"""So many updates later, what an update has done has come out: the disorder has passed."""
WAIT = 0.1
"""Seconds that an element waits at most: checkpoints do not overtake it."""


def story(count: int) -> Story:
    return Story(count, apart=1_000_000)


class Files:
    """What the functions of the job tell each other in one life of it."""

    def __init__(self, folder: Path, life: int) -> None:
        self.folder, self.life = str(folder), life

    def opened(self, gate: int) -> list[str]:
        """They are there when the changes before a gate have come."""
        return [f"{self.folder}/life-{self.life}-gate-{gate}-{space}" for space in SPACES]

    def reached(self) -> list[str]:
        """It is there when updates have come to the second gate, in any life."""
        return [f"{self.folder}/reached"]

    def checkpoint(self) -> int:
        """The number of the newest checkpoint."""
        found = Path(self.folder, "checkpoints").glob("*/chk-*/_metadata")
        return max((int(each.parent.name.removeprefix("chk-")) for each in found), default=0)


def wait(files: list[str], seconds: float = WAIT) -> None:
    deadline = time.monotonic() + seconds
    while not all(map(os.path.exists, files)) and time.monotonic() < deadline:
        time.sleep(0.01)


class Interruption:
    """Kills the job, or lets it fail once, at or after a number, as soon as there is a checkpoint of this life.

    The checkpoint after the next one began after the first update was read, so the job does not go back to a gate.
    """

    def __init__(
        self, files: Files, kill_at: int | None = None, fail_at: int | None = None, slow_at: int | None = None
    ) -> None:
        self.files, self.kill_at, self.fail_at = files, kill_at, fail_at
        self.slow_at = slow_at if slow_at is not None else kill_at if kill_at is not None else fail_at
        self.failed = f"{files.folder}/failed"
        self.group = os.getpgrp()
        self.first: int | None = None

    def at(self, number: int) -> None:
        kills = self.kill_at is not None and number >= self.kill_at
        fails = self.fail_at is not None and number >= self.fail_at and not os.path.exists(self.failed)
        if self.first is None:
            self.first = self.files.checkpoint()
        if not (kills or fails) or self.files.checkpoint() < self.first + 2:
            return
        if fails:
            Path(self.failed).touch()
            raise RuntimeError("a failure that happens once")
        os.killpg(self.group, signal.SIGKILL)
        signal.pause()

    def slow(self, number: int) -> None:
        """Let few updates come while a checkpoint is waited for. Only where they are read: barriers queue up behind rows."""
        time.sleep(WAIT if self.slow_at is not None and number >= self.slow_at and not self.over else 0.002)

    @property
    def over(self) -> bool:
        return self.kill_at is None and self.fail_at is not None and os.path.exists(self.failed)


class Updates(FlatMapFunction):  # type: ignore[misc]
    """Updates by their number, slowly; at a gate, those that only move the watermark."""

    def __init__(self, told: Story, files: Files, interruption: Interruption) -> None:
        self.files, self.interruption = files, interruption
        self.rows: list[tuple[int | None, Row]] = []
        for number, (stream, ts, sequence, values) in enumerate(told.updates):
            if number in (0, told.middle):
                self.rows += _ticks(ts, 0 if number == 0 else 1)
            self.rows += [(None, Row(space, stream, ts, sequence, values)) for space in SPACES]

    def flat_map(self, number: int) -> Iterator[Row]:
        gate, row = self.rows[number]
        if gate is not None:
            if gate == 1:
                Path(self.files.reached()[0]).touch()
            wait(self.files.opened(gate))
        else:
            self.interruption.slow(row[3])
            if row[0] == SPACES[-1]:
                self.interruption.at(row[3])
        yield row


def _ticks(ts: int, gate: int) -> list[tuple[int | None, Row]]:
    begin = ts - (TICKS + 1) * 1000 if gate == 0 else ts
    return [
        (gate, Row(space, "o/end", begin + number * 1000, number, "{}"))
        for number in range(TICKS)
        for space in SPACES
    ]


class Changes(FlatMapFunction):  # type: ignore[misc]
    """Changes by their number, and those that open a gate because they are refused."""

    def __init__(self, told: Story, files: Files) -> None:
        self.items: list[tuple[list[str], list[Row]]] = [([], _rows(told.first)), *self._opening(files, 0)]
        self.items += [(files.reached(), [])] * TICKS
        self.items += [([], _rows(told.later)), *self._opening(files, 1)]

    @staticmethod
    def _opening(files: Files, gate: int) -> Iterator[tuple[list[str], list[Row]]]:
        """After the first, further ones come slowly: a job that was resumed needs one, and watermarks wait for silence."""
        refused = _rows([Change.drop(f"p/gate{gate}", by="p")])
        for number in range(TICKS):
            yield files.opened(gate), refused if number % 10 == 0 else []

    def flat_map(self, number: int) -> Iterator[Row]:
        files, rows = self.items[number]
        yield from rows
        if files:
            wait(files)


def _rows(changes: list[Change]) -> list[Row]:
    return [Row(space, *row.values()) for space in SPACES for row in changes_to_table(changes).to_pylist()]


class Lines(MapFunction):  # type: ignore[misc]
    """Rows that come out as lines of JSON. Those of refused changes open gates."""

    def __init__(self, names: list[str], files: Files, interruption: Interruption | None) -> None:
        self.names, self.files, self.interruption = names, files, interruption

    def map(self, found: Row) -> str:
        row = {"kind": "update", **dict(zip(self.names, found, strict=True))}
        for gate in range(2):
            if row["stream"] == f"p/gate{gate}":
                Path(self.files.opened(gate)[SPACES.index(row["space"])]).touch()
                return ""
        if self.interruption is not None and row["space"] == SPACES[-1] and row["stream"] != "o/end":
            self.interruption.at(row["sequence"])
        return json.dumps(row)


def numbered(flink: Any, function: Any, count: int, type_: Any, name: str) -> Any:
    source = NumberSequenceSource(0, count - 1)
    made = flink.from_source(source, WatermarkStrategy.no_watermarks(), name, LONG).uid(name)
    found = made.set_parallelism(1).flat_map(function, output_type=type_)
    return found.uid(f"{name}-rows").set_parallelism(1)


def start(folder: Path, life: int, count: int, **options: object) -> subprocess.Popen[str]:
    """A life of the job in a process group of its own: from the newest checkpoint, if there is one."""
    arguments = [f"--{name}={value}" for name, value in options.items()]
    found = [each for each in (folder / "checkpoints").glob("*/chk-*") if (each / "_metadata").exists()]
    if found:
        arguments.append(f"--resume={max(found, key=lambda each: int(each.name.removeprefix('chk-')))}")
    command = [sys.executable, __file__, str(folder), str(life), str(count), *arguments]
    environment_ = {name: value for name, value in os.environ.items() if not name.startswith("PYFLINK_")}
    path = os.pathsep.join(filter(None, sys.path))
    return subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
        env={**environment_, "PYTHONPATH": path, "JVM_ARGS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"},
    )


def written(folder: Path) -> list[dict[str, Any]]:
    """The rows in finished files."""
    files = [each for each in (folder / "out").glob("*.jsonl") if not each.name.startswith(".")]
    return [json.loads(line) for each in sorted(files) for line in each.read_text().splitlines() if line]


def main() -> None:
    parse = argparse.ArgumentParser()
    parse.add_argument("folder", type=Path)
    parse.add_argument("life", type=int)
    parse.add_argument("count", type=int)
    for name in ("read", "emitted", "fail"):
        parse.add_argument(f"--{name}", type=int)
    parse.add_argument("--mode", default="thread")
    parse.add_argument("--resume")
    parse.add_argument("--parallelism", type=int, default=1)
    asked = parse.parse_args()
    flink = environment(
        asked.parallelism,
        asked.mode,
        checkpoints=asked.folder / "checkpoints",
        every="200ms",
        resume=asked.resume,
        settings={"python.fn-execution.bundle.size": "100"},
    )
    told, files = story(asked.count), Files(asked.folder, asked.life)
    later = None if asked.emitted is None else asked.emitted + BEHIND
    updates = Updates(told, files, Interruption(files, asked.read, asked.fail, later))
    changes = Changes(told, files)
    found = pipelined(
        numbered(flink, updates, len(updates.rows), UPDATE, "updates"),
        numbered(flink, changes, len(changes.items), CHANGE, "changes"),
        disorder=DISORDER,
    )
    emitted = Lines(
        ["space", "stream", "ts", "sequence", "values", "sink"],
        files,
        Interruption(files, asked.emitted),
    )
    reported = Lines(["space", "kind", "stream", "ts", "sequence", "message"], files, None)
    lines = found.map(emitted, output_type=TEXT).uid("emitted").set_parallelism(1)
    lines = lines.union(reports(found).map(reported, output_type=TEXT).uid("reported").set_parallelism(1))
    sink = (
        FileSink.for_row_format(str(asked.folder / "out"), Encoder.simple_string_encoder())
        .with_bucket_assigner(BucketAssigner.base_path_bucket_assigner())
        .with_rolling_policy(RollingPolicy.on_checkpoint_rolling_policy())
        .with_output_file_config(OutputFileConfig.builder().with_part_suffix(".jsonl").build())
        .build()
    )
    lines.sink_to(sink).uid("files").set_parallelism(1)
    flink.execute("killed pipeline")
    (asked.folder / "finished").touch()


if __name__ == "__main__":
    main()
