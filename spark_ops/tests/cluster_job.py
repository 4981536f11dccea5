"""The job that test_cluster.py runs on a standalone cluster whose machines do not have windrow. Run as a program."""

import sys
from pathlib import Path

import crash_job
from pyspark.sql import SparkSession

import windrow as wr
from windrow_spark import prepare, windowed


def main(master: str, folder: Path) -> None:
    builder = (
        SparkSession.builder.master(master)
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.cores.max", "2")
    )
    builder = builder.config("spark.driver.bindAddress", "127.0.0.1").config("spark.executor.memory", "1g")
    builder = builder.config("spark.sql.shuffle.partitions", "2").config("spark.ui.enabled", "false")
    builder = builder.config("spark.sql.session.timeZone", "UTC").config(
        "spark.pyspark.python", sys.executable
    )
    spark = prepare(builder.getOrCreate())
    where = spark.range(2).mapInArrow(_places, "place string").distinct().collect()
    assert all(".zip" in row.place for row in where), where
    query = wr.Query(
        "plug",
        window=wr.TimeWindow("20s", "1s"),
        aggregates={"peak": wr.Max("load"), "mean": wr.Mean("load")},
    )
    rows = spark.read.parquet(str(folder / "rows"))
    windowed(rows, query).write.parquet(str(folder / "batch"))
    crash_job.run(spark, folder)


def _places(batches):  # type: ignore[no-untyped-def]
    import pyarrow as pa

    import windrow

    for _ in batches:
        yield pa.RecordBatch.from_pydict({"place": [windrow.__file__]})


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
