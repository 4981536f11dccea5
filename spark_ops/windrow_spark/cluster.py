# SPDX-License-Identifier: Apache-2.0
"""Sessions and clusters: the settings that streams need, and this library on the executors."""

from __future__ import annotations

import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pyspark.sql import functions as F

import windrow
from windrow.errors import EngineError

DAEMON, MODULE = "spark.python.daemon.module", "windrow_spark.daemon"
_STATE_STORE = "spark.sql.streaming.stateStore."
_PROVIDER = f"{_STATE_STORE}providerClass"
_STREAMS = {
    _PROVIDER: "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider",
    f"{_STATE_STORE}rocksdb.changelogCheckpointing.enabled": "true",
}


def session_conf(*, installed: bool = True) -> dict[str, str]:
    """Settings for a session that is to be built: state in RocksDB, only its changes in checkpoints, warm Python workers.

    With them Python workers fork from a process that has windrow imported and its kernels loaded. For that, the
    executors need windrow installed. Say ``installed=False`` if they have not, and call :func:`prepare`.

    >>> for name, value in session_conf().items():                                  # doctest: +SKIP
    ...     builder = builder.config(name, value)
    """
    return {**_STREAMS, **({DAEMON: MODULE} if installed else {})}


def prepare(spark: Any) -> Any:
    """Make a session ready for windrow: settings for streams, and this library on all executors. Returns the session.

    Works for a classic session and through Spark Connect. On a cluster whose machines have windrow installed only the
    settings are needed: ``session_conf()``. A session keeps the Python workers that it was built with: give
    ``session_conf()`` to its builder for warm ones. In a local session whose workers import the driver's windrow, nothing is
    sent, so that they also have its compiled kernels. A small job finds that out.

    >>> spark = prepare(SparkSession.builder.getOrCreate())                         # doctest: +SKIP
    """
    for name, value in _STREAMS.items():
        spark.conf.set(name, value)
    if not (local(spark) and _workers_import_it(spark)):
        spark.addArtifacts(str(library_archive()), pyfile=True)
    return spark


def check_state_store(spark: Any) -> None:
    """Refuse a session whose streams cannot keep windrow's state; Spark would do so in the first micro-batch."""
    provider = str(spark.conf.get(_PROVIDER, ""))
    if not provider or "HDFSBacked" in provider:
        raise EngineError(
            "this session keeps the state of streams in Spark's default store, which cannot hold the state of windowed(): "
            "build the session with SparkSession.builder.config(map=windrow_spark.session_conf()), or call "
            "windrow_spark.prepare(spark) if it is running already"
        )


def connected(spark: Any) -> bool:
    """Whether a session is a client of Spark Connect."""
    return ".connect." in type(spark).__module__


def local(spark: Any) -> bool:
    """Whether the Python workers of a session run on the driver's machine."""
    if connected(spark):
        return False
    master = str(spark.sparkContext.master)
    return master.startswith("local") and not master.startswith("local-cluster")


def _workers_import_it(spark: Any) -> bool:
    """Whether a Python worker finds the very files that the driver has imported."""

    def places(batches: Iterator[Any]) -> Iterator[Any]:
        """Defined here, so that it is sent by value: a worker may be without this module."""
        from importlib.util import find_spec

        import pyarrow as pa

        list(batches)
        specs = [find_spec(name) for name in ("windrow", "windrow_spark")]
        yield pa.RecordBatch.from_pydict({"place": [str(spec and spec.origin) for spec in specs]})

    found = spark.range(0, 1, 1, 1).mapInArrow(places, "place string").collect()
    here = [Path(windrow.__file__), Path(__file__).with_name("__init__.py")]
    return [Path(row.place) for row in found] == here


def cores(spark: Any) -> int:
    """How many tasks run at once."""
    if not connected(spark):
        return int(spark.sparkContext.defaultParallelism)
    parts = spark.range(1 << 10).select(F.spark_partition_id().alias("part"))  # as many as there are cores
    return int(parts.distinct().count())


def library_archive(folder: Path | None = None) -> Path:
    """This library as a zip file that ``--py-files`` and ``addArtifacts`` take.

    >>> library_archive().name.startswith("windrow-")
    True
    """
    place = Path(tempfile.mkdtemp(prefix="windrow-")) if folder is None else folder
    archive = place / f"windrow-{windrow.__version__}.zip"
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as written:
        for package in (Path(windrow.__file__).parent, Path(__file__).parent):
            for source in sorted(package.rglob("*")):
                if source.is_file() and "__pycache__" not in source.parts:
                    written.write(source, Path(package.name) / source.relative_to(package))
    return archive
