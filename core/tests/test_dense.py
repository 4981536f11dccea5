"""Dense rows go straight to the cells of their slices; what comes out is the same to the last bit."""

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import windrow as wr
from windrow.operator import slices
from windrow.operator.plan import DenseRows
from windrow.testing import oracle

AGGREGATES = {"total": wr.Sum("x"), "peak": wr.Max("x"), "spread": wr.Std("x"), "n": wr.Count("x")}
KEYS: dict[str, Any] = {
    "close": lambda k: pa.array(k - 3, pa.int64()),
    "narrow": lambda k: pa.array(np.where(k == 0, -(2**15), 2**15 - 1 - k), pa.int16()),
    "far": lambda k: pa.array(k * 10**15, pa.int64()),
    "unsigned": lambda k: pa.array(2**63 + k.astype(np.uint64), pa.uint64()),
    "texts": lambda k: pa.array([f"plug {key}" for key in k]),
    "nulls": lambda k: pa.array(k, pa.int32(), mask=k == 2),
}


def rows(count: int, key: str = "close", seconds: int = 20, seed: int = 5) -> pa.Table:
    """Rows out of order, from before the epoch on, with nulls."""
    random = np.random.default_rng(seed)
    values = np.where(random.random(count) < 0.1, 1e17, random.normal(size=count))
    return pa.table(
        {
            "k": KEYS[key](random.integers(0, 5, count)),
            "ts": random.integers(-(10**7), (seconds - 10) * 10**6, count),
            "x": pa.array(values, mask=random.random(count) < 0.05),
        }
    )


def by_cells(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many rows went to cells, at each batch from now on."""
    counts: list[int] = []
    arrange = slices.SliceTable.arrange

    def counted(self: slices.SliceTable, data: pa.Table, times: Any) -> Any:
        arranged = arrange(self, data, times)
        counts.extend([data.num_rows] if isinstance(arranged, DenseRows) else [])
        return arranged

    monkeypatch.setattr(slices.SliceTable, "arrange", counted)
    return counts


@pytest.mark.parametrize("key", KEYS)
@pytest.mark.parametrize("window", [wr.TimeWindow("4s", "1s", "300ms"), wr.TimeWindow("2s")])
def test_dense_rows_give_the_bits_of_few_rows_at_a_time(
    key: str, window: wr.TimeWindow, monkeypatch: pytest.MonkeyPatch
) -> None:
    data, query = rows(6000, key), wr.Query(by="k", window=window, aggregates=AGGREGATES)
    counts = by_cells(monkeypatch)
    found = wr.aggregate(data, query)
    assert counts == [6000]
    operator = wr.Operator(query, data.schema)
    for begin in range(0, 6000, 500):
        operator.process(data.slice(begin, 500))
    assert counts == [6000]
    assert found.equals(operator.flush())
    expected, exact = oracle.evaluate(data, query), ["k", "window_start", "window_end", "peak", "n"]
    assert found.select(exact).equals(expected.select(exact))


@pytest.mark.parametrize("compiled", [True, False])
def test_dense_rows_meet_slices_that_are_there_already(
    compiled: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Batches at the end, in the middle and before the beginning of what came before, and windows in between."""
    counts, query = (
        by_cells(monkeypatch),
        wr.Query(by="k", window=wr.TimeWindow("4s", "1s"), aggregates=AGGREGATES),
    )
    batches = [rows(2000, seconds=20 + 5 * seed, seed=seed) for seed in range(4)]
    few = wr.Operator(query, batches[0].schema, compiled=compiled)
    many = wr.Operator(query, batches[0].schema, compiled=compiled)
    for number, batch in enumerate(batches):
        many.process(batch)
        for begin in range(0, 2000, 1000):
            few.process(batch.slice(begin, 1000))
        watermark = -(10**7) + number * 2_500_000
        assert many.advance(watermark).equals(few.advance(watermark))
    assert len(counts) == 4
    assert many.late_rows == few.late_rows > 0
    assert many.flush().equals(few.flush())


@pytest.mark.parametrize(
    ("window", "count"),
    [
        (wr.TimeWindow("4s", "1s"), 5 * 20 * 3),  # few rows for each slice
        (wr.TimeWindow("3500ms", "1s"), 6000),  # slices of two lengths
        (wr.TimeWindow("500ms", "1s"), 6000),  # rows in no window
        (wr.CountWindow(4), 6000),
    ],
)
def test_other_rows_are_grouped(window: Any, count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slices, "FEW", 0)
    data, query = rows(count), wr.Query(by="k", window=window, aggregates=AGGREGATES)
    counts = by_cells(monkeypatch)
    found = wr.aggregate(data, query)
    assert counts == [] and found.num_rows
