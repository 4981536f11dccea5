"""Marks that turn red, agreement between engines, and what reports say."""

from __future__ import annotations

import re
from dataclasses import replace
from xml.etree import ElementTree

import pyarrow as pa
import pytest

from windrow_conformance import answers, matrix, report
from windrow_conformance.answers import Answer
from windrow_conformance.cases import transcripts
from windrow_conformance.engines import engine
from windrow_conformance.engines.local import ENGINE, NO_BATCH
from windrow_conformance.marks import Gap, Mark
from windrow_conformance.picture import picture
from windrow_conformance.runner import Verdict, judge

CASES = {case.name: case for case in transcripts()}
CASE = CASES["time/in-order"]


def answer(case: str = CASE.name, way: str = "interpreted") -> Answer:
    return next(iter(ENGINE.run(way, [CASES[case]])))


def with_another_count(given: Answer) -> Answer:
    def changed(table: pa.Table) -> pa.Table:
        place = table.schema.get_field_index("n")
        return table.set_column(
            place, "n", pa.array([n + 1 for n in table.column("n").to_pylist()], pa.int64())
        )

    return replace(given, windows=tuple(map(changed, given.windows)))


@pytest.fixture
def verdicts(monkeypatch: pytest.MonkeyPatch) -> dict[str, Verdict]:
    """One of each outcome."""
    monkeypatch.setattr(
        ENGINE.__class__,
        "mark",
        lambda self, case, way: Mark(Gap.OURS, "not yet") if way == "stored" else None,
    )
    wrong = with_another_count(answer())
    found = judge(
        [CASE, CASES["time/late"]],
        [
            answer(),
            replace(wrong, way="batch", stepped=False),
            replace(wrong, way="stored"),
            answer("time/late", "stored"),
        ],
    )
    return {each.outcome: each for each in found}


def test_a_mark_that_passes_is_red(verdicts: dict[str, Verdict]) -> None:
    assert set(verdicts) == {"passed", "failed", "marked", "mark passes"}
    assert {outcome for outcome, each in verdicts.items() if each.red} == {"failed", "mark passes"}
    assert (
        verdicts["mark passes"].why
        == "passes, though it is marked as a gap (ours to do: not yet); take the mark away"
    )
    assert verdicts["marked"].why == "ours to do: not yet"
    assert verdicts["failed"].why.startswith("another 'n' in the end, in window 1 of")


def test_a_batch_is_marked_only_where_time_matters() -> None:
    assert ENGINE.mark(CASES["time/late"], "batch") == NO_BATCH
    assert ENGINE.mark(CASES["time/disorder"], "batch") is None


def test_no_answer_is_a_failure() -> None:
    (verdict,) = judge([CASE], [], [("local", "compiled", CASE.name)])
    assert verdict.red and verdict.why == "no answer came"


def test_engines_are_compared_with_each_other() -> None:
    """Both answers are within what the case allows, but not within that of each other."""
    case = CASES["sums/values"]
    given = answer(case.name)
    place = given.windows[0].schema.get_field_index("total")

    def scaled(table: pa.Table, by: float) -> pa.Table:
        values = [None if x is None else x * by for x in table.column("total").to_pylist()]
        return table.set_column(place, "total", pa.array(values, pa.float64()))

    tolerance = case.bound.monoids["total"].tolerance
    high, low = (
        replace(
            given,
            way=way,
            windows=tuple(scaled(table, 1 + sign * 0.9 * tolerance) for table in given.windows),
        )
        for way, sign in (("interpreted", 1), ("stored", -1))
    )
    found = judge([case], [high, low])
    assert [each.outcome for each in found] == ["passed", "failed"]
    assert found[1].why.startswith("differs from local interpreted: another 'total'")


def test_answers_travel_as_arrow_files(tmp_path: object) -> None:
    path = tmp_path / "answers.arrow"  # type: ignore[operator]
    given = [answer(), answer("side/whole rows"), answer("integers/overflow")]
    answers.write(path, given)
    again = list(answers.read(path))
    assert [(each.case, each.error, each.stepped, each.late_rows) for each in again] == [
        (each.case, each.error, each.stepped, each.late_rows) for each in given
    ]
    assert again[0].windows == given[0].windows and again[1].late == given[1].late
    assert again[2].error == "ArithmeticOverflow"


def test_the_html_report_shows_a_failure_in_full(verdicts: dict[str, Verdict]) -> None:
    page = report.html(list(verdicts.values()))
    assert CASE.story in page and "<svg" in page and "prefers-color-scheme: dark" in page
    for text in ("row a 1 3.0 1", "watermark 6", "expected", "got", CASE.replay.replace("'", "&#x27;")):
        assert text in page, text
    assert "1 as expected, 1 another answer, 1 a known gap, 1 marked as a gap, but passes" in page
    assert not re.search(r"(src|href)=\"(?!#)", page), "nothing is loaded from elsewhere"


def test_the_junit_report(verdicts: dict[str, Verdict]) -> None:
    suites = ElementTree.fromstring(report.junit(list(verdicts.values())))
    counts = {
        suite.get("name"): (suite.get("tests"), suite.get("failures"), suite.get("skipped"))
        for suite in suites
    }
    assert counts == {
        "local interpreted": ("1", "0", "0"),
        "local batch": ("1", "1", "0"),
        "local stored": ("2", "1", "1"),
    }
    assert "another 'n'" in (suites.find(".//failure").text or "")  # type: ignore[union-attr]


def test_the_matrix_counts_and_explains(verdicts: dict[str, Verdict]) -> None:
    data = matrix.matrix(list(verdicts.values()))
    assert data["TimeWindow"]["local interpreted"] == {"run": 1, "passed": 1, "gaps": []}
    table = matrix.to_markdown(data)
    assert table.startswith("| | local batch | local interpreted | local stored |")
    assert "| TimeWindow | – | ✓ 1 | –<sup>1</sup> |" in table and "1. ours to do: not yet" in table


@pytest.mark.parametrize(
    "name", ["time/in-order", "session/gaps", "count/in-order", "tuple/pre-epoch", "time/no row"]
)
def test_pictures_have_rows_and_windows(name: str) -> None:
    case = CASES[name]
    drawn = picture(case)
    if not case.rows.num_rows:
        assert drawn == ""
        return
    ElementTree.fromstring(drawn)
    assert drawn.count("<circle") == case.rows.num_rows
    expected = (
        0
        if name.startswith("count")
        else len({(r["k"], r["window_start"], r["window_end"]) for r in case.windows.to_pylist()})
    )
    assert drawn.count("<rect") == expected


@pytest.mark.parametrize(
    ("name", "way", "case", "gap"),
    [
        ("spark", "batch", "time/late", Gap.NEVER),
        ("spark", "batch", "time/in-order", None),
        ("spark", "streaming", "time/late", None),
        ("spark", "streaming", "time/watermark at the boundary", Gap.ENGINES),
        ("flink", "rows", "time/watermark at the boundary", Gap.ENGINES),
        ("flink", "rows", "time/huge range, small slide", Gap.ENGINES),
        ("flink", "rows", "side/whole rows", None),
        ("flink", "packed", "side/whole rows", None),
        ("local", "algorithm SubtractOnEvict", "time/in-order", Gap.NEVER),
        ("local", "algorithm PBA", "time/in-order", None),
    ],
)
def test_what_engines_declare(name: str, way: str, case: str, gap: Gap | None) -> None:
    """Known where no engine is installed: the comparison needs none."""
    mark = engine(name).mark(CASES[case], way)
    assert (mark.gap if mark else None) == gap
    assert mark is None or len(mark.reason.split()) > 4
