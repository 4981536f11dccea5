"""One Spark session for all tests of this folder: two local threads, on the loopback address only."""

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

# Read when the JVM starts, so they are set before pyspark is imported. Without the first, Spark binds to
# whatever address the host's name has; without the second, workers are the `python3` on PATH.
os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
# Workers import what tests define.
os.environ["PYTHONPATH"] = os.pathsep.join([str(Path(__file__).parent), *filter(None, sys.path)])

from pyspark.sql import SparkSession

from windrow_spark import session_conf
from windrow_spark.session import SHORT_JOB


def session(folder: Path, settings: dict[str, str] | None = None) -> SparkSession:
    """A session that keeps its files in a folder; ``settings`` are those of windrow, or others in their place.

    The settings of the first session of a process become properties of its JVM, so every later one has those that it does
    not set itself. Tests here rely on the last micro-batch, which :func:`windrow_spark.session.local_session` switches off.
    """
    found = (
        SparkSession.builder.master("local[2]")
        .appName("windrow tests")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.memory", "1g")
        .config("spark.ui.enabled", "false")
        .config("spark.local.dir", str(folder / "local"))
        .config("spark.sql.warehouse.dir", str(folder / "warehouse"))
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.streaming.noDataMicroBatches.enabled", "true")
        .config("spark.driver.extraJavaOptions", SHORT_JOB)
        .config(map=session_conf() if settings is None else settings)
        .getOrCreate()
    )
    found.sparkContext.setLogLevel("ERROR")
    return found


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    made = session(tmp_path_factory.mktemp("spark"))
    yield made
    made.stop()
