"""Approximate policy windows: the error column is true wherever the policy ends, the promise is kept, and state continues."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import windrow as wr
from windrow import oracle
from windrow.errors import QueryError
from windrow.operator.slicers import policy
from windrow.storage.pages import MemoryPages

AGGREGATES = {
    "total": wr.Sum("x"), "n": wr.Count(), "mean": wr.Mean("x"), "most": wr.Max("x"), "least": wr.Min("x"),
    "first": wr.Min("ts"), "last": wr.Max("ts"),
}  # fmt: skip
CHECKED = ("total", "n", "mean", "most", "least")


def small(window: Any) -> bool:
    return bool(window.n <= 90)


def short(window: Any) -> bool:
    return bool(window.last - window.first <= 110)


def light(window: Any) -> bool:
    return window.total is None or bool(window.total <= 9000)


def rows(count: int = 330, *, nulls: bool = True) -> pa.Table:
    """Two keys, one of them sparse, with ties, nulls and levels that rise and fall."""
    draw = np.random.default_rng(3)
    x = (draw.integers(50, 150, count) * (1 + 3 * (np.arange(count) // 110 % 2))).astype(object)
    if nulls:
        x[draw.random(count) < 0.1] = None
    times = np.cumsum(draw.integers(0, 3, count))
    keys = np.where(draw.random(count) < 0.1, "b", "a")
    return pa.table({"k": keys, "ts": times, "x": pa.array(x.tolist(), pa.int64())})


def query(valid: Any, within: Any, aggregates: Any = AGGREGATES) -> wr.Query:
    return wr.Query(by="k", window=wr.PolicyWindow(valid=valid), aggregates=aggregates, within=within)


def pieces(asked: wr.Query, data: pa.Table, restart: str = "") -> tuple[pa.Table, int]:
    """The windows of rows in pieces, and the most leaves of a key; the operator may be restored in between."""
    pages, leaves, found = MemoryPages(), 0, []
    options: dict[str, Any] = {"compiled": False}
    operator = (
        wr.Operator.open(asked, data.schema, pages, **options)
        if restart == "store"
        else wr.Operator(asked, data.schema, **options)
    )
    for begin in range(0, data.num_rows, 30):
        piece = data.slice(begin, 30)
        found += [operator.process(piece), operator.advance(piece["ts"][-1].as_py())]
        leaves = max(leaves, operator.leaves)
        if restart == "snapshot":
            operator = wr.Operator.restore(asked, operator.snapshot(), **options)
        elif restart == "store":
            operator.commit()
            operator = wr.Operator.open(asked, data.schema, pages, **options)
    return pa.concat_tables([*found, operator.flush()]), leaves


def checked(found: pa.Table, exact: pa.Table) -> float:
    """Every result is as near to the exact one as it says; the largest share of an error."""
    assert found.select(["k", "window_end"]) == exact.select(["k", "window_end"])
    assert (found["window_start"].to_numpy() <= exact["window_start"].to_numpy()).all()
    largest = 0.0
    for name in CHECKED:
        columns = (found[name], exact[name], found[f"{name}_error"])
        for value, right, error in zip(*(column.to_pylist() for column in columns), strict=True):
            if value is None or right is None:
                assert (value is None) == (right is None) or error == np.inf
            else:
                assert abs(value - right) <= error * (1 + 1e-12), (name, value, right, error)
                largest = max(largest, error / abs(right) if right else error)
    return largest


@pytest.mark.parametrize("valid", [small, short, light])
@pytest.mark.parametrize(
    "within",
    [
        wr.Within(relative=0.1),
        wr.Within(rows=0.2),
        wr.AtMost(leaves=10),
        wr.Within(relative=0.1, confidence=0.9),
    ],
    ids=str,
)
@pytest.mark.filterwarnings("ignore::windrow.errors.BoundWarning")
def test_policy_windows_agree_with_the_oracle_and_continue_from_any_state(valid: Any, within: Any) -> None:
    data = rows()
    found, leaves = pieces(query(valid, within), data)
    exact = oracle.evaluate(data, query(valid, None))
    share = checked(found, exact)
    assert share > 0.0
    if within == wr.Within(relative=0.1):
        assert share <= 0.1 * (1 + 1e-9)
        assert leaves < 0.9 * max(exact["n"].to_pylist())
    assert leaves <= 10 or within != wr.AtMost(leaves=10)
    if valid is not light:
        assert pieces(query(valid, within), data, "store" if valid is short else "snapshot")[0].equals(found)


def test_rows_bound_any_aggregate_of_a_policy_window() -> None:
    data = rows(nulls=False)
    aggregates = {"middle": wr.Median("x"), "all": wr.Collect("x"), "n": wr.Count()}
    found, _ = pieces(query(small, wr.Within(rows=0.2), aggregates), data)
    exact = oracle.evaluate(data, query(small, None, aggregates))
    missing = found["middle_error"].to_numpy()
    assert 0 < missing.max() <= 18
    for middle, ours, error, true in zip(
        *(
            column.to_pylist()
            for column in (found["middle"], found["all"], found["middle_error"], exact["all"])
        ),
        strict=True,
    ):
        assert ours == true[len(true) - len(ours) :]  # exact for the window without its oldest rows
        assert middle == np.median(ours)
        assert len(true) - len(ours) <= error


def test_an_absolute_error_of_a_policy_window() -> None:
    data = rows(nulls=False)
    aggregates = {name: AGGREGATES[name] for name in ("total", "n", "most")}
    found, leaves = pieces(query(small, wr.Within(absolute=2000), aggregates), data)
    exact = oracle.evaluate(data, query(small, None, aggregates))
    away = np.abs(found["total"].to_numpy() - exact["total"].to_numpy())
    assert (away <= found["total_error"].to_numpy()).all()
    assert 0 < found["total_error"].to_numpy().max() <= 2000
    assert leaves < 90


def test_a_compiled_policy_finds_the_same_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(policy, "MANY", 100)
    asked, data = query(small, wr.Within(relative=0.1), {"n": wr.Count()}), rows(300, nulls=False)
    operator = wr.Operator(asked, data.schema)
    found = [operator.process(data), operator.flush()]
    interpreted = wr.Operator(asked, data.schema, compiled=False)
    assert pa.concat_tables(found).equals(pa.concat_tables([interpreted.process(data), interpreted.flush()]))


@pytest.mark.parametrize(
    ("window", "words"),
    [
        (wr.PolicyWindow(valid=small, evict=lambda candidate, after, before: False), "evict needs the rows"),
        (wr.PolicyWindow(valid=small, monotone=False), "monotone"),
    ],
)
def test_policies_of_which_nothing_is_certain_are_refused(window: wr.PolicyWindow, words: str) -> None:
    with pytest.raises(QueryError, match=words):
        wr.Query(window=window, aggregates={"n": wr.Count()}, within=wr.Within(relative=0.1))
    with pytest.raises(QueryError, match=r"'a'.*relative="):
        query(small, wr.Within(absolute=1.0), {"a": wr.Mean("x"), "n": wr.Count()}).bind(rows().schema)
