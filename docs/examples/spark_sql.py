"""Spark SQL: sliding windows as a table function."""

import os
import sys

os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # workers run what you run

from pyspark.sql import SparkSession

import windrow as wr
from windrow_spark import register, session_conf

QUERY = wr.Query(
    by=["plug"],
    time="ts",
    window=wr.TimeWindow(range="1m", slide="1s"),
    aggregates={"peak": wr.Max("load"), "n": wr.Count()},
)


def main() -> None:
    settings = {**session_conf(), "spark.sql.shuffle.partitions": "2"}  # few: this is one machine
    spark = SparkSession.builder.master("local[2]").config(map=settings).getOrCreate()
    register(spark)
    spark.sql("""
        SELECT concat('plug ', id % 3) AS plug,
               timestamp_seconds(1700000000 + id DIV 3) AS ts,
               CAST((id * 7919) % 1000 AS DOUBLE) AS load
        FROM range(900)
    """).createOrReplaceTempView("loads")
    windows = spark.sql(f"""
        SELECT plug, max(peak) AS highest, count(*) AS windows
        FROM windrow(TABLE(loads) PARTITION BY plug ORDER BY ts, query => '{QUERY.to_json()}')
        WHERE n = 60
        GROUP BY plug ORDER BY plug
    """)
    for row in windows.collect():
        print(row.plug, row.highest, row.windows)


if __name__ == "__main__":
    main()
