"""The demo on Spark: two Structured Streaming queries on `local[*]`, files in, Parquet out."""

from __future__ import annotations

from pathlib import Path
from time import perf_counter
from typing import Any

import pyspark
from pyspark.errors import StreamingQueryException
from pyspark.sql import Observation
from pyspark.sql import functions as F

from windrow.data.smart_home import LOAD
from windrow.demo.scenario import COLUMNS, QUERIES, Beat, Native, Ran, Readings, Tell
from windrow.errors import EngineError
from windrow_spark import Measured, Metrics, remaining, windowed
from windrow_spark.session import local_session

BUCKETS = 4
WARM, SAMPLE = 10, 1000  # rows for Spark's own windows
COARSER = 10  # whose slide is so many seconds: with one, Spark takes minutes for any number of rows
ENGINE = "Spark"


def run(readings: Readings, output: Path, tell: Tell) -> Ran:
    """Stream the readings through both queries at once, write their windows, and time Spark's own on a sample."""
    began = perf_counter()
    with local_session("windrow demo", output / "work") as spark:
        started = perf_counter()
        tell(Beat("", 0, 0, started - began, "started"))
        _stream(spark, readings, output, tell)
        finished = perf_counter()
        native = _native(spark, readings)
    return Ran(f"{ENGINE} {pyspark.__version__}", started - began, finished - started, native)


def _stream(spark: Any, readings: Readings, output: Path, tell: Tell) -> None:
    """Both queries at once, from the first file to the windows that are still open after the last."""
    names: dict[str, str] = {}
    listener = Metrics(lambda batch: tell(_beat(names, batch)))
    spark.streams.addListener(listener)
    try:
        rows = _rows(spark, readings)
        running = {name: _start(rows, name, output) for name in QUERIES}
        names |= {str(each.id): name for name, each in running.items()}
        for each in running.values():
            each.awaitTermination()
        for name, query in QUERIES.items():
            started = perf_counter()
            rest = remaining(rows, query, str(_checkpoint(output, name)))
            rest.write.mode("overwrite").parquet(str(output / name / "part=last"))
            count = spark.read.parquet(str(output / name / "part=last")).count()
            tell(Beat(name, 0, count, perf_counter() - started, "the last windows"))
    except StreamingQueryException as error:
        raise EngineError(f"Spark's stream has stopped: {str(error).splitlines()[0]}") from error
    finally:
        spark.streams.removeListener(listener)


def _rows(spark: Any, readings: Readings) -> Any:
    schema = spark.read.parquet(str(readings.files[0])).schema
    files = spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(str(readings.folder))
    loads = files.where(F.col("property") == LOAD)
    return loads.select(*(F.col(old).alias(new) for old, new in COLUMNS.items())).withWatermark(
        "ts", "2 seconds"
    )


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


def _native(spark: Any, readings: Readings) -> Native:
    """Peak, mean and 95th percentile per plug with `groupBy(window(…))`, which copies every row into each of its windows.

    A first run on a few rows is not counted: planning and compiling so many copies is what takes longest.
    """
    loads = spark.read.parquet(str(readings.files[0])).where(F.col("property") == LOAD)
    load = F.col("value")
    for count in (WARM, SAMPLE):
        began = perf_counter()
        sliding = F.window("timestamp", "1 hour", f"{COARSER} seconds")
        grouped = loads.limit(count).groupBy("house_id", "household_id", "plug_id", sliding)
        windows = grouped.agg(F.max(load), F.avg(load), F.percentile_approx(load, 0.95), F.count("*"))
        counted = Observation()
        windows = windows.observe(counted, F.count("*").alias("windows"))
        windows.write.format("noop").mode("overwrite").save()
        seconds = perf_counter() - began
    what = f'groupBy(window("1 hour", "{COARSER} seconds"))'
    return Native(what, SAMPLE, seconds, counted.get["windows"], COARSER)
