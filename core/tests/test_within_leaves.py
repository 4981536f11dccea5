"""A fixed number of leaves: never more, at any row of a call, and the error column says what that costs."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from approximate_streams import AGGREGATES, RANGE, errors_of, run, streams, true_results

import windrow as wr
from windrow.errors import BoundWarning
from windrow.operator.slices import SliceTable


@pytest.mark.parametrize("leaves", [4, 100])
def test_never_more_leaves_than_asked_for(leaves: int) -> None:
    x = streams()["regimes"]
    true = true_results(x, RANGE)
    for within in (wr.AtMost(leaves=leaves), wr.Within(relative=0.001, leaves=leaves)):
        query = wr.Query(window=wr.CountWindow(RANGE, 1), aggregates=AGGREGATES, within=within)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", BoundWarning)
            found, _, most = run(query, x[:5000], batch=331)
        assert most <= leaves
        for name in AGGREGATES:
            away, error = errors_of(found, {name: true[name][: len(found)]}, name)
            assert (away <= error).all(), name


@pytest.fixture
def most_held(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The most slices that a key has had at any row. Inside a piece they only grow, so its end is enough."""
    held, take = [0], SliceTable.take

    def counted(table: SliceTable, rows: Any) -> Any:
        slots = take(table, rows)
        held[0] = max(held[0], int(table.slices.held.max()))
        return slots

    monkeypatch.setattr(SliceTable, "take", counted)
    return held


def emitted(window: Any, rows: int) -> int:
    """How many windows a key with so many rows has."""
    return rows if isinstance(window, wr.PolicyWindow) else max(0, (rows - window.range) // window.slide + 1)


@pytest.mark.parametrize("leaves", [4, 33])
@pytest.mark.parametrize(
    "window",
    [wr.CountWindow(900, 1), wr.CountWindow(900, 7), wr.PolicyWindow(valid=lambda window: window.n <= 300)],
    ids=["1", "7", "policy"],
)
def test_never_more_leaves_at_any_row_of_a_call(window: Any, leaves: int, most_held: list[int]) -> None:
    """All rows come in one call, of a key with many and of one with few."""
    draw = np.random.default_rng(leaves)
    count = 700 if isinstance(window, wr.PolicyWindow) else 2500
    rows = {
        "k": draw.choice(3, count, p=[0.8, 0.15, 0.05]),
        "ts": range(count),
        "x": draw.integers(1, 99, count),
    }
    for within in (wr.AtMost(leaves=leaves), wr.Within(relative=0.001, leaves=leaves)):
        query = wr.Query(by="k", window=window, aggregates={"n": wr.Count(), "r": wr.Sum("x")}, within=within)
        operator = wr.Operator(query)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", BoundWarning)
            found = pa.concat_tables([operator.process(rows), operator.flush()])
        assert leaves // 2 <= most_held[0] <= leaves
        assert found.num_rows == sum(emitted(window, n) for n in np.bincount(rows["k"]).tolist())


def test_open_slices_count_as_leaves_but_leave_room_for_closed_ones() -> None:
    """Windows may still end at open slices, so those are not merged, however many there are."""
    for lateness, most in ((0, 40), (15, 40), (100, 120)):
        query = wr.Query(
            window=wr.TimeWindow(1000, 1),
            aggregates={"r": wr.Sum("x")},
            lateness=lateness,
            within=wr.AtMost(leaves=40),
        )
        operator = wr.Operator(query)
        for second in range(0, 3000, 10):
            operator.process({"ts": np.arange(second, second + 10), "x": np.ones(10)})
            operator.advance(second + 10)
            assert operator.leaves <= most
        assert operator.leaves > 10 + lateness
