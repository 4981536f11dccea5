"""Batch: against groupBy(window), OVER RANGE, and the floor of sending rows to Python at all."""

from __future__ import annotations

from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import windrow as wr
from benchmarks.spark.measure import Case, rate
from windrow_spark import windowed


def loads(spark: SparkSession, rows: int, keys: int, per_second: int) -> DataFrame:
    """So many rows a second in all, in memory."""
    frame = spark.sql(
        f"""select id % {keys} as plug, timestamp_micros(1700000000000000 + id * {1_000_000 // per_second}) as ts,
                   cast((id * 7919) % 100003 as double) / 8 as load from range(0, {rows}, 1, 2)"""
    ).cache()
    frame.count()
    return frame


def peak(range: str, slide: str | None, by: Any = "plug") -> wr.Query:
    return wr.Query(by, window=wr.TimeWindow(range, slide), aggregates={"peak": wr.Max("load")})


def native(frame: DataFrame, range: str, slide: str) -> DataFrame:
    return frame.groupBy("plug", F.window("ts", range, slide)).agg(F.max("load"))


def over(frame: DataFrame, seconds: int) -> DataFrame:
    frame.createOrReplaceTempView("benchmark_loads")
    return frame.sparkSession.sql(
        f"""select plug, ts, max(load) over (partition by plug order by ts
            range between interval {seconds} seconds preceding and current row) from benchmark_loads"""
    )


def floor(frame: DataFrame) -> DataFrame:
    return (
        frame.repartition("plug")
        .sortWithinPartitions("plug", "ts")
        .mapInArrow(lambda batches: batches, frame.schema)
    )


def cases(spark: SparkSession, rows: int) -> list[Case]:
    few = loads(spark, rows, 14, 1400)  # 100 rows a second of each plug
    dense = loads(spark, 4 * rows, 14, 1400)
    some = loads(spark, rows // 10, 14, 1400)
    tiny = loads(spark, 3000, 14, 14)
    many = loads(spark, rows, 10_000, 1000)
    one = loads(spark, 150_000, 1, 1000)
    ratio_1000 = rate(lambda: windowed(dense, peak("1000s", "1s")), 4 * rows)
    tumbling = rate(lambda: native(dense, "1 second", "1 second"), 4 * rows)
    hot = loads_one(spark, rows)
    whole = rate(lambda: windowed(hot, shares(), parallel=2), rows)
    single = rate(lambda: windowed(hot, shares(), parallel=False), rows)
    by_tuple = wr.Query("plug", window=wr.SlideByTuple("100s", 1), aggregates={"peak": wr.Max("load")})
    native_1000 = rate(lambda: native(tiny, "1000 seconds", "1 second"), 3000, 1)
    return [
        Case("range/slide 1000", ratio_1000, "groupBy(window), 3,000 rows", native_1000, 500),
        Case("range/slide 100", rate(lambda: windowed(few, peak("100s", "1s")), rows), "groupBy(window)",
             rate(lambda: native(some, "100 seconds", "1 second"), rows // 10, 1), 5),
        Case("range/slide 10, 100 rows a slice", rate(lambda: windowed(dense, peak("10s", "1s")), 4 * rows), "groupBy(window)",
             rate(lambda: native(dense, "10 seconds", "1 second"), 4 * rows), 1),
        Case("range/slide 1000, push-down", ratio_1000, "tumbling groupBy(window)", tumbling, 0.5),
        Case("a window per row, frames of 100,000 rows", rate(lambda: windowed(one, by_tuple), 150_000), "max OVER RANGE",
             rate(lambda: over(one, 100), 150_000, 1), 200),
        Case("rows to Python, 14 keys", rate(lambda: windowed(few, peak("1000s", "1s"), pushdown=False), rows),
             "repartition + sort + mapInArrow identity", rate(lambda: floor(few), rows), 1 / 1.5),
        Case("rows to Python, 10,000 keys", rate(lambda: windowed(many, peak("1000s", "100s"), pushdown=False), rows),
             "repartition + sort + mapInArrow identity", rate(lambda: floor(many), rows), 1 / 1.5),
        Case("one hot key, two tasks", whole, "one task", single, 1.6),
    ]  # fmt: skip


def loads_one(spark: SparkSession, rows: int) -> DataFrame:
    """Rows without a key."""
    frame = spark.sql(
        f"""select timestamp_micros(1700000000000000 + id * 1000) as ts, cast((id * 7919) % 100003 as double) / 8 as load
            from range(0, {rows}, 1, 2)"""
    ).cache()
    frame.count()
    return frame


def shares() -> wr.Query:
    """What is worth a second task: with one cheap aggregate, Spark's own half of the work keeps one core busy already."""
    aggregates = {
        "median": wr.Median("load"),
        "spread": wr.Std("load"),
        "mean": wr.Mean("load"),
        "top": wr.TopK("load", 5),
    }
    return wr.Query(window=wr.TimeWindow("2s", "100ms"), aggregates=aggregates)
