"""PBA over the operator's runs: other threads compute the lcs, and nothing in the answer tells."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pyarrow as pa
import pytest

import windrow as wr
from windrow import parallel


@pytest.mark.parametrize(
    "window", [wr.CountWindow(64, 1), wr.CountWindow(50, 7), wr.TimeWindow(90, 10), wr.SlideByTuple(80, 3)]
)
def test_a_pool_that_operators_share_computes_the_lcs_of_chunks(
    window: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parallel, "SMALL_TASK", 100)
    rng = np.random.default_rng(5)
    rows = 3000
    table = pa.table(
        {
            "k": rng.integers(0, 3, rows),
            "ts": np.arange(rows) + rng.integers(0, 9, rows),
            "v": rng.normal(size=rows),
        }
    )
    aggregates = {"peak": wr.Max("v"), "last": wr.Last("v"), "all": wr.Collect("ts")}
    found = {}
    with ThreadPoolExecutor(2) as pool:
        for algorithm in ("auto", "PBA"):
            query = wr.Query(by="k", window=window, aggregates=aggregates, algorithm=algorithm)
            operator = wr.Operator(query, table.schema, threads=pool)
            parts = []
            for begin in range(0, rows, 500):
                parts += [operator.process(table.slice(begin, 500)), operator.advance(begin + 500)]
            found[algorithm] = pa.concat_tables([*parts, operator.flush()])
            assert (operator.lcs_tasks > 0) is (algorithm == "PBA")
    assert found["PBA"].equals(found["auto"]) and found["auto"].num_rows
