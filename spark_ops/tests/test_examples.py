"""What the documentation shows of Spark runs: the blocks of its pages, and the example jobs."""

import runpy
import sys
from contextlib import chdir
from pathlib import Path
from typing import Any

import pyspark
import pytest
from pyspark.sql import SparkSession

DOCS = Path(__file__).parents[2] / "docs"
sys.path.insert(0, str(DOCS))

import blocks  # noqa: E402

NEWEST = pyspark.__version__ >= "4.3"
PAGES = blocks.pages_of("spark") if NEWEST else [DOCS / "tutorials" / "spark.md"]
"""The pages are of the newest Spark; the tutorial also runs on the oldest."""


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(DOCS.parent)))
def test_pages(page: Path, spark: SparkSession, tmp_path: Path) -> None:
    taken_for_granted = given(spark, tmp_path) if page == DOCS / "spark.md" else {"spark": spark}
    blocks.run(page, "spark", tmp_path, taken_for_granted)


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
