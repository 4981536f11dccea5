"""The job that test_cluster.py runs with executors whose cache is empty: a stream and a batch. Run as a program."""

import json
import sys
from pathlib import Path

from crash_job import ROWS
from pyspark.sql import SparkSession

import windrow as wr
from windrow_spark import prepare, remaining, windowed


@wr.aggregate_type(partial={"low": "f8", "high": "f8"}, identity=(float("inf"), float("-inf")))
class Spread:
    """Defined in the program, so that executors have it from the job alone."""

    def lift(x):  # type: ignore[no-untyped-def]
        return x, x

    def combine(a, b):  # type: ignore[no-untyped-def]
        return min(a[0], b[0]), max(a[1], b[1])

    def lower(p):  # type: ignore[no-untyped-def]
        return p[1] - p[0]


QUERY = wr.Query(
    "plug",
    window=wr.TimeWindow("20s", "1s"),
    aggregates={"spread": Spread("load"), "mean": wr.Mean("load"), "n": wr.Count()},
)


def main(master: str, folder: Path, environment: dict[str, str]) -> None:
    settings = {
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.cores.max": "2",
        "spark.executor.memory": "1g",
        "spark.sql.shuffle.partitions": "2",
        "spark.ui.enabled": "false",
        "spark.sql.session.timeZone": "UTC",
        "spark.pyspark.python": sys.executable,
        **{f"spark.executorEnv.{name}": value for name, value in environment.items()},
    }
    spark = prepare(SparkSession.builder.master(master).config(map=settings).getOrCreate())
    stream = spark.readStream.schema(ROWS).option("maxFilesPerTrigger", 1).parquet(str(folder / "rows"))
    windows = windowed(stream.withWatermark("ts", "10 seconds"), QUERY, buckets=2)
    checkpoint = str(folder / "checkpoint")
    running = (
        windows.writeStream.option("checkpointLocation", checkpoint)
        .trigger(availableNow=True)
        .format("parquet")
        .option("path", str(folder / "stream"))
        .start()
    )
    running.awaitTermination()
    observed = [row for each in running.recentProgress for row in each["observedMetrics"].values()]
    remaining(stream, QUERY, checkpoint).write.parquet(str(folder / "rest"))
    windowed(spark.read.schema(ROWS).parquet(str(folder / "rows")), QUERY).write.parquet(
        str(folder / "batch")
    )
    told = spark.range(2).repartition(2).mapInArrow(_compiled, "compiled long").collect()
    print(
        json.dumps(
            {
                "stream": sum(row.compile_seconds for row in observed),
                "workers": max(row.compiled for row in told),
            }
        )
    )


def _compiled(batches):  # type: ignore[no-untyped-def]
    import pyarrow as pa

    from windrow.kernels.compiling import compiled_kernels

    list(batches)
    yield pa.RecordBatch.from_pydict({"compiled": [compiled_kernels()]})


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), dict(each.split("=") for each in sys.argv[3:]))
