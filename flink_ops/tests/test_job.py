"""`windrow run --engine flink` and `windrow demo` on Flink, each in a process of its own, as a user starts them."""

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pyarrow as pa
from pyarrow import csv, parquet

import windrow as wr
from windrow.cli.queries import read_query
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


def parts(folder: Path) -> list[pa.Table]:
    return [parquet.read_table(each) for each in sorted(folder.glob("*.parquet"))]


def test_files_give_the_same_windows_as_in_process(tmp_path: Path) -> None:
    query, source = tmp_path / "query.toml", tmp_path / "plugs.csv"
    query.write_text('late = "side"\n' + QUERY)
    csv.write_csv(plugs(), source)
    for engine in ("local", "flink"):
        said = windrow(
            "run", query, "--input", source, "--output", tmp_path / f"{engine}.parquet", "--engine", engine
        )
        assert "540 rows → 102 windows" in said and "late" not in said
    assert parquet.read_table(tmp_path / "flink.parquet").equals(
        parquet.read_table(tmp_path / "local.parquet")
    )


def test_a_watched_folder_gives_its_windows_on_the_way_and_the_rest_at_the_end(tmp_path: Path) -> None:
    """Files come when windows of those before them are out; the last has rows that are late. Then silence ends the stream."""
    query, folder = tmp_path / "query.toml", tmp_path / "rows"
    query.write_text('late = "side"\n' + QUERY)
    folder.mkdir()
    late = pa.concat_tables([plugs().slice(360), plugs().slice(0, 7)])
    files = [plugs().slice(0, 180), plugs().slice(180, 180), late]

    def come() -> None:
        for number, rows in enumerate(files):
            while len(list(tmp_path.glob("flink/*"))) < number:
                time.sleep(0.1)
            csv.write_csv(rows, tmp_path / "coming.csv")
            (tmp_path / "coming.csv").rename(folder / f"{number}.csv")

    coming = threading.Thread(target=come, daemon=True)
    coming.start()
    for engine, idle in (("flink", "4s"), ("local", "0s")):
        stream = ("--watch", "--until-idle", idle, "--late-output", tmp_path / f"{engine}.csv")
        to = ("--engine", engine, "--output", f"{tmp_path / engine}/", "--idle", "1s")
        said = windrow("run", query, "--input", folder, *stream, *to)
        assert "547 rows → 102 windows" in said and "7 late" in said
    assert not coming.is_alive()
    found = [pa.concat_tables(parts(tmp_path / engine)) for engine in ("flink", "local")]
    assert found[0].equals(found[1])
    lines = [sorted((tmp_path / f"{engine}.csv").read_text().splitlines()) for engine in ("flink", "local")]
    assert lines[0] == lines[1] and len(lines[0]) == 8


def test_ctrl_c_ends_a_watched_stream_well_and_other_columns_are_refused(tmp_path: Path) -> None:
    query, folder, output = tmp_path / "query.toml", tmp_path / "rows", tmp_path / "windows"
    query.write_text(QUERY)
    folder.mkdir()
    parquet.write_table(plugs(), folder / "0.parquet")
    stream = ("--input", folder, "--engine", "flink", "--watch", "--output", f"{output}/")
    command = [*WINDROW, "run", str(query), *map(str, stream)]
    env = {name: value for name, value in os.environ.items() if not name.startswith("PYFLINK_")}
    running = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=env, start_new_session=True
    )
    try:
        while not list(tmp_path.glob("windows/*")):
            assert running.poll() is None, running.communicate()
            time.sleep(0.1)
        os.killpg(running.pid, signal.SIGINT)  # as a terminal does: to all that the command has started
        out, error = running.communicate(timeout=120)
    finally:
        running.kill()
    assert running.returncode == 0 and b"540 rows" in out, error
    assert pa.concat_tables(parts(output)).equals(wr.aggregate(plugs(), read_query(query)))
    (folder / "1.csv").write_text("ts,house\n2024-03-01T18:00:00,1\n")
    refused = windrow("run", query, *stream[:-1], tmp_path / "windows.csv", code=2)
    assert "1.csv has different columns" in refused and "Traceback" not in refused


def test_the_demo_compares_every_window(tmp_path: Path) -> None:
    said = " ".join(windrow("demo", "--engine", "flink", "--output", tmp_path / "out", "--plugs", 6).split())
    assert "same windows as the in-process engine: yes" in said
    assert "on Flink" in said
    assert "<svg" in (tmp_path / "out" / "page.html").read_text(encoding="utf-8")
