"""Pipelines on Spark: the transcripts, as a batch and as a stream to which changes come while it runs."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from killed_pipeline import prepare, run, written
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

from windrow.errors import ColumnError, PipelineError, TimeColumnError
from windrow.pipelines import CHANGES, UPDATES, Change, changes_to_table
from windrow_conformance.pipelines import PipelineCase, pipeline_cases, rounds
from windrow_conformance.pipelines.joined_story import JoinedStory
from windrow_spark import pipelined
from windrow_spark.session import local_session

CASES = pipeline_cases()
ROUNDS = rounds(CASES)
SPACED = pa.schema([*UPDATES, ("space", pa.string())]), pa.schema([*CHANGES, ("space", pa.string())])
LAST = 1 << 50
"""A time after all others: an update at it brings the watermark past them."""


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    with local_session("pipelines", tmp_path_factory.mktemp("spark")) as made:
        yield made


def together(name: str) -> pa.Table:
    """The rows of all transcripts, each in a space of its own."""
    tables = [(case, getattr(case, name)()) for case in CASES]
    parts = [table.append_column("space", pa.repeat(case.name, table.num_rows)) for case, table in tables]
    return pa.concat_tables(parts).combine_chunks()  # Spark reads Arrow data up to the first empty batch


def checked(found: pa.Table) -> None:
    """Every space has emitted what its transcript says, and reported as often."""
    rows = found.to_pylist()
    for case in CASES:
        own = [row for row in rows if row["space"] == case.name]
        emitted = [row for row in own if row["kind"] == "update" and row["ts"] != LAST]
        schema = pa.schema([("kind", pa.string()), *SPACED[0]])
        table = pa.Table.from_pylist([{n: row[n] for n in schema.names} for row in emitted], schema)
        assert case.found(table) == case.emitted, case.name
        assert len([row for row in own if row["kind"] != "update"]) == case.refused, case.name


def test_batches(spark: SparkSession) -> None:
    updates, changes = (spark.createDataFrame(together(f"{name}_table")) for name in ("updates", "changes"))
    checked(pipelined(updates, changes, reports=True, rounds=ROUNDS).toArrow())


@pytest.mark.parametrize(("size", "count", "partitions"), [(1, 8, 2), (7, 28, 1), (1000, 1500, 2)])
def test_batches_and_tasks_of_any_number(
    spark: SparkSession, tmp_path: Path, size: int, count: int, partitions: int
) -> None:
    """Updates per micro-batch, updates, tasks that share the spaces: what comes out is that of one piece, edges between spaces included."""
    story = JoinedStory(count, apart=20_000)
    prepare(tmp_path, story, files=-(-count // size))
    before = spark.conf.get("spark.sql.shuffle.partitions")
    spark.conf.set("spark.sql.shuffle.partitions", partitions)
    try:
        run(spark, tmp_path)
    finally:
        spark.conf.set("spark.sql.shuffle.partitions", before)
    assert story.found(written(tmp_path)) == story.expected()


class Job:
    """A streaming query over two folders, with its checkpoint and its output beside them."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self.spark, self.folder, self.files = spark, folder, 0
        self.began = int(time.time()) - 1000
        for name in ("updates", "changes"):
            (folder / name).mkdir()

    def add(self, name: str, table: pa.Table) -> None:
        """A file with rows; it is there from one moment to the next.

        Spark reads files by the time they were written, in milliseconds, so each file is made a second younger than the one before.
        """
        self.files += 1
        pq.write_table(table, self.folder / "new")
        os.utime(self.folder / "new", (self.began + self.files, self.began + self.files))
        os.replace(self.folder / "new", self.folder / name / f"{self.files:04}.parquet")

    def run(self, layout: Literal[1, 2] = 2) -> None:
        """Start the query, or start it again, until all files are read."""
        read = self.spark.readStream.option("maxFilesPerTrigger", 1)
        frames = {
            name: read.schema(self.spark.createDataFrame(schema.empty_table()).schema).parquet(
                str(self.folder / name)
            )
            for name, schema in zip(("updates", "changes"), SPACED, strict=True)
        }
        updates, changes = timed(frames["updates"]), frames["changes"]
        found = pipelined(updates, changes, reports=True, rounds=ROUNDS, layout=layout)
        writer = found.writeStream.trigger(availableNow=True).format("parquet")
        writer = writer.option("checkpointLocation", str(self.folder / "checkpoint"))
        writer.option("path", str(self.folder / "out")).start().awaitTermination()

    def written(self) -> pa.Table:
        found = self.spark.read.parquet(str(self.folder / "out"))
        return found.selectExpr(
            "kind", "space", "stream", "unix_micros(ts) as ts", "sequence", "values", "message"
        ).toArrow()


def timed(updates: DataFrame) -> DataFrame:
    return updates.selectExpr(
        "stream", "timestamp_micros(ts) as ts", "sequence", "values", "space"
    ).withWatermark("ts", "3 seconds")


def test_changes_join_a_running_stream(spark: SparkSession, tmp_path: Path) -> None:
    """The query is stopped and started between its files, so every state is read again."""
    job = Job(spark, tmp_path)
    updates, changes = together("updates_table").sort_by("ts"), together("changes_table")
    job.add("changes", changes)
    job.add("updates", updates.slice(0, updates.num_rows // 2))
    job.run()
    job.add("updates", updates.slice(updates.num_rows // 2))
    job.add("updates", last_updates())
    job.run()
    job.add("updates", last_updates())  # Spark may not have run a micro-batch with the last watermark yet
    job.run()
    checked(job.written())


def test_a_checkpoint_of_three_variables_goes_on_with_them(spark: SparkSession, tmp_path: Path) -> None:
    """With the other layout it is refused, and left as it is: nothing begins without the state that is there."""
    job = Job(spark, tmp_path)
    updates, changes = together("updates_table").sort_by("ts"), together("changes_table")
    job.add("changes", changes)
    job.add("updates", updates.slice(0, updates.num_rows // 2))
    job.run(layout=1)
    job.add("updates", updates.slice(updates.num_rows // 2))
    job.add("updates", last_updates())
    with pytest.raises(StreamingQueryException, match="STATE_STORE_KEY_SCHEMA_NOT_COMPATIBLE"):
        job.run(layout=2)
    job.run(layout=1)
    job.add("updates", last_updates())
    job.run(layout=1)
    checked(job.written())


def last_updates() -> pa.Table:
    rows = [
        {"stream": case.updates[0][0], "ts": LAST, "sequence": 0, "values": "{}", "space": case.name}
        for case in CASES
        if case.updates
    ]
    return pa.Table.from_pylist(rows, SPACED[0])


def test_a_composite_is_put_onto_a_stream_that_runs(spark: SparkSession, tmp_path: Path) -> None:
    """The job is not stopped: a file with a change is added beside it, and the next micro-batch has the new stream."""
    updates = tmp_path / "updates"
    changes = tmp_path / "changes"
    job = Job(spark, tmp_path)
    source = Change.put({"name": "council/t1", "channels": {"f": "double"}, "read": ["*"]}, by="council")
    frozen = Change.put(
        {"name": "ann/c", "inputs": {"t": "council/t1"}, "channels": {"c": "(t.f - 32) / 1.8"}}, by="ann"
    )
    job.add("changes", changes_to_table([source]))
    read = {
        name: spark.readStream.schema(spark.createDataFrame(schema.empty_table()).schema).parquet(str(folder))
        for name, schema, folder in (("updates", UPDATES, updates), ("changes", CHANGES, changes))
    }
    rows = read["updates"].selectExpr("stream", "timestamp_micros(ts) as ts", "sequence", "values")
    found = pipelined(rows.withWatermark("ts", "1 second"), read["changes"], order="arrival")
    query = found.writeStream.format("memory").queryName("put_on_top").start()
    try:
        query.processAllAvailable()
        job.add("updates", one_update(1))
        query.processAllAvailable()
        job.add("changes", changes_to_table([frozen]))
        query.processAllAvailable()
        job.add("updates", one_update(2))
        query.processAllAvailable()
    finally:
        query.stop()
    emitted = spark.table("put_on_top").selectExpr("stream", "unix_micros(ts)", "values").collect()
    assert sorted(map(tuple, emitted)) == [
        ("ann/c", 2_000_000, '{"c":-15.0}'),
        ("council/t1", 1_000_000, '{"f":5.0}'),
        ("council/t1", 2_000_000, '{"f":5.0}'),
    ]


def one_update(second: int) -> pa.Table:
    row = {"stream": "council/t1", "ts": second * 1_000_000, "sequence": 0, "values": '{"f": 5.0}'}
    return pa.Table.from_pylist([row], UPDATES)


def test_what_does_not_fit_is_refused(spark: SparkSession) -> None:
    updates, changes = (spark.createDataFrame(schema.empty_table()) for schema in (UPDATES, CHANGES))
    with pytest.raises(PipelineError, match="layout"):
        pipelined(updates, changes, layout=3)  # type: ignore[arg-type]
    stream = spark.readStream.format("rate").load()
    with pytest.raises(ColumnError, match="both streaming DataFrames"):
        pipelined(stream, changes)
    with pytest.raises(ColumnError, match="'space'"):
        pipelined(updates.selectExpr("*", "'a' as space"), changes)
    with pytest.raises(TimeColumnError, match="'ts' of updates is a string"):
        pipelined(updates.selectExpr("stream", "string(ts) as ts", "values"), changes)
    with pytest.raises(ColumnError, match="document"):
        pipelined(updates, changes.drop("document"))
    plain: Any = stream.selectExpr("'a' as stream", "timestamp as ts", "'{}' as values")
    with pytest.raises(TimeColumnError, match="withWatermark"):
        pipelined(plain, stream.selectExpr("'put' as operation", "'a' as actor", "'{}' as document"))


def test_other_columns_are_channels(spark: SparkSession) -> None:
    case: PipelineCase = next(case for case in CASES if case.name == "changes while data flows")
    updates = spark.createDataFrame(case.updates_table()).selectExpr(
        "stream", "ts", "cast(get_json_object(values, '$.f') as double) as f"
    )
    found = pipelined(updates, spark.createDataFrame(case.changes_table()))
    assert found.columns == ["stream", "ts", "sequence", "values"]
    assert case.found(found.toArrow()) == case.emitted
