"""Pipelined jobs that are killed: the jobs of the conformance tests, with as many kills as are asked for.

On both engines the sink takes part in the checkpoints, so every row has to come out exactly once.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable
from importlib import import_module
from pathlib import Path
from random import Random
from typing import Any

from benchmarks.chaos.processes import pause
from windrow_conformance.pipelines.joined_story import JoinedStory
from windrow_conformance.pipelines.story import Out

KIND = "pipelined job"
CONFORMANCE = Path(__file__).parents[2] / "conformance"
PATIENCE = 900


def spark(kills: int, folder: Path, seed: int, tell: Callable[[str], None]) -> dict[str, Any]:
    """The driver is killed at random moments after a micro-batch."""
    job = _job("spark")
    chance, done, began = Random(seed), 0, time.monotonic()
    files = 4 * kills + 8
    story = JoinedStory(40 * files)
    job.prepare(folder, story, files)
    while done < kills:
        process, before = job.start(folder), job.commits(folder)
        while process.poll() is None and job.commits(folder) == before:
            time.sleep(0.02)
        pause(chance, 2.0)
        if process.poll() is not None:
            break
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        done += 1
        tell(f"spark, {KIND}: {done} of {kills}")
    assert job.start(folder).wait(PATIENCE) == 0, (folder / "log").read_text()[-3000:]
    lost, doubled = outcome(story.found(job.written(folder)), story.expected())
    return {
        "engine": "spark",
        "what_is_hit": KIND,
        "times": done,
        "jobs_started": done + 1,
        "windows": len(story.expected()),
        "lost_or_wrong": lost,
        "doubled": doubled,
        "seconds": round(time.monotonic() - began),
    }


def flink(kills: int, folder: Path, seed: int, tell: Callable[[str], None]) -> dict[str, Any]:
    """The whole cluster is killed, at random updates; it is resumed at another parallelism."""
    job = _job("flink")
    chance, began, count = Random(seed), time.monotonic(), 60 * kills + 400
    lives = [
        {chance.choice(["read", "emitted"]): number, "parallelism": chance.choice([1, 2])}
        for number in sorted(chance.sample(range(count - 400), kills))
    ]
    for done in range(kills):
        process = job.start(folder, count, lives, done)
        out = process.communicate(timeout=PATIENCE)[0]
        assert process.returncode == -signal.SIGKILL, out[-3000:]
        tell(f"flink, {KIND}: {done + 1} of {kills}")
    last = job.start(folder, count, lives, kills)
    out = last.communicate(timeout=PATIENCE)[0]
    assert last.returncode == 0, out[-3000:]
    expected = job.story(count).expected()
    lost, doubled = outcome(job.story(count).found(job.written(folder)), expected)
    return {
        "engine": "flink",
        "what_is_hit": KIND,
        "times": kills,
        "jobs_started": kills + 1,
        "restored": kills,
        "windows": len(expected),
        "lost_or_wrong": lost + doubled,
        "written_again": doubled,
        "seconds": round(time.monotonic() - began),
    }


def outcome(got: Iterable[Out], expected: Iterable[Out]) -> tuple[int, int]:
    """How many rows are lost or wrong, and how many came twice."""
    ours, theirs = Counter(got), Counter(expected)
    lost = sum((theirs - ours).values()) + sum(row not in theirs for row in ours)
    return lost, sum(count for row, count in (ours - theirs).items() if row in theirs)


def _job(engine: str) -> Any:
    sys.path.insert(0, str(CONFORMANCE / f"tests_{engine}"))
    return import_module("killed_pipeline")
