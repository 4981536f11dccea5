"""A pipelined Flink job is killed, resumed and fails: what comes out is what an undisturbed run gives, each row once.

``WINDROW_LONG=1`` kills it at twenty random places, and resumes it at another parallelism.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
from pathlib import Path

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


def check(folder: Path, life: int, count: int, **options: object) -> None:
    """The job is resumed once more, and ends; nothing is lost, and nothing came twice."""
    last = start(folder, life, count, **options)
    out = output(last)
    assert last.returncode == 0 and (folder / "finished").exists(), out[-3000:]
    assert story(count).found(written(folder)) == story(count).expected()


def test_killed_between_a_change_and_the_updates_after_it(tmp_path: Path) -> None:
    """It dies when the later changes have come, at the next update; resumed, it fails when they have taken effect."""
    killed(start(tmp_path, 0, 400, read=200))
    check(tmp_path, 1, 400, fail=330)
    assert (tmp_path / "failed").exists()


@pytest.mark.skipif(not os.environ.get("WINDROW_LONG"), reason="takes minutes: set WINDROW_LONG=1")
@pytest.mark.parametrize("mode", ["thread", "process"])
def test_killed_at_random_places(tmp_path: Path, mode: str) -> None:
    chance, kills = random.Random(7), 20
    count = 60 * kills + 400
    for life, number in enumerate(sorted(chance.sample(range(count - 400), kills))):
        options = {
            "mode": mode,
            "parallelism": chance.choice([1, 2]),
            chance.choice(["read", "emitted"]): number,
        }
        killed(start(tmp_path, life, count, **options))
        if life == 0:
            # The two modes keep state in different forms: resuming in the other one is refused, not started with nothing.
            refused = start(tmp_path, life, count, mode="process" if mode == "thread" else "thread")
            out = output(refused)
            assert refused.returncode and "Cannot map checkpoint/savepoint state" in out, out[-3000:]
    check(tmp_path, kills, count, mode=mode)
