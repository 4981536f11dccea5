"""Generated cases: the same from the same seed, right on the local engine, and small when they fail."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import pytest

from windrow.errors import QueryError
from windrow_conformance import generated
from windrow_conformance.cases import kinds
from windrow_conformance.engines.local import ENGINE
from windrow_conformance.generated import atoms_of, generate, replayed, shrink
from windrow_conformance.runner import judge

COUNT = 1000 if os.environ.get("WINDROW_LONG") else 60
CASES = [generate(3, number) for number in range(COUNT)]


def test_they_are_varied() -> None:
    assert {kinds(case) for case in CASES} == {
        "time", "count", "session", "slide_by_tuple", "slide_by_time", "delta", "policy", "several",
    }  # fmt: skip
    assert {case.query.late for case in CASES} == {"drop", "side", "update"}
    assert sum(case.restarts for case in CASES) > COUNT / 2
    assert sum(case.late.num_rows > 0 for case in CASES) > COUNT / 6
    assert sum(case.windows.num_rows > 5 for case in CASES) > COUNT / 2


@pytest.mark.parametrize("way", ["interpreted", "stored", "crashing"])
def test_the_local_engine(way: str) -> None:
    red = [f"{each.case.replay}\n{each.why}" for each in judge(CASES, ENGINE.run(way, CASES)) if each.red]
    assert not red, red[0]


def test_a_replay_is_the_case() -> None:
    whole = generate(3, 5)
    assert whole.replay == "windrow conformance --replay 3:5"
    assert replayed("3:5") == whole
    part = replayed("3:5:0-2,4")
    assert part.replay == "windrow conformance --replay 3:5:0-2,4"
    assert len(atoms_of(part)) <= 4
    for text in ("3", "3:x", "3:5:2-", "a:1"):
        with pytest.raises(QueryError, match=r"replay|atoms"):
            replayed(text)


def test_a_failure_is_made_as_small_as_it_can_be() -> None:
    atoms: list[Any] = [("row", number) for number in range(30)]
    tries = 0

    def failing(choices: Sequence[Sequence[int]]) -> list[bool]:
        nonlocal tries
        tries += 1
        return [{3, 17} <= set(choice) for choice in choices]

    assert shrink(atoms, failing) == [3, 17]
    assert tries < 30


def test_the_command_shrinks_what_fails(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The engine's answer is right; here the case expects something else, so the failure is known to be there."""
    from windrow_conformance import command

    honest = generated.case_of

    def mistaken(*arguments: Any, **options: Any) -> Any:
        from dataclasses import replace

        case = honest(*arguments, **options)
        steps = [
            replace(step, windows=None) if step.windows is not None and step.windows.num_rows else step
            for step in case.steps
        ]
        return replace(case, steps=tuple(steps))

    number = next(number for number, case in enumerate(CASES) if case.windows.num_rows > 5)
    monkeypatch.setattr(generated, "case_of", mistaken)
    with pytest.raises(SystemExit) as ended:
        command.main(["--replay", f"3:{number}", "--way", "interpreted"], standalone_mode=False)
    assert ended.value.code == 1
    out = capsys.readouterr().out
    assert f"windrow conformance --replay 3:{number}:" in out and "--engine local --way 'interpreted'" in out
    kept = out.split(f"--replay 3:{number}:")[1].split()[0]
    assert len(generated.numbers_of(kept)) <= 3  # a row, and what makes its window final
