"""A look into a checkpoint leaves nothing in Spark's log, at its usual level: in processes that have started no stream yet."""

import os
import subprocess
import sys
from pathlib import Path


def told(folder: Path, *refused: str) -> str:
    """What a process writes that starts a stream."""
    script = [sys.executable, str(Path(__file__).with_name("quiet_job.py")), str(folder), *refused]
    log = folder / "log"
    with log.open("wb") as written:
        done = subprocess.run(script, stdout=written, stderr=written, env=os.environ, timeout=300)
    text = log.read_text()
    assert done.returncode == 0, text[-4000:]
    warnings = text.count("Assume no metadata directory")
    assert warnings == 1, text[:8000]  # the job's own, of a file that is not there
    return text


def test_starts_and_refusals_are_quiet(tmp_path: Path) -> None:
    assert "checkpoint/metadata" not in told(tmp_path)
    again = told(tmp_path, "20s")
    assert "the checkpoint belongs to another query" in again
    assert "StateStoreCoordinator" not in again
