"""Policy windows: the search for their beginning finds what row by row finds, in O(log n) calls and combines."""

from __future__ import annotations

from math import log2
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import windrow as wr
from windrow.operator.slicers import policy
from windrow.testing.oracle import evaluate

GOLDEN = Path(__file__).parent / "golden"


def sixty(window: Any) -> bool:
    return bool(window.total <= 60)


def dominated(candidate: Any, after: Any, before: Any) -> bool:
    return bool(candidate.peak <= after.peak)


def older_than_the_run(candidate: Any, after: Any, before: Any) -> bool:
    return bool(candidate.last < before.run[1])


def low_mean(window: Any) -> bool:
    return bool(window.mean <= 5)


AGGREGATES = {
    "n": wr.Count(),
    "peak": wr.Max("x"),
    "total": wr.Sum("i"),
    "mean": wr.Mean("i"),
    "run": wr.LongestIncreasingRun("i", at="ts"),
    "last": wr.Last("ts"),
    "middle": wr.Median("x"),
}
POLICIES = [
    wr.PolicyWindow(valid=sixty),
    wr.PolicyWindow(evict=dominated),
    wr.PolicyWindow(valid=sixty, evict=dominated),
    wr.PolicyWindow(valid=sixty, evict=older_than_the_run),
    wr.PolicyWindow(valid=low_mean, evict=dominated, monotone=False),
]


def rows(count: int, seed: int) -> pa.Table:
    random = np.random.default_rng(seed)
    bursts = np.where(random.random(count) < 0.05, 50, random.integers(0, 4, count))
    columns = {
        "k": random.choice(["a", "b"], count),
        "ts": np.cumsum(random.integers(0, 2, count)),
        "x": random.integers(0, 9, count) * 1.0,
        "i": bursts,
    }
    return pa.table(columns)


@settings(max_examples=20, deadline=None)
@given(st.sampled_from(POLICIES), st.integers(1, 90), st.integers(0, 1000), st.integers(0, 90))
def test_the_search_finds_what_row_by_row_finds(window: Any, count: int, seed: int, cut: int) -> None:
    query, data = wr.Query(by="k", window=window, aggregates=AGGREGATES), rows(count, seed)
    operator = wr.Operator(query, data.schema, compiled=False)
    found = [operator.process(data.slice(0, cut))]
    if cut < count:  # a key's rows at the time of the cut may come before and after it
        found.append(operator.advance(data["ts"][cut].as_py()))
        operator = wr.Operator.restore(query, operator.snapshot(), compiled=False)
        found.append(operator.process(data.slice(cut)))
    found.append(operator.flush())
    assert pa.concat_tables(found).equals(evaluate(data, query))


def test_compiled_functions_answer_as_interpreted_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(policy, "MANY", 100)
    aggregates = {name: AGGREGATES[name] for name in ("peak", "total")}
    query = wr.Query(by="k", window=POLICIES[2], aggregates=aggregates)
    made: list[Any] = []
    original = policy.CompiledPolicy.enforce

    def enforce(self: Any, *arguments: Any) -> int:
        made.append(self)
        return original(self, *arguments)

    monkeypatch.setattr(policy.CompiledPolicy, "enforce", enforce)
    data = rows(400, 7)
    some_null = data.set_column(2, "x", pa.array([None if n % 7 == 0 else n % 5 * 1.0 for n in range(400)]))
    assert wr.aggregate(data, query).equals(evaluate(data, query))
    assert made, "the policy was compiled"

    with pytest.raises(TypeError, match="NoneType"):  # as in Python, which the row is left to
        wr.aggregate(some_null, query)


def test_a_function_that_does_not_compile_is_interpreted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(policy, "MANY", 1)
    query = wr.Query(
        by="k", window=wr.PolicyWindow(valid=lambda w: str(w.n) < "4"), aggregates={"n": wr.Count()}
    )
    data = rows(60, 3)
    assert wr.aggregate(data, query).equals(evaluate(data, query))


def test_a_bulk_eviction_takes_logarithmically_many_calls_and_combines() -> None:
    """From a window of n rows, one row drives out all others, or half of them."""
    calls, combines = [0], [0]

    @wr.aggregate_type(identity=0, output="int64")
    class Total:
        def lift(x: int) -> int:
            return x

        def combine(a: int, b: int) -> int:
            combines[0] += 1
            return a + b

        def lower(p: int) -> int:
            return p

    def valid(window: Any) -> bool:
        calls[0] += 1
        return bool(window.total <= 4096)

    def evict(candidate: Any, after: Any, before: Any) -> bool:
        calls[0] += 1
        return bool(candidate.peak <= after.peak)

    for last, kept in ((2050, 2047), (4096, 1)):
        window = wr.PolicyWindow(valid=valid, evict=evict)
        query = wr.Query(
            window=window, aggregates={"total": Total("i"), "peak": wr.Max("x"), "n": wr.Count()}
        )
        data = pa.table({"ts": range(4096), "i": [1] * 4095 + [last], "x": [float(-n) for n in range(4096)]})
        operator = wr.Operator(query, data.schema, compiled=False)
        operator.process(data)
        operator.advance(4095)
        calls[0] = combines[0] = 0
        found = operator.flush()
        assert found["n"].to_pylist() == [kept]
        assert calls[0] <= 4 * log2(4096)
        assert combines[0] <= 8 * log2(4096)


def test_state_from_before_the_search_is_read() -> None:
    window = wr.PolicyWindow(valid=sixty, evict=dominated, version="golden")
    aggregates = {name: AGGREGATES[name] for name in ("n", "peak", "total")}
    query = wr.Query(by="k", window=window, aggregates=aggregates)
    count = range(120)
    columns = {
        "k": ["a", "b"] * 60,
        "ts": count,
        "x": [n * 37 % 101 * 1.0 for n in count],
        "i": [n * 7 % 11 for n in count],
    }
    data = pa.table(columns)
    operator = wr.Operator.restore(query, (GOLDEN / "policy-v1.bin").read_bytes(), compiled=False)
    rest = pa.concat_tables([operator.process(data.slice(80)), operator.flush()])
    assert rest.equals(evaluate(data, query).slice(70))
