"""What is in memory: arrays shrink when keys are frozen, and windows of collected values take no more than their values."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pyarrow as pa
import pytest
from silent_keys import SECOND, query, rows, run

import windrow as wr
from windrow.operator import row_store, shrinking
from windrow.operator.slices import SliceTable


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


def test_arrays_wait_until_keys_that_leave_together_have_left(monkeypatch: pytest.MonkeyPatch) -> None:
    """Five keys in six leave within five seconds. What stays moves once, to the room that it needs."""
    rooms, shrink = [], shrinking.shrink

    def told(table: SliceTable, updates: int) -> bool:
        moved = shrink(table, updates)
        rooms.extend([table.slot_room] if moved else [])
        return moved

    monkeypatch.setattr(shrinking, "shrink", told)
    asked = wr.Query(by="key", time="ts", window=wr.TimeWindow("100s", "1s"), aggregates={"n": wr.Count()})
    operator, keys = wr.Operator(asked, idle=wr.Idle("5s", cohort=64)), np.arange(6000)
    for second in range(30):
        some = keys[(keys % 6 == 5) | (second < 12 + keys % 6)]
        operator.process(pa.table({"key": some, "ts": np.full(len(some), second * SECOND)}))
        operator.advance(second * SECOND)
    assert operator.idle.freezes == 5000
    assert len(rooms) == 1
    assert rooms[0] < 30_000  # a slice for each second of a thousand keys


def test_collected_values_take_memory_in_proportion_to_their_number() -> None:
    sizes = []
    for count in (200, 800):
        window = wr.TimeWindow(f"{count}s", "1s")
        asked = wr.Query(by="key", time="ts", window=window, aggregates={"seen": wr.Collect("n")})
        data = pa.table({"key": [0] * count, "ts": np.arange(count) * SECOND, "n": np.arange(count)})
        tracemalloc.start()
        try:
            operator = wr.Operator(asked, data.schema, compiled=False)
            before = tracemalloc.get_traced_memory()[0]
            for begin in range(0, count, 10):
                operator.process(data.slice(begin, 10))
                operator.advance((begin + 9) * SECOND)
            sizes.append(tracemalloc.get_traced_memory()[0] - before)
        finally:
            tracemalloc.stop()
    # A list for each slice of all values that follow it would be 16 times as much.
    assert sizes[1] < 6 * sizes[0]


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
