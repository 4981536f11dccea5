# SPDX-License-Identifier: Apache-2.0
"""A Flink environment with the right settings: the workers' interpreter, loopback, bundles, state, checkpoints."""

from __future__ import annotations

import importlib.util
import logging
import os
import sys
from collections.abc import Mapping
from pathlib import Path

from pyflink import java_gateway
from pyflink.common import Configuration
from pyflink.common.job_client import JobClient
from pyflink.datastream import StreamExecutionEnvironment
from pyflink.java_gateway import get_gateway
from pyflink.util.java_utils import get_j_env_configuration, is_local_deployment

import windrow  # noqa: F401  # whole, before its parts: see the package
from windrow import durations
from windrow.durations import Duration
from windrow.errors import QueryError

LOOPBACK = (
    "jobmanager.bind-host",
    "jobmanager.rpc.address",
    "rest.address",
    "rest.bind-address",
    "taskmanager.bind-host",
    "taskmanager.host",
)
MODES = ("auto", "thread", "process")
PACKAGES = ("pyflink", "windrow", "windrow_flink", "pyarrow")
"""What the workers import, besides the user's own."""
BACKENDS = ("hashmap", "rocksdb")
EXECUTION_MODE = "python.execution-mode"
WORKERS = "_python_worker_execution_mode"
"""PyFlink's switch for how a mini-cluster starts the workers of process mode."""
log = logging.getLogger(__name__)


def environment(
    parallelism: int = 1,
    mode: str = "auto",
    *,
    state: str = "hashmap",
    checkpoints: str | os.PathLike[str] | None = None,
    every: Duration = "10s",
    resume: str | os.PathLike[str] | None = None,
    restarts: int = 3,
    settings: Mapping[str, str] | None = None,
) -> StreamExecutionEnvironment:
    """A Flink environment for windrow's operators, and for any other Python function.

    parallelism
        The number of slots that the job uses.
    mode
        How Flink runs Python. "thread" embeds one interpreter in each TaskManager, and rows reach it in half the time; but
        the slots of a TaskManager take turns. "process" gives each slot its own worker process. "auto" is "thread" for one
        slot in a TaskManager (a mini-cluster is one), and "process" for several; also "thread" with RocksDB, which a
        failing worker process may crash. :func:`why_not_thread` returns what prevents "thread".
    state
        Where keyed state lives: "hashmap" (the JVM's heap) or "rocksdb" (disk, incremental checkpoints).
    checkpoints
        A folder for checkpoints. They are kept after a cancellation, and a failed job restarts from the last one.
    every
        The time between two checkpoints.
    resume
        A checkpoint or savepoint to continue from.
    restarts
        How often a failed job restarts, if there are checkpoints.
    settings
        Flink's own settings. They override the others.

    >>> environment(parallelism=2, mode="warp")
    Traceback (most recent call last):
    windrow.errors.QueryError: mode has to be 'auto', 'thread' or 'process', not 'warp'
    """
    if mode not in MODES:
        raise QueryError(f"mode has to be 'auto', 'thread' or 'process', not {mode!r}")
    if state not in BACKENDS:
        raise QueryError(f"state has to be 'hashmap' or 'rocksdb', not {state!r}")
    if isinstance(parallelism, bool) or not isinstance(parallelism, int) or parallelism < 1:
        raise QueryError(f"parallelism has to be a whole number of at least 1, not {parallelism!r}")
    values = {name: "127.0.0.1" for name in LOOPBACK}
    values |= {
        "rest.bind-port": "0",  # any free port
        "python.fn-execution.bundle.size": "10000",
        "python.fn-execution.bundle.time": "200",
        "python.state.cache-size": "10000",
        "state.backend.type": state,
    }
    if state == "rocksdb":
        values["execution.checkpointing.incremental"] = "true"
        # By levels, RocksDB writes a large file anew for every few small ones, and each checkpoint uploads what is new.
        values["state.backend.rocksdb.compaction.style"] = "UNIVERSAL"
        # A smaller file is part of the metadata, and written again with each checkpoint for as long as it exists.
        values["execution.checkpointing.data-inline-threshold"] = "4kb"
    if checkpoints is not None:
        values |= _checkpointing(Path(checkpoints).absolute(), every, restarts)
    if resume is not None:
        values["execution.state-recovery.path"] = _location(resume)
    _prepare_workers()
    made = StreamExecutionEnvironment.get_execution_environment(_configuration(values | dict(settings or {})))
    made.set_parallelism(parallelism)
    made.set_python_executable(sys.executable)  # the default is the `python` on PATH
    if EXECUTION_MODE not in (settings or {}):
        chosen = _mode(mode, slots_together(made, parallelism), state)
        get_j_env_configuration(made._j_stream_execution_environment).setString(EXECUTION_MODE, chosen)
    return made


def stop_with_savepoint(job: JobClient, folder: str | os.PathLike[str], *, drain: bool = False) -> str:
    """Stop a running job and return where its state was saved, for ``environment(resume=…)``.

    With ``drain`` the stream ends as if its sources had ended: all windows come out, and there is nothing to resume.
    PyFlink's own ``JobClient.stop_with_savepoint`` calls a method that Flink 2 no longer has. The canonical format
    works with every state backend.
    """
    canonical = get_gateway().jvm.org.apache.flink.core.execution.SavepointFormatType.CANONICAL
    return str(job._j_job_client.stopWithSavepoint(drain, str(Path(folder).absolute()), canonical).get())


def why_not_thread() -> str | None:
    """What prevents Flink from running Python inside the JVM here; ``None`` if nothing does.

    The embedded interpreter finds the packages of a virtual environment only through ``PYTHONPATH``. It reads that once,
    when the JVM starts. :func:`environment` sets it before; afterwards it is too late.
    """
    if importlib.util.find_spec("pemja") is None:
        return "the package 'pemja', which embeds Python in the JVM, is not installed"
    if _jvm_runs():
        known = os.environ.get("PYTHONPATH", "").split(os.pathsep)
        missing = [folder for folder in map(_folder, PACKAGES) if folder not in known]
        if missing:
            return f"the JVM was started without {missing[0]} on PYTHONPATH; call windrow_flink.environment() before anything else of Flink"
    return None


def _checkpointing(folder: Path, every: Duration, restarts: int) -> dict[str, str]:
    return {
        "execution.checkpointing.dir": folder.as_uri(),
        "execution.checkpointing.savepoint-dir": (folder / "savepoints").as_uri(),
        "execution.checkpointing.interval": f"{_milliseconds(every)} ms",
        "execution.checkpointing.externalized-checkpoint-retention": "RETAIN_ON_CANCELLATION",
        "restart-strategy.type": "fixed-delay",
        "restart-strategy.fixed-delay.attempts": str(restarts),
        "restart-strategy.fixed-delay.delay": "1 s",
    }


def _location(resume: str | os.PathLike[str]) -> str:
    """Where a checkpoint is, as a URI."""
    location = str(resume)
    is_uri = "://" in location or location.startswith("file:")
    return location if is_uri else Path(location).absolute().as_uri()


def _configuration(values: Mapping[str, str]) -> Configuration:
    configuration = Configuration()
    for name, value in values.items():
        configuration.set_string(name, value)
    return configuration


def _prepare_workers() -> None:
    """What has to be known before the JVM starts, and before PyFlink makes an environment.

    Without ``WORKERS``, the worker processes of a mini-cluster are threads of this process: they share one interpreter's
    lock, and PyFlink opens a port for them on all interfaces.
    """
    os.environ[WORKERS] = "process"
    if not _jvm_runs():  # the workers inherit it, in either mode
        known = [entry for entry in os.environ.get("PYTHONPATH", "").split(os.pathsep) if entry]
        os.environ["PYTHONPATH"] = os.pathsep.join(dict.fromkeys([*_import_path(), *known]))


def slots_together(made: StreamExecutionEnvironment, parallelism: int) -> int:
    """How many slots of a job share a TaskManager: all of them in a mini-cluster."""
    configuration = made._j_stream_execution_environment.getConfiguration()
    if is_local_deployment(configuration):
        return parallelism
    return min(parallelism, int(configuration.getString("taskmanager.numberOfTaskSlots", "1")))


def _mode(mode: str, slots: int, state: str) -> str:
    if mode == "process":
        return mode
    reason = why_not_thread()
    if mode == "thread":
        if reason is not None:
            raise QueryError(f"mode='thread' is not possible: {reason}; or choose mode='process'")
        return mode
    if reason is not None:
        log.warning("Python runs in worker processes, which is slower than in the JVM's threads: %s", reason)
        return "process"
    return "process" if slots > 1 and state != "rocksdb" else "thread"


def _jvm_runs() -> bool:
    return java_gateway._gateway is not None or "PYFLINK_GATEWAY_PORT" in os.environ


def _import_path() -> list[str]:
    """The folders that this interpreter imports packages from."""
    return [os.path.abspath(entry) for entry in sys.path if entry and os.path.isdir(entry)]


def _folder(package: str) -> str:
    """Where this interpreter finds a package."""
    spec = importlib.util.find_spec(package)
    assert spec is not None and spec.origin is not None
    return os.path.abspath(Path(spec.origin).parent.parent)


def _milliseconds(duration: Duration) -> int:
    return max(1, durations.parse(duration, name="every") // 1000)
