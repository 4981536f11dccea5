# SPDX-License-Identifier: Apache-2.0
"""`windrow run --engine spark`: a batch job over files, or Structured Streaming over a folder that grows.

Spark reads Parquet itself. In a batch, other formats are first copied to Parquet by the reader of the in-process engine, so that
a column has the same type on every engine. In a stream Spark reads CSV and JSON with the types of the first file.
"""

from __future__ import annotations

import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow import dataset, parquet
from pyspark.sql import functions as F

from windrow import Query
from windrow.cli.binding import bind_rows
from windrow.cli.files import RowSource, files_in, format_of, open_rows
from windrow.cli.job import Done, Job, Progress
from windrow.cli.refusals import Refusal
from windrow.errors import EngineError
from windrow_spark import Measured, Metrics, remaining, split_late, windowed
from windrow_spark.schemas import spark_schema
from windrow_spark.session import local_session
from windrow_spark.slices import microseconds


def run(job: Job, progress: Progress) -> Done:
    """Compute the windows on `local[*]` and write them, in the order of every result."""
    rows = None if job.watch else open_rows(job.source, job.form, job.memory_bytes)
    if rows is not None:
        bind_rows(job.query, rows)
    with tempfile.TemporaryDirectory(prefix="windrow-") as folder:
        work = Path(folder)
        progress.say("starting Spark")
        with local_session("windrow run", work) as spark:
            if rows is not None:
                return _batch(job, progress, spark, rows, work)
            return _stream(job, progress, spark, work)


def _batch(job: Job, progress: Progress, spark: Any, rows: RowSource, work: Path) -> Done:
    if job.delay is not None:
        raise Refusal(
            "--delay is for streams: with --engine spark it needs --watch; leave it out, and no row is late"
        )
    path = Path(job.source)
    direct = (
        job.source != "-"
        and (job.form or format_of(files_in(path)[0] if path.is_dir() else path)) == "parquet"
    )
    if direct:
        files, count = [str(each) for each in (files_in(path) if path.is_dir() else [path])], rows.total or 0
    else:
        progress.say("copying to Parquet")
        count = _copied(rows, work / "rows.parquet")
        files = [str(work / "rows.parquet")]
    progress.say("windows on Spark")
    windows = windowed(spark.read.parquet(*files), job.query)
    windows.write.parquet(str(work / "windows"))
    return _written(job, progress, rows.schema, [work / "windows"], count)


def _stream(job: Job, progress: Progress, spark: Any, work: Path) -> Done:
    folder = Path(job.source)
    schema = _first_schema(job, folder, progress)
    form = job.form or format_of(files_in(folder)[0])
    if form == "arrow":
        raise Refusal("Spark's file source does not read Arrow files; use Parquet, or --engine local")
    job.query.bind(schema)
    if job.query.time_unit is not None and job.query.late == "side":
        raise Refusal(
            "late='side' and time_unit cannot be combined with --engine spark --watch; use --engine local"
        )
    query = replace(job.query, time_unit=None)
    reader = spark.readStream.schema(spark_schema(schema)).option("header", "true")
    reader = reader.option("pathGlobFilter", "[!._]*")
    frame = reader.format({"jsonl": "json"}.get(form, form)).load(str(folder.absolute()))
    frame = _timed(frame, job.query, schema).withWatermark(query.time, f"{job.delay_us or 0} microseconds")
    late = 0

    def tell(batch: Measured) -> None:
        nonlocal late
        late += batch.late_rows
        progress.add(rows=batch.rows, windows=batch.windows)

    listener = Metrics(tell)
    spark.streams.addListener(listener)
    windows = windowed(frame, query, idle=job.idle)
    stream = (
        windows.writeStream.format("parquet")
        .option("path", str(work / "windows"))
        .option("checkpointLocation", str(work / "checkpoint"))
        .start()
    )
    progress.say("watching with Spark")
    _until_idle(stream, progress, job.idle_seconds)
    progress.say("the last windows")
    remaining(frame, query, str(work / "checkpoint")).write.parquet(str(work / "last"))
    spark.streams.removeListener(listener)  # after the last report has come
    if job.query.late != "side":
        return _written(job, progress, schema, [work / "windows", work / "last"], progress.rows, late)
    found, rows = split_late(spark.read.schema(windows.schema).parquet(str(work / "windows")))
    found.write.parquet(str(work / "in time"))
    rows.write.parquet(str(work / "late"))
    folders = [work / "in time", work / "last"]
    return _written(job, progress, schema, folders, progress.rows, late, work / "late")


def _timed(frame: Any, query: Query, schema: pa.Schema) -> Any:
    """The frame with its time as an instant, which Spark's watermarks need. Times without a zone, and microseconds, are in UTC.

    The windows get the original type back when they are written.
    """
    time, kind = query.time, schema.field(query.time).type
    if not pa.types.is_timestamp(kind):
        return frame.withColumn(time, F.timestamp_micros(microseconds(F.col(time), kind, query.time_unit)))
    if kind.tz is None:
        return frame.withColumn(time, F.col(time).cast("timestamp"))  # the session is in UTC
    return frame


def _first_schema(job: Job, folder: Path, progress: Progress) -> pa.Schema:
    """The columns of the first file; waits for one."""
    progress.say("waiting for a first file")
    began = time.monotonic()
    while not (files := files_in(folder)):
        if job.idle_seconds is not None and time.monotonic() - began >= job.idle_seconds:
            raise Refusal(f"no file has appeared in {folder}; expected names such as rows-001.parquet")
        time.sleep(0.25)
    return open_rows(str(files[0]), job.form, job.memory_bytes).schema


def _until_idle(stream: Any, progress: Progress, idle: float | None) -> None:
    """Wait for Ctrl-C, or until no row has come for so long; then finish what is there."""
    rows, since = progress.rows, time.monotonic()
    try:
        while stream.isActive and (idle is None or time.monotonic() - since < idle):
            if progress.rows != rows or stream.status["isDataAvailable"]:
                rows, since = progress.rows, time.monotonic()
            time.sleep(0.25)
    except KeyboardInterrupt:
        pass
    if stream.isActive:
        stream.processAllAvailable()
        stream.stop()
    if (error := stream.exception()) is not None:
        raise EngineError(f"the stream has stopped: {str(error).splitlines()[0]}")


def _copied(rows: RowSource, place: Path) -> int:
    count = 0
    with parquet.ParquetWriter(place, rows.schema) as out:
        for batch in rows:
            out.write_batch(batch)
            count += batch.num_rows
    return count


def _written(
    job: Job,
    progress: Progress,
    schema: pa.Schema,
    folders: list[Path],
    rows: int,
    late_rows: int = 0,
    late_folder: Path | None = None,
) -> Done:
    """Write the windows of Spark's files in order, with the types that every engine gives."""
    progress.say("writing")
    bound = job.query.bind(schema)
    windows = pa.concat_tables([_read(folder, bound.output_schema) for folder in folders])
    with job.writing(bound.output_schema) as out, job.writing_late(schema) as late:
        out.write(bound.sort(windows))
        if late_folder is not None:
            late.write(_read(late_folder, schema))
    return Done(rows, out, late_rows)


def _read(folder: Path, schema: pa.Schema) -> pa.Table:
    """What Spark has written, with the types of a schema. Spark has only one type for times."""
    if not any(folder.glob("*.parquet")):
        return schema.empty_table()
    table = dataset.dataset(folder, format="parquet", partitioning=None).to_table().select(schema.names)
    times = [
        pa.field(field.name, pa.timestamp("us", field.type.tz))
        if pa.types.is_timestamp(field.type)
        else field
        for field in table.schema
    ]
    return table.cast(pa.schema(times)).cast(schema)
