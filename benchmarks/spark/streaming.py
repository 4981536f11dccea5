"""Streaming: rows a second of whole micro-batches, and state, against native windows."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path
from statistics import median
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import windrow as wr
from benchmarks.spark.measure import Case
from windrow_spark import windowed

BATCHES = 6
FILES = 2


class Stream:
    """A folder of files, two files a micro-batch."""

    def __init__(
        self, spark: SparkSession, folder: Path, name: str, rows: int, keys: int, per_second: int
    ) -> None:
        self.spark, self.folder, self.name = spark, folder, name
        self.path = str(folder / name)
        for number in range(BATCHES):
            spark.sql(
                f"""select id % {keys} as plug, timestamp_micros(1700000000000000 + id * {1_000_000 // per_second}) as ts,
                           cast((id * 7919) % 100003 as double) / 8 as load
                    from range({number * rows}, {(number + 1) * rows}, 1, {FILES})"""
            ).write.mode("append").option("maxRecordsPerFile", 0).parquet(self.path)

    def run(self, windows: Callable[[DataFrame], DataFrame], label: str) -> list[dict[str, Any]]:
        """The progress of every micro-batch with rows."""
        rows = (
            self.spark.readStream.schema("plug long, ts timestamp, load double")
            .option("maxFilesPerTrigger", FILES)
            .parquet(self.path)
        )
        frame = windows(rows.withWatermark("ts", "0 seconds"))
        checkpoint = str(self.folder / f"checkpoint-{self.name}-{label}")
        query = (
            frame.writeStream.format("noop")
            .option("checkpointLocation", checkpoint)
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
        return [progress for progress in query.recentProgress if progress["numInputRows"]]


def peak(range: str, slide: str) -> wr.Query:
    return wr.Query("plug", window=wr.TimeWindow(range, slide), aggregates={"peak": wr.Max("load")})


def native(range: str, slide: str) -> Callable[[DataFrame], DataFrame]:
    return lambda frame: frame.groupBy("plug", F.window("ts", range, slide)).agg(F.max("load"))


def identity(frame: DataFrame) -> DataFrame:
    return frame.mapInArrow(lambda batches: batches, "plug long, ts timestamp, load double")


def rows_per_second(progress: list[dict[str, Any]]) -> float:
    """Of the later micro-batches: the first ones start workers and compile."""
    return median(
        each["numInputRows"] * 1000 / each["durationMs"]["triggerExecution"] for each in progress[2:]
    )


def state_rows(progress: list[dict[str, Any]]) -> float:
    return float(max(sum(each["numRowsTotal"] for each in one["stateOperators"]) for one in progress))


def cases(spark: SparkSession, rows: int, folder: Path) -> list[Case]:
    small = Stream(spark, folder, "small", 1000, 10, 10)
    ten = Stream(spark, folder, "ten", rows, 10, 1000)
    many = Stream(spark, folder, "many", rows, 10_000, 1000)
    ours_ten = cache(lambda: ten.run(lambda frame: windowed(frame, peak("1000s", "1s")), "ours"))
    ours_many = cache(lambda: many.run(lambda frame: windowed(frame, peak("1000s", "100s")), "ours"))
    ours_small = cache(lambda: small.run(lambda frame: windowed(frame, peak("1000s", "1s")), "ours"))
    native_small = cache(lambda: small.run(native("1000 seconds", "1 second"), "native"))
    return [
        Case("stream, range/slide 1000, 10 keys", lambda: rows_per_second(ours_ten()), "groupBy(window), small batches",
             lambda: rows_per_second(native_small()), 1000),
        Case("stream, rows per state row", lambda: 1e6 / state_rows(ours_small()), "groupBy(window)",
             lambda: 1e6 / state_rows(native_small()), 50),
        Case("stream, 10 keys, to and from Python", lambda: rows_per_second(ours_ten()), "mapInArrow identity",
             lambda: rows_per_second(ten.run(identity, "identity")), 0.4),
        Case("stream, 10 keys", lambda: rows_per_second(ours_ten()), "required rows/s", lambda: 600_000.0, 1),
        Case("stream, 10,000 keys", lambda: rows_per_second(ours_many()), "required rows/s", lambda: 300_000.0, 1),
    ]  # fmt: skip
