"""The job that test_connect.py runs through Spark Connect: batch, progress, a stream, its state. Run as a program."""

import os
import sys
from pathlib import Path

from crash_job import QUERY, ROWS, run
from pyspark.sql import SparkSession

import windrow as wr
from windrow.errors import FingerprintMismatch
from windrow_spark import inspect_state, prepare, progress, remaining, windowed


def main(folder: Path) -> None:
    builder = SparkSession.builder.remote("local[2]").config("spark.sql.shuffle.partitions", "2")
    builder = builder.config("spark.driver.bindAddress", "127.0.0.1").config("spark.ui.enabled", "false")
    spark = prepare(builder.config("spark.sql.session.timeZone", "UTC").getOrCreate())
    assert ".connect." in type(spark).__module__
    rows = spark.read.schema(ROWS).parquet(str(folder / "rows"))
    lines: list[str] = []
    with progress(spark, lines.append):
        windowed(rows, QUERY).write.parquet(str(folder / "batch"))
    assert lines[-1].startswith("windrow: "), lines
    run(spark, folder)
    checkpoint = str(folder / "checkpoint")
    stream = spark.readStream.schema(ROWS).parquet(str(folder / "rows"))
    remaining(stream, QUERY, checkpoint).write.parquet(str(folder / "rest"))
    inspect_state(checkpoint, QUERY, stream).write.parquet(str(folder / "state"))
    other = wr.Query("plug", window=QUERY.window, aggregates={"n": wr.Count()})
    late = windowed(stream.withWatermark("ts", "1 second"), other, buckets=4).writeStream.format("noop")
    try:
        late.option("checkpointLocation", checkpoint).start()
    except FingerprintMismatch as refused:
        assert "the checkpoint belongs to another query" in str(refused)
    else:
        raise AssertionError("a query that does not fit its checkpoint was started")
    spark.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
    os._exit(0)  # the server that the session started stays up for a while; nothing is left to do
