"""Work that threads share: nothing in the answer tells."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scenarios import AGGREGATES, WINDOWS, events, feed, query, streams

import windrow as wr
from windrow.operator import operator, output, parallel, partials, slices


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
            asked = wr.Query(by="k", window=window, aggregates=aggregates, algorithm=algorithm)
            running = wr.Operator(asked, table.schema, threads=pool)
            parts = []
            for begin in range(0, rows, 500):
                parts += [running.process(table.slice(begin, 500)), running.advance(begin + 500)]
            found[algorithm] = pa.concat_tables([*parts, running.flush()])
            assert (running.lcs_tasks > 0) is (algorithm == "PBA")
    assert found["PBA"].equals(found["auto"]) and found["auto"].num_rows


@pytest.mark.parametrize("window", WINDOWS.values(), ids=WINDOWS)
@given(data=st.data())
@settings(max_examples=15, deadline=None)
def test_threads_change_no_answer(window: Any, data: st.DataObject) -> None:
    table = data.draw(streams())
    names = data.draw(st.lists(st.sampled_from(sorted(AGGREGATES)), min_size=1, max_size=4, unique=True))
    asked, stream = query(window, names, late="side"), data.draw(events(table))

    def outputs(**options: Any) -> tuple[list[pa.Table], bytes]:
        running = wr.Operator(asked, table.schema, **options)
        got = [feed(running, event) for event in stream[:-1]]
        return [*got, running.late(), feed(running, stream[-1])], running.snapshot()

    alone = outputs()
    with (
        ThreadPoolExecutor(2) as pool,
        patch.multiple(slices, MANY=1, SHARES=2, PIECE=3),
        patch.multiple(partials, MANY=1),
        patch.multiple(operator, MANY=8),
        patch.object(output, "LARGE", 1),
    ):
        together = outputs(threads=pool)
    assert all(one.equals(other) for one, other in zip(alone[0], together[0], strict=True))
    assert alone[1] == together[1]
