# SPDX-License-Identifier: Apache-2.0
"""The demo on Spark: two Structured Streaming queries on `local[*]`, files in, Parquet out."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from time import perf_counter
from typing import Any, NamedTuple

import pyspark
from pyspark.errors import StreamingQueryException
from pyspark.sql import Observation
from pyspark.sql import functions as F

from windrow import Count, Max, Mean, Query
from windrow.data.smart_home import LOAD
from windrow.demo.scenario import COLUMNS, HOUR, PLUG, QUERIES, Beat, Peer, Ran, Readings, Tell
from windrow.errors import EngineError
from windrow_spark import Measured, Metrics, remaining, windowed
from windrow_spark.session import local_session

BUCKETS = PARTITIONS = 1
"""There are few keys, and two queries for two cores."""
SAMPLE = timedelta(seconds=30)  # the rows that Spark alone gets too: each is in 3,600 windows
SHUFFLE = "spark.sql.shuffle.partitions"
ENGINE = "Spark"


def run(readings: Readings, output: Path, tell: Tell) -> Ran:
    """Stream the readings through both queries at once, write their windows, and time Spark alone on a sample."""
    began = perf_counter()
    first: list[float] = []

    def told(beat: Beat) -> None:
        if beat.windows and not first:
            first.append(perf_counter())
        tell(beat)

    with local_session("windrow demo", output / "work") as spark:
        started = perf_counter()
        tell(Beat("", 0, 0, started - began, "started"))
        with _partitions(spark, PARTITIONS):
            _stream(spark, readings, output, told)
        finished = perf_counter()
        peer = _peer(spark, readings)
    engine = f"{ENGINE} {pyspark.__version__}"
    return Ran(engine, started - began, finished - started, peer, first=first[0] - started if first else None)


@contextmanager
def _partitions(spark: Any, number: int) -> Iterator[None]:
    """So many partitions of a shuffle, for streams that start meanwhile."""
    before = spark.conf.get(SHUFFLE)
    spark.conf.set(SHUFFLE, number)
    try:
        yield
    finally:
        spark.conf.set(SHUFFLE, before)


def _stream(spark: Any, readings: Readings, output: Path, tell: Tell) -> None:
    """Both queries at once, from the first file to the windows that are still open after the last."""
    names: dict[str, str] = {}
    listener = Metrics(lambda batch: tell(_beat(names, batch)))
    spark.streams.addListener(listener)
    try:
        rows = _rows(spark, readings)
        running = {name: _start(rows, name, output) for name in QUERIES}
        names |= {str(each.id): name for name, each in running.items()}
        with ThreadPoolExecutor(len(running)) as pool:
            list(pool.map(lambda name: _finish(rows, name, running[name], output, tell), running))
    except StreamingQueryException as error:
        raise EngineError(f"Spark's stream has stopped: {str(error).splitlines()[0]}") from error
    finally:
        spark.streams.removeListener(listener)


def _finish(rows: Any, name: str, running: Any, output: Path, tell: Tell) -> None:
    """Wait until a query has read all files, then write the windows that are still open."""
    running.awaitTermination()
    started, counted = perf_counter(), Observation()
    rest = remaining(rows, QUERIES[name], str(_checkpoint(output, name)))
    rest = rest.observe(counted, F.count("*").alias("windows"))
    rest.write.mode("overwrite").parquet(str(output / name / "part=last"))
    tell(Beat(name, 0, counted.get["windows"], perf_counter() - started, "the last windows"))


def _rows(spark: Any, readings: Readings) -> Any:
    schema = spark.read.parquet(str(readings.files[0])).schema
    files = spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(str(readings.folder))
    return _loads(files).withWatermark("ts", "2 seconds")


def _loads(readings: Any) -> Any:
    """The loads among the readings, with the columns that the queries know."""
    loads = readings.where(F.col("property") == LOAD)
    return loads.select(*(F.col(old).alias(new) for old, new in COLUMNS.items()))


def _start(rows: Any, name: str, output: Path) -> Any:
    return (
        windowed(rows, QUERIES[name], buckets=BUCKETS)
        .writeStream.queryName(name)
        .format("parquet")
        .option("path", str(output / name / "part=streamed"))
        .option("checkpointLocation", str(_checkpoint(output, name)))
        .trigger(availableNow=True)
        .start()
    )


def _checkpoint(output: Path, name: str) -> Path:
    return output / "work" / f"checkpoint-{name}"


def _beat(names: dict[str, str], batch: Measured) -> Beat:
    name = names.get(batch.stream, batch.stream)
    return Beat(
        name, batch.rows, batch.windows, batch.seconds, f"{batch.bytes_written / 1e6:.1f} MB of state"
    )


def _peer(spark: Any, readings: Readings) -> Peer:
    """Peak, mean and count per plug of half a minute of rows: Spark in two steps, and windrow.

    The two steps: aggregate the rows of each second; then give each of these to the 3,600 windows that hold it, and aggregate
    again. That is faster than `groupBy(window(…))`, which copies rows. A first run of each is not counted.
    """
    loads = _loads(spark.read.parquet(str(readings.files[0])))
    rows = loads.where(F.col("ts") < F.lit(loads.agg(F.min("ts")).first()[0] + SAMPLE)).coalesce(1).cache()
    count = rows.count()
    query = Query(
        PLUG, "ts", window=HOUR, aggregates={"peak": Max("load"), "mean": Mean("load"), "n": Count()}
    )
    ours, theirs = (_timed(each) for each in (lambda: windowed(rows, query), lambda: _two_steps(rows)))
    assert ours.windows == theirs.windows, (ours, theirs)
    return Peer(
        "Spark in two steps (per second, then per window)", count, ours.windows, theirs.seconds, ours.seconds
    )


def _two_steps(rows: Any) -> Any:
    seconds = rows.groupBy(*PLUG, F.unix_seconds("ts").alias("second"))
    slices = seconds.agg(F.max("load").alias("peak"), F.sum("load").alias("total"), F.count("*").alias("n"))
    windows = F.explode(F.sequence(F.col("second") - 3599, F.col("second"))).alias("window")
    grouped = slices.select(*PLUG, windows, "peak", "total", "n").groupBy(*PLUG, "window")
    return grouped.agg(F.max("peak"), F.sum("total") / F.sum("n"), F.sum("n"))


class _Timed(NamedTuple):
    seconds: float
    windows: int


def _timed(frame: Callable[[], Any]) -> _Timed:
    """The second of two runs."""
    for _ in range(2):
        began = perf_counter()
        counted = Observation()
        frame().observe(counted, F.count("*").alias("windows")).write.format("noop").mode("overwrite").save()
        seconds = perf_counter() - began
    return _Timed(seconds, counted.get["windows"])
