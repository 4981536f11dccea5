# SPDX-License-Identifier: Apache-2.0
"""A local session for the command line: quiet, on the loopback address, with the settings that streams need."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Thread
from typing import Any

from windrow.errors import EngineError
from windrow_spark.cluster import session_conf

SHORT_JOB = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""Options of a JVM that lives for a minute: its time goes to starting and compiling, not to running compiled code."""
_STREAMING = "org.apache.spark.sql.execution.streaming"
CHECKPOINT_FILES = tuple(
    f"{_STREAMING}.{place}FileSystemBasedCheckpointFileManager" for place in ("checkpointing.", "")
)
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
    """A session in this process that keeps its files in a folder, and logs to `spark.log` there.

    If the process has a session already, that one is used with its own settings, and is not stopped afterwards.
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
        "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile={quiet.as_uri()} {SHORT_JOB}",
        "spark.local.dir": str((folder / "local").absolute()),
        "spark.sql.warehouse.dir": str((folder / "warehouse").absolute()),
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.streaming.noDataMicroBatches.enabled": "false",  # the last windows are read from the checkpoint
        "spark.sql.shuffle.partitions": str(os.cpu_count() or 2),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.execution.pyspark.udf.simplifiedTraceback.enabled": "false",  # else stateful workers have a daemon of their own
    }
    for key, value in settings.items():
        builder = builder.config(key, value)
    try:
        with _standard_error_in(log):
            session = builder.getOrCreate()
    except PySparkException as error:
        why = str(error).splitlines()[0]
        raise EngineError(f"Spark did not start ({why}); run windrow doctor to find the reason") from error
    _spare_processes(session)
    _start_daemon(session)
    try:
        yield session
    finally:
        session.stop()


def _spare_processes(session: Any) -> None:
    """Write checkpoints with a class that starts no process for each file. Local files are renamed atomically by either."""
    for place in CHECKPOINT_FILES:
        try:
            session._jvm.java.lang.Class.forName(place)
        except Exception:  # this Spark has it elsewhere
            continue
        session.conf.set("spark.sql.streaming.checkpointFileManagerClass", place)
        return


def _start_daemon(session: Any) -> None:
    """Let a small job start the Python daemon while the caller still plans. If it fails, the caller's own job tells why."""

    def start() -> None:
        with suppress(Exception):
            session.range(1).mapInArrow(_nothing, "id long").collect()

    Thread(target=start, daemon=True, name="windrow-daemon").start()


def _nothing(batches: Iterator[Any]) -> Iterator[Any]:
    for _ in batches:
        yield from ()


@contextmanager
def _standard_error_in(log: Path) -> Iterator[None]:
    """Send what the JVM and its Python workers print to a file; they inherit the descriptor when they start."""
    sys.stderr.flush()
    kept = os.dup(2)
    with log.open("ab") as file:
        os.dup2(file.fileno(), 2)
        try:
            yield
        finally:
            os.dup2(kept, 2)
            os.close(kept)
