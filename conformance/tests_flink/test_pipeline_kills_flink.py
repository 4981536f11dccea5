"""A pipelined Flink job is killed, resumed and fails: what comes out is what an undisturbed run gives, each row once.

``WINDROW_LONG=1`` kills it at twenty random places, and resumes it at another parallelism.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest
from killed_pipeline import start, story, written

PATIENCE = 600
"""How many seconds a job may take on a machine that is busy otherwise."""


def output(process: subprocess.Popen[str]) -> str:
    """All that it says until it ends."""
    try:
        return process.communicate(timeout=PATIENCE)[0]
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)


def killed(process: subprocess.Popen[str]) -> None:
    """The job kills itself."""
    out = output(process)
    assert process.returncode == -signal.SIGKILL, out[-3000:]


def check(folder: Path, count: int, lives: list[dict[str, Any]], life: int, **more: object) -> None:
    """The job is resumed once more, and ends; nothing is lost, and nothing came twice."""
    last = start(folder, count, lives, life, **more)
    out = output(last)
    assert last.returncode == 0 and (folder / "finished").exists(), out[-3000:]
    assert story(count).found(written(folder)) == story(count).expected()


def test_killed_between_a_change_and_the_updates_after_it(tmp_path: Path) -> None:
    """It dies when the later changes have come, at the next update; resumed, it fails when they have taken effect."""
    lives = [{"read": 200}, {"fail": 330}]
    killed(start(tmp_path, 400, lives, 0))
    check(tmp_path, 400, lives, 1)
    assert (tmp_path / "failed").exists()


@pytest.mark.skipif(not os.environ.get("WINDROW_LONG"), reason="takes minutes: set WINDROW_LONG=1")
@pytest.mark.parametrize("mode", ["thread", "process"])
def test_killed_at_random_places(tmp_path: Path, mode: str) -> None:
    chance, kills = random.Random(7), 20
    count = 60 * kills + 400
    lives = [
        {chance.choice(["read", "emitted"]): number, "mode": mode, "parallelism": chance.choice([1, 2])}
        for number in sorted(chance.sample(range(count - 400), kills))
    ]
    for life in range(kills):
        killed(start(tmp_path, count, lives, life))
        if life == 0:
            # The two modes keep state in different forms: resuming in the other one is refused, not started with nothing.
            refused = start(tmp_path, count, lives, kills, mode="process" if mode == "thread" else "thread")
            out = output(refused)
            assert refused.returncode and "Cannot map checkpoint/savepoint state" in out, out[-3000:]
    check(tmp_path, count, lives, kills, mode=mode)
