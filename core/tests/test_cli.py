"""The `windrow` command, as a user meets it."""

from pathlib import Path

import pyarrow as pa
import pytest
from click.testing import CliRunner, Result
from pyarrow import csv, parquet

import windrow as wr
from windrow import cli, data, doctor
from windrow.data import make_plugs


def windrow(*arguments: object) -> Result:
    result = CliRunner().invoke(cli.main, [str(argument) for argument in arguments], catch_exceptions=False)
    return result


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    """The folder of `windrow demo --save`: plugs.csv and query.json."""
    folder = tmp_path / "demo"
    assert windrow("demo", "--save", folder).exit_code == 0
    return folder


def expected() -> pa.Table:
    query = wr.Query(
        by=["plug"],
        time="ts",
        window=wr.TimeWindow(range="5m", slide="1m"),
        aggregates={"peak": wr.Max("load"), "mean": wr.Mean("load"), "n": wr.Count()},
    )
    return wr.aggregate(data.plugs(), query)


def test_bundled_data_is_what_its_generator_makes() -> None:
    assert data.plugs_csv().decode() == "".join(make_plugs.lines())


def test_demo_shows_windows_and_what_to_do_next() -> None:
    result = windrow("demo")
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


@pytest.mark.parametrize("ending", ["parquet", "csv", "jsonl", "arrow"])
def test_run_writes_the_windows_in_every_format(saved: Path, ending: str) -> None:
    output = saved / f"windows.{ending}"
    result = windrow("run", saved / "query.json", "--input", saved / "plugs.csv", "--output", output)
    assert result.exit_code == 0, result.output
    assert "540 rows → 102 windows" in result.output
    written = cli.read_rows(output)
    assert written.column_names == expected().column_names
    for name in ("plug", "peak", "mean", "n"):
        assert written[name].to_pylist() == expected()[name].to_pylist()
    if ending in ("parquet", "arrow"):
        assert written.equals(expected())


@pytest.mark.parametrize("ending", ["parquet", "jsonl", "arrow", "stream.arrow"])
def test_run_reads_every_format(saved: Path, ending: str) -> None:
    rows, source = csv.read_csv(saved / "plugs.csv"), saved / f"rows.{ending}"
    if ending == "stream.arrow":
        with pa.ipc.new_stream(str(source), rows.schema) as sink:
            sink.write_table(rows)
    else:
        cli.write_windows(rows, source)
    output = saved / "windows.parquet"
    result = windrow("run", saved / "query.json", "--input", source, "--output", output)
    assert result.exit_code == 0, result.output
    assert parquet.read_table(output)["peak"].to_pylist() == expected()["peak"].to_pylist()


def test_run_reads_a_query_in_toml_and_shows_the_windows(saved: Path) -> None:
    (saved / "query.toml").write_text(
        """
        by = ["plug"]
        time = "ts"
        window = { kind = "time", range = "5m", slide = "1m" }
        [aggregates]
        peak = { kind = "Max", column = "load" }
        """
    )
    result = windrow("run", saved / "query.toml", "--input", saved / "plugs.csv")
    assert result.exit_code == 0, result.output
    assert "fridge" in result.output and "540 rows → 102 windows" in result.output


def test_explain_prints_the_explanation(saved: Path) -> None:
    result = windrow("explain", saved / "query.json")
    assert result.exit_code == 0
    assert result.output.strip() == str(wr.explain(cli.read_query(saved / "query.json"))).strip()


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
    ],
)
def test_a_query_that_cannot_be_read_is_refused(tmp_path: Path, name: str, text: str, part: str) -> None:
    (tmp_path / name).write_text(text)
    result = windrow("explain", tmp_path / name)
    assert result.exit_code == 2
    assert part in result.output


def test_a_file_that_cannot_be_read_or_written_is_refused(saved: Path) -> None:
    query, rows = saved / "query.json", saved / "plugs.csv"
    broken = saved / "broken.parquet"
    broken.write_bytes(b"not parquet")
    cases = {
        "cannot be read as Parquet": ("--input", broken),
        "the ending tells the format": ("--input", rows, "--output", saved / "windows.xlsx"),
        "cannot be written as CSV": ("--input", rows, "--output", saved / "no" / "such" / "windows.csv"),
        "does not exist": ("--input", saved / "absent.csv"),
    }
    for message, arguments in cases.items():
        result = windrow("run", query, *arguments)
        assert result.exit_code == 2, message
        assert message in " ".join(result.output.split())


def test_doctor_finds_this_machine_fit() -> None:
    result = windrow("doctor")
    assert result.exit_code == 0, result.output
    assert "windrow works on this machine" in result.output


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


def test_version() -> None:
    assert windrow("version").output.startswith(f"windrow {wr.__version__} (Python 3.")
