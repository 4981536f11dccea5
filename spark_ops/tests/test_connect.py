"""Through Spark Connect everything works unchanged: the job of the crash test, in a process of its own."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

from crash_job import QUERY, run
from pyspark.sql import SparkSession
from test_crashes import latest, make_rows, windows

from windrow_spark import windowed


def test_a_connected_session_gives_the_same_rows(spark: SparkSession, tmp_path: Path) -> None:
    folder, here = tmp_path / "connected", tmp_path / "here"
    make_rows(spark, folder, files=2)
    shutil.copytree(folder / "rows", here / "rows")
    run(spark, here)
    script = [sys.executable, str(Path(__file__).with_name("connect_job.py")), str(folder)]
    log = tmp_path / "log"
    with log.open("wb") as told:
        done = subprocess.run(script, stdout=told, stderr=told, env=os.environ, timeout=300)
    assert done.returncode == 0, log.read_text()[-4000:]
    assert latest(windows(spark, folder)) == latest(windows(spark, here))
    order = ["window_end", "plug"]
    batch = windowed(spark.read.parquet(str(folder / "rows")), QUERY).orderBy(*order).toArrow()
    assert spark.read.parquet(str(folder / "batch")).orderBy(*order).toArrow().equals(batch)
    assert spark.read.parquet(str(folder / "rest")).count() > 0
    assert spark.read.parquet(str(folder / "state")).count() > 0
