"""The commands of `windrow` around a run: generate, bench, completion, doctor, version."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from cli_runs import read, windrow
from click.testing import CliRunner

import windrow as wr
from windrow import data
from windrow.cli import doctor, main


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


@pytest.mark.parametrize("columns", ["60", "300"])
def test_doctor_prints_a_path_in_one_line(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, columns: str
) -> None:
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / ("long" * 20)))
    monkeypatch.setenv("COLUMNS", columns)
    assert str(tmp_path / ("long" * 20)) in windrow("doctor", "--quick").output


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


def test_the_package_is_the_command_too() -> None:
    asked = subprocess.run([sys.executable, "-m", "windrow", "--version"], capture_output=True, text=True)
    assert asked.stdout.strip().endswith(wr.__version__)


def test_version() -> None:
    assert windrow("version").output.startswith(f"windrow {wr.__version__} (Python 3.")
    assert windrow("--version").output == f"windrow {wr.__version__}\n"
