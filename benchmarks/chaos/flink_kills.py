"""Flink: TaskManagers, the JobManager and Python processes are killed or get no memory, checkpoints cannot be written, the
clock jumps, the job is resumed at another parallelism.

The job writes windows to a plain file, which takes part in no checkpoint. After a failure Flink gives windows since the last
checkpoint again, so a line may be in the file twice. What is compared is the set of lines: none missing, none other.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from random import Random
from typing import Any
from urllib.request import Request, urlopen

from benchmarks.chaos import pipeline_kills
from benchmarks.chaos.clock import Clock
from benchmarks.chaos.processes import Mounted, command_of, descendants, kill, pause, starve

TESTS = Path(__file__).parents[2] / "flink_ops" / "tests"
ROWS_PER_KILL = 3000
PATIENCE = 600
KINDS = (
    "TaskManager",
    "JobManager",
    "Python process",
    pipeline_kills.KIND,
    "memory of a Python process",
    "clock",
    "checkpoint folder",
    "parallelism",
)
TIMEOUT = "20s"
"""A Python process without memory may stand still instead of dying. Flink notices when a checkpoint takes too long."""


class Job:
    """A job on a cluster of a JobManager and two TaskManagers."""

    def __init__(self, cluster: Any, folder: Path, mode: str) -> None:
        self.cluster, self.folder, self.mode = cluster, folder, mode
        self.parallelism, self.spare, self.submissions = 2, 0, 0
        for name in ("one", "two"):
            cluster.add(name, slots=2)
        self._wait_for_slots()
        self.submit()

    def submit(self, *more: str) -> None:
        options = [
            f"--folder={self.folder}",
            f"--mode={self.mode}",
            "--state=hashmap",
            f"--parallelism={self.parallelism}",
            "--detached=yes",
            "--restarts=1000",
        ]
        self.id = self.cluster.submit("-py", str(TESTS / "job.py"), *options, *more)
        self.submissions += 1

    def state(self) -> str:
        return str(self.cluster.ask(f"jobs/{self.id}")["state"])

    def checkpoints(self) -> int:
        return int(self.cluster.ask(f"jobs/{self.id}/checkpoints")["counts"]["completed"])

    def restored(self) -> int:
        """How often the job went on from a checkpoint by itself, since it was submitted last."""
        return int(self.cluster.ask(f"jobs/{self.id}/checkpoints")["counts"]["restored"])

    def goes_on(self) -> bool:
        """Wait until it runs and has completed another checkpoint; false if it has finished instead."""
        before: list[int] = []

        def ready() -> bool:
            state = self.state()
            if state in ("FINISHED", "FAILED"):
                return True
            if state == "RUNNING":
                before.append(self.checkpoints())
            return len(before) > 1 and before[-1] > before[0]

        self.cluster.wait(PATIENCE, ready, "no further checkpoint")
        return self.state() != "FINISHED"

    def replace(self, victim: str) -> None:
        """A TaskManager is killed, and another one started."""
        self.cluster.kill(victim)
        self.spare += 1
        self.cluster.add(f"spare-{self.spare}", slots=2)

    def resume(self) -> None:
        """Go on from the newest checkpoint, as a new job."""
        found = [
            each for each in (self.folder / "checkpoints").glob("*/chk-*") if (each / "_metadata").exists()
        ]
        self.submit(f"--resume={max(found, key=lambda each: each.stat().st_mtime)}")

    def rescale(self) -> None:
        """Cancel the job, and resume it at another parallelism."""
        address = f"http://127.0.0.1:{self.cluster.port}/jobs/{self.id}"
        urlopen(Request(address, method="PATCH"), timeout=30).close()
        self.cluster.wait(PATIENCE, lambda: self.state() == "CANCELED", "not cancelled")
        self.parallelism = 3 - self.parallelism
        self.resume()

    def restart_jobmanager(self) -> None:
        """There is no other JobManager to take over, so whoever runs the cluster starts one, and the job again."""
        for name in list(self.cluster.running):
            self.cluster.kill(name)
        self.cluster.__enter__()
        for name in ("one", "two"):
            self.cluster.add(name, slots=2)
        self._wait_for_slots()
        self.resume()

    def python_processes(self) -> list[int]:
        below = [
            pid
            for name, each in self.cluster.running.items()
            if name != "jobmanager"
            for pid in descendants(each.pid)
        ]
        return [
            pid for pid in below if "beam_sdk_worker" in command_of(pid) or "beam_boot" in command_of(pid)
        ]

    def _wait_for_slots(self) -> None:
        self.cluster.wait(
            PATIENCE, lambda: self.cluster.ask("overview")["slots-total"] >= 4, "not two TaskManagers"
        )


def disturb(kind: str, job: Job, chance: Random, mounted: Mounted | None, clock: Clock) -> bool:
    """Do one harm; false if there was nothing to do it to."""
    if kind == "TaskManager":
        job.replace(chance.choice([name for name in job.cluster.running if name != "jobmanager"]))
    elif kind == "JobManager":
        job.restart_jobmanager()
    elif kind == "parallelism":
        job.rescale()
    elif kind == "clock":
        return clock.jump(chance)
    elif kind == "checkpoint folder":
        return mounted is not None and mounted.unwritable(1 + chance.random() * 2)
    else:
        victims = job.python_processes()
        return bool(victims) and (starve if kind.startswith("memory") else kill)(chance.choice(victims))
    return True


def run(kind: str, kills: int, folder: Path, seed: int, tell: Callable[[str], None]) -> dict[str, Any]:
    """A job that is harmed so often in one way, and what its output has lost."""
    if kind == pipeline_kills.KIND:
        return pipeline_kills.flink(kills, folder, seed, tell)
    os.environ["WINDROW_JOB_ROWS"] = str(2000 + ROWS_PER_KILL * kills)
    import job as program
    from cluster import Cluster

    import windrow as wr

    chance, done, began = Random(seed), 0, time.monotonic()
    mode, clock = "process" if "Python" in kind else "thread", Clock(folder / "clock")
    cluster = Cluster(folder / "cluster")
    cluster.environment |= clock.environment if kind == "clock" else {}
    if kind.startswith("memory"):
        cluster.set("execution.checkpointing.timeout", TIMEOUT)
    with (
        cluster,
        Mounted(folder / "checkpoints") if kind == "checkpoint folder" else nullcontext() as mounted,
    ):
        job = Job(cluster, folder, mode)
        while done < kills and job.goes_on():
            pause(chance, 1.0)
            if disturb(kind, job, chance, mounted, clock):
                done += 1
                tell(f"flink, {kind}: {done} of {kills}")
        cluster.wait(PATIENCE, lambda: job.state() == "FINISHED", "not finished")
        restored = job.restored()
    lost = again = windows = 0
    for name, query in {"time": program.QUERY, "count": program.COUNTED}.items():
        lines = (folder / name).read_text().splitlines()
        expected = {repr(list(row.values())) for row in wr.aggregate(program.table(), query).to_pylist()}
        lost += len(expected ^ set(lines))
        again += len(lines) - len(set(lines))
        windows += len(expected)
    return {
        "engine": "flink",
        "what_is_hit": kind,
        "times": done,
        "jobs_started": job.submissions,
        "restored": restored,
        "windows": windows,
        "lost_or_wrong": lost,
        "written_again": again,
        "seconds": round(time.monotonic() - began),
    }
