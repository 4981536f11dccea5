"""The operator gives the oracle's answer: for every kind of window, whatever the batches, the order, the
restarts."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scenarios import AGGREGATES, SCHEMA, WINDOWS, events, feed, query, streams

import windrow as wr
from windrow import errors
from windrow.algorithms import REGISTRY
from windrow.storage.pages import MemoryPages
from windrow.testing import oracle

some_aggregates = st.lists(st.sampled_from(sorted(AGGREGATES)), min_size=1, max_size=4, unique=True)
few = st.integers(0, 20)
every_window = pytest.mark.parametrize("window", WINDOWS.values(), ids=WINDOWS)


@every_window
@given(data=st.data())
@settings(max_examples=15, deadline=None)
def test_equals_the_oracle(window: Any, data: st.DataObject) -> None:
    table = data.draw(streams())
    asked = query(
        window, data.draw(some_aggregates), late="side", lateness=data.draw(st.sampled_from([0, 10]))
    )
    stream = data.draw(events(table))
    operator = wr.Operator(asked, table.schema, compiled=data.draw(st.booleans()))
    restarts = data.draw(st.booleans())
    outputs = []
    for event in stream:
        output = feed(operator, event)
        assert asked.bind(table.schema).sort(output).equals(output), "every output is sorted"
        outputs.append(output)
        if restarts:
            blob = operator.snapshot()
            operator = wr.Operator.restore(asked, blob, compiled=False)
            assert operator.snapshot() == blob, "equal states are equal bytes"
    final, late = oracle.evaluate_stream(stream, asked)
    assert asked.bind(table.schema).sort(pa.concat_tables(outputs)).equals(final)
    assert operator.late().equals(late)
    assert operator.late_rows == late.num_rows


@given(data=st.data())
@settings(max_examples=30, deadline=None)
def test_late_rows_correct_windows(data: st.DataObject) -> None:
    window = data.draw(
        st.sampled_from(
            [w for n, w in WINDOWS.items() if isinstance(w, list | wr.TimeWindow) and n != "many slices"]
        )
    )
    table = data.draw(streams())
    names = data.draw(st.lists(st.sampled_from(sorted(AGGREGATES)), min_size=1, max_size=2, unique=True))
    algorithm = data.draw(st.sampled_from(["auto", "PBA", "DABALite"]))
    lateness = data.draw(st.sampled_from([0, 15, 60]))
    asked = query(window, names, late="update", lateness=lateness, algorithm=algorithm)
    stream = data.draw(events(table))
    operator = wr.Operator(asked, table.schema, compiled=False)
    restarts = data.draw(st.booleans())
    last: dict[tuple[Any, ...], list[Any]] = {}
    for event in stream:
        for row in feed(operator, event).to_pylist():
            key = tuple(row[name] for name in row if name not in (*names, "emission"))
            assert (key in last) == (row["emission"] == "update"), "a window is final once, then updated"
            last[key] = [row[name] for name in names]
        if restarts:
            operator = wr.Operator.restore(asked, operator.snapshot(), compiled=False)
    final, late = oracle.evaluate_stream(stream, asked)
    expected = {
        tuple(row[name] for name in row if name not in (*names, "emission")): [row[name] for name in names]
        for row in final.to_pylist()
    }
    assert last == expected
    assert operator.late_rows == late.num_rows


@pytest.mark.parametrize(
    "kind", [name for name, window in WINDOWS.items() if not isinstance(window, list | wr.TimeWindow)]
)
@given(data=st.data())
@settings(max_examples=16, deadline=None)
def test_late_rows_move_windows(kind: str, data: st.DataObject) -> None:
    table = data.draw(streams(least=8))
    names = data.draw(st.lists(st.sampled_from(sorted(AGGREGATES)), min_size=1, max_size=2, unique=True))
    asked = query(WINDOWS[kind], names, late="update", lateness=data.draw(st.sampled_from([0, 15, 60, 200])))
    stream: list[tuple[Any, ...]] = []
    for begin in range(0, table.num_rows, rows := data.draw(st.integers(1, 6))):
        some = table.slice(begin, rows)
        stream += [("rows", some), ("watermark", max(some.column("ts").to_pylist()) - data.draw(few))]
    stream, stored = [*stream, ("flush",)], data.draw(st.booleans())
    pages, restarts = MemoryPages(), data.draw(st.booleans())
    operator = wr.Operator.open(asked, table.schema, pages) if stored else wr.Operator(asked, table.schema)
    there: list[dict[str, Any]] = []
    for count, event in enumerate(stream, 1):
        wake, output = operator.wake, feed(operator, event)
        withdrawn: list[tuple[Any, ...]] = []
        if event[0] == "watermark" and output.num_rows:
            assert wake is not None and wake <= event[1]
        for row in output.to_pylist():
            emission = row.pop("emission")
            assert emission in (("final",) if event[0] != "rows" else ("withdrawn", "update", "final"))
            assert (emission == "update") <= (_bounds(row, asked) in withdrawn), (
                "an update takes the place of a window"
            )
            withdrawn += [_bounds(row, asked)] if emission == "withdrawn" else []
            if emission == "withdrawn":
                there = _without(there, row)
            else:
                there.append(row)
        final, late = oracle.evaluate_stream(stream[:count], asked)
        expected = final.drop_columns(["emission"]).to_pylist()
        assert sorted(map(repr, there)) == sorted(map(repr, expected))
        assert operator.late_rows == late.num_rows
        if stored:
            operator.commit()
        if restarts and stored:
            operator = wr.Operator.open(asked, table.schema, pages)
        elif restarts:
            operator = wr.Operator.restore(asked, operator.snapshot())
            assert operator.snapshot() == wr.Operator.restore(asked, operator.snapshot()).snapshot()


def _without(rows: list[dict[str, Any]], row: dict[str, Any]) -> list[dict[str, Any]]:
    """Rows without one that is the same, NaN included."""
    at = [repr(each) for each in rows].index(repr(row))
    return rows[:at] + rows[at + 1 :]


def _bounds(row: dict[str, Any], asked: wr.Query) -> tuple[Any, ...]:
    return tuple(value for name, value in row.items() if name not in asked.aggregates)


@pytest.mark.parametrize("algorithm", sorted(REGISTRY))
@given(data=st.data())
@settings(max_examples=6, deadline=None)
def test_any_algorithm_gives_the_same_answer(algorithm: str, data: st.DataObject) -> None:
    table = data.draw(streams())
    window = data.draw(
        st.sampled_from(
            [WINDOWS["not a multiple, offset"], WINDOWS["count, not a multiple"], WINDOWS["slide by time"]]
        )
    )
    names = [name for name in ("peak", "total", "n", "last") if _fits(algorithm, AGGREGATES[name])]
    asked = query(window, names, algorithm=algorithm)
    operator = wr.Operator(asked, table.schema, compiled=False)
    operator.process(table)
    assert operator.flush().equals(oracle.evaluate(table, asked))


def _fits(algorithm: str, aggregate: wr.Aggregate) -> bool:
    try:
        REGISTRY[algorithm].check(aggregate.bind([SCHEMA.field(column).type for column in aggregate.columns]))
    except errors.PropertyError:
        return False
    return True


def test_an_algorithm_refuses_an_aggregate_that_it_cannot_take() -> None:
    asked = query(WINDOWS["sliding"], ["peak"], algorithm="SubtractOnEvict")
    with pytest.raises(errors.PropertyError, match=r"'peak'.*SubtractOnEvict.*invertible"):
        asked.bind(SCHEMA)


@given(data=st.data())
@settings(max_examples=25, deadline=None)
def test_slice_partials_instead_of_rows(data: st.DataObject) -> None:
    table = data.draw(streams())
    asked = query(WINDOWS["sliding"], ["peak", "total", "mean", "n", "some"])
    bound = asked.bind(table.schema)
    partials = []
    for row in table.to_pylist():
        partial = {"k": row["k"], "ts": row["ts"] // 5 * 5}
        for name, monoid in bound.monoids.items():
            inputs = [row[column] for column in bound.inputs(name)]
            values = monoid.identity if None in inputs else monoid.lift(*inputs)
            partial |= {
                f"{name}.{field.name}": value
                for field, value in zip(monoid.fields or (), values, strict=True)
            }
        partials.append(partial)
    operator = wr.Operator(asked, table.schema)
    if partials:
        operator.process_partials(pa.Table.from_pylist(partials))
    assert operator.flush().equals(oracle.evaluate(table, asked))


@given(data=st.data())
@settings(max_examples=25, deadline=None)
def test_early_results_are_what_the_window_holds_so_far(data: st.DataObject) -> None:
    table = data.draw(streams())
    asked = query(
        data.draw(st.sampled_from([WINDOWS["sliding"], WINDOWS["several"]])), ["total", "n"], early=7
    )
    operator = wr.Operator(asked, table.schema)
    operator.process(table)
    whole = asked.bind(table.schema)
    expected = {_window(row): row for row in oracle.evaluate(table, asked).to_pylist()}
    mark = data.draw(st.integers(-60, 160))
    emitted = operator.advance(mark).to_pylist()
    for row in emitted:
        assert {**expected[_window(row)], "emission": row["emission"]} == row
        assert (row["emission"] == "final") == (row["window_end"] <= mark)
        assert row["window_start"] < mark
    assert {_window(row) for row in emitted} == {
        key for key, row in expected.items() if row["window_start"] < mark
    }
    rest = whole.sort(operator.flush())
    assert {_window(row) for row in rest.to_pylist()} == {
        key for key, row in expected.items() if row["window_end"] > mark
    }


@pytest.mark.parametrize(
    "kind", ["session", "slide by time", "count", "count, not a multiple", "count, gaps"]
)
@pytest.mark.parametrize("late", ["drop", "update"])
@given(data=st.data())
@settings(max_examples=15, deadline=None)
def test_early_results_of_windows_that_follow_rows(kind: str, late: Any, data: st.DataObject) -> None:
    """They hold the rows that the watermark has passed, and change nothing."""
    table, window = data.draw(streams()), WINDOWS[kind]
    asked = query(window, ["total", "last"], early=10, late=late)
    stored, marks = data.draw(st.booleans()), sorted(data.draw(st.lists(st.integers(-60, 160), max_size=4)))
    schema = table.schema
    pages = MemoryPages()
    operator = (
        wr.Operator.open(asked, schema, pages, compiled=False)
        if stored
        else wr.Operator(asked, schema, compiled=False)
    )
    operator.process(table)
    final, before = [], -(2**62)
    for mark in [*marks, 10**6]:
        wake, shown = operator.wake, operator.advance(mark)
        assert shown.num_rows == 0 or (wake is not None and wake <= mark)
        emission = np.array(shown.column("emission").to_pylist())
        final.append(shown.filter(pa.array(emission == "final")))
        settled = table.filter(pa.array(np.asarray(table.column("ts")) < mark))
        everything = oracle.evaluate(settled, asked).to_pylist() + _begun(settled, window)
        known = {_window(row) for table in final for row in table.to_pylist()}
        expected = [{**row, "emission": "early"} for row in everything if _window(row) not in known]
        early = shown.filter(pa.array(emission == "early")).to_pylist()
        assert sorted(map(repr, early)) == sorted(map(repr, expected if mark // 10 != before // 10 else []))
        before = mark
        if stored:
            operator.commit()
    final.append(operator.flush())
    assert asked.bind(schema).sort(pa.concat_tables(final)).equals(oracle.evaluate(table, asked))


def _begun(settled: pa.Table, window: Any) -> list[dict[str, Any]]:
    """Count windows that are not full, from the definition."""
    found: list[dict[str, Any]] = []
    for key in set(settled.column("k").to_pylist()) if isinstance(window, wr.CountWindow) else ():
        rows = [row for row in settled.sort_by("ts").to_pylist() if row["k"] == key]
        for start in range(0, len(rows), window.slide):
            total = [row["i"] for row in rows[start:] if row["i"] is not None]
            last = [row["x"] for row in rows[start:] if row["x"] is not None]
            if (end := start + window.range) > len(rows):
                found.append(
                    {
                        "k": key, "window_start": start, "window_end": end,
                        "total": sum(total) if total else None, "last": last[-1] if last else None,
                    }
                )  # fmt: skip
    return found


def _window(row: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(value for name, value in row.items() if name not in ("total", "n", "last", "emission"))


def test_wake_is_never_after_the_next_window() -> None:
    table = pa.table({"k": ["a", "b"], "ts": [3, 52], "x": [1.0, 2.0], "i": [1, 2], "d": [1, 2]}).cast(SCHEMA)
    operator = wr.Operator(query(wr.TimeWindow(10, 5), ["n"]), table.schema)
    assert operator.wake is None
    operator.process(table)
    found = []
    while (wake := operator.wake) is not None:
        assert operator.advance(wake - 1).num_rows == 0
        found += operator.advance(wake).column("window_end").to_pylist()
    assert found == [5, 10, 55, 60]


def test_watermarks_can_be_datetimes() -> None:
    asked = wr.Query(window=wr.TimeWindow("1s"), aggregates={"n": wr.Count()})
    rows = pa.table({"ts": pa.array([500_000, 1_500_000], pa.timestamp("us", "UTC"))})
    for mark in (
        datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC),
        datetime(1970, 1, 1, 0, 0, 1),
        np.datetime64("1970-01-01T00:00:01"),
    ):
        operator = wr.Operator(asked, rows.schema)
        operator.process(rows)
        assert operator.advance(mark).num_rows == 1
    with pytest.raises(errors.QueryError, match=r"watermark.*'noon'"):
        operator.advance("noon")  # type: ignore[arg-type]


@pytest.mark.parametrize("stored", [False, True])
def test_keys_that_come_and_go_leave_nothing(stored: bool) -> None:
    asked = wr.Query(by="k", window=wr.TimeWindow(10, 5), aggregates={"n": wr.Count(), "m": wr.Max("ts")})
    schema, pages = pa.schema({"k": pa.int64(), "ts": pa.int64()}), MemoryPages()
    operator = wr.Operator.open(asked, schema, pages) if stored else wr.Operator(asked, schema)
    for begin in range(0, 20_000, 500):
        times = np.arange(begin, begin + 500)
        operator.process(pa.table({"k": times, "ts": times}))
        found = operator.advance(begin + 480)
        assert set(found.column("n").to_pylist()) <= {1}
        assert asked.bind(schema).sort(found).equals(found)
        for key, start, end, most in zip(
            *(found[c].to_pylist() for c in ("k", "window_start", "window_end", "m")), strict=True
        ):
            assert key == most and start <= key < end
        if stored:
            operator.commit()
            if begin % 2000 == 0:
                operator = wr.Operator.open(asked, schema, pages)
    assert operator._parts.keys.count < 4000
    operator.flush()
    if stored:
        operator.commit()
        assert list(pages.held) == ["header"]


def test_rows_that_do_not_fit_are_refused_by_name() -> None:
    operator = wr.Operator(query(WINDOWS["sliding"], ["peak"]))
    with pytest.raises(errors.QueryError, match="schema"):
        operator.advance(1)
    with pytest.raises(errors.ColumnError, match="'x'"):
        operator.process(pa.table({"k": ["a"], "ts": [1]}))
    with pytest.raises(errors.TimeColumnError, match="'ts'"):
        operator.process(pa.table({"k": ["a"], "ts": [1.5], "x": [1.0]}))
    with pytest.raises(errors.QueryError, match="list"):
        operator.process([1, 2])
    operator.process(pa.table({"k": ["a"], "ts": [1], "x": [1.0]}))
    with pytest.raises(errors.QueryError, match="'x' was double"):
        operator.process(pa.table({"k": ["a"], "ts": [1], "x": [1]}))


def test_a_sum_that_does_not_fit_is_an_error_not_a_number() -> None:
    asked = wr.Query(window=wr.TimeWindow(10), aggregates={"t": wr.Sum("x")})
    with pytest.raises(errors.ArithmeticOverflow, match=r"^t: Sum\(x\) does not fit int64; cast its column"):
        wr.aggregate({"ts": [1, 2], "x": [2**62, 2**62]}, asked)
    largest = wr.aggregate({"ts": [1, 2], "x": [2**62, 2**62 - 1]}, asked)
    assert largest.column("t").to_pylist() == [2**63 - 1]
    mean = wr.Query(window=wr.TimeWindow(10), aggregates={"t": wr.Mean("x")})
    found = wr.aggregate({"ts": [1, 2, 3], "x": [2**62, 2**62, -5]}, mean)
    assert found.column("t").to_pylist() == [(2**63 - 5) / 3]


def test_an_aggregate_that_raises_is_named_with_the_row() -> None:
    @wr.aggregate_type(output=pa.float64())
    class Picky:
        def lift(x: Any) -> Any:
            if x == 3:
                raise ValueError("three!")
            return x

        def combine(a: Any, b: Any) -> Any:
            return b

        def lower(p: Any) -> Any:
            return p

        identity = None

    asked = wr.Query(window=wr.TimeWindow(10), aggregates={"p": Picky("x")})
    for values, row in [([3.0, 1.0, 5.0], 0), ([1.0, 3.0, 3.0], 1), ([None, 5.0, 3.0], 2)]:
        said = rf"^p: Picky\(x\) raised ValueError at row {row}, for .*\b3\.0\b.*: three!$"
        with pytest.raises(errors.AggregateError, match=said):
            wr.aggregate({"ts": [5, 1, 2], "x": values}, asked)


def test_slots_come_back_clean() -> None:
    """A slot that was evicted is the identity when it is used again: a smaller maximum is seen."""
    asked = wr.Query(window=wr.TimeWindow(4), aggregates={"n": wr.Count(), "m": wr.Max("x")})
    operator = wr.Operator(asked, pa.schema({"ts": pa.int64(), "x": pa.float64()}))
    slots, windows = operator._parts.table.slot_room, 1500
    assert windows > slots, "every slot is used more than once"
    for begin in range(0, 4 * windows, 4):
        operator.process(pa.table({"ts": [begin, begin + 1], "x": [-float(begin), -1e9]}))
        assert operator.advance(begin + 4).to_pylist() == [
            {"window_start": begin, "window_end": begin + 4, "n": 2, "m": -float(begin)}
        ]
    assert operator._parts.table.slot_room == slots, "the state did not grow"


@pytest.mark.parametrize("time", [2**63 - 1, 2**62, 2**61, -(2**61), -(2**63)])
def test_times_in_another_unit_are_refused(time: int) -> None:
    asked = wr.Query(window=wr.TimeWindow("1h"), aggregates={"n": wr.Count()})
    with pytest.raises(errors.TimeColumnError, match=r"'ts' has .* microseconds, more than 70,000 years"):
        wr.aggregate({"ts": [0, time]}, asked)
    assert wr.aggregate({"ts": [0, 2**61 - 1]}, asked).num_rows == 2


def test_windows_come_sorted_by_end_then_key() -> None:
    """Also where windows that end together do not begin together."""
    rows = {"k": ["b", "b", "a"], "ts": [1, 5, 5]}
    sessions = wr.Query(by="k", window=wr.SessionWindow(4), aggregates={"n": wr.Count()})
    assert wr.aggregate(rows, sessions).column("k").to_pylist() == ["a", "b"]
    windows = {"z": wr.TimeWindow(10), "y": wr.TimeWindow(10), "x": wr.TimeWindow(5)}
    several = wr.aggregate(rows, wr.Query(by="k", window=windows, aggregates={"n": wr.Count()}))
    last = [(row["k"], row["window"]) for row in several.to_pylist() if row["window_end"] == 10]
    assert last == [("a", "y"), ("a", "z"), ("a", "x"), ("b", "y"), ("b", "z"), ("b", "x")]
