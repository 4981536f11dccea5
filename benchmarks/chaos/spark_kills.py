"""Spark: the driver, Python workers and executors are killed, workers get no memory, the checkpoint cannot be written,
the clock jumps.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.chaos import pipeline_kills
from benchmarks.chaos.clock import Clock
from benchmarks.chaos.processes import Mounted, command_of, descendants, kill, parent_of, pause, starve

TESTS = Path(__file__).parents[2] / "spark_ops" / "tests"
ROWS_IN_A_FILE = 100
PATIENCE = 900
KINDS = (
    "driver",
    "executor",
    "Python worker",
    pipeline_kills.KIND,
    "memory of a Python worker",
    "clock",
    "checkpoint folder",
)


def make_rows(folder: Path, files: int) -> None:
    """Files whose rows are out of order, also between files; a micro-batch reads one."""
    (folder / "rows").mkdir(parents=True)
    for number in range(files):
        ids = range(number * ROWS_IN_A_FILE, (number + 1) * ROWS_IN_A_FILE)
        table = pa.table(
            {
                "plug": [f"plug {i % 6}" for i in ids],
                "ts": pa.array(
                    [1_700_000_000_000_000 + i * 50_000 - i % 5 * 1_100_000 for i in ids],
                    pa.timestamp("us", "UTC"),
                ),
                "load": [float(i * 7919 % 1000) for i in ids],
                "id": list(ids),
            }
        )
        path = folder / "rows" / f"{number:05}.parquet"
        pq.write_table(table, path)
        os.utime(path, (1_700_000_000 + number, 1_700_000_000 + number))  # streams read files in this order


def committed(folder: Path) -> pa.Table:
    """The windows in the files that the sink's log names."""
    names: set[str] = set()
    for log in (folder / "windows" / "_spark_metadata").iterdir():
        if log.name.startswith("."):
            continue
        for line in log.read_text().splitlines()[1:]:
            names.add(Path(json.loads(line)["path"]).name)
    return pa.concat_tables([pq.read_table(folder / "windows" / name) for name in sorted(names)])


def outcome(got: pa.Table, expected: pa.Table) -> tuple[int, int]:
    """How many windows are lost or wrong, and how many came twice as final ones."""
    ours, theirs = _latest(got), _latest(expected)
    lost = sum(ours.get(window) != row for window, row in theirs.items())
    lost += sum(window not in theirs for window in ours)
    finals = [row for row in got.to_pylist() if row["emission"] == "final"]
    again = Counter((row["plug"], row["window_end"]) for row in finals)
    return lost, sum(count - 1 for count in again.values())


def _latest(table: pa.Table) -> dict[tuple[Any, ...], dict[str, Any]]:
    """Each window as it was last emitted: rows are only ever added to it."""
    emitted = sorted(table.to_pylist(), key=lambda row: row["n"])
    return {(row["plug"], row["window_end"]): {**row, "emission": ""} for row in emitted}


class Job:
    """The job in a process group of its own, which goes on from its checkpoint whenever it is started again."""

    def __init__(self, folder: Path, master: str, more: Mapping[str, str]) -> None:
        self.folder, self.master, self.more = folder, master, more
        self.starts = 0
        self.start()

    def start(self) -> None:
        environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join([str(TESTS), *filter(None, sys.path)]),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "PYSPARK_PYTHON": sys.executable,
            "PYSPARK_DRIVER_PYTHON": sys.executable,
            **self.more,
        }
        script = [
            sys.executable,
            str(Path(__file__).with_name("spark_job.py")),
            str(self.folder),
            self.master,
        ]
        with (self.folder / "log").open("ab") as log:
            self.process = subprocess.Popen(
                script, stdout=log, stderr=log, start_new_session=True, env=environment
            )
        self.starts += 1

    @property
    def batches(self) -> int:
        """How many micro-batches are committed."""
        done = self.folder / "checkpoint" / "commits"
        return sum(not name.startswith(".") for name in os.listdir(done)) if done.exists() else 0

    def on(self) -> bool:
        """Whether it goes on. One that an error ended is started again; one that finished is not."""
        code = self.process.poll()
        if code is None:
            return True
        if code == 0:
            return False
        self.start()
        return True

    def kill(self) -> None:
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def finish(self) -> None:
        deadline = time.monotonic() + PATIENCE
        while self.on():
            if time.monotonic() > deadline:
                self.kill()
                raise AssertionError(f"the job does not end:\n{(self.folder / 'log').read_text()[-3000:]}")
            time.sleep(0.2)


def workers(job: Job) -> list[int]:
    """The Python workers: forks of the daemon that Spark starts."""
    below = [pid for pid in descendants(job.process.pid) if "windrow_spark.daemon" in command_of(pid)]
    return [pid for pid in below if parent_of(pid) in below]


def executors(folder: Path) -> list[int]:
    """Executors that run in folders of this cluster's workers."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and "CoarseGrainedExecutorBackend" in command_of(int(entry.name)):
            try:
                if os.readlink(entry / "cwd").startswith(str(folder)):
                    found.append(int(entry.name))
            except OSError:
                continue
    return found


def disturb(
    kind: str, job: Job, chance: Random, mounted: Mounted | None, cluster: Path, clock: Clock
) -> bool:
    """Do one harm; false if there was nothing to do it to."""
    if kind == "driver":
        job.kill()
        job.start()
        return True
    if kind == "checkpoint folder":
        return mounted is not None and mounted.unwritable(1 + chance.random() * 2)
    if kind == "clock":
        return clock.jump(chance)
    victims = executors(cluster) if kind == "executor" else workers(job)
    if not victims:
        return False
    return (starve if kind.startswith("memory") else kill)(chance.choice(victims))


def run(kind: str, kills: int, folder: Path, seed: int, tell: Callable[[str], None]) -> dict[str, Any]:
    """A job that is harmed so often in one way, and what its output has lost."""
    if kind == pipeline_kills.KIND:
        return pipeline_kills.spark(kills, folder, seed, tell)
    from spark_cluster import standalone

    chance, done, began = Random(seed), 0, time.monotonic()
    within_a_batch = "Python" in kind or kind == "clock"  # a task is tried again, and again
    files = 4 + kills // 3 if within_a_batch else 4 + 2 * kills
    make_rows(folder / "whole", files)
    shutil.copytree(folder / "whole" / "rows", folder / "rows")
    clock = Clock(folder / "clock")
    Job(folder / "whole", "local[2]", {}).finish()
    expected = committed(folder / "whole")
    with (
        standalone(folder / "cluster") if kind == "executor" else nullcontext("local[2,100]") as master,
        Mounted(folder / "checkpoint") if kind == "checkpoint folder" else nullcontext() as mounted,
    ):
        job = Job(folder, master, clock.environment if kind == "clock" else {})
        while done < kills and job.on():
            seen, starts = job.batches, job.starts
            while not within_a_batch and job.on() and job.batches == seen and job.starts == starts:
                time.sleep(0.02)
            pause(chance, 2.0)
            if job.process.poll() is None and disturb(kind, job, chance, mounted, folder / "cluster", clock):
                done += 1
                tell(f"spark, {kind}: {done} of {kills}")
        job.finish()
        lost, doubled = outcome(committed(folder), expected)
    return {
        "engine": "spark",
        "what_is_hit": kind,
        "times": done,
        "jobs_started": job.starts,
        "windows": len(_latest(expected)),
        "lost_or_wrong": lost,
        "doubled": doubled,
        "seconds": round(time.monotonic() - began),
    }
