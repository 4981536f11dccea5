"""Functions of whole windows: equal to the definition for every window, cut, store and number of workers."""

from __future__ import annotations

import os
import time
from datetime import UTC, datetime
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import windrow as wr
from windrow import errors
from windrow.operator import ordered
from windrow.operator import workers as sharing
from windrow.operator.extents import ExtentState
from windrow.storage.pages import MemoryPages
from windrow.testing import oracle

WINDOWS: dict[str, Any] = {
    "time": wr.TimeWindow(100, 7),
    "gaps": wr.TimeWindow(7, 20),
    "count": wr.CountWindow(10, 3),
    "session": wr.SessionWindow(20),
    "slide by tuple": wr.SlideByTuple(100, 2),
    "slide by time": wr.SlideByTime(8, 50),
    "delta": wr.DeltaWindow("ts", 100, 30),
    "several": [wr.TimeWindow(100, 10), wr.TimeWindow(60, 20)],
    "policy": wr.PolicyWindow(valid=lambda window: window.n <= 5),
}


def rows(count: int = 300, keys: int = 4, seed: int = 1) -> pa.Table:
    random = np.random.default_rng(seed)
    return pa.table(
        {
            "k": random.integers(0, keys, count),
            "ts": np.sort(random.integers(0, 8 * count, count)),
            "x": pa.array(random.integers(-9, 9, count).astype(float), mask=random.random(count) < 0.2),
            "y": random.integers(0, 50, count),
            "word": pa.array([f"w{n % 7}" if n % 5 else None for n in range(count)]),
        }
    )


def in_order(x: Any, y: Any) -> Any:
    """Depends on the order of rows."""
    result = 0.0
    for i in range(len(x)):
        result = -0.5 * result + x[i] * (i % 3) + y[i]
    return result


def ends(ts: Any, y: Any) -> Any:
    return ts[0], len(y), float(y[-1])


def many_or_none(x: Any) -> Any:
    return None if len(x) < 3 else x[-1]


def text(word: Any) -> str:
    return "".join(word)


def missing(x: Any, word: Any) -> float:
    return float(np.isnan(x).sum()) + sum(each is None for each in word)


def python_only(y: Any) -> float:
    return float(sum(sorted(y.tolist())[:2]))


AGGREGATES: dict[str, wr.Aggregate] = {
    "in_order": wr.Apply(in_order, ["x", "y"]),
    "ends": wr.Apply(ends, ["ts", "y"], returns={"first": "i8", "rows": "i8", "last": "f8"}),
    "some": wr.Apply(many_or_none, "x"),
    "text": wr.Apply(text, "word", returns="string"),
    "missing": wr.Apply(missing, ["x", "word"], nulls="keep"),
    "lowest": wr.Apply(python_only, "y"),
    "n": wr.Count(),
}


def entered(state: Any, y: Any) -> Any:
    return state[0] + y, state[1] * 3 + y


def left(state: Any, y: Any) -> Any:
    return state[0] - y, state[1]


def total(state: Any) -> Any:
    return state[0]


def counted(counts: Any, y: Any) -> Any:
    counts[y] += 1
    return counts


def uncounted(counts: Any, y: Any) -> Any:
    counts[y] -= 1
    return counts


def mode(counts: Any) -> Any:
    return counts.argmax()


def fifty() -> Any:
    return np.zeros(50, np.int64)


AGGREGATES["total"] = wr.Slider("y", (0, 0), insert=entered, evict=left, result=total, returns="i8")
AGGREGATES["mode"] = wr.Slider("y", fifty, insert=counted, evict=uncounted, result=mode, returns="i8")
for column in ("x", "y"):
    AGGREGATES |= {f"median_{column}": wr.Median(column), f"p90_{column}": wr.Quantile(column, q=0.9)}
    AGGREGATES[f"top_{column}"] = wr.TopK(column, k=3)


AGGREGATES["best"] = wr.Skyline("x", "y", goals=("max", "min"))


def query(kind: str, **options: Any) -> wr.Query:
    return wr.Query(by="k", window=WINDOWS[kind], aggregates=AGGREGATES, **options)


@pytest.mark.parametrize("kind", WINDOWS)
def test_rows_that_are_taken_in_pieces_give_the_definition(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Many rows of one key are taken some at a time, as many as keep windows from being read anew too often."""
    monkeypatch.setattr(ordered, "PIECE", 20)
    table = rows(keys=1)
    chosen = {name: AGGREGATES[name] for name in ("in_order", "mode", "median_x", "n")}
    whole = wr.Query(window=WINDOWS[kind], aggregates=chosen)
    assert wr.aggregate(table, whole).equals(oracle.evaluate(table, whole))


@pytest.mark.parametrize("kind", WINDOWS)
@pytest.mark.parametrize("workers", [1, 2])
def test_every_kind_of_window_gives_the_definition(kind: str, workers: int) -> None:
    table = rows()
    assert wr.aggregate(table, query(kind), workers=workers).equals(oracle.evaluate(table, query(kind)))


@pytest.mark.parametrize("kind", WINDOWS)
def test_state_goes_on_as_if_it_had_never_stopped(kind: str) -> None:
    count = 100 if kind == "policy" else 300
    table, whole = rows(count), query(kind, lateness=30)
    expected = oracle.evaluate(table, whole)
    memory, store, uninterrupted = wr.Operator(whole), MemoryPages(), wr.Operator(whole)
    found: dict[str, list[pa.Table]] = {"memory": [], "store": []}
    for begin in range(0, count, 50):
        batch, reached = table.slice(begin, 50), int(table["ts"][min(begin + 50, count - 1)].as_py())
        memory = wr.Operator.restore(whole, memory.snapshot())
        found["memory"] += [memory.process(batch), memory.advance(reached)]
        uninterrupted.process(batch)
        uninterrupted.advance(reached)
        assert uninterrupted.snapshot() == memory.snapshot()
        stored = wr.Operator.open(whole, table.schema, store)
        for row in range(50):
            found["store"].append(stored.process(batch.slice(row, 1)))
            if row % 10 == 0:
                found["store"].append(stored.advance(int(batch["ts"][row].as_py())))
        found["store"].append(stored.advance(reached))
        stored.commit()
    found["memory"].append(memory.flush())
    found["store"].append(wr.Operator.open(whole, table.schema, store).flush())
    bound = whole.bind(table.schema)
    for tables in found.values():
        assert bound.sort(pa.concat_tables(tables)).equals(bound.sort(expected))


def test_a_store_holds_only_rows_that_windows_need() -> None:
    whole = wr.Query(window=wr.TimeWindow(1000, 10), aggregates={"last": wr.Apply(many_or_none, "x")})
    schema, store, written = pa.schema({"ts": pa.int64(), "x": pa.float64()}), MemoryPages(), []
    operator = wr.Operator.open(whole, schema, store)
    for batch in range(200):
        times = np.arange(100) + 100 * batch
        operator.process(pa.table({"ts": times, "x": np.sin(times)}))
        operator.advance(int(times[-1]))
        written.append(operator.commit())
    assert sum(name.startswith("extent.") for name in store.held) <= 65
    assert np.median(written[80:]) < 8_000


@pytest.mark.parametrize("late", ["drop", "side", "update"])
def test_late_rows_go_where_the_query_says(late: str) -> None:
    table = rows(300)
    order = np.argsort(
        np.asarray(table["ts"]) + np.random.default_rng(3).integers(0, 160, 300), kind="stable"
    )
    whole, shuffled = query("time", late=late, lateness=20), table.take(order)
    operator, events = wr.Operator(whole, table.schema), []
    found = []
    for begin in range(0, 300, 30):
        batch = shuffled.slice(begin, 30)
        reached = int(np.asarray(batch["ts"]).max()) - 30
        found += [operator.process(batch), operator.advance(reached)]
        events += [("rows", batch), ("watermark", reached)]
    found.append(operator.flush())
    windows, rest = oracle.evaluate_stream([*events, ("flush",)], whole)
    final: dict[Any, Any] = {}
    for window in pa.concat_tables(found).to_pylist():
        window.pop("emission", None)
        final[window["k"], window["window_start"]] = window
    expected = {(window["k"], window["window_start"]): window for window in windows.to_pylist()}
    for window in expected.values():
        window.pop("emission", None)
    assert final == expected
    if late == "side":
        assert operator.late().num_rows == rest.num_rows > 0


def test_a_function_that_raises_names_aggregate_key_and_window() -> None:
    def fails(y: Any) -> float:
        if y[0] == 7:
            raise ValueError("seven")
        return float(y[0])

    table = pa.table({"k": ["a", "a", "b"], "ts": [1, 12, 3], "y": [1, 7, 2]})
    whole = wr.Query(by="k", window=wr.TimeWindow(10), aggregates={"f": wr.Apply(fails, "y")})
    for workers in (1, 2):
        with pytest.raises(errors.AggregateError, match=r"f: fails\(y\) .*key 'a' from 10 to 20: .*seven"):
            wr.aggregate(table, whole, workers=workers)


@pytest.mark.parametrize(
    ("window", "times", "bounds"),
    [
        (wr.TimeWindow("1h"), pa.timestamp("us"), "2026-03-29 00:00:00 to 2026-03-29 01:00:00"),
        (
            wr.TimeWindow("1h"),
            pa.timestamp("s", "UTC"),
            r"2026-03-29 00:00:00\+00:00 to 2026-03-29 01:00:00\+00:00",
        ),
        (
            wr.TimeWindow("1d", zone="Europe/Stockholm"),  # the day on which summer time begins
            pa.timestamp("us", "UTC"),
            r"2026-03-29 00:00:00\+01:00 to 2026-03-30 00:00:00\+02:00",
        ),
        (wr.CountWindow(1), pa.timestamp("us"), "row 0 to row 1"),
        (wr.DeltaWindow("y", 4.0, 1.5), pa.timestamp("us"), "-0.5 to 3.5"),
    ],
    ids=lambda value: getattr(value, "label", None) or str(value),
)
def test_a_window_in_an_error_has_readable_bounds(window: Any, times: Any, bounds: str) -> None:
    def far(y: Any) -> float:
        return float(y[9])

    start = pa.scalar(datetime(2026, 3, 29, tzinfo=UTC), pa.timestamp("us", "UTC")).value
    rows = pa.table(
        {"ts": pa.array([start, start + 1_000_000], pa.int64()).cast(pa.timestamp("us")).cast(times)}
    )
    rows = rows.append_column("y", pa.array([1.5, 3.5]))
    whole = wr.Query(window=window, aggregates={"f": wr.Apply(far, "y")})
    for workers in (1, 2):
        with pytest.raises(errors.AggregateError, match=f"for the window from {bounds}: "):
            wr.aggregate(rows, whole, workers=workers)


def test_a_function_sees_no_row_of_another_window() -> None:
    def change(y: Any) -> float:
        return float(y[2] - y[0])

    rows = {"ts": [0, 100, 101, 102], "y": [1.0, 10.0, 20.0, 30.0]}
    whole = wr.Query(window=wr.TimeWindow(50), aggregates={"f": wr.Apply(change, "y")})
    for compiled in (True, False):
        operator = wr.Operator(whole, compiled=compiled)
        operator.process(rows)
        with pytest.raises(errors.AggregateError, match=r"raised IndexError for the window from 0 to 50"):
            operator.flush()


def test_a_function_that_returns_several_values_is_told_how_to() -> None:
    def both(y: Any) -> Any:
        return sorted(y)[:2]

    whole = wr.Query(window=wr.TimeWindow(10), aggregates={"f": wr.Apply(both, "y")})
    with pytest.raises(
        errors.AggregateError, match="returned 2 values, not one; for several, returns= is a dict"
    ):
        wr.aggregate({"ts": [1, 2], "y": [1.0, 2.0]}, whole)


def test_views_are_read_only() -> None:
    def writes(y: Any) -> float:
        y[0] = 0
        return 1.0

    whole = wr.Query(window=wr.TimeWindow(10), aggregates={"f": wr.Apply(writes, "y")})
    with pytest.raises(errors.AggregateError, match="read-only"):
        wr.aggregate({"ts": [1], "y": [1.0]}, whole)


def slow(y: Any) -> float:
    return float(sum(value * value for value in y.tolist()))


def where(y: Any) -> float:
    slow(y)
    return float(os.getpid())


def test_python_functions_run_in_processes_and_keep_their_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sharing, "LOOK", 0.0)
    monkeypatch.setattr(sharing, "START", 0.0)
    table = pa.table({"ts": np.arange(8000), "y": np.arange(8000.0)})
    window = wr.CountWindow(2000, 5)
    whole = wr.Query(window=window, aggregates={"f": wr.Apply(slow, "y", version=1)})
    alone, shared = wr.aggregate(table, whole), wr.aggregate(table, whole, workers=2)
    assert shared.equals(alone)
    processes = wr.Query(window=window, aggregates={"f": wr.Apply(where, "y")})
    used = set(wr.aggregate(table, processes, workers=2)["f"].to_pylist())
    assert len(used) > 1, "this process for the first windows, and others"


def test_python_functions_stay_where_processes_would_take_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    table = pa.table({"ts": np.arange(2000), "y": np.arange(2000.0)})
    processes = wr.Query(window=wr.CountWindow(100, 1), aggregates={"f": wr.Apply(where, "y")})
    monkeypatch.setattr(sharing, "START", 1e9)
    assert set(wr.aggregate(table, processes, workers=2)["f"].to_pylist()) == {os.getpid()}
    monkeypatch.setattr(sharing, "LOOK", 0.0)
    monkeypatch.setattr(sharing, "START", 0.0)

    class Slow(sharing.Forked):
        def compute(self, *arguments: Any) -> None:
            time.sleep(0.5)
            super().compute(*arguments)

    monkeypatch.setattr(sharing, "Forked", Slow)
    operator = wr.Operator(processes, table.schema, workers=2)
    operator.process(table)
    there = [place for place, pid in enumerate(operator.flush()["f"].to_pylist()) if pid != os.getpid()]
    trial = (1901 - sharing.FEW) // sharing.TRIAL
    assert there == list(range(sharing.FEW, sharing.FEW + trial)), "a trial, and no more"


def test_it_is_written_and_read_in_documents() -> None:
    whole = wr.Query(window=wr.TimeWindow(10), aggregates={"f": wr.Apply("math:hypot", ["x", "y"])})
    again = wr.Query.from_json(whole.to_json(), allow="math")
    assert again == whole and again.fingerprint == whole.fingerprint
    with pytest.raises(errors.QueryError, match="may not import 'math'"):
        wr.Query.from_json(whole.to_json())
    with pytest.raises(errors.QueryError, match="no import name"):
        wr.Query(window=wr.TimeWindow(10), aggregates={"f": wr.Apply(lambda x: x[0], "x")}).to_json()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((7, "x"), "function of Apply has to be a function"),
        ((slow, []), "columns of Apply"),
        ((slow, "x", "no type"), "returns of Apply: 'no type' is not an Arrow type"),
        ((slow, "x", {}), "empty dict"),
    ],
)
def test_bad_parameters_are_refused(arguments: Any, message: str) -> None:
    with pytest.raises(errors.AggregateError, match=message):
        wr.Apply(*arguments)


def test_memory_follows_the_window() -> None:
    """Rows that no window needs are left behind."""
    whole = wr.Query(window=wr.CountWindow(1000, 100), aggregates={"f": wr.Apply(many_or_none, "y")})
    operator = wr.Operator(whole)
    for begin in range(0, 100_000, 500):
        times = np.arange(begin, begin + 500)
        operator.process({"ts": times, "y": times.astype(float)})
        operator.advance(begin + 500)
    assert len(operator.snapshot()) < 3 * 8 * 1100


def line(x: Any, p: Any) -> Any:
    return p[0] + p[1] * x


@pytest.mark.parametrize("compiled", [True, False])
def test_a_model_is_fitted_to_every_window(compiled: bool) -> None:
    x = np.arange(40.0)
    table = pa.table({"ts": np.arange(40), "x": x, "y": np.where(x < 20, 3 + 2 * x, 5 - x)})
    fit = wr.LevenbergMarquardt(line, "x", "y", p0=(1.0, 1.0), names=("level", "slope"))
    whole = wr.Query(window=wr.CountWindow(10, 10), aggregates={"fit": fit})
    operator = wr.Operator(whole, compiled=compiled)
    operator.process(table)
    found = operator.flush()["fit"].to_pylist()
    expected = [(3.0, 2.0), (3.0, 2.0), (5.0, -1.0), (5.0, -1.0)]
    for window, parameters in zip(found, expected, strict=True):
        assert (window["level"], window["slope"]) == pytest.approx(parameters, rel=1e-6)
        assert window["converged"] == 1.0
    again = wr.Query.from_json(whole.to_json(), allow=__name__)
    assert again.fingerprint == whole.fingerprint


def test_a_fit_of_too_few_rows_is_null() -> None:
    fit = wr.LevenbergMarquardt(line, "x", "y", p0=(1.0, 1.0))
    whole = wr.Query(window=wr.TimeWindow(10), aggregates={"fit": fit})
    few = {"ts": [1, 11, 12, 13], "x": [1.0, 2.0, 2.0, 2.0], "y": [1.0, 3.0, 4.0, 5.0]}
    assert wr.aggregate(few, whole)["fit"].to_pylist() == [None, None], "one row, and one x"


def test_slices_are_freed_by_compiled_code_whatever_the_results_are() -> None:
    for returns in ("f8", {"low": "f8", "high": "f8"}, pa.list_(pa.float64())):
        apply = wr.Apply(lambda y: [y.min(), y.max()], "y", returns=returns)
        whole = apply.whole([pa.float64()], compiled=False)
        monoid = apply.dense([pa.float64()])
        state = ExtentState(
            "f",
            whole,
            ("y",),
            monoid,
            windows=1,
            compiled=True,
            workers=sharing.Workers(),
            shown=lambda *bounds: ("", ""),
        )
        assert state.monoid.compiles, returns


def test_a_model_of_time_gets_seconds_since_the_first_row() -> None:
    seconds = np.arange(30.0)
    times = pa.array((1.7e15 + 1e6 * seconds).astype(np.int64), pa.timestamp("us"))
    fit = wr.LevenbergMarquardt(line, "ts", "y", p0=(1.0, 1.0))
    whole = wr.Query(window=wr.TimeWindow("10s"), aggregates={"fit": fit})
    found = wr.aggregate({"ts": times, "y": 3 * seconds}, whole)["fit"].to_pylist()
    assert [round(window["p1"], 9) for window in found] == [3.0] * len(found)


def test_a_window_that_stalls_holds_up_nothing_but_its_own_result() -> None:
    """Ten thousand others are computed meanwhile, all come out in order, and their rows go when they are done."""

    def stalls(y: Any) -> Any:
        total = 0.0
        for i in range(30_000_000 if y[0] == 0.0 else 0):
            total += np.sqrt(float(i))
        return total * 0.0 + y[-1]

    rows = 10_100
    table = pa.table({"ts": np.arange(rows), "y": np.arange(float(rows))})
    whole = wr.Query(window=wr.CountWindow(100, 1), aggregates={"last": wr.Apply(stalls, "y")})
    operator = wr.Operator(whole, table.schema, workers=2)
    operator.process(table)
    found = operator.advance(rows)
    assert found["last"].to_pylist() == list(np.arange(99.0, rows))
    assert len(operator.snapshot()) < 5_000  # the rows of the windows that are still open, and no others
