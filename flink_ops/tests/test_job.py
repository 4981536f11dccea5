"""`windrow run --engine flink` and `windrow demo` on Flink, each in a process of its own, as a user starts them."""

import os
import subprocess
import sys
from pathlib import Path

from pyarrow import csv, parquet

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


def windrow(*arguments: object, code: int = 0) -> str:
    # What this process has done with Flink is not the business of another one.
    env = {name: value for name, value in os.environ.items() if not name.startswith("PYFLINK_")}
    command = [*WINDROW, *map(str, arguments)]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=600, env=env)
    assert ran.returncode == code, ran.stdout + ran.stderr
    return ran.stdout + (ran.stderr if code else "")


def test_files_give_the_same_windows_as_in_process(tmp_path: Path) -> None:
    query, source = tmp_path / "query.toml", tmp_path / "plugs.csv"
    query.write_text(QUERY)
    csv.write_csv(plugs(), source)
    for engine in ("local", "flink"):
        said = windrow(
            "run", query, "--input", source, "--output", tmp_path / f"{engine}.parquet", "--engine", engine
        )
        assert "540 rows → 102 windows" in said
    assert parquet.read_table(tmp_path / "flink.parquet").equals(
        parquet.read_table(tmp_path / "local.parquet")
    )
    refused = windrow("run", query, "--input", tmp_path, "--watch", "--engine", "flink", code=2)
    assert "use --engine local or spark" in refused and "Traceback" not in refused


def test_the_demo_compares_every_window(tmp_path: Path) -> None:
    said = " ".join(windrow("demo", "--engine", "flink", "--output", tmp_path / "out", "--plugs", 6).split())
    assert "same windows as the in-process engine: yes" in said
    assert "on Flink" in said
    assert "<svg" in (tmp_path / "out" / "page.html").read_text(encoding="utf-8")
