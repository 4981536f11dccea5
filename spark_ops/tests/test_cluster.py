"""A standalone cluster of a master and two workers, started from the pip package, on loopback; an executor is killed."""

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from crash_job import run
from pyspark.sql import SparkSession
from spark_cluster import standalone
from test_crashes import commits, make_rows, windows

pytestmark = pytest.mark.skipif(
    not os.environ.get("WINDROW_LONG"), reason="takes minutes: set WINDROW_LONG=1"
)


@pytest.fixture
def master(tmp_path: Path) -> Iterator[str]:
    with standalone(tmp_path) as address:
        yield address


def test_a_cluster_gives_the_same_rows_even_if_an_executor_dies(
    spark: SparkSession, master: str, tmp_path: Path
) -> None:
    folder, here = tmp_path / "cluster", tmp_path / "here"
    make_rows(spark, folder, files=6)
    shutil.copytree(folder / "rows", here / "rows")
    run(spark, here)
    script = [sys.executable, str(Path(__file__).with_name("cluster_job.py")), master, str(folder)]
    with (tmp_path / "job.log").open("wb") as log:
        job = subprocess.Popen(script, stdout=log, stderr=log)
        while job.poll() is None and commits(folder) < 2:
            time.sleep(0.1)
        assert job.poll() is None, (tmp_path / "job.log").read_text()[-3000:]
        os.kill(executors(tmp_path)[0], signal.SIGKILL)
        assert job.wait(timeout=400) == 0, (tmp_path / "job.log").read_text()[-3000:]
    assert windows(spark, folder).equals(windows(spark, here))
    assert spark.read.parquet(str(folder / "batch")).count() > 0


def executors(folder: Path) -> list[int]:
    """The executors that the workers of this test have started: they run in folders of their workers."""
    listed = subprocess.run(
        ["ps", "-ww", "-eo", "pid,args"], capture_output=True, text=True, check=True
    ).stdout
    found = [int(line.split()[0]) for line in listed.splitlines() if "CoarseGrainedExecutorBackend" in line]
    return [pid for pid in found if _folder_of(pid).startswith(str(folder))]


def _folder_of(pid: int) -> str:
    try:
        return os.readlink(f"/proc/{pid}/cwd")
    except OSError:
        return ""
