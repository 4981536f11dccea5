"""The job that test_crashes.py kills: a folder of files, a file per micro-batch, to parquet. Run as a program."""

import sys
from pathlib import Path
from typing import Any

from conftest import session
from pyspark.sql import SparkSession

import windrow as wr
from windrow_spark import windowed


def discounted(load: Any) -> Any:
    """Older rows count for less, so order matters."""
    result = 0.0
    for x in load:
        result = 0.5 * result + x
    return result


QUERY = wr.Query(
    "plug",
    window=wr.TimeWindow("20s", "1s"),
    aggregates={"peak": wr.Max("load"), "n": wr.Count(), "ids": wr.Sum("id")},
    late="update",
    lateness="5s",
)
FITTED = wr.Query(
    window=wr.SlideByTuple("20s", 40),
    aggregates={"middle": wr.Median("load"), "f": wr.Apply(discounted, "load")},
)
"""Computed by workers: batches of its windows are in flight when the job is killed."""
ROWS = "plug string, ts timestamp, load double, id long"


def run(spark: SparkSession, folder: Path) -> None:
    rows = spark.readStream.schema(ROWS).option("maxFilesPerTrigger", 1).parquet(str(folder / "rows"))
    results = {
        "windows": windowed(rows.withWatermark("ts", "2 seconds"), QUERY, buckets=4),
        "fitted": windowed(rows.withWatermark("ts", "10 seconds"), FITTED, workers=2),
    }
    running = []
    for name, frame in results.items():
        checkpoint = folder / ("checkpoint" if name == "windows" else f"checkpoint_{name}")
        writer = frame.writeStream.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True)
        running.append(writer.format("parquet").option("path", str(folder / name)).start())
    for query in running:
        query.awaitTermination()


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    run(session(folder), folder)
