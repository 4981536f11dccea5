"""The job that test_crashes.py kills: a folder of files, a file per micro-batch, to parquet. Run as a program."""

import sys
from pathlib import Path

from conftest import session
from pyspark.sql import SparkSession

import windrow as wr
from windrow_spark import windowed

QUERY = wr.Query(
    "plug",
    window=wr.TimeWindow("20s", "1s"),
    aggregates={"peak": wr.Max("load"), "n": wr.Count(), "ids": wr.Sum("id")},
    late="update",
    lateness="5s",
)
ROWS = "plug string, ts timestamp, load double, id long"


def run(spark: SparkSession, folder: Path) -> None:
    rows = spark.readStream.schema(ROWS).option("maxFilesPerTrigger", 1).parquet(str(folder / "rows"))
    windows = windowed(rows.withWatermark("ts", "2 seconds"), QUERY, buckets=4)
    writer = windows.writeStream.option("checkpointLocation", str(folder / "checkpoint")).trigger(
        availableNow=True
    )
    writer.format("parquet").option("path", str(folder / "windows")).start().awaitTermination()


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    run(session(folder), folder)
