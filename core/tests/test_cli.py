"""The `windrow` command, as a user meets it."""

import io
import signal
import subprocess
import sys
import threading
import time
from datetime import datetime
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from cli_runs import COUNT, TOML, expected, read, refused, same_values, windrow, write
from pyarrow import csv, parquet
from rich.console import Console

import windrow as wr
from windrow import data
from windrow.cli.job import COMPILING, Progress
from windrow.cli.queries import aggregate_form, read_query
from windrow.cli.tables import show
from windrow.data import make_plugs


def test_bundled_data_is_what_its_generator_makes() -> None:
    assert data.plugs_csv().decode() == "".join(make_plugs.lines())


def test_small_demo_shows_windows_and_what_to_do_next() -> None:
    result = windrow("demo", "--small")
    assert result.exit_code == 0
    # 30 minutes of data and windows of 5 minutes: 34 windows hold a reading, for each of 3 plugs.
    assert "540 readings became 102 windows" in " ".join(result.output.split())
    assert "kettle" in result.output and "windrow run" in result.output


def test_demo_peak_is_the_peak_of_the_data() -> None:
    readings = data.plugs().to_pylist()
    highest = max(row["load"] for row in readings if row["plug"] == "kettle")
    windows = expected().to_pylist()
    assert max(row["peak"] for row in windows if row["plug"] == "kettle") == highest
    assert {row["n"] for row in windows} == {6, 12, 18, 24, 30}


def test_demo_in_process(tmp_path: Path) -> None:
    """The main job without an engine: windows, comparison, page, and a query to go on with."""
    output = tmp_path / "out"
    result = windrow("demo", "--engine", "local", "--output", output, "--plugs", 8)
    text = " ".join(result.output.split())
    assert result.exit_code == 0, text
    assert "same windows as the in-process engine: yes (every value equal)" in text
    page = (output / "page.html").read_text(encoding="utf-8")
    assert "<svg" in page and "http" not in page.replace("http-equiv", ""), "one file, nothing from elsewhere"
    windows = pa.concat_tables(
        parquet.read_table(each) for each in sorted((output / "plugs").glob("*.parquet"))
    )
    again = windrow(
        "run",
        output / "plugs.toml",
        "--input",
        output / "loads.parquet",
        "--output",
        tmp_path / "again.parquet",
    )
    assert again.exit_code == 0, again.output
    assert parquet.read_table(tmp_path / "again.parquet").equals(windows)
    # Another run clears what this one left; a folder of somebody else's is not touched.
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("years of work")
    refused = windrow("demo", "--engine", "local", "--output", tmp_path / "mine")
    assert refused.exit_code == 2 and "not empty" in refused.output


def test_the_demo_sees_a_wrong_window(tmp_path: Path) -> None:
    from windrow.demo.compare import answers, compare
    from windrow.demo.scenario import make_readings

    expected_windows = answers(make_readings(tmp_path / "readings", plugs=6, houses=2, minutes=1, files=2))
    houses = expected_windows["houses"]
    (tmp_path / "houses").mkdir()
    parquet.write_table(houses, tmp_path / "houses" / "all.parquet")
    assert compare(houses, "houses", tmp_path / "houses").same
    wrong = houses.set_column(3, "total", pa.array([x + 0.001 for x in houses["total"].to_pylist()]))
    for table, why in (
        (wrong, "total differs"),
        (houses.slice(1), "windows instead of"),
        (houses.drop_columns("n"), "no column n"),
    ):
        parquet.write_table(table, tmp_path / "houses" / "all.parquet")
        assert why in compare(houses, "houses", tmp_path / "houses").difference


def test_the_percentile_of_the_demo_is_an_aggregate_and_near_the_exact_one() -> None:
    from windrow.demo.scenario import OWN

    loads = np.random.default_rng(3).gamma(0.6, 120.0, 4000)
    wr.laws.check(OWN("load"), [float(load) for load in loads[:50]], examples=30)
    found = wr.sliding(loads, OWN(), range=1000, slide=100)
    exact = [np.quantile(loads[start : start + 1000], 0.95) for start in range(0, 3001, 100)]
    assert np.abs(found / exact - 1).max() < 0.1


# Run.


@pytest.mark.parametrize("ending", ["parquet", "csv", "jsonl", "arrow"])
def test_run_writes_the_windows_in_every_format(saved: Path, ending: str) -> None:
    output = saved / f"windows.{ending}"
    result = windrow("run", saved / "query.json", "--input", saved / "plugs.csv", "--output", output)
    assert result.exit_code == 0, result.output
    assert "540 rows → 102 windows" in result.output
    assert same_values(read(output))
    if ending in ("parquet", "arrow"):
        assert read(output).equals(expected())
    assert {path.name for path in saved.iterdir()} == {"plugs.csv", "query.json", "query.toml", output.name}


@pytest.mark.parametrize("ending", ["parquet", "jsonl", "arrow", "stream.arrow"])
def test_run_reads_every_format(saved: Path, ending: str) -> None:
    rows, source = csv.read_csv(saved / "plugs.csv"), saved / f"rows.{ending}"
    if ending == "stream.arrow":
        with pa.ipc.new_stream(str(source), rows.schema) as sink:
            sink.write_table(rows)
    else:
        write(rows, source)
    output = saved / "windows.parquet"
    result = windrow("run", saved / "query.json", "--input", source, "--output", output)
    assert result.exit_code == 0, result.output
    assert parquet.read_table(output)["peak"].to_pylist() == expected()["peak"].to_pylist()


def test_run_reads_a_query_in_toml_and_shows_the_windows(saved: Path) -> None:
    result = windrow("run", saved / "query.toml", "--input", saved / "plugs.csv", "--explain")
    assert result.exit_code == 0, result.output
    assert "fridge" in result.output and "540 rows → 102 windows" in result.output
    assert "SBA" in result.output, "the explanation"


def test_rows_of_files_may_be_in_any_order_and_streams_have_a_delay(saved: Path) -> None:
    rows = data.plugs()
    folder = saved / "rows"
    folder.mkdir()
    for number, start in enumerate(range(540 - 90, -1, -90)):  # the latest first
        write(rows.slice(start, 90), folder / f"{number}.parquet")
    output = saved / "windows.parquet"
    assert windrow("run", saved / "query.toml", "--input", folder, "--output", output).exit_code == 0
    assert parquet.read_table(output).equals(expected())
    backwards = windrow("run", saved / "query.toml", "--input", folder, "--output", output, "--delay", "1m")
    assert backwards.exit_code == 0 and " late" in backwards.output
    in_order = windrow(
        "run", saved / "query.toml", "--input", saved / "plugs.csv", "--output", output, "--delay", "10s"
    )
    assert in_order.exit_code == 0 and parquet.read_table(output).equals(expected())


@pytest.mark.parametrize("form", ["csv", "jsonl", "arrow", "parquet"])
def test_standard_input_and_output(saved: Path, form: str) -> None:
    source, output = saved / f"rows.{form}", saved / f"windows.{form}"
    write(data.plugs(), source)
    if form == "arrow":  # standard input is a stream
        with pa.ipc.new_stream(str(source), data.plugs().schema) as sink:
            sink.write_table(data.plugs())
    command = [sys.executable, "-c", "from windrow.cli import main; main()", "run", str(saved / "query.toml")]
    command += ["--input", "-", "--output", "-", "--format", form]
    with source.open("rb") as rows:
        ran = subprocess.run(command, stdin=rows, capture_output=True, check=True)
    assert b"540 rows" in ran.stderr
    output.write_bytes(ran.stdout)
    assert same_values(read(output))


def test_a_watched_folder_is_a_stream(saved: Path) -> None:
    folder, rows = saved / "rows", data.plugs()
    folder.mkdir()
    write(rows.slice(0, 180), folder / "0.parquet")

    def later() -> None:
        for number in (1, 2):
            time.sleep(0.6)
            write(rows.slice(180 * number, 180), folder / f"{number}.parquet")

    coming = threading.Thread(target=later)
    coming.start()
    output = saved / "windows"
    result = windrow(
        "run",
        saved / "query.toml",
        "--input",
        folder,
        "--output",
        f"{output}/",
        "--watch",
        "--until-idle",
        "3s",
    )
    coming.join()
    assert result.exit_code == 0, result.output
    parts = [parquet.read_table(each) for each in sorted(output.glob("*.parquet"))]
    assert len(parts) >= 3, "windows come out as they are final"
    assert pa.concat_tables(parts).equals(expected())
    again = windrow("run", saved / "query.toml", "--input", folder, "--output", f"{output}/")
    assert again.exit_code == 2 and "windows of an earlier run" in again.output


@pytest.mark.parametrize("ending", ["parquet", "csv", "jsonl", "arrow", "folder/"])
def test_late_rows_have_an_output_of_their_own(saved: Path, ending: str) -> None:
    """The first rows come again, when they are late: they are counted, or written too."""
    (saved / "side.toml").write_text('late = "side"\n' + TOML)
    rows, output, late = data.plugs(), saved / "windows.parquet", f"{saved}/late-rows.{ending}"
    folder = saved / "stream"
    folder.mkdir()
    write(rows, folder / "0.parquet")
    write(rows.slice(0, 7), folder / "1.parquet")
    stream = ("--input", folder, "--delay", "10s", "--output", output)
    counted = windrow("run", saved / "side.toml", *stream)
    assert counted.exit_code == 0 and "547 rows → 102 windows" in counted.output
    assert ", 7 late" in counted.output and "--late-output FILE keeps them" in counted.output
    told = windrow("run", saved / "side.toml", *stream, "--late-output", late)
    assert told.exit_code == 0 and f"7 late in {late}" in " ".join(told.output.split())
    assert parquet.read_table(output).equals(expected())
    found = parquet.read_table(f"{late}/late-000000.parquet") if ending == "folder/" else read(Path(late))
    assert found.num_rows == 7 and found.column_names == rows.column_names
    assert found["load"].to_pylist() == rows.slice(0, 7)["load"].to_pylist()
    if ending in ("parquet", "arrow", "folder/"):
        assert found.equals(parquet.read_table(folder / "1.parquet"))


def test_late_rows_of_a_query_that_drops_them_are_refused(saved: Path) -> None:
    result = windrow("run", saved / "query.toml", "--input", saved / "plugs.csv", "--late-output", "late.csv")
    assert result.exit_code == 2 and 'needs a query with late = "side"' in " ".join(result.output.split())
    (saved / "side.toml").write_text('late = "side"\n' + TOML)
    for targets in (("--late-output", "late.xlsx"), ("--output", "-", "--late-output", "-")):
        result = windrow("run", saved / "side.toml", "--input", saved / "plugs.csv", *targets)
        assert result.exit_code == 2, targets


def test_ctrl_c_ends_a_watched_stream_well(saved: Path) -> None:
    folder = saved / "rows"
    folder.mkdir()
    write(data.plugs(), folder / "0.parquet")
    command = [sys.executable, "-c", "from windrow.cli import main; main()", "run", str(saved / "query.toml")]
    command += ["--input", str(folder), "--output", f"{saved}/windows/", "--watch"]
    running = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        for _ in range(600):
            if list(saved.glob("windows/*")):
                break
            time.sleep(0.1)
        running.send_signal(signal.SIGINT)
        out, error = running.communicate(timeout=60)
    finally:
        running.kill()
    assert running.returncode == 0, error
    assert b"540 rows" in out
    found = [parquet.read_table(each) for each in sorted(saved.glob("windows/*"))]
    assert pa.concat_tables(found).equals(expected())


def test_explain_prints_the_explanation(saved: Path) -> None:
    result = windrow("explain", saved / "query.json")
    assert result.exit_code == 0
    assert result.output.strip() == str(wr.explain(read_query(saved / "query.json"))).strip()
    assert windrow("explain", saved / "query.toml", "--input", saved / "plugs.csv").exit_code == 0


# Mistakes.


def test_a_mistake_is_one_message_and_exit_code_2(saved: Path) -> None:
    rows = saved / "other.csv"
    rows.write_text("ts,plug,laod\n2024-03-01T18:00:00,desk,1.0\n")
    result = windrow("run", saved / "query.json", "--input", rows)
    assert result.exit_code == 2
    assert result.output.startswith("Error: ")
    assert "'load'" in result.output and "'laod'" in result.output
    assert "Traceback" not in result.output


@pytest.mark.parametrize(
    ("name", "text", "part"),
    [
        ("query.json", "{", "not valid JSON"),
        ("query.toml", "= 1", "not valid TOML"),
        ("query.json", "[]", "expected an object"),
        ("query.json", "{}", "window"),
        ("query.yaml", "", ".json or a .toml"),
        ("query.toml", TOML.replace("Max(load)", "Max(load"), "'Max(load)' or"),
        ("query.toml", TOML.replace("Max(load)", "Maxi(load)"), "unknown aggregate kind 'Maxi'"),
        ("query.toml", TOML.replace("Max(load)", "Max(load, 1, 2)"), "too many"),
    ],
)
def test_a_query_that_cannot_be_read_is_refused(tmp_path: Path, name: str, text: str, part: str) -> None:
    (tmp_path / name).write_text(text)
    result = windrow("explain", tmp_path / name)
    assert result.exit_code == 2
    assert part in result.output


def test_a_module_that_is_not_found_says_where_to_look(tmp_path: Path) -> None:
    (tmp_path / "query.toml").write_text(TOML.replace("Max(load)", "own_module:Peak(load)"))
    message = windrow("explain", tmp_path / "query.toml", "--allow", "own_module")
    assert message.exit_code == 2 and "PYTHONPATH=. windrow run" in " ".join(message.output.split())


def test_the_short_form_of_aggregates() -> None:
    assert aggregate_form("x", "Count()") == aggregate_form("x", "Count") == {"kind": "Count"}
    assert aggregate_form("x", 'Max("my load")') == {"kind": "Max", "column": "my load"}
    assert aggregate_form("x", "TopK(load, 3)") == {"kind": "TopK", "column": "load", "k": 3}
    own = aggregate_form("x", "windrow.demo.p95:P95(load)")
    assert own == {"kind": "windrow.demo.p95:P95", "x": "load"}


def test_a_file_that_cannot_be_read_or_written_is_refused(saved: Path) -> None:
    query, rows = saved / "query.json", saved / "plugs.csv"
    broken = saved / "broken.parquet"
    broken.write_bytes(b"not parquet")
    (saved / "empty.csv").touch()
    (saved / "header.csv").write_text("ts,plug,load\n")
    (saved / "semicolons.csv").write_text("ts;plug;load\n1;a;2\n")
    cases = {
        "cannot be read as Parquet": ("--input", broken),
        "the format of a file follows": ("--input", rows, "--output", saved / "windows.xlsx"),
        "cannot be written as CSV": ("--input", rows, "--output", saved / "no" / "such" / "windows.csv"),
        "there is no folder": ("--input", rows, "--output", saved / "no" / "such" / "windows.csv"),
        "does not exist": ("--input", saved / "absent.csv"),
        "empty.csv is empty": ("--input", saved / "empty.csv"),
        "has a header and no rows": ("--input", saved / "header.csv"),
        "separated by ';'": ("--input", saved / "semicolons.csv"),
        "files of several formats": ("--input", saved),
        "--watch needs a folder": ("--input", rows, "--watch"),
        "--until-idle needs --watch": ("--input", rows, "--until-idle", "3s"),
        "'soon'": ("--input", rows, "--delay", "soon"),
    }
    for message, arguments in cases.items():
        result = windrow("run", query, *arguments)
        assert result.exit_code == 2, message
        assert message in " ".join(result.output.split())


# Limits.


def test_times_in_seconds_are_a_warning_of_one_line_or_read_as_such(tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text("t,x\n1700000000,1\n1700000030,2\n", encoding="utf-8")
    query = 'time = "t"\n{}\n[window]\nkind = "time"\nrange = "1m"\n[aggregates]\nn = "Count()"\n'
    for unit, warned in (("", 1), ('time_unit = "s"', 0)):
        (tmp_path / "query.toml").write_text(query.format(unit), encoding="utf-8")
        ran = windrow(
            "run", tmp_path / "query.toml", "--input", tmp_path / "rows.csv", "--output", tmp_path / "w.csv"
        )
        assert ran.exit_code == 0, ran.output
        warnings = [line for line in ran.output.splitlines() if "Warning" in line]
        assert len(warnings) == warned
        assert all(
            line.startswith("Warning: time column 't'") and "time_unit='s'" in line for line in warnings
        )
    assert "2023-11-14" in (tmp_path / "w.csv").read_text(encoding="utf-8")


@pytest.mark.parametrize("slide", [1, 60])
def test_a_bare_number_in_the_unit_of_times_is_refused(tmp_path: Path, slide: int) -> None:
    """It would be microseconds: millions of windows for each row."""
    (tmp_path / "rows.csv").write_text("ts\n1700000000\n", encoding="utf-8")
    query = COUNT.replace('"10us"', f'"10m"\nslide = {slide}')
    (tmp_path / "query.toml").write_text(f'time_unit = "s"\n{query}', encoding="utf-8")
    message = refused(tmp_path / "query.toml", "--input", tmp_path / "rows.csv")
    assert f"slide of TimeWindow is {slide} microsecond" in message and f"write '{slide}s'" in message


def test_the_first_compilation_is_announced_once() -> None:
    for announced, lines in ((COMPILING, 1), ("", 0)):
        out = io.StringIO()
        with Progress(Console(file=out, width=40), announced) as progress:
            for kernel in ("one", None, "two", None):
                progress.compiling(kernel)
        assert out.getvalue().count("\n") == lines and announced in out.getvalue()


def test_the_rate_leaves_out_what_compiling_took(saved: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("windrow.cli.run.perf_counter", iter([0.0, 7.0]).__next__)
    monkeypatch.setattr("windrow.kernels.compiling.compile_seconds", iter([1.0, 6.0]).__next__)
    ran = windrow("run", saved / "query.toml", "--input", saved / "plugs.csv")
    assert "540 rows → 102 windows, 270 rows/s after 5 s of compiling" in ran.output


def test_a_run_of_less_than_a_second_has_no_rate(saved: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("windrow.cli.run.perf_counter", iter([0.0, 5.5]).__next__)
    monkeypatch.setattr("windrow.kernels.compiling.compile_seconds", iter([1.0, 6.0]).__next__)
    ran = windrow("run", saved / "query.toml", "--input", saved / "plugs.csv")
    assert "540 rows → 102 windows\n" in ran.output


@pytest.mark.parametrize("width", [30, 90])
def test_the_heading_says_that_times_are_in_utc(width: int) -> None:
    time = datetime(2024, 1, 1, 8)
    times = {zone: pa.array([time], pa.timestamp("s", zone)) for zone in ("UTC", "Asia/Tokyo", None)}
    out = io.StringIO()
    show(
        Console(file=out, width=width, force_terminal=True, color_system=None),
        pa.table({f"at {zone}": each for zone, each in times.items()}),
    )
    said = " ".join(out.getvalue().split())
    assert said.count("(UTC)") == 1 and "at UTC (UTC)" in said
    assert said.count("2024-01-01 08:00:00") == 2 and "2024-01-01 17:00:00+09:00" in said


def test_a_table_cuts_nothing_off() -> None:
    wide = pa.table({f"column_{n}": [123_456_789_012] for n in range(9)})
    for terminal, lines in ((False, 5), (True, 9)):
        out = io.StringIO()
        show(Console(file=out, width=60, force_terminal=terminal, color_system=None), wide)
        assert out.getvalue().count("123456789012") == 9 and "…" not in out.getvalue()
        assert len(out.getvalue().splitlines()) == lines


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_run_that_is_stopped_leaves_no_file(saved: Path, number: signal.Signals) -> None:
    # An exception that is raised in a callback of the compiler is lost, so nothing is left to be compiled.
    windrow("run", saved / "query.toml", "--input", saved / "plugs.csv", "--output", saved / "first.csv")
    command = [sys.executable, "-c", "from windrow.cli import main; main()", "run", str(saved / "query.toml")]
    command += ["--input", "-", "--format", "arrow", "--output", str(saved / "windows.csv"), "--delay", "10s"]
    running = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert running.stdin is not None
    try:
        stream = pa.ipc.new_stream(running.stdin, data.plugs().schema)
        stream.write_table(data.plugs())  # and no end, so it waits for more
        running.stdin.flush()
        for _ in range(600):
            if list(saved.glob(".*.partial")):
                break
            time.sleep(0.1)
        assert list(saved.glob(".*.partial")), "it has begun"
        running.send_signal(number)
        running.communicate(timeout=60)
    finally:
        running.kill()
    assert running.returncode not in (0, -number)
    assert not list(saved.glob("*windows*")) and not list(saved.glob(".*"))
