"""``windrow conformance``, as a user runs it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from windrow.errors import QueryError
from windrow_conformance.command import main
from windrow_conformance.engines import engine
from windrow_conformance.runner import interpreter


def invoked(*arguments: str) -> Result:
    return CliRunner().invoke(main, list(arguments))


def test_cases_by_name_with_all_reports(tmp_path: Path) -> None:
    page, xml, table = tmp_path / "report.html", tmp_path / "junit.xml", tmp_path / "matrix.md"
    ran = invoked(
        "--case", "session/", "--way", "interpreted", "--way", "batch",
        "--report", str(page), "--junit", str(xml), "--matrix", str(table),
    )  # fmt: skip
    assert ran.exit_code == 0, ran.output
    assert "cases" in ran.output and "a known gap" in ran.output
    assert "session/idle" in page.read_text() and "<testsuite" in xml.read_text()
    assert "SessionWindow" in table.read_text()


def test_a_query_of_a_user(tmp_path: Path) -> None:
    query, rows = tmp_path / "q.toml", tmp_path / "rows.csv"
    query.write_text(
        'by = ["plug"]\nwindow = { kind = "time", range = "10s", slide = "5s" }\n'
        '[aggregates]\npeak = { kind = "Max", column = "load" }\n'
    )
    rows.write_text("plug,ts,load\na,1000000,3.5\nb,7000000,1.5\na,12000000,2.5\n")
    for more in ([], ["--rows", str(rows)]):
        ran = invoked("--query", str(query), *more, "--cases", "3", "--way", "interpreted", "--way", "stored")
        assert ran.exit_code == 0, ran.output
        assert "3 cases, 6 answers: 6 as expected" in ran.output


def test_a_wrong_answer_ends_with_1_and_says_how_to_see_it_again(tmp_path: Path) -> None:
    file = tmp_path / "own.toml"
    file.write_text(
        """[[case]]
name = "mine"
columns = { ts = "int64" }
query = { by = [], window = { kind = "time", range = "10ms" }, aggregates = { n = { kind = "Count" } } }
script = '''
row 3
end
  window 0 10 2
'''
"""
    )
    ran = invoked("--file", str(file), "--way", "interpreted")
    assert ran.exit_code == 1
    assert "another 'n' in step 2 (end), in window 1 of 1" in ran.output


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--case", "nothing like it"], "no transcript has 'nothing like it'"),
        (["--replay", "twelve"], "cannot replay 'twelve'"),
        (["--way", "fast"], "no way 'fast' on local; there are interpreted"),
        (["--python", "storm=x"], "write ENGINE=PATH"),
        (["--rows", __file__], "--rows needs --query"),
        (["--engine", "spark", "--python", "spark=/nowhere/python"], "no interpreter '/nowhere/python'"),
    ],
)
def test_bad_input_is_refused(arguments: list[str], says: str) -> None:
    ran = invoked(*arguments)
    assert ran.exit_code == 2
    assert says in ran.output


def test_an_engine_that_is_not_here_is_explained(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("WINDROW_SPARK_PYTHON", raising=False)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(QueryError, match=r"pip install '\.\[spark\]'.*WINDROW_SPARK_PYTHON"):
        interpreter(engine("spark"), {})
    monkeypatch.setenv("WINDROW_SPARK_PYTHON", sys.executable)
    assert interpreter(engine("spark"), {}) == sys.executable


def test_it_runs_as_a_module() -> None:
    command = [sys.executable, "-m", "windrow_conformance", "--case", "time/offset", "--way", "interpreted"]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert ran.returncode == 0, ran.stderr
    assert "1 cases, 1 answers: 1 as expected" in ran.stdout
