# SPDX-License-Identifier: Apache-2.0
"""Spark: batch (in windrow's own choice of ways, with every row through Python, with keys cut into ranges) and Structured
Streaming.

A batch puts many cases into one job. Each DataFrame of windows becomes one column of Arrow bytes, and their union is
collected. A stream is a folder of files, one for each micro-batch. The watermark is driven by marker rows far in the
future of the data. The stream drops them after Spark has seen their time, so rows of the case never move it.
"""

from __future__ import annotations

import atexit
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from time import perf_counter
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from windrow.columns.ipc import from_ipc, to_ipc
from windrow.query.key_ranges import cuttable
from windrow_conformance.answers import Answer, error_name, shortened
from windrow_conformance.case import Case
from windrow_conformance.compare import differs_in_batch
from windrow_conformance.engines import Subset
from windrow_conformance.marks import Gap, Mark

TOGETHER = 24
"""How many cases of a batch share a job."""
AT_ONCE = 4
"""How many streams run at once."""
MARKER = "__marker"
DELAY = 1 << 40
"""How far (in milliseconds) Spark's watermark is behind: further than any row of a case is ahead. Some 35 years."""
FAR = 2_500_000_000_000
"""The end of a stream, as a watermark in milliseconds: the year 2049."""
OPTIONS: dict[str, dict[str, Any]] = {
    "batch": {},
    "batch by rows": {"push_down": False, "parallel": False},
    "batch in ranges": {"push_down": False, "parallel": 8},
}

NO_BATCH = Mark(
    Gap.NEVER, "a batch has all its rows before it answers, so none is late and no window is open"
)
UNTOLD = Mark(Gap.ENGINES, "Spark's watermarks are whole milliseconds, from 1970 on")
NUMBERS = Mark(Gap.ENGINES, "Spark's watermarks need timestamps, so a stream has no times in numbers")


class Spark:
    """The engine ``spark``."""

    name, needs = "spark", "pyspark"
    ways = ("batch", "batch by rows", "batch in ranges", "streaming")

    def takes(self, case: Case, way: str, subset: Subset) -> bool:
        if way == "batch in ranges" and not cuttable(case.query):
            return False  # "batch" cuts time windows
        if way == "streaming":
            return subset == "all" or (in_quick_stream if subset == "quick" else in_stream)(case)
        return subset == "all" or case.quick or (subset == "full" and way == "batch")

    def mark(self, case: Case, way: str) -> Mark | None:
        if way != "streaming" and differs_in_batch(case):
            return NO_BATCH
        if way == "streaming" and case.query.time_unit is not None:
            return NUMBERS
        return UNTOLD if way == "streaming" and not streams(case) else None

    def run(self, way: str, cases: Sequence[Case]) -> Iterator[Answer]:
        if not cases:
            return
        folder = _folder()
        if way != "streaming":
            yield from _batches(_session(folder), way, cases)
            return
        yield from (untold(case, way) for case in cases if not streams(case))
        told = [case for case in cases if streams(case)]
        for again in (False, True):
            some = [case for case in told if bool(case.restarts) == again]
            if some:
                # Workers that live on would remember their state, and nothing would be read from the checkpoint.
                spark = _session(folder, fresh_workers=again)
                yield from _streamed(spark, some, folder / ("restarted" if again else "streams"))


ENGINE = Spark()


def streams(case: Case) -> bool:
    """Whether a case can be told to Spark's watermark, which needs timestamps, has whole milliseconds and begins at 1970."""
    if case.query.time_unit is not None:
        return False
    marks = [step.value for step in case.steps if step.kind == "watermark"]
    return all(mark >= 0 and mark % 1000 == 0 for mark in marks)


def untold(case: Case, way: str) -> Answer:
    return Answer(
        case.name,
        "spark",
        way,
        error="?",
        message=(UNTOLD if case.query.time_unit is None else NUMBERS).reason,
    )


def in_stream(case: Case) -> bool:
    """Disorder, late rows, watermarks and restarts of every window; the rest does not depend on streaming."""
    others = {"aggregate", "paper", "no row", "one row", "null", "boundary", "offset", "gaps"}
    return in_quick_stream(case) or (case.quick and not others & set(case.covers))


def in_quick_stream(case: Case) -> bool:
    """Few streams for every change: starting one takes seconds."""
    return case.name in (
        "time/in-order",
        "count/not a multiple",
        "side/whole rows",
        "update/sliding",
        "session/idle",
        "policy/valid",
    )


@cache
def _folder() -> Path:
    """Where Spark and the streams of this process keep their files; gone when it ends."""
    folder = Path(tempfile.mkdtemp(prefix="windrow-spark-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def _session(folder: Path, *, fresh_workers: bool = False) -> Any:
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, sys.path))
    from pyspark.sql import SparkSession

    from windrow_spark import session_conf
    from windrow_spark.session import SHORT_JOB

    running = SparkSession.getActiveSession()
    if fresh_workers and running is not None:
        running.stop()
    builder = SparkSession.builder.master("local[2]").appName("windrow conformance")
    settings = {
        **session_conf(),
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.memory": "1g",
        "spark.driver.extraJavaOptions": SHORT_JOB,
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "1",
        "spark.sql.adaptive.enabled": "false",
        "spark.local.dir": str(folder / "local"),
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.sql.streaming.minBatchesToRetain": "2",
        "spark.sql.streaming.noDataMicroBatches.enabled": "true",
        "spark.python.worker.reuse": "false" if fresh_workers else "true",
    }
    for name, value in settings.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    return spark


# Rows there and back.


def _sent(rows: pa.Table, case: Case, *, stream: bool) -> pa.Table:
    """Rows with types that Spark has; in a stream the time is a timestamp, which a watermark needs."""
    for place, field in enumerate(rows.schema):
        column, type_ = rows.column(place), field.type
        if field.name == case.query.time and pa.types.is_integer(type_) and stream:
            column = column.cast(pa.int64()).cast(pa.timestamp("us", "UTC"))
        elif pa.types.is_timestamp(type_) and type_.unit != "us":
            column = column.cast(pa.timestamp("us", type_.tz))
        elif type_ == pa.uint64():
            column = column.cast(pa.decimal128(20, 0))
        rows = rows.set_column(place, pa.field(field.name, column.type), column)
    return rows


def _received(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """What Spark gave, with the types that the case has."""
    columns = []
    for field in schema:
        column = table.column(field.name)
        if pa.types.is_timestamp(column.type) and pa.types.is_integer(field.type):
            column = column.cast(pa.timestamp("us", column.type.tz)).cast(pa.int64())
        columns.append(column.cast(field.type))
    return pa.table(columns, schema=schema)


# Batch.


def _batches(spark: Any, way: str, cases: Sequence[Case]) -> Iterator[Answer]:
    """Cases in jobs of many; those that are to fail, or whose job failed, one by one."""
    together = [case for case in cases if not case.error]
    for begin in range(0, len(together), TOGETHER):
        yield from _job(spark, way, together[begin : begin + TOGETHER])
    for case in cases:
        if case.error:
            yield from _job(spark, way, [case])


def _job(spark: Any, way: str, cases: Sequence[Case]) -> Iterator[Answer]:
    began = perf_counter()
    try:
        frames = [_as_bytes(_windows(spark, case, way), case.name) for case in cases]
        whole = frames[0]
        for frame in frames[1:]:
            whole = whole.unionAll(frame)
        found: dict[str, list[pa.Table]] = {case.name: [] for case in cases}
        for row in whole.collect():
            found[row.case].append(from_ipc(bytes(row.windows)))
    except Exception as error:
        if len(cases) > 1:
            half = len(cases) // 2  # find the one that fails
            yield from _job(spark, way, cases[:half])
            yield from _job(spark, way, cases[half:])
            return
        yield _failed(cases[0], way, error)
        return
    seconds = (perf_counter() - began) / len(cases)
    for case in cases:
        try:
            tables = tuple(_received(table, case.bound.output_schema) for table in found[case.name])
            yield Answer(case.name, "spark", way, tables, seconds=seconds)
        except (pa.ArrowException, KeyError) as error:
            yield _failed(case, way, error)


def _windows(spark: Any, case: Case, way: str) -> Any:
    from windrow_spark import windowed

    frame = spark.createDataFrame(_sent(case.rows, case, stream=False))
    return windowed(frame.coalesce(1), case.query, **OPTIONS[way])


def _as_bytes(frame: Any, name: str) -> Any:
    def packed(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            windows = to_ipc(pa.Table.from_batches([batch]))
            yield pa.record_batch({"case": [name], "windows": [windows]})

    return frame.mapInArrow(packed, "case string, windows binary")


# Streams.


def _streamed(spark: Any, cases: Sequence[Case], folder: Path) -> Iterator[Answer]:
    for begin in range(0, len(cases), AT_ONCE):
        several = [
            _Stream(spark, case, folder / f"stream{begin + place}")
            for place, case in enumerate(cases[begin : begin + AT_ONCE])
        ]
        # A restart stops the query; the next run goes on from the checkpoint, with the files that came since.
        for run in range(max(len(stream.runs) for stream in several)):
            for stream in several:
                stream.start(run)
            for stream in several:
                stream.wait()
        for stream in several:
            yield stream.answer()


class _Stream:
    """One case as a streaming query."""

    def __init__(self, spark: Any, case: Case, folder: Path) -> None:
        self.spark, self.case, self.folder = spark, case, folder
        self.began = perf_counter()
        self.runs: list[list[pa.Table]] = [[]]
        self.files = 0
        self.query: Any = None
        self.error: BaseException | None = None
        self.found: list[pa.Table] = []
        self.late: list[pa.Table] = []
        (folder / "rows").mkdir(parents=True)
        rows = self._marked(case.schema.empty_table(), None)
        for step in case.steps:
            if step.kind == "rows":
                rows = pa.concat_tables([rows, self._marked(step.value, None)])
            elif step.kind in ("watermark", "end"):
                mark = FAR if step.kind == "end" else step.value // 1000
                self.runs[-1].append(pa.concat_tables([rows, self._marked(case.schema.empty_table(), mark)]))
                rows = rows.slice(0, 0)
            else:
                if rows.num_rows:
                    self.runs[-1].append(rows)
                    rows = rows.slice(0, 0)
                self.runs.append([])
        if rows.num_rows:
            self.runs[-1].append(rows)

    def _marked(self, rows: pa.Table, mark: int | None) -> pa.Table:
        """Rows, or the one marker row of a watermark, as the files have them."""
        case = self.case
        if mark is not None:
            row = {field.name: None for field in case.schema}
            time = pa.array([(mark + DELAY) * 1000], pa.int64()).cast(case.schema.field(case.query.time).type)
            columns = [
                time if name == case.query.time else pa.nulls(1, case.schema.field(name).type) for name in row
            ]
            rows = pa.table(columns, schema=case.schema)
        sent = _sent(rows, case, stream=True)
        return sent.append_column(MARKER, pa.array([mark is not None] * rows.num_rows, pa.bool_()))

    def start(self, run: int) -> None:
        if run >= len(self.runs) or self.error is not None or not any(self.runs):
            return
        for table in self.runs[run]:
            pq.write_table(table, self.folder / "rows" / f"{self.files:04}.parquet")
            at = 1_700_000_000 + self.files  # files are read in the order of their times
            os.utime(self.folder / "rows" / f"{self.files:04}.parquet", (at, at))
            self.files += 1
        if self.files == 0:
            return
        try:
            self.query = (
                self._answers()
                .writeStream.foreachBatch(self._take)
                .option("checkpointLocation", str(self.folder / "checkpoint"))
                .trigger(availableNow=True)
                .start()
            )
        except Exception as error:
            self.error = error

    def _answers(self) -> Any:
        from windrow_spark import windowed

        case, time = self.case, self.case.query.time
        schema = self.spark.read.parquet(str(self.folder / "rows")).schema
        read = self.spark.readStream.schema(schema).option("maxFilesPerTrigger", 1)
        rows = read.parquet(str(self.folder / "rows")).withWatermark(time, f"{DELAY} milliseconds")
        # The condition names the time, so that Spark does not drop the markers before it has seen their time.
        rows = rows.filter(f"not ({MARKER} and `{time}` is not null)").drop(MARKER)
        return windowed(rows, case.query, buckets=2)

    def _take(self, frame: Any, number: int) -> None:
        from windrow_spark import split_late

        if self.case.query.late == "side":
            frame, late = split_late(frame)
            self.late.append(late.toArrow())
        self.found.append(frame.toArrow())

    def wait(self) -> None:
        if self.query is None:
            return
        try:
            self.query.awaitTermination()
        except Exception as error:
            self.error = error
        self.query = None

    def answer(self) -> Answer:
        case = self.case
        try:
            if self.error is not None:
                raise self.error
            return Answer(
                case.name,
                "spark",
                "streaming",
                tuple(_received(table, case.bound.output_schema) for table in self.found),
                late=pa.concat_tables([_received(table, case.schema) for table in self.late])
                if self.late
                else None,
                seconds=perf_counter() - self.began,
            )
        except Exception as error:
            return _failed(case, "streaming", error)


def _failed(case: Case, way: str, error: BaseException) -> Answer:
    return Answer(case.name, "spark", way, error=error_name(error), message=shortened(str(error)))
