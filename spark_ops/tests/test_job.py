"""`windrow run --engine spark` and `windrow demo` on Spark, in the session of the tests."""

import re
import threading
import time
from pathlib import Path

import pyarrow as pa
import pytest
from click.testing import CliRunner
from pyarrow import csv, parquet
from pyspark.sql import SparkSession

import windrow as wr
from windrow.cli import main
from windrow.cli.queries import read_query
from windrow.data import plugs

QUERY = """
by = ["plug"]
time = "ts"

[window]
kind = "time"
range = "5m"
slide = "1m"

[aggregates]
peak = "Max(load)"
mean = "Mean(load)"
last = "Last(load)"
n = "Count()"
"""


def windrow(*arguments: object) -> str:
    ran = CliRunner().invoke(main, [str(each) for each in arguments], catch_exceptions=False)
    assert ran.exit_code == 0, ran.output
    return " ".join(ran.output.split())


@pytest.fixture
def query(tmp_path: Path) -> Path:
    path = tmp_path / "query.toml"
    path.write_text(QUERY)
    return path


def test_files_give_the_same_windows_as_in_process(spark: SparkSession, tmp_path: Path, query: Path) -> None:
    source, output = tmp_path / "plugs.csv", tmp_path / "windows.parquet"
    csv.write_csv(plugs(), source)
    said = windrow("run", query, "--input", source, "--output", output, "--engine", "spark")
    assert "540 rows → 102 windows" in said
    assert parquet.read_table(output).equals(wr.aggregate(plugs(), read_query(query)))
    assert spark.range(1).count() == 1, "a session that was there goes on"


def test_a_watched_folder_gives_the_same_windows(spark: SparkSession, tmp_path: Path, query: Path) -> None:
    """The second file comes later, with a row that comes too late."""
    folder, output = tmp_path / "rows", tmp_path / "windows.parquet"
    folder.mkdir()
    query.write_text('late = "side"\n' + QUERY)
    parquet.write_table(plugs().slice(0, 270), folder / "0.parquet")

    def later() -> None:
        while not spark.streams.active or not spark.streams.active[0].recentProgress:
            time.sleep(0.2)  # the first file is a micro-batch of its own
        parquet.write_table(
            pa.concat_tables([plugs().slice(270), plugs().slice(0, 1)]), tmp_path / "1.parquet"
        )
        (tmp_path / "1.parquet").rename(folder / "1.parquet")

    coming = threading.Thread(target=later, daemon=True)
    coming.start()
    stream = ("--watch", "--until-idle", "8s", "--output", output, "--late-output", tmp_path / "late.parquet")
    said = windrow("run", query, "--input", folder, "--engine", "spark", "--idle", "1s", *stream)
    coming.join(timeout=10)
    assert "541 rows → 102 windows" in said and "1 late" in said
    assert parquet.read_table(output).equals(wr.aggregate(plugs(), read_query(query)))
    late = parquet.read_table(folder / "1.parquet").slice(270)
    assert late.num_rows == 1 and parquet.read_table(tmp_path / "late.parquet").equals(late)


def test_the_demo_compares_every_window(spark: SparkSession, tmp_path: Path) -> None:
    said = windrow("demo", "--engine", "spark", "--output", tmp_path / "out", "--plugs", 6)
    assert "same windows as the in-process engine: yes" in said
    assert re.search(r"31,752 of 63,504 readings are loads.* rows/s", said)
    assert re.search(r"Spark in two steps .* took .* s, windrow .* s for the same [0-9,]+ windows", said)
    page = (tmp_path / "out" / "page.html").read_text(encoding="utf-8")
    assert "Against the engine" in page and "<svg" in page
    assert list((tmp_path / "out" / "houses").rglob("*.parquet"))
