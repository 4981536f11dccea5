"""What the documentation shows of Spark runs: the blocks of its pages, and the example jobs."""

import runpy
import sys
from contextlib import chdir
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyspark
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as f

import windrow as wr
from windrow_spark import windowed

DOCS = Path(__file__).parents[2] / "docs"
sys.path.insert(0, str(DOCS))

import blocks  # noqa: E402
import functions  # noqa: E402

NEWEST = pyspark.__version__ >= "4.3"
PAGES = blocks.pages_of("spark") if NEWEST else [DOCS / "tutorials" / "spark.md"]
"""The pages are of the newest Spark; the tutorial also runs on the oldest."""
MIGRATION = DOCS / "migrate" / "spark.md"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(DOCS.parent)))
def test_pages(page: Path, spark: SparkSession, tmp_path: Path) -> None:
    taken_for_granted = given(spark, tmp_path) if page == DOCS / "spark.md" else {"spark": spark}
    names = blocks.run(page, "spark", tmp_path, taken_for_granted)
    if page == MIGRATION:
        compare_functions(spark, names)


def compare_functions(spark: SparkSession, names: dict[str, Any]) -> None:
    """Every line of the table of functions, over the same sliding windows of both.

    Spark counts distinct values in a plan of its own that does not keep rows in order, so it does so in a job of its own.
    """
    lines = dict(enumerate(functions.functions(MIGRATION)))
    assert len(lines) > 25
    rows = spark.createDataFrame(pa.table(functions.rows())).coalesce(1).sortWithinPartitions("ts")
    query = wr.Query(
        by="plug",
        window=wr.TimeWindow("2m", "30s"),
        aggregates={f"f{n}": eval(line.ours, names) for n, line in lines.items()},
    )
    ours = windowed(rows, query).orderBy("window_end", "plug").collect()
    assert len(ours) > 30
    distinct = {n: line for n, line in lines.items() if "Distinct" in line.theirs["Spark"]}
    for some in (distinct, {n: line for n, line in lines.items() if n not in distinct}):
        columns = [eval(line.theirs["Spark"], names).alias(f"f{n}") for n, line in some.items()]
        groups = rows.groupBy("plug", f.window("ts", "2 minutes", "30 seconds"))
        theirs = groups.agg(*columns).orderBy("window.end", "plug").collect()
        for n, line in some.items():
            functions.compare(line, "Spark", [row[f"f{n}"] for row in theirs], [row[f"f{n}"] for row in ours])


def given(spark: SparkSession, folder: Path) -> dict[str, Any]:
    """What the page on Spark takes for granted: a session, a table of loads, and where things are."""
    loads = spark.sql(
        "SELECT concat('plug ', id % 2) AS plug, timestamp_seconds(id) AS ts, CAST(id AS DOUBLE) AS load FROM range(60)"
    )
    loads.createOrReplaceTempView("loads")
    loads.write.parquet(str(folder / "loads"))
    places = {name: str(folder / name) for name in ("output", "checkpoint", "place")}
    return {"spark": spark, "loads": loads, "folder": str(folder / "loads"), **places}


@pytest.mark.parametrize("name", ["spark_sql", "spark_streaming"])
def test_example_jobs(
    name: str, spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with chdir(tmp_path):
        runpy.run_path(str(DOCS / "examples" / f"{name}.py"), run_name="__main__")
    assert "plug 0" in capsys.readouterr().out
