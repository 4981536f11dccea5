"""The in-process engine takes data from wherever Arrow data comes from, and keeps slices, not rows."""

from __future__ import annotations

import gc
import tracemalloc
import weakref
from collections.abc import Iterator

import duckdb
import numpy as np
import polars as pl
import pyarrow as pa
import pytest

import windrow as wr
from windrow import errors, memory
from windrow.storage.pages import MemoryPages
from windrow.testing import oracle

TABLE = pa.table(
    {
        "plug": ["a", "b", "a", None, "b"],
        "ts": pa.array([0, 1_500_000, 2_000_000, 2_000_001, 9_000_000], pa.timestamp("us", "UTC")),
        "load": [1.0, 2.0, 3.0, 4.0, None],
    }
)
QUERY = wr.Query(
    by="plug",
    window=wr.TimeWindow("4s", "2s"),
    aggregates={"peak": wr.Max("load"), "n": wr.Count(), "when": wr.Max("ts"), "plugs": wr.Min("plug")},
)
EXPECTED = oracle.evaluate(TABLE, QUERY)


@pytest.mark.parametrize(
    "data",
    [
        TABLE,
        TABLE.to_batches()[0],
        TABLE.to_reader(max_chunksize=2),
        TABLE.to_pandas(),
        pl.from_arrow(TABLE),
        pa.table({**{n: TABLE[n] for n in ("ts", "load")}, "plug": TABLE["plug"].dictionary_encode()}),
        [batch for batch in TABLE.to_batches(max_chunksize=1)],
    ],
    ids=["table", "batch", "reader", "pandas", "polars", "dictionary", "batches"],
)
def test_anything_arrow(data: object) -> None:
    got = wr.aggregate(data, QUERY)
    assert got.cast(EXPECTED.schema).to_pydict().keys() == EXPECTED.to_pydict().keys()
    assert str(got.cast(EXPECTED.schema).to_pylist()) == str(EXPECTED.to_pylist())


def test_duckdb() -> None:
    connection = duckdb.connect()
    connection.register("plugs", TABLE)
    relation = connection.sql("select plug, ts, load from plugs")
    assert str(wr.aggregate(relation.arrow(), QUERY).column("n").to_pylist()) == str(
        EXPECTED.column("n").to_pylist()
    )


def test_no_rows() -> None:
    assert wr.aggregate(TABLE.slice(0, 0), QUERY).equals(EXPECTED.slice(0, 0))
    assert list(wr.stream(TABLE.slice(0, 0), QUERY)) == []


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_any_unit_of_time(unit: str) -> None:
    table = pa.table({"ts": pa.array([-1, 0, 1], pa.timestamp(unit)), "x": [1, 2, 3]})
    query = wr.Query(window=wr.TimeWindow("2s"), aggregates={"n": wr.Count()})
    assert wr.aggregate(table, query).equals(oracle.evaluate(table, query))


def test_a_stream_gives_windows_as_they_become_final() -> None:
    batches = TABLE.sort_by("ts").to_batches(max_chunksize=1)
    tables = list(wr.stream(batches, QUERY))
    assert len(tables) > 1
    assert str(pa.concat_tables(tables).to_pylist()) == str(EXPECTED.to_pylist())


def test_rows_behind_the_delay_are_late() -> None:
    query = wr.Query(window=wr.TimeWindow(10), aggregates={"n": wr.Count()})
    batches = [{"ts": [5]}, {"ts": [25]}, {"ts": [17]}]
    assert [t.column("n").to_pylist() for t in wr.stream(batches, query)] == [[1], [1]]
    assert [t.column("n").to_pylist() for t in wr.stream(batches, query, delay=10)] == [[1], [1, 1]]
    with pytest.raises(errors.DurationError, match="delay"):
        list(wr.stream(batches, query, delay="soon"))


def test_memory_follows_the_windows_not_the_rows() -> None:
    """50 batches of 20,000 rows: the state of a stream does not grow with them."""
    query = wr.Query(
        window=wr.TimeWindow(10_000, 1_000), aggregates={"peak": wr.Max("x"), "mean": wr.Mean("x")}
    )

    def batches() -> Iterator[pa.Table]:
        for begin in range(0, 1_000_000, 20_000):
            yield pa.table(
                {"ts": np.arange(begin, begin + 20_000), "x": np.random.default_rng(begin).random(20_000)}
            )

    peaks = []
    tracemalloc.start()
    for _ in wr.stream(batches(), query):
        peaks.append(tracemalloc.get_traced_memory()[0])
    tracemalloc.stop()
    assert max(peaks[10:]) < 1.2 * max(peaks[:10]) + 2**20


@pytest.mark.parametrize("algorithm", ["auto", "PBA", "DABALite"])
def test_memory_is_given_back_without_waiting_for_the_garbage_collector(algorithm: str) -> None:
    query = wr.Query(window=wr.TimeWindow("4s", "2s"), aggregates={"n": wr.Count()}, algorithm=algorithm)
    gc.disable()
    try:
        operator = wr.Operator(query, TABLE.schema, threads=2)
        operator.process(TABLE)
        operator.flush()
        state = weakref.ref(operator._parts.table)
        del operator
        assert state() is None
    finally:
        gc.enable()


def test_what_is_no_table_is_refused() -> None:
    with pytest.raises(errors.QueryError, match=r"Arrow-exportable.*int"):
        wr.aggregate(7, QUERY)


def test_data_without_a_batch_has_no_columns() -> None:
    for nothing in ([], iter([])):
        with pytest.raises(
            errors.ColumnError, match=r"no batch, so its columns are unknown.*empty_table\(\)"
        ):
            wr.aggregate(nothing, QUERY)
    assert wr.aggregate([TABLE.schema.empty_table()], QUERY).num_rows == 0


def test_columns_of_a_batch_may_be_in_another_order() -> None:
    first, second = TABLE.slice(0, 2), TABLE.slice(2).select(["load", "plug", "ts"])
    assert str(wr.aggregate([first, second], QUERY).to_pylist()) == str(EXPECTED.to_pylist())
    streamed = pa.concat_tables(wr.stream([first, second], QUERY, delay="1h"))
    assert str(streamed.to_pylist()) == str(EXPECTED.to_pylist())
    late: list[pa.Table] = []
    side = wr.Query(window=wr.TimeWindow("1s"), aggregates={"n": wr.Count()}, late="side")
    list(wr.stream([TABLE.slice(4), second, first], side, late=late))
    assert pa.concat_tables(late).num_rows == 4


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        (["plug", "ts"], "batch 2 has no column 'load';"),
        (
            ["plug", "ts", "laod"],
            "batch 2 has no column 'load' and a column 'laod', which the batches before did",
        ),
        (["plug", "ts", "load", "x"], "batch 2 has a column 'x', which"),
    ],
)
def test_a_batch_with_other_columns_is_refused(columns: list[str], message: str) -> None:
    other = pa.table({name: TABLE[name] if name in TABLE.schema.names else TABLE["load"] for name in columns})
    for run in (wr.aggregate, lambda batches, query: list(wr.stream(batches, query))):
        with pytest.raises(errors.ColumnError, match=message):
            run([TABLE, other], QUERY)


def test_state_of_another_column_type_is_refused() -> None:
    query = wr.Query(window=wr.TimeWindow(10), aggregates={"peak": wr.Max("x")})
    double, single = (pa.schema({"ts": pa.int64(), "x": type_}) for type_ in (pa.float64(), pa.float32()))
    pages = MemoryPages()
    operator = wr.Operator.open(query, double, pages)
    operator.process({"ts": [1], "x": [1.5]})
    operator.commit()
    with pytest.raises(
        errors.QueryError, match="'x' was double in the state and is float now; cast it to double"
    ):
        wr.Operator.open(query, single, pages)


def test_a_count_of_all_rows_may_be_written_as_in_sql() -> None:
    assert wr.Count("*") == wr.Count()


def test_a_column_that_changes_its_type_is_refused_if_it_is_read() -> None:
    query = wr.Query(window=wr.TimeWindow(10), aggregates={"peak": wr.Max("x")})
    other = {"ts": [2], "x": [1], "note": [None]}
    with pytest.raises(errors.QueryError, match="column 'x' was double in earlier batches and is int64 now"):
        wr.aggregate([{"ts": [1], "x": [1.5], "note": ["a"]}, other], query)
    batches = [{"ts": [1], "x": [3], "note": ["a"]}, other]
    assert wr.aggregate(batches, query)["peak"].to_pylist() == [3]


@pytest.mark.parametrize("as_list", [False, True])
def test_a_stream_hands_over_its_late_rows(as_list: bool) -> None:
    query = wr.Query(window=wr.TimeWindow(10), aggregates={"n": wr.Count()}, late="side")
    batches = [
        {"ts": [5], "x": [1]},
        {"ts": [25], "x": [2]},
        {"ts": [17, 26], "x": [3, 4]},
        {"ts": [1], "x": [5]},
    ]
    late: list[pa.Table] = []
    windows = wr.stream(batches, query, late=late if as_list else late.append)
    assert [table["n"].to_pylist() for table in windows] == [[1], [2]]
    assert [table.to_pylist() for table in late] == [[{"ts": 17, "x": 3}], [{"ts": 1, "x": 5}]]


def test_late_rows_need_a_taker_and_a_taker_needs_late_rows() -> None:
    side = wr.Query(window=wr.TimeWindow(10), aggregates={"n": wr.Count()}, late="side")
    with pytest.raises(
        errors.QueryError, match=r"late='side', but nothing takes its late rows: give stream\(late"
    ):
        wr.stream([], side)
    with pytest.raises(
        errors.QueryError, match=r"stream\(late=\) needs a query with late='side'.*late='drop'"
    ):
        wr.stream([], QUERY, late=[])
    with pytest.raises(errors.QueryError, match="has to be a function of a table, or a list, not 7"):
        wr.stream([], side, late=7)  # type: ignore[arg-type]


def test_a_negative_delay_is_refused() -> None:
    with pytest.raises(errors.DurationError, match="delay has to be zero or longer, not -100"):
        wr.stream([{"ts": [5]}], QUERY, delay=-100)


def test_a_result_that_cannot_fit_memory_is_refused_before_it_is_made(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    query = wr.Query(window=wr.TimeWindow("3000d", "1us"), aggregates={"n": wr.Count()})
    with pytest.raises(
        errors.QueryError, match=r"at least 259,200,000,000,001 windows, which take 6\.2 PB, and"
    ):
        wr.aggregate({"ts": [1, 2]}, query)
    monkeypatch.setattr(memory, "available", lambda: 100_000_000)
    keyed = wr.Query(by="k", window=wr.TimeWindow(10_000, 1), aggregates={"n": wr.Count()})
    rows = {"ts": np.zeros(1000, np.int64), "k": np.arange(1000)}
    with pytest.raises(
        errors.QueryError, match=r"at least 10,000,000 windows, which take 320\.0 MB, and 100\.0 MB"
    ):
        wr.aggregate(rows, keyed)
    assert wr.aggregate({"ts": [0] * 9, "k": [1] * 9}, keyed).num_rows == 10_000


def test_a_result_that_grows_beyond_memory_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first rows do not show it: later ones have more keys."""
    query = wr.Query(by="k", window=wr.TimeWindow(10_000, 1), aggregates={"n": wr.Count()})
    few = {"ts": np.zeros(1 << 18, np.int64), "k": np.zeros(1 << 18, np.int64)}
    batches = [few, {"ts": np.zeros(2000, np.int64), "k": np.arange(2000)}]
    monkeypatch.setattr(memory, "available", lambda: 1_000_000)
    with pytest.raises(errors.QueryError, match=r"the result has more than [\d,]+ windows"):
        wr.aggregate(batches, query)
