"""Nothing is lost: a failure, a stop with savepoint and a resumption at another parallelism, a SIGKILL, all in one life of a job."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import job
import pytest

from windrow.testing import oracle

HERE = Path(__file__).parent
PATIENCE = 300
"""How many seconds a job may take on a machine that is busy otherwise."""


def run(folder: Path, mode: str, state: str, parallelism: int, **options: object) -> subprocess.Popen[str]:
    arguments = [f"--{name.replace('_', '-')}={value}" for name, value in options.items()]
    command = [
        sys.executable,
        str(HERE / "job.py"),
        f"--folder={folder}",
        f"--mode={mode}",
        f"--state={state}",
    ]
    return subprocess.Popen(
        [*command, f"--parallelism={parallelism}", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
        env={name: value for name, value in os.environ.items() if not name.startswith("PYFLINK_")},
    )


def output(process: subprocess.Popen[str]) -> str:
    """All that it says until it ends."""
    try:
        return process.communicate(timeout=PATIENCE)[0]
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)


def lines(path: Path) -> int:
    return len(path.read_text().splitlines()) if path.exists() else 0


def latest_checkpoint(folder: Path) -> Path | None:
    found = [each for each in (folder / "checkpoints").glob("*/chk-*") if (each / "_metadata").exists()]
    return max(found, key=lambda each: each.stat().st_mtime, default=None)


def check_windows(folder: Path) -> None:
    """Every window of the definition has come out, and no other."""
    for name, query in {"time": job.QUERY, "count": job.COUNTED}.items():
        found = set((folder / name).read_text().splitlines())
        expected = {repr(list(window.values())) for window in oracle.evaluate(job.table(), query).to_pylist()}
        assert found == expected, name


def check_workers(folder: Path) -> None:
    """The same for windows that workers compute, some of them in flight when the job died; and in order."""
    found = list(dict.fromkeys((folder / "workers").read_text().splitlines()))
    expected = [
        repr(list(window.values())) for window in oracle.evaluate(job.table(), job.FITTED).to_pylist()
    ]
    assert found == expected


@pytest.mark.parametrize(
    ("mode", "state", "other"), [("thread", "rocksdb", "process"), ("process", "hashmap", "thread")]
)
def test_the_windows_are_those_of_an_uninterrupted_run(
    tmp_path: Path, mode: str, state: str, other: str
) -> None:
    first = run(
        tmp_path, mode, state, 1, fail_once=tmp_path / "failed", stop_after=150, linger_at=job.ROWS // 3
    )
    out = output(first)
    assert first.returncode == 0, out
    savepoint = (tmp_path / "savepoint").read_text()
    assert (tmp_path / "failed").exists()

    before = lines(tmp_path / "time")
    # The two modes keep state in different forms: resuming in the other one is refused, not started with nothing.
    refused = run(tmp_path, other, state, 1, resume=savepoint)
    # RocksDB merges files by levels, as before this was set; the third life merges them by age.
    second = run(tmp_path, mode, state, 2, resume=savepoint, linger_at=job.ROWS * 2 // 3, compaction="LEVEL")
    deadline = time.monotonic() + PATIENCE
    while lines(tmp_path / "time") < before + 30 or latest_checkpoint(tmp_path) is None:
        assert time.monotonic() < deadline and second.poll() is None, second.communicate(timeout=5)[0]
        time.sleep(0.2)
    os.killpg(second.pid, signal.SIGKILL)
    second.communicate()
    out = output(refused)
    assert refused.returncode != 0 and "Cannot map checkpoint/savepoint state" in out, out

    third = run(tmp_path, mode, state, 1, resume=latest_checkpoint(tmp_path))
    out = output(third)
    assert (tmp_path / "finished").exists(), out
    check_windows(tmp_path)
    check_workers(tmp_path)


@pytest.mark.parametrize("mode", ["thread", "process"] if os.environ.get("WINDROW_LONG") else ["thread"])
def test_rows_that_cross_in_batches_are_not_lost_either(tmp_path: Path, mode: str) -> None:
    """The same for ``pack(stream, query)``: what waits for its batch to fill goes into no checkpoint, so it must not wait there."""
    options = {"way": "batches", "fail_once": tmp_path / "failed"}
    first = run(tmp_path, mode, "hashmap", 1, stop_after=150, linger_at=job.ROWS // 3, **options)
    out = output(first)
    assert first.returncode == 0 and (tmp_path / "failed").exists(), out
    before = lines(tmp_path / "time")
    second = run(tmp_path, mode, "hashmap", 2, resume=(tmp_path / "savepoint").read_text(), **options)
    out = output(second)
    assert (tmp_path / "finished").exists(), out
    assert 150 <= before < lines(tmp_path / "time")
    check_windows(tmp_path)
