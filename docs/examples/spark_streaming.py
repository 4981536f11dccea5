"""Structured Streaming: a folder of Parquet files in, the windows of every plug out, with a checkpoint."""

import os
import sys
from pathlib import Path

os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # workers run what you run

from pyspark.sql import SparkSession

import windrow as wr
from windrow_spark import remaining, session_conf, windowed

QUERY = wr.Query(
    by="plug",
    time="ts",
    window=wr.TimeWindow(range="1m", slide="1s"),
    aggregates={"peak": wr.Max("load"), "mean": wr.Mean("load"), "n": wr.Count()},
    lateness="10s",
)


def main(folder: Path) -> None:
    settings = {**session_conf(), "spark.sql.shuffle.partitions": "2"}  # few: this is one machine
    spark = SparkSession.builder.master("local[2]").config(map=settings).getOrCreate()
    readings = spark.sql("""
        SELECT concat('plug ', id % 4) AS plug,
               timestamp_seconds(1700000000 + id DIV 4) AS ts,
               CAST((id * 7919) % 1000 AS DOUBLE) AS load
        FROM range(2000)
    """)
    readings.write.mode("overwrite").parquet(f"{folder}/readings")

    rows = spark.readStream.schema(readings.schema).parquet(f"{folder}/readings")
    rows = rows.withWatermark("ts", "5 seconds")
    job = (
        windowed(rows, QUERY, checkpoint=f"{folder}/checkpoint")  # another query is refused here
        .writeStream.format("parquet")
        .option("path", f"{folder}/windows")
        .option("checkpointLocation", f"{folder}/checkpoint")
        .trigger(availableNow=True)  # or processingTime="10 seconds", to run for ever
        .start()
    )
    job.awaitTermination()

    final = spark.read.parquet(f"{folder}/windows")
    still_open = remaining(rows, QUERY, f"{folder}/checkpoint")  # what the watermark has not passed
    print(final.count(), "windows are final,", still_open.count(), "are still open")
    for row in final.orderBy("window_end", "plug").limit(3).collect():
        print(row.plug, row.window_end, row.peak, row.n)


if __name__ == "__main__":
    main(Path.cwd())
