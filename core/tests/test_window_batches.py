"""Emitter, workers and collector: the windows of an operator, in its order, whoever computes them and whatever is lost."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from test_apply import WINDOWS, query, rows

import windrow as wr
from windrow.columns.encoding import decode_value, encode_value
from windrow.errors import AggregateError, CorruptSnapshot, QueryError
from windrow.kernels.slices.layout import FOREVER
from windrow.operator.emitter import Emitter
from windrow.operator.window_batches import WindowWorker
from windrow.operator.window_order import WindowOrder, hold
from windrow.storage.pages import MemoryPages
from windrow.testing import oracle


def fails(y: Any) -> float:
    if y[0] == 7:
        raise ValueError("seven")
    return float(y[0])


@pytest.mark.parametrize("kind", WINDOWS)
def test_the_windows_of_scattered_workers_are_those_of_the_definition(kind: str) -> None:
    """Batches are computed in any order. The emitter loses its memory between commits, with windows in flight."""
    whole, table, random = query(kind), rows(), np.random.default_rng(5)
    worker, order = WindowWorker(whole, table.schema), WindowOrder(whole.bind(table.schema))
    pages, held, found = MemoryPages(), [], []
    times = table["ts"].to_numpy()
    for begin in range(0, table.num_rows, 100):
        emitter = Emitter(whole, table.schema, pages)
        some = table.slice(begin, 100)
        emitter.process(some)
        last = begin + 100 >= table.num_rows
        watermark = FOREVER if last else int(times[begin + 100])
        batches = emitter.advance(watermark)
        lost = Emitter(whole, table.schema, pages)  # it does not commit, so the same windows are due again
        lost.process(some)
        assert lost.advance(watermark)["windows"].to_pylist() == batches["windows"].to_pylist()
        emitter.commit()
        sent = batches["batch"].to_pylist()
        held += [hold(*worker.finished(sent[n])) for n in random.permutation(len(sent))]
        ready, held = order.ready(held, watermark)
        found.append(ready)
    assert not held
    expected = oracle.evaluate(table, whole)
    together = pa.concat_tables(found)
    if kind in ("count", "delta", "policy"):  # by watermark first; those of a key are in order
        for key in range(4):
            mine, theirs = (t.filter(pa.array(t["k"].to_numpy() == key)) for t in (together, expected))
            assert mine.equals(theirs)
    else:
        assert together.equals(expected)


def test_an_operator_goes_on_from_the_state_of_an_emitter() -> None:
    """Who computes windows is no part of the state."""
    table, pages = rows(), MemoryPages()
    whole = wr.Query(
        by="k", window=wr.SlideByTuple(100, 2), aggregates={"middle": wr.Median("x", where="y > 10")}
    )
    emitter = Emitter(whole, table.schema, pages)
    emitter.process(table.slice(0, 200))
    sent = emitter.advance(table["ts"][200].as_py())["batch"].to_pylist()
    emitter.commit()
    operator = wr.Operator.open(whole, table.schema, pages)
    operator.process(table.slice(200))
    worker = WindowWorker(whole, table.schema)
    found = pa.concat_tables([*map(worker.windows, sent), operator.flush()])
    assert whole.bind(table.schema).sort(found).equals(oracle.evaluate(table, whole))


def test_a_row_is_sent_at_most_about_twice() -> None:
    """Windows that share their rows travel together."""
    table = pa.table({"ts": np.arange(100_000), "x": np.arange(100_000.0)})
    whole = wr.Query(window=wr.CountWindow(1000, 10), aggregates={"middle": wr.Median("x")})
    emitter, worker = Emitter(whole, table.schema), WindowWorker(whole, table.schema)
    emitter.process(table)
    batches = emitter.advance(FOREVER)["batch"].to_pylist()
    assert len(batches) >= 40
    assert sum(map(len, batches)) < 2.5 * 8 * table.num_rows + 9901 * 40
    windows = pa.concat_tables([worker.windows(batch) for batch in batches])
    assert windows.equals(wr.aggregate(table, whole))


def test_a_worker_says_which_window_failed() -> None:
    table = rows()
    whole = wr.Query(by="k", window=wr.TimeWindow(10), aggregates={"f": wr.Apply(fails, "y")})
    emitter, worker = Emitter(whole, table.schema), WindowWorker(whole, table.schema)
    emitter.process(table)
    with pytest.raises(AggregateError, match=r"f: fails\(y\) raised .* of key \d from \d+ to \d+"):
        for batch in emitter.advance(FOREVER)["batch"].to_pylist():
            worker.windows(batch)


def test_damaged_batches_are_refused() -> None:
    """What a worker is sent is data: every position is checked before a function sees a row."""
    table = rows()
    whole = wr.Query(window=wr.CountWindow(10), aggregates={"middle": wr.Median("y")})
    emitter, worker = Emitter(whole, table.schema), WindowWorker(whole, table.schema)
    emitter.process(table)
    batch = emitter.advance(FOREVER)["batch"][0].as_py()
    watermark, windows, sent = decode_value(batch)
    fewer = Emitter(whole, table.schema)
    fewer.process(table.slice(0, 20))
    other = decode_value(fewer.advance(FOREVER)["batch"][0].as_py())
    crafted = [
        b"", batch[:-5], encode_value([watermark, windows]), encode_value(["", windows, sent]),
        encode_value([watermark, sent["middle"], sent]), encode_value([watermark, windows, {"other": b""}]),
        encode_value([watermark, windows, {"middle": windows}]), encode_value([watermark, windows, other[2]]),
    ]  # fmt: skip
    for blob in crafted:
        with pytest.raises(CorruptSnapshot):
            worker.windows(blob)


def test_a_query_without_such_a_function_is_refused() -> None:
    schema = rows().schema
    with pytest.raises(QueryError, match="has none: leave workers out"):
        Emitter(wr.Query(window=wr.CountWindow(3), aggregates={"n": wr.Count()}), schema)
    late = wr.Query(window=wr.CountWindow(3), aggregates={"m": wr.Apply(fails, "y")}, late="update")
    with pytest.raises(QueryError, match="leave out late='update'"):
        Emitter(late, schema)
