"""Arrays shrink when keys are frozen."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from silent_keys import SECOND, query, rows, run

import windrow as wr
from windrow.operator import row_store, shrinking


@pytest.mark.parametrize("name", ["time", "update in order", "two windows", "whole"])
def test_arrays_shrink_and_nothing_tells(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shrinking, "LEAST", 64)
    monkeypatch.setattr(row_store, "MUCH", 64)
    data, asked = rows(8, 900, disorder=8), query(name)
    expected = list(run(wr.Operator(asked, compiled=False), data, 20))
    operator = wr.Operator(asked, compiled=False, idle=wr.Idle("1s", cohort=1))
    assert list(run(operator, data, 20)) == expected
    rooms = operator.idle.hot_bytes, wr.Operator(asked, data.schema, compiled=False).idle.hot_bytes
    assert rooms[0] < 2 * rooms[1]


def test_a_small_table_shrinks_too() -> None:
    """An engine has many buckets, each with a table of its own."""
    asked = wr.Query(by="key", time="ts", window=wr.TimeWindow("100s", "1s"), aggregates={"n": wr.Sum("n")})
    keys, seconds = np.repeat(np.arange(600), 12), np.tile(np.arange(12), 600)
    data, sizes = pa.table({"key": keys, "ts": seconds * SECOND, "n": keys}), []
    for idle in (None, wr.Idle("5s", cohort=64)):
        operator = wr.Operator(asked, compiled=False, idle=idle)
        operator.process(data)
        operator.advance(20 * SECOND)
        sizes.append(operator.idle.hot_bytes)
    assert 4 * sizes[1] < sizes[0]
