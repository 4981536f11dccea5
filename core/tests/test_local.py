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
from windrow import errors, oracle

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
        state = weakref.ref(operator._state)
        del operator
        assert state() is None
    finally:
        gc.enable()


def test_what_is_no_table_is_refused() -> None:
    with pytest.raises(errors.QueryError, match=r"Arrow-exportable.*int"):
        wr.aggregate(7, QUERY)
