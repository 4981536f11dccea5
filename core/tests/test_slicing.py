"""Slices: where they are cut, who may aggregate them, and what `explain` says about that."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import windrow as wr
from windrow.errors import QueryError
from windrow.query.slicing import cuts, obstacle, panes, push_down_option, slice_start, sql_forms

SCHEMA = pa.schema({"ts": pa.int64(), "load": pa.float64()})
WINDOWS = st.builds(wr.TimeWindow, st.integers(1, 30), st.integers(1, 30), st.integers(-40, 40))


@given(st.lists(WINDOWS, min_size=1, max_size=3), st.integers(-200, 200))
def test_a_slice_is_in_the_same_windows_all_along(windows: list[wr.TimeWindow], time: int) -> None:
    start = slice_start(cuts(windows), time)
    assert start <= time
    assert slice_start(cuts(windows), np.array([time])).tolist() == [start]
    for window in windows:
        assert window.mapping(start) == window.mapping(time)


@given(st.lists(WINDOWS, min_size=1, max_size=3), st.integers(-200, 200))
def test_panes_are_cut_wherever_slices_are(windows: list[wr.TimeWindow], time: int) -> None:
    start = slice_start(cuts(windows), time)
    assert (start - panes(windows).offset) % panes(windows).length == 0


def query(window: wr.Window, aggregate: wr.Aggregate, **options: object) -> wr.Query:
    return wr.Query(window=window, aggregates={"it": aggregate}, **options)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("asked", "spark", "flink", "stream"),
    [
        (query(wr.TimeWindow("1h"), wr.Max("load")), "", "", ""),
        (query(wr.TimeWindow("1h"), wr.Max("load"), lateness="1s"), "", "", "decides which rows are late"),
        (query(wr.TimeWindow("1h"), wr.Var("load")), "", "has no SQL form for Flink", ""),
        (query(wr.TimeWindow("1h"), wr.Median("load")), *["has no SQL form"] * 3),
        (query(wr.CountWindow(3), wr.Max("load")), *["needs time windows"] * 3),
        (query(wr.TimeWindow("1h"), wr.Max("load"), late="update"), *["late='update'"] * 3),
    ],
)
def test_one_rule_decides_about_push_down(asked: wr.Query, spark: str, flink: str, stream: str) -> None:
    bound = asked.bind(SCHEMA)
    for expected, found in [
        (spark, obstacle(bound, "spark")),
        (flink, obstacle(bound, "flink")),
        (stream, obstacle(bound, "spark", stream=True)),
    ]:
        assert expected in found and bool(expected) == bool(found)
    assert wr.explain(asked).push_down.startswith("possible" if not (spark and flink) else "no: ")


def test_floating_point_sums_are_rounded_by_an_engine() -> None:
    """Unless it has another way to add them. There is none for variances."""

    def forms(aggregate: wr.Aggregate, **options: bool) -> list[bool] | None:
        found = sql_forms(query(wr.TimeWindow("1h"), aggregate).bind(SCHEMA), **options)
        return found and [bool(form.exact and form.group) for form in found.values()]

    assert forms(wr.Max("load")) == forms(wr.Sum("load"), rounded=True) == [False]
    assert forms(wr.Sum("load")) == forms(wr.Mean("load")) == [True]
    assert forms(wr.Std("load")) is forms(wr.Sum("load", invertible=True)) is None


def test_push_down_has_one_meaning_under_both_spellings() -> None:
    assert push_down_option("auto", None) == "auto"
    assert push_down_option(False, None) is push_down_option("auto", False) is False
    with pytest.raises(QueryError, match="the same option"):
        push_down_option(True, False)
    with pytest.raises(QueryError, match="has to be True, False or 'auto'"):
        push_down_option("yes", None)  # type: ignore[arg-type]


def test_explain_shows_a_chunk_size_only_where_chunks_have_one() -> None:
    sizes = {
        name: wr.explain(query(wr.TimeWindow("1h", "1s"), wr.Max("load"), algorithm=name)).chunk
        for name in ("auto", "PBA", "DABA", "SBA")
    }
    assert {name for name, size in sizes.items() if size is not None} == {"SBA"}
    explained = str(wr.explain(query(wr.TimeWindow("1h", "1s"), wr.Max("load"))))
    assert "chunk size" not in explained
