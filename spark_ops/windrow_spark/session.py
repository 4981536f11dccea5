"""A local session for the command line: quiet, on the loopback address, with the settings that streams need."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from windrow.errors import EngineError
from windrow_spark.cluster import session_conf

QUIET = """\
status = off
rootLogger.level = error
rootLogger.appenderRef.file.ref = file
appender.file.type = File
appender.file.name = file
appender.file.fileName = {log}
appender.file.layout.type = PatternLayout
appender.file.layout.pattern = %d{{HH:mm:ss}} %p %c{{1}}: %m%n
"""


@contextmanager
def local_session(name: str, folder: Path, master: str = "local[*]") -> Iterator[Any]:
    """A session in this process that keeps its files in a folder, and writes what it has to say to `spark.log` there.

    If the process has a session already, that one is used, with its own settings, and goes on afterwards.
    """
    # Read when the JVM starts: its address, and the interpreter of the workers.
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    from pyspark.errors import PySparkException
    from pyspark.sql import SparkSession

    if (running := SparkSession.getActiveSession()) is not None:
        yield running
        return
    folder.mkdir(parents=True, exist_ok=True)
    log, quiet = (folder / "spark.log").absolute(), (folder / "log4j2.properties").absolute()
    quiet.write_text(QUIET.format(log=log))
    builder = SparkSession.builder.master(master).appName(name)
    settings = {
        **session_conf(),
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.memory": "2g",
        "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile={quiet.as_uri()}",
        "spark.local.dir": str((folder / "local").absolute()),
        "spark.sql.warehouse.dir": str((folder / "warehouse").absolute()),
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.streaming.noDataMicroBatches.enabled": "false",  # the last windows are read from the checkpoint
        "spark.sql.shuffle.partitions": str(os.cpu_count() or 2),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
    }
    for key, value in settings.items():
        builder = builder.config(key, value)
    try:
        with _standard_error_in(log):
            session = builder.getOrCreate()
    except PySparkException as error:
        why = str(error).splitlines()[0]
        raise EngineError(f"Spark does not start ({why}); windrow doctor looks for the reason") from error
    try:
        yield session
    finally:
        session.stop()


@contextmanager
def _standard_error_in(log: Path) -> Iterator[None]:
    """What the JVM and its Python workers print goes to a file: they inherit the descriptor at their start."""
    sys.stderr.flush()
    kept = os.dup(2)
    with log.open("ab") as file:
        os.dup2(file.fileno(), 2)
        try:
            yield
        finally:
            os.dup2(kept, 2)
            os.close(kept)
