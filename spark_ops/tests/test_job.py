"""`windrow run --engine spark` and `windrow demo` on Spark, each in a process of its own, as a user starts them."""

import subprocess
import sys
import threading
import time
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import csv, parquet

import windrow as wr
from windrow.data import plugs

WINDROW = [sys.executable, "-c", "from windrow.cli import main; main()"]
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
    ran = subprocess.run([*WINDROW, *map(str, arguments)], capture_output=True, text=True, timeout=600)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran.stdout


@pytest.fixture
def query(tmp_path: Path) -> Path:
    path = tmp_path / "query.toml"
    path.write_text(QUERY)
    return path


def test_files_give_the_same_windows_as_in_process(tmp_path: Path, query: Path) -> None:
    source = tmp_path / "plugs.csv"
    csv.write_csv(plugs(), source)
    for engine in ("local", "spark"):
        said = windrow(
            "run", query, "--input", source, "--output", tmp_path / f"{engine}.parquet", "--engine", engine
        )
        assert "540 rows → 102 windows" in said
    assert parquet.read_table(tmp_path / "spark.parquet").equals(
        parquet.read_table(tmp_path / "local.parquet")
    )


def test_a_watched_folder_gives_the_same_windows_as_in_process(tmp_path: Path, query: Path) -> None:
    folder, output = tmp_path / "rows", tmp_path / "windows.parquet"
    folder.mkdir()
    rows = plugs()
    parquet.write_table(rows.slice(0, 270), folder / "0.parquet")

    def later() -> None:
        time.sleep(15)
        parquet.write_table(rows.slice(270), tmp_path / "1.parquet")
        (tmp_path / "1.parquet").rename(folder / "1.parquet")

    coming = threading.Thread(target=later)
    coming.start()
    said = windrow(
        "run",
        query,
        "--input",
        folder,
        "--output",
        output,
        "--engine",
        "spark",
        "--watch",
        "--until-idle",
        "25s",
    )
    coming.join()
    assert "540 rows" in said
    expected = wr.aggregate(rows, wr.Query.from_dict(document()))
    assert parquet.read_table(output).equals(expected)


def test_the_demo_compares_every_window(tmp_path: Path) -> None:
    said = " ".join(windrow("demo", "--engine", "spark", "--output", tmp_path / "out", "--plugs", 6).split())
    assert "same windows as the in-process engine: yes" in said
    assert "rows/s" in said and "groupBy(window(" in said
    page = (tmp_path / "out" / "page.html").read_text(encoding="utf-8")
    assert "Against the engine" in page and "<svg" in page
    assert pa.types.is_timestamp(
        parquet.read_schema(next((tmp_path / "out" / "houses").rglob("*.parquet"))).field("window_end").type
    )


def document() -> dict[str, object]:
    import tomllib

    from windrow.cli.queries import aggregate_form

    read = tomllib.loads(QUERY)
    read["aggregates"] = {name: aggregate_form(name, form) for name, form in read["aggregates"].items()}
    return read
