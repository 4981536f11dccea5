"""The `windrow` command, as a user meets it."""

import io
import json
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from click.testing import CliRunner, Result
from pyarrow import csv, parquet
from rich.console import Console

import windrow as wr
from windrow import data
from windrow.cli import doctor, main
from windrow.cli.files import Writer, open_rows
from windrow.cli.job import COMPILING, Progress
from windrow.cli.queries import aggregate_form, read_query
from windrow.cli.tables import show
from windrow.data import make_plugs

TOML = """
by = ["plug"]
time = "ts"

[window]
kind = "time"
range = "5m"
slide = "1m"

[aggregates]
peak = "Max(load)"
mean = { kind = "Mean", column = "load" }
n = "Count()"
"""


def windrow(*arguments: object, stdin: bytes | None = None) -> Result:
    return CliRunner().invoke(main, [str(each) for each in arguments], input=stdin, catch_exceptions=False)


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    """A folder with plugs.csv, query.json and query.toml."""
    folder = tmp_path / "demo"
    assert windrow("demo", "--save", folder).exit_code == 0
    (folder / "query.toml").write_text(TOML)
    return folder


def expected() -> pa.Table:
    query = wr.Query(
        by=["plug"],
        time="ts",
        window=wr.TimeWindow(range="5m", slide="1m"),
        aggregates={"peak": wr.Max("load"), "mean": wr.Mean("load"), "n": wr.Count()},
    )
    return wr.aggregate(data.plugs(), query)


def read(path: Path) -> pa.Table:
    rows = open_rows(str(path))
    return pa.Table.from_batches(rows, rows.schema)


def write(table: pa.Table, path: Path) -> None:
    with Writer(str(path), table.schema) as out:
        out.write(table)


def same_values(found: pa.Table) -> bool:
    assert found.column_names == expected().column_names
    return all(
        found[name].to_pylist() == expected()[name].to_pylist() for name in ("plug", "peak", "mean", "n")
    )


# Demo.


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
    assert ", 7 late," in counted.output and "--late-output FILE keeps them" in counted.output
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

COUNT = """
[window]
kind = "time"
range = "10us"

[aggregates]
n = "Count()"
"""


def refused(query: Path, *arguments: object) -> str:
    """The message of a run that has to be refused."""
    result = windrow("run", query, *arguments)
    assert result.exit_code == 2 and "Traceback" not in result.output, result.output
    return " ".join(result.output.split())


def test_json_lines_have_infinities(tmp_path: Path) -> None:
    """What is written can be read again."""
    values = [1.5, float("inf"), float("-inf"), float("nan")]
    table = pa.table({"ts": [1, 2, 3, 4], "load": values})
    write(table, tmp_path / "rows.jsonl")
    assert "-Infinity" in (tmp_path / "rows.jsonl").read_text()
    assert str(read(tmp_path / "rows.jsonl").to_pylist()) == str(table.to_pylist())


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (
            '{"ts": 3, "x": Infinity}',
            "line 60003: 'x' is Infinity, and the first lines have whole numbers there; write",
        ),
        ('{"ts": 3, "x": NaN}', "line 60003: 'x' is NaN, and the first lines have whole numbers"),
        (
            '{"ts": 3, "x": 1e999}',
            "line 60003: 1e999 is larger than any float64; write Infinity or -Infinity",
        ),
        ('{"ts": 3, "x": -inf}', "line 60003: Expecting value; write NaN, Infinity or -Infinity"),
        ('{"ts": 3, "x": "a"}', "line 60003: 'x' is \"a\", and in earlier lines it is a whole number"),
        ("[3]", 'line 60003: expected an object such as {"ts": 1}, not [3]'),
    ],
)
def test_a_line_of_json_that_cannot_be_read_is_named(tmp_path: Path, line: str, message: str) -> None:
    (tmp_path / "query.toml").write_text(COUNT)
    rows = '{"ts": 1, "x": 1}\n' * 60_001 + "\n" + line + "\n"
    (tmp_path / "rows.jsonl").write_text(rows)
    output = tmp_path / "windows.jsonl"
    arguments = (tmp_path / "query.toml", "--output", output, "--input")
    assert message in refused(*arguments, tmp_path / "rows.jsonl")
    result = windrow("run", *arguments, "-", "--format", "jsonl", stdin=rows.encode())
    assert result.exit_code == 2 and message in " ".join(result.output.split())
    assert {path.name for path in tmp_path.iterdir()} == {"query.toml", "rows.jsonl"}, "no partial file"


def test_an_output_that_is_refused_leaves_nothing(saved: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """CSV has no lists, which shows when the file is opened; a file that was there stays as it was."""
    (saved / "lists.toml").write_text(TOML.replace("Count()", "Collect(load)"))
    (saved / "windows.csv").write_text("mine")
    before = sorted(path.name for path in saved.iterdir())
    message = refused(saved / "lists.toml", "--input", saved / "plugs.csv", "--output", saved / "windows.csv")
    assert "windows.csv cannot be written as CSV" in message
    assert sorted(path.name for path in saved.iterdir()) == before
    assert (saved / "windows.csv").read_text() == "mine"

    def full(*_: object) -> None:
        raise OSError("no space left on device")

    monkeypatch.setattr(parquet.ParquetWriter, "write_table", full)
    for target in ("windows.parquet", "windows/"):
        message = refused(
            saved / "query.toml", "--input", saved / "plugs.csv", "--output", f"{saved}/{target}"
        )
        assert "no space left" in message
    assert list((saved / "windows").iterdir()) == [] and not list(saved.glob("*.parquet*"))


def test_more_windows_than_the_limit_are_refused(saved: Path) -> None:
    rows, output = saved / "plugs.csv", saved / "windows.parquet"
    (saved / "many.toml").write_text(TOML.replace("5m", "3000d").replace("1m", "1us"))
    message = refused(saved / "many.toml", "--input", rows, "--output", output)
    assert "each row is in 259,200,000,000,000 windows, and --windows-limit allows 10,000,000,000" in message
    limited = ("--input", rows, "--output", output, "--windows-limit")
    # 30 minutes of data: 34 windows end after a row; 3 plugs have 34 each.
    assert "the rows have at least 34 windows, and --windows-limit allows 33" in refused(
        saved / "query.toml", *limited, 33
    )
    assert "so far there are 102 windows, and --windows-limit allows 101" in refused(
        saved / "query.toml", *limited, 101
    )
    assert not output.exists() and not list(saved.glob(".*"))
    assert windrow("run", saved / "query.toml", *limited, 102).exit_code == 0


def test_the_lack_of_memory_is_one_message(saved: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_more(*_: object) -> None:
        raise MemoryError("Unable to allocate 1.89 PiB")

    monkeypatch.setattr(wr.Operator, "finish", no_more)
    message = refused(saved / "query.toml", "--input", saved / "plugs.csv", "--output", saved / "windows.csv")
    assert "not enough memory (Unable to allocate 1.89 PiB); give the query a longer slide" in message
    assert not list(saved.glob("*windows.csv*"))


def bomb(path: Path, rows: int, length: int) -> None:
    """A text of this length, once in a dictionary, in every row."""
    text = pa.DictionaryArray.from_arrays(pa.array(np.zeros(rows, np.int32)), pa.array(["x" * length]))
    table = pa.table({"ts": np.arange(rows), "s": text})
    parquet.write_table(table, path, compression="zstd", store_schema=False)


def test_a_small_parquet_file_cannot_fill_the_memory(tmp_path: Path) -> None:
    """46 KB that stand for 16 GB are read a piece at a time."""
    bomb(tmp_path / "bomb.parquet", 16_000, 1 << 20)
    assert (tmp_path / "bomb.parquet").stat().st_size < 60_000
    rows = iter(open_rows(str(tmp_path / "bomb.parquet"), memory=80 << 20))
    before = pa.total_allocated_bytes()
    for _ in range(20):
        batch = next(rows)
        assert 9 << 20 < batch.nbytes < 11 << 20 and batch["s"].type == pa.string()
        assert pa.total_allocated_bytes() - before < 40 << 20
    (tmp_path / "query.toml").write_text(COUNT)
    bomb(tmp_path / "small.parquet", 3000, 1 << 20)
    program = (
        "import sys; from windrow.cli import main\n"
        "try: main()\n"  # not ru_maxrss, which begins with that of the process that starts this one
        "finally: print(open('/proc/self/status').read().split('VmHWM:')[1].split()[0], file=sys.stderr)"
    )
    command = [sys.executable, "-c", program, "run", str(tmp_path / "query.toml"), "--memory", "400MB"]
    command += ["--input", str(tmp_path / "small.parquet")]
    ran = subprocess.run(command, capture_output=True, check=True, text=True)
    assert "3,000 rows → 300 windows" in ran.stdout
    assert int(ran.stderr.split()[-1]) < 1_500_000, "kilobytes, of which 3,000,000 are the texts"


def test_parquet_that_declares_too_much_is_refused(tmp_path: Path) -> None:
    (tmp_path / "query.toml").write_text(COUNT)
    table = pa.table({"ts": np.arange(20_000), "s": ["x" * 1000] * 20_000})
    path = tmp_path / "rows.parquet"
    parquet.write_table(table, path, compression="zstd", use_dictionary=False)
    message = refused(tmp_path / "query.toml", "--input", path, "--memory", "10MB")
    assert (
        "column 's' takes 20.1 MB in row group 0, and --memory allows 10.0 MB; raise it, or write" in message
    )
    assert windrow("run", tmp_path / "query.toml", "--input", path, "--memory", "30 MB").exit_code == 0
    lists = pa.table({"ts": [0], "l": pa.array([np.zeros(1 << 20)])})
    parquet.write_table(lists, path)
    assert "column 'l.list.element' takes 8.4 MB" in refused(
        tmp_path / "query.toml", "--input", path, "--memory", "8MB"
    )
    assert "--memory: cannot read 'much'" in refused(
        tmp_path / "query.toml", "--input", path, "--memory", "much"
    )


def test_rows_that_wait_for_their_order_are_limited(saved: Path) -> None:
    (saved / "first.toml").write_text(TOML.replace("Count()", "First(load)"))
    arguments = (saved / "first.toml", "--input", saved / "plugs.csv", "--memory", "10kB")
    assert "take more than the 10.0 kB that --memory allows; give --delay" in refused(*arguments)
    assert windrow("run", *arguments, "--delay", "1m").exit_code == 0
    assert windrow("run", saved / "query.toml", *arguments[1:]).exit_code == 0


def test_parquet_files_of_a_folder_have_the_columns_of_the_first(tmp_path: Path) -> None:
    first = pa.table({"ts": [1], "s": ["a"], "l": pa.array(["b"], pa.large_string()), "x": [1.5]})
    other = pa.table({"x": pa.array([2], pa.int32()), "ts": [2], "l": ["c"], "more": [1]})
    parquet.write_table(first, tmp_path / "0.parquet")
    parquet.write_table(other, tmp_path / "1.parquet")
    found = read(tmp_path)
    assert found.schema.equals(first.schema)
    assert found.to_pylist()[1] == {"ts": 2, "s": None, "l": "c", "x": 2.0}


# The others.


@pytest.mark.parametrize("ending", ["parquet", "arrow"])
def test_generate(tmp_path: Path, ending: str) -> None:
    output = tmp_path / f"quotes.{ending}"
    result = windrow("generate", "quotes", "--rows", 5000, "--seed", 3, "--symbols", 4, "--output", output)
    assert result.exit_code == 0 and "5,000 rows of quotes" in result.output
    assert read(output).equals(data.quotes(rows=5000, seed=3, symbols=4).read_all())
    assert windrow("generate", "quotes", "--plugs", 3, "--output", output).exit_code == 2


def test_generate_goes_through_a_pipe_into_run(saved: Path) -> None:
    (saved / "quotes.json").write_text(
        json.dumps(
            {
                "by": ["symbol"],
                "time": "timestamp",
                "window": {"kind": "time", "range": "10ms"},
                "aggregates": {"n": {"kind": "Count"}},
            }
        )
    )
    call = [sys.executable, "-c", "from windrow.cli import main; main()"]
    made = subprocess.Popen(
        [*call, "generate", "quotes", "--rows", "20000", "--output", "-"], stdout=subprocess.PIPE
    )
    command = [*call, "run", str(saved / "quotes.json"), "--input", "-", "--format", "arrow", "--delay", "0s"]
    ran = subprocess.run(command, stdin=made.stdout, capture_output=True, check=True, text=True)
    assert made.wait() == 0
    assert "20,000 rows" in ran.stdout


def test_bench_runs_the_programs_of_a_checkout(monkeypatch: pytest.MonkeyPatch) -> None:
    from windrow.cli import bench

    called: list[list[str]] = []

    def call(command: list[str], cwd: Path) -> int:
        called.append(command)
        return 0

    monkeypatch.setattr(bench.subprocess, "call", call)
    result = windrow("bench", "operator", "--quick", "--rows", "10")
    assert result.exit_code == 0, result.output
    assert called[0][1:] == ["-m", "benchmarks.operator", "--quick", "--rows", "10"]
    assert windrow("bench", "algorithms", "--quick").exit_code == 0
    assert called[1][1:] == ["-m", "benchmarks.algorithms", "--quick"]
    monkeypatch.setattr(bench, "checkout", lambda: None)
    assert "clone the source" in windrow("bench").output


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion(shell: str) -> None:
    assert "_WINDROW_COMPLETE" in windrow("completion", shell).output


def test_completion_knows_the_commands() -> None:
    result = CliRunner().invoke(
        main,
        prog_name="windrow",
        env={"_WINDROW_COMPLETE": "bash_complete", "COMP_WORDS": "windrow g", "COMP_CWORD": "1"},
    )
    assert result.output.split() == ["plain,generate"]


def test_doctor_finds_this_machine_fit() -> None:
    result = windrow("doctor", "--quick")
    assert result.exit_code == 0, result.output
    assert "windrow works on this machine" in result.output and "memory" in result.output


def test_doctor_says_what_to_do(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(doctor, "version_of", {"protobuf": "5.29.6", "numba": "0.60.0"}.get)
    monkeypatch.setattr(doctor, "engine", {"pyspark": "4.3.0"}.get)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    blocked = tmp_path / "file"
    blocked.touch()
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(blocked))
    findings = {finding.what: finding for finding in doctor.examine()}
    assert findings["numba"].state == "bad" and "numba>=0.61" in findings["numba"].advice
    assert findings["PySpark"].state == "warning" and "protobuf>=6.33" in findings["PySpark"].advice
    assert findings["Java"].state == "warning" and "Java 17" in findings["Java"].advice
    assert findings["compile cache"].state == "warning"
    assert findings["PyFlink"].state == "missing"
    assert windrow("doctor").exit_code == 1


def test_doctor_tells_an_engine_that_does_not_start() -> None:
    finding = doctor.starts("Nothing", "windrow.no_such_engine")
    assert finding.state == "warning" and "No module named" in finding.found


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


def test_the_package_is_the_command_too() -> None:
    asked = subprocess.run([sys.executable, "-m", "windrow", "--version"], capture_output=True, text=True)
    assert asked.stdout.strip().endswith(wr.__version__)


def test_version() -> None:
    assert windrow("version").output.startswith(f"windrow {wr.__version__} (Python 3.")
    assert windrow("--version").output == f"windrow {wr.__version__}\n"
