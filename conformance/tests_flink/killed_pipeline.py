"""The pipelined job that tests kill, and let fail: updates and changes from two sources, rows to files. Run as a program.

It can kill itself, or fail, at an update that it reads, or at what the update has done, but not before there is a checkpoint
to go on from. The files are Flink's own sink: a row is in a finished file once, if state and sources are right.

Nothing orders the elements of two sources, and nothing is known of how fast they are. So the updates pass two *gates*: before
the first update, and in the middle, where the later changes come. In a gate, updates of no interest move the watermark a
little, until a change that is refused has been reported by every space; so all changes before it have come. Where the job is
to be interrupted, updates *hold* until it has been. Gates and holds are many elements that wait for a moment each, because no
checkpoint overtakes one; they pass at once when there is nothing more to wait for.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import signal
import subprocess
import sys
import time
from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import accumulate
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
from windrow_conformance.pipelines.joined_story import ROUNDS, SPACES, JoinedStory
from windrow_flink import environment, pipelined, reports

LONG, TEXT = Types.LONG(), Types.STRING()
UPDATE = Types.ROW_NAMED(["space", "stream", "ts", "sequence", "values"], [TEXT, TEXT, LONG, LONG, TEXT])
CHANGE = Types.ROW_NAMED(
    ["space", "operation", "actor", "document", "ts", "sequence"], [TEXT, TEXT, TEXT, TEXT, LONG, LONG]
)
PLACES = ("read", "emitted", "fail")
"""Where a job is killed or fails: at an update that it reads, or that comes out."""
MOMENTS, MOMENT = 6000, 0.1
"""How many elements a gate or a hold has, and how many seconds each waits at most."""
DISORDER = "400ms"
SPAN = 300_000
"""So much event time, in microseconds, passes in a gate or a hold: less than the disorder, so no update becomes late."""
BEHIND = 50
"""So many updates later, what an update has done has come out: the disorder has passed."""


def story(count: int) -> JoinedStory:
    return JoinedStory(count, apart=1_000_000)


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

    def done(self) -> list[str]:
        """It is there when all updates have been read."""
        return [f"{self.folder}/life-{self.life}-done"]

    def checkpoint(self) -> int:
        """The number of the newest checkpoint."""
        found = Path(self.folder, "checkpoints").glob("*/chk-*/_metadata")
        return max((int(each.parent.name.removeprefix("chk-")) for each in found), default=0)


def all_there(files: list[str]) -> bool:
    return all(map(os.path.exists, files))


class Interruption:
    """Kills the job, or lets it fail once, at or after a number, as soon as there is a checkpoint of this life.

    The checkpoint after the next one began after the first update behind the last gate was read. So a job that fails does
    not go back to a gate that is open already.
    """

    def __init__(
        self, files: Files, middle: int, kill_at: int | None = None, fail_at: int | None = None
    ) -> None:
        self.files, self.kill_at, self.fail_at = files, kill_at, fail_at
        self.failed = f"{files.folder}/failed"
        self.group = os.getpgrp()
        self.since = middle if any(at is not None and at >= middle for at in (kill_at, fail_at)) else 0
        self.first: int | None = None

    def at(self, number: int) -> None:
        if self.first is None and number >= self.since:
            self.first = self.files.checkpoint()
        if not self.pending(number) or self.first is None or self.files.checkpoint() < self.first + 2:
            return
        if self.kill_at is None:
            Path(self.failed).touch()
            raise RuntimeError("a failure that happens once")
        os.killpg(self.group, signal.SIGKILL)
        signal.pause()

    def pending(self, number: int) -> bool:
        """Whether the job is to be interrupted here."""
        place = self.fail_at if self.kill_at is None else self.kill_at
        return place is not None and number >= place and not self.over

    @property
    def over(self) -> bool:
        """Whether the job has failed; after a kill, nobody asks."""
        return self.fail_at is not None and os.path.exists(self.failed)


class Script:
    """What elements do, by their number: parts, each of so many elements."""

    def __init__(self, parts: Iterable[tuple[str, int, int]]) -> None:
        """``parts`` are what is done, a number, and how many elements do it."""
        self.parts = [(what, number) for what, number, _ in parts]
        self.begins = [0, *accumulate(elements for *_, elements in parts)]

    def __len__(self) -> int:
        return self.begins[-1]

    def part(self, element: int) -> tuple[str, int, int]:
        """What it does, the number, and which element of the part it is."""
        found = bisect_right(self.begins, element) - 1
        return *self.parts[found], element - self.begins[found]


class Updates(FlatMapFunction):  # type: ignore[misc]
    """Updates by their number, slowly; in gates and holds, those that only move the watermark.

    ``holds`` are all numbers at which any life of the job is interrupted, because the elements of all lives are the same. In
    this life, updates hold from ``hold`` on, until the job has been interrupted.
    """

    def __init__(
        self, told: JoinedStory, files: Files, interruption: Interruption, holds: list[int], hold: int | None
    ) -> None:
        self.told, self.files, self.interruption, self.hold = told, files, interruption, hold
        parts = []
        for number in range(told.count):
            gate = {0: 0, told.middle: 1}.get(number)
            parts += [] if gate is None else [("gate", gate, MOMENTS)]
            parts += [("update", number, 1), *([("hold", number, MOMENTS)] if number in holds else [])]
        self.script = Script([*parts, ("done", 0, 1)])

    def flat_map(self, element: int) -> Iterable[Row]:
        what, number, moment = self.script.part(element)
        return getattr(self, f"_{what}")(number, moment)

    def _update(self, number: int, moment: int) -> Iterable[Row]:
        self.interruption.at(number)
        time.sleep(0.004)
        return [Row(space, *self.told.updates(space)[number]) for space in SPACES]

    def _gate(self, gate: int, moment: int) -> Iterable[Row]:
        if gate:
            Path(self.files.reached()[0]).touch()
        if all_there(self.files.opened(gate)):
            return ()
        time.sleep(MOMENT)
        number = self.told.middle if gate else 0
        return self._ticks(self._time(number) - (0 if gate else SPAN), moment)

    def _hold(self, number: int, moment: int) -> Iterable[Row]:
        if self.hold is None or number < self.hold or self.interruption.over:
            return ()
        self.interruption.at(number)
        time.sleep(MOMENT)
        return self._ticks(self._time(number), moment)

    def _done(self, number: int, moment: int) -> Iterable[Row]:
        Path(self.files.done()[0]).touch()
        return ()

    def _time(self, number: int) -> int:
        return self.told.updates(SPACES[0])[number][1]

    @staticmethod
    def _ticks(begin: int, moment: int) -> list[Row]:
        """They take longer and longer for the same event time. So what waits for a watermark comes soon, however long it has waited."""
        passed = int(SPAN * math.log1p(moment) / math.log1p(MOMENTS))
        return [Row(space, "o/end", begin + passed, moment, "{}") for space in SPACES]


class Changes(FlatMapFunction):  # type: ignore[misc]
    """Changes by their number, and those that open a gate because they are refused.

    It goes on until all updates are read: a job that was resumed in a gate needs a refusal of its own life.
    """

    def __init__(self, told: JoinedStory, files: Files) -> None:
        self.files, self.changes = files, [_rows(told.first), _rows(told.later)]
        self.script = Script(
            [("send", 0, 1), ("wait", 0, MOMENTS), ("send", 1, 1), ("wait", 1, 10 * MOMENTS)]
        )
        self.refused = [
            _rows(lambda _, name=f"p/gate{gate}": [Change.drop(name, by="p")]) for gate in range(2)
        ]
        self.sent, self.pause = 0.0, 0.5

    def flat_map(self, element: int) -> Iterable[Row]:
        what, number, _ = self.script.part(element)
        if what == "send":
            return self.changes[number]
        if all_there(self.files.done() if number else self.files.reached()):
            return ()
        time.sleep(MOMENT)
        return self._refusals(number + 1)

    def _refusals(self, gates: int) -> list[Row]:
        """Those that this life waits for, after longer and longer pauses: watermarks wait for silence."""
        closed = [gate for gate in range(gates) if not all_there(self.files.opened(gate))]
        if not closed or time.monotonic() < self.sent + self.pause:
            return []
        self.sent, self.pause = time.monotonic(), self.pause * 1.5
        return [row for gate in closed for row in self.refused[gate]]


def _rows(changes: Callable[[str], list[Change]]) -> list[Row]:
    return [
        Row(space, *row.values()) for space in SPACES for row in changes_to_table(changes(space)).to_pylist()
    ]


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
        if self.interruption is not None and row["space"] == SPACES[-1] and row["stream"] == "o/r":
            self.interruption.at(row["sequence"])
        return json.dumps(row)


def numbered(flink: Any, function: Any, count: int, type_: Any, name: str) -> Any:
    source = NumberSequenceSource(0, count - 1)
    made = flink.from_source(source, WatermarkStrategy.no_watermarks(), name, LONG).uid(name)
    found = made.set_parallelism(1).flat_map(function, output_type=type_)
    return found.uid(f"{name}-rows").set_parallelism(1)


def hold(options: Mapping[str, Any]) -> int:
    """The update at which a job that is started with these options holds."""
    (name,) = options.keys() & set(PLACES)
    return int(options[name]) + (BEHIND if name == "emitted" else 0)


def start(
    folder: Path, count: int, lives: Sequence[Mapping[str, Any]], life: int, **more: object
) -> subprocess.Popen[str]:
    """A life of the job in a process group of its own: from the newest checkpoint, if there is one.

    ``lives`` are the options of all lives that are interrupted. The one after them ends.
    """
    options = {"holds": [*map(hold, lives)], **([*lives, {}][life]), **more}
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
    for name in PLACES:
        parse.add_argument(f"--{name}", type=int)
    parse.add_argument("--holds", type=json.loads)
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
    interrupted = {name: getattr(asked, name) for name in PLACES if getattr(asked, name) is not None}
    updates = Updates(
        told,
        files,
        Interruption(files, told.middle, asked.read, asked.fail),
        asked.holds,
        hold(interrupted) if interrupted else None,
    )
    changes = Changes(told, files)
    found = pipelined(
        numbered(flink, updates, len(updates.script), UPDATE, "updates"),
        numbered(flink, changes, len(changes.script), CHANGE, "changes"),
        disorder=DISORDER,
        rounds=ROUNDS,
    )
    emitted = Lines(
        ["space", "stream", "ts", "sequence", "values", "sink"],
        files,
        Interruption(files, told.middle, asked.emitted),
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
