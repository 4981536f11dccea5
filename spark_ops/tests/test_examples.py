"""What the documentation shows of Spark runs: the blocks of its pages, and the example jobs."""

import runpy
import sys
from contextlib import chdir
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

DOCS = Path(__file__).parents[2] / "docs"
sys.path.insert(0, str(DOCS))

import blocks  # noqa: E402


@pytest.mark.parametrize(
    "page", blocks.pages_of("spark"), ids=lambda page: str(page.relative_to(DOCS.parent))
)
def test_pages(page: Path, spark: SparkSession, tmp_path: Path) -> None:
    blocks.run(page, "spark", tmp_path, {"spark": spark})


@pytest.mark.parametrize("name", ["spark_sql", "spark_streaming"])
def test_example_jobs(
    name: str, spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with chdir(tmp_path):
        runpy.run_path(str(DOCS / "examples" / f"{name}.py"), run_name="__main__")
    assert "plug 0" in capsys.readouterr().out
