"""Inputs that nobody would write: every one is answered, or refused by name. ``WINDROW_LONG=1`` tries many more.

Targets that only read text run here. State goes to kernels, so what changes it runs in a process of its own, which may crash or
hang.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from windrow.cli.refusals import Refusal
from windrow_conformance.command import main
from windrow_conformance.fuzzing.command import fuzz
from windrow_conformance.fuzzing.targets import TARGETS
from windrow_conformance.fuzzing.trial import Target, made, outcome

INPUTS = 40_000 if os.environ.get("WINDROW_LONG") else 1_000
CRAFTED = 4_000 if os.environ.get("WINDROW_LONG") else 200


@pytest.mark.parametrize("name", [name for name in TARGETS if name != "crafted state"])
def test_every_input_is_answered_or_refused(name: str) -> None:
    target = TARGETS[name]
    count = INPUTS // min(target.cost, 3)
    came = [outcome(target, number) for number in range(count)]
    wrong = [(number, what) for number, what in enumerate(came) if what.startswith("FOREIGN")]
    assert not wrong, f"of {name}: {wrong[:3]}"
    assert 0 < came.count("an answer") < count, "the changes are too small or too large"


def test_crafted_state_is_refused_or_used() -> None:
    found = fuzz("crafted state", 0, CRAFTED)
    assert not found.wrong, found.wrong[0]
    assert found.inputs == CRAFTED
    assert CRAFTED // 20 < found.counts["an answer"] < CRAFTED * 19 // 20, found.counts


@pytest.mark.parametrize(
    ("name", "number"), [("parquet", 1075), ("parquet", 2465), ("parquet", 8018), ("arrow", 10_002_519)]
)
def test_a_damaged_file_does_not_end_the_process(name: str, number: int) -> None:
    """Arrow checks sizes of levels and of texts where nobody catches its error, and reads some files as they are.

    The first has a column whose name is no text.
    """
    assert fuzz(name, number, number + 1).counts == {"Refusal": 1}


def test_an_input_is_the_same_again() -> None:
    assert made(TARGETS["query"], 7) == made(TARGETS["query"], 7) != made(TARGETS["query"], 8)


@pytest.mark.parametrize("lines", [b"null", b' null\n{"ts": 1}', b'null{"ts": 1}', b'{"ts": 1}\nnull'])
def test_a_line_of_json_that_is_null_is_refused(lines: bytes) -> None:
    """Arrow's reader crashes if the first value is null, and otherwise takes it for a row of nulls."""
    with pytest.raises(Refusal, match=r"line [12](: expected an object| is not valid JSON: Extra data)"):
        TARGETS["jsonl"].use(lines)


def test_other_exceptions_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    broken = Target("broken", lambda random: random.random(), lambda value: 1 / int(value))
    assert outcome(broken, 0) == "FOREIGN ZeroDivisionError: division by zero"


FRAGILE = """
import os, signal
from windrow_conformance.fuzzing import targets
from windrow_conformance.fuzzing.trial import Target

def use(value):
    if value < 0.1:
        os.kill(os.getpid(), signal.SIGKILL)
    if value < 0.4:
        raise ZeroDivisionError

targets.TARGETS["fragile"] = Target("fragile", lambda random: random.random(), use)
"""


def test_a_crash_is_found_and_what_was_wrong_before_it_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What an input does to its process is lost with it, so the inputs before it are tried again."""
    (tmp_path / "sitecustomize.py").write_text(FRAGILE)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), *sys.path]))
    target = Target("fragile", lambda random: random.random(), float)
    values = {number: made(target, number) for number in range(12)}
    found = fuzz("fragile", 0, 12)
    killed = {number for number, what in found.wrong if what.startswith("ended the process with -9")}
    assert killed == {number for number, value in values.items() if value < 0.1} != set()
    wrong = {number for number, value in values.items() if value < 0.4}
    assert {number for number, _ in found.wrong} == wrong and found.inputs == 12
    assert found.line()[2:] == (12 - len(wrong), 0, len(wrong))


HANGING = """
from windrow_conformance.fuzzing import targets, trial

trial.SECONDS = 0.5

def use(value):
    if value < 0.2:
        7 ** 10 ** 9  # in compiled code, where no signal reaches Python

targets.TARGETS["hanging"] = trial.Target("hanging", lambda random: random.random(), use)
"""


def test_an_input_that_hangs_in_compiled_code_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "sitecustomize.py").write_text(HANGING)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), *sys.path]))
    target = Target("hanging", lambda random: random.random(), float)
    long = {number for number in range(3) if made(target, number) < 0.2}
    found = fuzz("hanging", 0, 3)
    assert (
        {number for number, what in found.wrong if what.startswith("ended the process with -27")}
        == long
        != set()
    )
    assert found.inputs == 3


def test_the_command_says_what_it_tried() -> None:
    ran = CliRunner().invoke(main, ["fuzz", "--target", "duration", "--inputs", "20"])
    assert ran.exit_code == 0 and ran.output.startswith("duration: 20 inputs, ")


def test_a_campaign_goes_on_from_its_report(tmp_path: Path) -> None:
    report, whole = tmp_path / "part.csv", tmp_path / "whole.csv"
    for inputs, path in ((20, report), (50, report), (50, whole)):
        options = ["--target", "duration", "--inputs", str(inputs), "--report", str(path), "--resume"]
        assert CliRunner().invoke(main, ["fuzz", *options]).exit_code == 0
    assert report.read_text() == whole.read_text()
    assert "duration,50," in report.read_text()


def test_an_unknown_target_is_refused() -> None:
    assert CliRunner().invoke(main, ["fuzz", "--target", "nothing"]).exit_code == 2
