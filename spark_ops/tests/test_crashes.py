"""Nothing is lost: the driver is killed at random moments, again and again, and the output is that of an undisturbed run."""

import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from crash_job import run
from pyspark.sql import SparkSession

KILLS = 12 if os.environ.get("WINDROW_LONG") else 2
FILES = 2 * KILLS + 1
"""A file is a micro-batch: no life of the job but the last commits more than two, so there is always something to kill."""


def make_rows(spark: SparkSession, folder: Path, files: int) -> None:
    """Files whose rows are out of order, also between files."""
    for number in range(files):
        rows = spark.sql(
            f"""select concat('plug ', id % 6) as plug, timestamp_micros(1700000000000000 + id * 50000 - (id % 5) * 1100000) as ts,
                       cast((id * 7919) % 1000 as double) as load, id from range({number * 500}, {number * 500 + 500}, 1, 1)"""
        )
        rows.write.mode("append").parquet(str(folder / "rows"))


def test_output_after_kills_is_that_of_an_undisturbed_run(spark: SparkSession, tmp_path: Path) -> None:
    folder, undisturbed = tmp_path / "killed", tmp_path / "undisturbed"
    make_rows(spark, folder, FILES)
    shutil.copytree(folder / "rows", undisturbed / "rows")
    run(spark, undisturbed)

    chance, kills = random.Random(7), 0
    while kills < KILLS:
        job, before = start(folder), commits(folder)
        while job.poll() is None and commits(folder) == before:
            time.sleep(0.05)
        moment = time.monotonic() + chance.random() * 1.5
        while time.monotonic() < moment and commits(folder) < before + 2:
            time.sleep(0.01)
        assert job.poll() is None, f"the job ended before the kill, with {job.returncode}"
        os.killpg(job.pid, signal.SIGKILL)
        job.wait()
        kills += 1
    assert start(folder).wait(timeout=300) == 0
    killed, expected = windows(spark, folder), windows(spark, undisturbed)
    assert latest(killed) == latest(expected)
    finals = killed.filter(pc.equal(killed.column("emission"), "final"))
    fitted = [
        spark.read.parquet(str(each / "fitted")).orderBy("window_end").toArrow()
        for each in (folder, undisturbed)
    ]
    assert (
        fitted[0].equals(fitted[1]) and fitted[0].num_rows > 50
    )  # every window once, by whoever computed it
    assert finals.num_rows == finals.group_by(["plug", "window_end"]).aggregate([]).num_rows > 0


def latest(table: pa.Table) -> dict[tuple[Any, ...], dict[str, Any]]:
    """Each window as it was last emitted: rows are only ever added to it.

    After a restart Spark may cut micro-batches otherwise, so a late row can come before a window is final in one run, and correct
    it in the other. What the window comes to is the same.
    """
    emitted = sorted(table.to_pylist(), key=lambda row: row["n"])
    return {(row["plug"], row["window_end"]): {**row, "emission": ""} for row in emitted}


def start(folder: Path) -> subprocess.Popen[bytes]:
    log = (folder / "log").open("ab")
    script = [sys.executable, str(Path(__file__).with_name("crash_job.py")), str(folder)]
    return subprocess.Popen(script, stdout=log, stderr=log, start_new_session=True)


def commits(folder: Path) -> int:
    done = folder / "checkpoint" / "commits"
    return sum(not name.startswith(".") for name in os.listdir(done)) if done.exists() else 0


def windows(spark: SparkSession, folder: Path) -> pa.Table:
    return (
        spark.read.parquet(str(folder / "windows"))
        .orderBy("window_end", "plug", "emission", "n", "peak")
        .toArrow()
    )
