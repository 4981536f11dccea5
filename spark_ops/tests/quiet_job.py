"""The job that test_quiet_starts.py runs: a stream is refused, if a range is given, and started. Run as a program."""

import sys
from contextlib import suppress
from pathlib import Path

from conftest import session
from pyspark.errors import AnalysisException

import windrow as wr
from windrow.errors import FingerprintMismatch
from windrow_spark import windowed


def main(folder: Path, refused: str | None) -> None:
    spark = session(folder)
    spark.sparkContext.setLogLevel("WARN")
    with suppress(AnalysisException):
        spark.read.text(str(folder / "nowhere"))  # Spark warns: its log is where it is looked for
    rows = spark.sql("SELECT timestamp_seconds(1700000000 + id) AS ts FROM range(60)")
    rows.write.mode("append").parquet(str(folder / "rows"))
    stream = (
        spark.readStream.schema(rows.schema).parquet(str(folder / "rows")).withWatermark("ts", "1 second")
    )

    def start(range_: str) -> None:
        query = wr.Query(window=wr.TimeWindow(range_, "1s"), aggregates={"n": wr.Count()})
        writer = windowed(stream, query, buckets=1).writeStream.format("noop").trigger(availableNow=True)
        writer.option("checkpointLocation", str(folder / "checkpoint")).start().awaitTermination()

    if refused is not None:
        try:
            start(refused)
        except FingerprintMismatch as told:
            print(told)
    start("10s")
    spark.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2] if len(sys.argv) > 2 else None)
