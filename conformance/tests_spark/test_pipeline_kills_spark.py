"""A pipelined Spark job is killed and started again: what comes out is what an undisturbed run gives, each row once.

``WINDROW_LONG=1`` kills it at twenty random places.
"""

from __future__ import annotations

import os
import random
import signal
import time
from pathlib import Path

import pytest
from killed_pipeline import commits, prepare, start, written

from windrow_conformance.pipelines.joined_story import JoinedStory

PATIENCE = 600
"""How many seconds a job may take on a machine that is busy otherwise."""


def killed(folder: Path, place: str, number: int) -> None:
    """The job kills itself at a place."""
    assert start(folder, place, number).wait(PATIENCE) == -signal.SIGKILL, (folder / "log").read_text()[
        -3000:
    ]


def killed_later(folder: Path, seconds: float) -> None:
    """The job is killed from outside, so long after a micro-batch is committed: before, in or after another commit."""
    job, before = start(folder), commits(folder)
    while job.poll() is None and commits(folder) == before:
        time.sleep(0.05)
    time.sleep(seconds)
    assert job.poll() is None, f"the job ended before the kill, with {job.returncode}"
    os.killpg(job.pid, signal.SIGKILL)
    job.wait()


def check(folder: Path, story: JoinedStory) -> None:
    """The job is started once more, and ends; nothing is lost, and nothing came twice."""
    assert start(folder).wait(PATIENCE) == 0, (folder / "log").read_text()[-3000:]
    assert story.found(written(folder)) == story.expected()


def test_killed_between_a_change_and_the_updates_after_it(tmp_path: Path) -> None:
    """The second micro-batch brings changes, which wait for their times; the job dies when it reads the third one's updates."""
    story = JoinedStory(240)
    prepare(tmp_path, story, files=3)
    killed(tmp_path, "read", 160)
    assert commits(tmp_path) == 2
    check(tmp_path, story)


@pytest.mark.skipif(not os.environ.get("WINDROW_LONG"), reason="takes minutes: set WINDROW_LONG=1")
def test_killed_at_random_places(tmp_path: Path) -> None:
    chance, kills = random.Random(7), 20
    story = JoinedStory(40 * (2 * kills + 8))
    prepare(tmp_path, story, files=2 * kills + 8)
    for number in sorted(chance.sample(range(story.count - 400), kills)):
        place = chance.choice(["read", "emitted", "any"])
        if place == "any":
            killed_later(tmp_path, chance.random() * 1.5)
        else:
            killed(tmp_path, place, number)
    check(tmp_path, story)
