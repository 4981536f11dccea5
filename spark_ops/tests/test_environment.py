"""Spark can run windrow: its workers import it, and state lives in its checkpoints."""

import os
import pickle
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql.streaming import StatefulProcessor, StatefulProcessorHandle

import windrow
import windrow as wr
from windrow.errors import AggregateError
from windrow.kernels.compiling import NotCached
from windrow_spark import cluster, prepare, warm


def test_workers_import_windrow(spark: SparkSession) -> None:
    def facts(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import windrow  # in the worker

        rows = sum(batch.num_rows for batch in batches)
        found = {"rows": [rows], "version": [windrow.__version__], "executable": [sys.executable]}
        yield pa.RecordBatch.from_pydict(found)

    frame = spark.range(1000).repartition(2)
    found = frame.mapInArrow(facts, "rows long, version string, executable string").collect()
    assert sum(row.rows for row in found) == 1000
    assert {row.version for row in found} == {windrow.__version__}
    assert {row.executable for row in found} == {sys.executable}


def test_workers_have_windrow_before_they_start(spark: SparkSession) -> None:
    """They fork from our daemon, which has run small queries. Those that only pack rows need none of it."""

    def loaded(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        modules = [
            name for name in ("windrow_spark.bucket_operators", "windrow_spark.warm") if name in sys.modules
        ]
        list(batches)
        yield pa.RecordBatch.from_pydict({"modules": [len(modules)]})

    assert {row.modules for row in spark.range(2).mapInArrow(loaded, "modules long").collect()} == {2}
    packing = "import sys, windrow_spark.packing, windrow_spark.buckets; sys.exit('windrow' in sys.modules or 'numba' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", packing]).returncode == 0


def test_a_local_session_is_sent_the_library_only_if_its_workers_lack_it(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What comes in an archive has no compiled kernels."""

    def sent() -> Path:
        raise InterruptedError

    monkeypatch.setattr(cluster, "library_archive", sent)
    assert prepare(spark) is spark
    monkeypatch.setattr(windrow, "__file__", "/elsewhere/windrow/__init__.py")
    with pytest.raises(InterruptedError):
        prepare(spark)


def test_only_kernels_that_are_not_cached_are_left_out_silently(monkeypatch: pytest.MonkeyPatch) -> None:
    causes: list[Exception | None] = [NotCached("place.absorb"), None]

    def fail(*_: Any) -> None:
        raise AggregateError("result: Min(value)") from causes[0]

    monkeypatch.setattr(warm, "_run", fail)
    warm.run_small_queries()
    del causes[0]
    with pytest.raises(AggregateError):
        warm.run_small_queries()


def test_state_survives_from_one_stream_to_the_next(spark: SparkSession, tmp_path: Path) -> None:
    """A stateful operator counts rows per key; a second stream on the same checkpoint goes on counting."""

    class CountRows(StatefulProcessor):
        def init(self, handle: StatefulProcessorHandle) -> None:
            self.count = handle.getValueState("count", "n long")

        def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[pd.DataFrame]:
            held = self.count.get()
            n = (held[0] if held else 0) + sum(len(chunk) for chunk in rows)
            self.count.update((n,))
            yield pd.DataFrame({"key": [key[0]], "n": [n]})

        def close(self) -> None:
            pass

    def stream() -> set[tuple[int, int]]:
        source = spark.readStream.schema("id long, key long").parquet(str(tmp_path / "rows"))
        counts = source.groupBy("key").transformWithStateInPandas(
            CountRows(), outputStructType="key long, n long", outputMode="Update", timeMode="None"
        )
        batches: list[tuple[int, int]] = []
        query = (
            counts.writeStream.outputMode("update")
            .foreachBatch(lambda frame, _: batches.extend((row.key, row.n) for row in frame.collect()))
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
        return set(batches)

    rows = spark.range(10).selectExpr("id", "id % 2 as key").coalesce(1)
    rows.write.parquet(str(tmp_path / "rows"))
    assert stream() == {(0, 5), (1, 5)}
    rows.filter("key = 1").write.mode("append").parquet(str(tmp_path / "rows"))
    assert stream() == {(1, 10)}


def test_a_worker_without_windrow_takes_a_folder_of_that_name_for_it(tmp_path: Path) -> None:
    """The cause that troubleshooting gives. Spark starts workers with -m, so the current folder is on their path."""
    (tmp_path / "windrow").mkdir()
    (tmp_path / "worker.py").write_text("import pickle, sys; pickle.load(sys.stdin.buffer)")
    query = wr.Query(window=wr.TimeWindow("1h"), aggregates={"n": wr.Count()})
    worker = subprocess.run(
        [sys.executable, "-S", "-m", "worker"],
        input=pickle.dumps(query),
        cwd=tmp_path,
        env={name: value for name, value in os.environ.items() if name != "PYTHONPATH"},
        capture_output=True,
    )
    assert b"ModuleNotFoundError: No module named 'windrow.query'" in worker.stderr
