"""The session of the benchmarks: two local threads on the loopback address, settings as a careful user has them."""

from __future__ import annotations

import os
import sys
from pathlib import Path

os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, sys.path))

from pyspark.sql import SparkSession

from windrow_spark import session_conf


def session(folder: Path, **more: str) -> SparkSession:
    """A session that keeps its files in a folder; ``more`` are further settings."""
    builder = SparkSession.builder.master("local[2]").appName("windrow benchmarks")
    settings = {
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.memory": "4g",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.local.dir": str(folder / "local"),
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "2",
        **session_conf(),
        **more,
    }
    for name, value in settings.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return spark
