"""What one call of an operator promises: all of it or nothing, one thread at a time, and costs that do not grow."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import windrow as wr
from windrow import errors
from windrow.operator import buffer
from windrow.storage.pages import MemoryPages

ROWS = pa.schema({"k": pa.string(), "ts": pa.int64(), "x": pa.int64()})


def rows(*triples: tuple[str, int, int]) -> pa.Table:
    return pa.table([list(column) for column in zip(*triples, strict=True)], schema=ROWS)


def test_an_error_in_one_key_does_not_lose_the_windows_of_another() -> None:
    """The sum of key a does not fit; the window of key b is due in the same call."""
    query = wr.Query(by="k", window=wr.TimeWindow(10), aggregates={"s": wr.Sum("x")})
    operator = wr.Operator(query, ROWS)
    operator.process(rows(("a", 1, 2**62), ("a", 2, 2**62), ("b", 3, 7)))
    saved = operator.snapshot()
    with pytest.raises(errors.ArithmeticOverflow, match="s: Sum"):
        operator.advance(10)
    for call in (
        lambda: operator.advance(20),
        lambda: operator.process(rows(("b", 30, 1))),
        operator.snapshot,
    ):
        with pytest.raises(errors.OperatorBroken, match=r"ArithmeticOverflow.*restore the operator"):
            call()
    assert wr.Operator.restore(query, saved).watermark < 0, "the last snapshot goes on"


def test_a_delta_that_falls_breaks_the_operator() -> None:
    window = wr.DeltaWindow("x", 10, 5)
    operator = wr.Operator(wr.Query(by="k", window=window, aggregates={"n": wr.Count()}), ROWS)
    operator.process(rows(("a", 1, 9), ("a", 2, 1), ("b", 1, 1), ("b", 2, 9)))
    with pytest.raises(errors.DeltaOrderError, match="fell from 9 to 1"):
        operator.advance(10)
    with pytest.raises(errors.OperatorBroken, match="DeltaOrderError"):
        operator.flush()


@wr.aggregate_type(partial={"total": "i8"}, identity=(0,))
class Positive:
    """A sum that refuses negative numbers."""

    def lift(x: Any) -> Any:  # type: ignore[misc]
        if x < 0:
            raise ValueError("negative")
        return (x,)

    def combine(a: Any, b: Any) -> Any:  # type: ignore[misc]
        return (a[0] + b[0],)

    def lower(p: Any) -> Any:  # type: ignore[misc]
        return p[0]


@pytest.mark.parametrize("compiled", [False, True])
def test_a_batch_that_an_aggregate_refuses_is_not_half_taken(compiled: bool) -> None:
    query = wr.Query(window=wr.TimeWindow(10), aggregates={"n": wr.Count(), "s": Positive("x")})
    operator = wr.Operator(query, ROWS, compiled=compiled)
    with pytest.raises(errors.AggregateError, match="negative"):
        operator.process(rows(("a", 1, 1), ("a", 2, -1), ("a", 3, 1)))
    with pytest.raises(errors.OperatorBroken, match="negative"):
        operator.flush()


def test_refused_input_breaks_nothing() -> None:
    operator = wr.Operator(wr.Query(by="k", window=wr.TimeWindow(10), aggregates={"n": wr.Count()}), ROWS)
    operator.process(rows(("a", 1, 1)))
    for wrong in (
        {"k": ["a"], "x": [1]},
        {"k": ["a"], "ts": [None], "x": [1]},
        {"k": [1], "ts": [1], "x": [1]},
        7,
    ):
        with pytest.raises(errors.WindrowError):
            operator.process(wrong)
    assert operator.flush().column("n").to_pylist() == [1]


def test_two_threads_are_refused() -> None:
    inside, go_on = threading.Event(), threading.Event()

    def slow(value: Any) -> bool:
        inside.set()
        assert go_on.wait(30)
        return True

    query = wr.Query(window=wr.PolicyWindow(valid=slow), aggregates={"n": wr.Count()})
    operator = wr.Operator(query, ROWS)
    operator.process(rows(("a", 1, 1), ("a", 2, 1)))
    thread = threading.Thread(target=lambda: operator.advance(10))
    thread.start()
    assert inside.wait(30)
    for call in (
        operator.snapshot,
        lambda: operator.advance(20),
        lambda: operator.process(rows(("a", 11, 1))),
    ):
        with pytest.raises(errors.OperatorBusy, match="another thread"):
            call()
    go_on.set()
    thread.join()
    assert operator.process(rows(("a", 12, 1))).num_rows == 0, "it goes on"


def test_of_several_windows_one_with_gaps_keeps_no_slices() -> None:
    query = wr.Query(by="k", window=[wr.TimeWindow(3, 10), wr.TimeWindow(5, 1)], aggregates={"n": wr.Count()})
    operator = wr.Operator(query, pa.schema({"k": pa.int64(), "ts": pa.int64()}))
    sizes = []
    for begin in range(0, 5000, 1000):
        times = np.arange(begin, begin + 1000)
        operator.process({"k": times, "ts": times})
        operator.advance(begin + 1000)
        sizes.append(len(operator.snapshot()))
    assert max(sizes) < 1.1 * sizes[0], "the state does not grow with the rows"


def test_rows_that_stay_in_the_buffer_are_not_copied(monkeypatch: pytest.MonkeyPatch) -> None:
    """One-row batches that wait for 1,000 rows each: what is joined follows the rows that leave."""
    joined = 0
    concat = pa.concat_tables

    def counting(tables: Any) -> pa.Table:
        nonlocal joined
        table = concat(tables)
        joined += table.num_rows
        return table

    monkeypatch.setattr(buffer.pa, "concat_tables", counting)
    query = wr.Query(window=wr.TimeWindow(100), aggregates={"f": wr.First("x")}, lateness=1000)
    operator = wr.Operator(query, ROWS)
    for time in range(3000):
        operator.process(rows(("a", time, time)))
        operator.advance(time)
    assert joined <= 2 * 3000


@pytest.mark.parametrize("stored", [False, True])
@pytest.mark.parametrize(
    "window", [wr.CountWindow(40, 3), wr.SessionWindow(5), wr.SlideByTuple(60, 4)], ids=repr
)
def test_what_is_withdrawn_after_a_restart_is_what_came_out(window: Any, stored: bool) -> None:
    """Bit by bit: sums, means and variances of floats depend on how partials are grouped."""
    random = np.random.default_rng(5)
    schema = pa.schema({"ts": pa.int64(), "x": pa.float64()})
    aggregates = {"s": wr.Sum("x"), "m": wr.Mean("x"), "v": wr.Var("x")}
    query = wr.Query(window=window, aggregates=aggregates, late="update", lateness=150)
    store = MemoryPages()
    operator = wr.Operator.open(query, schema, store) if stored else wr.Operator(query, schema)
    out: list[bytes] = []
    withdrawn = 0
    for begin in range(0, 900, 30):
        late = random.integers(max(0, begin - 100), begin + 30, 40)
        table = pa.table({"ts": late, "x": 10.0 ** random.uniform(-8, 8, 40)}, schema=schema)
        for found in (operator.process(table), operator.advance(begin + 30)):
            for row in found.to_pylist():
                bits = np.array([row[name] or 0.0 for name in aggregates]).tobytes()
                window_bits = bits + repr((row["window_start"], row["window_end"])).encode()
                if row["emission"] == "withdrawn":
                    out.remove(window_bits)
                    withdrawn += 1
                else:
                    out.append(window_bits)
        if stored:
            operator.commit()
            operator = wr.Operator.open(query, schema, store)
        else:
            operator = wr.Operator.restore(query, operator.snapshot())
    assert withdrawn > 50


def test_a_window_that_a_late_row_makes_first_is_final() -> None:
    query = wr.Query(
        by="k", window=wr.TimeWindow(10), aggregates={"n": wr.Count()}, late="update", lateness=100
    )
    operator = wr.Operator(query, ROWS)
    operator.process(rows(("a", 1, 1)))
    assert operator.advance(50).column("emission").to_pylist() == ["final"]
    found = operator.process(rows(("a", 2, 1), ("a", 12, 1), ("b", 3, 1)))
    emissions = {(row["k"], row["window_end"]): row["emission"] for row in found.to_pylist()}
    assert emissions == {("a", 10): "update", ("b", 10): "final", ("a", 20): "final"}
    again = operator.process(rows(("b", 4, 1)))
    assert again.column("emission").to_pylist() == ["update"]


def test_the_operator_wakes_for_early_results_before_the_first_watermark() -> None:
    query = wr.Query(window=wr.TimeWindow(100), aggregates={"n": wr.Count()}, early=10)
    operator = wr.Operator(query, ROWS)
    assert operator.wake is None
    operator.process(rows(("a", 13, 1)))
    assert operator.wake == 20
    assert operator.advance(20).column("emission").to_pylist() == ["early"]


def test_late_rows_before_any_row() -> None:
    query = wr.Query(window=wr.TimeWindow(10), aggregates={"n": wr.Count()}, late="side")
    assert wr.Operator(query).late().num_rows == 0
    assert wr.Operator(query, ROWS).late().schema.names == ROWS.names


def test_late_rows_of_batches_with_columns_in_other_orders() -> None:
    query = wr.Query(window=wr.TimeWindow(10), aggregates={"n": wr.Count()}, late="side")
    operator = wr.Operator(query)
    operator.process(pa.table({"ts": [100], "x": [1.0]}))
    operator.advance(200)
    operator.process(pa.table({"ts": [3], "x": [2.0]}))
    operator.process(pa.table({"x": [3.0], "ts": [4]}))
    assert operator.late().to_pydict() == {"ts": [3, 4], "x": [2.0, 3.0]}


@pytest.mark.parametrize("late", ["drop", "update"])
def test_a_watermark_beyond_all_times_ends_the_stream(late: str) -> None:
    query = wr.Query(window=wr.TimeWindow(10), aggregates={"n": wr.Count()}, late=late, lateness=5)
    operator = wr.Operator(query)
    operator.process(pa.table({"ts": [100]}))
    assert operator.advance(2**64)["n"].to_pylist() == [1]
    assert operator.advance(2**70).num_rows == 0
