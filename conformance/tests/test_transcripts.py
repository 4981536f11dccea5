"""The transcripts: complete, readable, right by the oracle, and what the local engine answers."""

from __future__ import annotations

from dataclasses import replace

import pytest

from windrow.aggregates import Aggregate
from windrow.errors import QueryError
from windrow_conformance import transcript
from windrow_conformance.case import Case
from windrow_conformance.cases import aggregates, coverage, kinds, transcripts
from windrow_conformance.engines.local import ENGINE
from windrow_conformance.runner import judge

CASES = transcripts()
CONDITIONS = (
    "in-order",
    "disorder",
    "late",
    "side",
    "idle",
    "ties",
    "gaps",
    "pre-epoch",
    "one row",
    "no row",
    "null",
    "restore",
    "huge range",
)
FIGURES = (
    "PBA, figure 2",
    "PBA, figure 3",
    "semantics, figure 2",
    "semantics, figure 6",
    "section 4.2.2",
    "figure 4.1",
    "figure 4.2",
    "figure 4.4",
    "figure 4.5",
)


def test_everything_is_covered() -> None:
    found = coverage(CASES)
    assert len(CASES) >= 150
    for window in (
        "time",
        "count",
        "session",
        "slide_by_tuple",
        "slide_by_time",
        "delta",
        "policy",
        "several",
    ):
        missing = [each for each in CONDITIONS if not found["windows × covers"][f"{window} × {each}"]]
        assert not missing, f"{window} has no case of {missing}"
    for cover in ("offset", "non-multiple", "early", "update", "nan", "overflow", "error", "boundary"):
        assert found["covers"][cover] >= 3, cover
    asked = {name for case in CASES for name in aggregates(case)}
    assert set(Aggregate.kinds) - asked <= {"FromBeam", "FromFlink"}
    assert {"drop", "side", "update"} == set(found["late"])
    cited = [case.name for case in CASES if case.cites]
    assert all(any(figure in name for name in cited) for figure in FIGURES)


def test_what_is_written_is_what_windows_mean() -> None:
    """Every expectation in the files is the oracle's."""
    for case in CASES:
        if not case.error:
            meant = case.expecting()
            assert transcript.script(case) == transcript.script(meant), case.name


def test_files_are_read_as_they_are_written() -> None:
    again = transcript.read(transcript.write(CASES))
    assert transcript.write(again) == transcript.write(CASES)
    assert [case.name for case in again] == [case.name for case in CASES]


@pytest.mark.parametrize("way", ["interpreted", "stored", "crashing"])
def test_the_local_engine_step_by_step(way: str) -> None:
    assert not wrong(way, CASES)


def test_the_local_engine_compiled() -> None:
    """One case for each kind of window, and each family of aggregates that compiles quickly."""
    chosen = {kinds(case): case for case in CASES if case.quick and "in-order" in case.covers}.values()
    assert len(chosen) == 8
    assert not wrong("compiled", list(chosen))
    assert not wrong("batch", list(chosen))


@pytest.mark.parametrize("algorithm", [way for way in ENGINE.ways if way.startswith("algorithm")])
def test_every_algorithm(algorithm: str) -> None:
    chosen = [case for case in CASES if case.quick and not case.query.by]
    assert len(chosen) >= 5
    assert not wrong(algorithm, chosen)


def wrong(way: str, cases: list[Case] | tuple[Case, ...]) -> list[str]:
    return [f"{each.case.name}: {each.why}" for each in judge(cases, ENGINE.run(way, cases)) if each.red]


@pytest.mark.parametrize(
    ("script", "says"),
    [
        ("rows a 1 1.0", "line 1 of the script: 'rows a 1 1.0'; a line is 'row"),
        ("row a 1", "line 1 of the script has 2 cells; the columns are k, ts, x"),
        ("row a 1 one", "line 1 of the script: .*'one'"),
        ("row a soon 1.0", "cannot read 'soon' as a duration"),
    ],
)
def test_mistakes_in_a_transcript_are_told(script: str, says: str) -> None:
    case = next(case for case in CASES if case.name == "time/offset")
    text = transcript.write([replace(case, steps=())]).replace("script = '''\n", f"script = '''\n{script}\n")
    with pytest.raises(QueryError, match=f"case 'time/offset': .*{says}"):
        transcript.read(text)
