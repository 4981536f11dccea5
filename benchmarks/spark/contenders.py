"""The same windows in four ways: windrow, and three that a skilled user of Spark writes without it.

*native* is ``groupBy(window(…))``. *two-step* first aggregates the rows of each slide, then gives each of these slices to the
windows that hold it, and aggregates again. *over* is a window function with a range, with Spark's segment tree.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import windrow as wr
from windrow_spark import windowed

NATIVE, TWO_STEP = "groupBy(window)", "two-step"
OVER, OVER_PLAIN = "max OVER RANGE, segment tree", "max OVER RANGE"
FLOOR = "repartition + sort + mapInArrow identity"
FLOOR_OF_SLICES = "slices + repartition + sort + mapInArrow of nothing"
SEGMENT_TREE = "spark.sql.window.segmentTree.enabled"
START = 1_700_000_000_000_000


def loads(spark: SparkSession, rows: int, keys: int, gap: int) -> DataFrame:
    """So many rows of so many keys in turn, each ``gap`` microseconds after the last; in memory."""
    frame = spark.sql(
        f"""select id % {keys} as plug, timestamp_micros({START} + id * {gap}) as ts,
                   cast((id * 7919) % 100003 as double) / 8 as load from range(0, {rows}, 1, 2)"""
    ).cache()
    frame.count()
    return frame


AGGREGATES: dict[str, dict[str, wr.Aggregate]] = {
    "max, count": {"peak": wr.Max("load"), "n": wr.Count()},
    "mean, count": {"mean": wr.Mean("load"), "n": wr.Count()},
}
"""The first are exact in any order, so Spark may compute slices. Means of floating-point numbers are not, so rows go to Python."""
ROUNDED = "mean, count, rounded by Spark"
"""The same means where windrow may round as the other ways do."""


def ours(frame: DataFrame, ratio: int, what: str, slide: int = 1, **options: Any) -> DataFrame:
    window = wr.TimeWindow(f"{ratio * slide}s", f"{slide}s")
    if what == ROUNDED:
        return ours(frame, ratio, "mean, count", slide, push_down=True, **options)
    return windowed(frame, wr.Query("plug", window=window, aggregates=AGGREGATES[what]), **options)


def native(frame: DataFrame, ratio: int, what: str) -> DataFrame:
    value = F.max("load") if what == "max, count" else F.avg("load")
    return frame.groupBy("plug", F.window("ts", f"{ratio} seconds", "1 second")).agg(value, F.count("*"))


def two_step(frame: DataFrame, ratio: int, what: str) -> DataFrame:
    """A slide is a whole number, which Spark groups and explodes fastest."""
    once, again = F.sum("load"), F.sum("value") / F.sum("n")
    if what == "max, count":
        once, again = F.max("load"), F.max("value")
    slide = F.unix_seconds("ts").alias("slide")
    slices = frame.groupBy("plug", slide).agg(once.alias("value"), F.count("*").alias("n"))
    window = F.explode(F.sequence(F.col("slide") - (ratio - 1), F.col("slide"))).alias("window")
    copies = (
        slices.select("plug", window, "value", "n")
        if ratio > 1
        else slices.withColumnRenamed("slide", "window")
    )
    return copies.groupBy("plug", "window").agg(again, F.sum("n"))


def over(frame: DataFrame, seconds: int, *, segment_tree: bool) -> DataFrame:
    frame.createOrReplaceTempView("benchmark_loads")
    frame.sparkSession.conf.set(SEGMENT_TREE, str(segment_tree).lower())
    return frame.sparkSession.sql(
        f"""select plug, ts, max(load) over (partition by plug order by ts
            range between interval {seconds} seconds preceding and current row) from benchmark_loads"""
    )


def floor_of_slices(frame: DataFrame) -> DataFrame:
    """What it costs to aggregate slices, sort them and send them to Python, which gives nothing back."""
    slices = frame.groupBy("plug", F.unix_seconds("ts").alias("slide")).agg(F.max("load"), F.count("*"))
    return slices.repartition("plug").sortWithinPartitions("plug", "slide").mapInArrow(consume, "n long")


def consume(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield pa.RecordBatch.from_pydict({"n": [sum(batch.num_rows for batch in batches)]})


def floor(frame: DataFrame) -> DataFrame:
    """What it costs to sort rows and send them to Python and back."""
    return (
        frame.repartition("plug")
        .sortWithinPartitions("plug", "ts")
        .mapInArrow(lambda batches: batches, frame.schema)
    )
