"""``forget_after``: keys that were silent for long start anew, and their state goes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scenarios import WINDOWS, events, feed, query, streams

import windrow as wr
from windrow import errors
from windrow.storage.pages import MemoryPages
from windrow.testing import oracle

KINDS = [name for name in WINDOWS if name.startswith(("count", "slide", "delta", "policy"))]


@pytest.mark.parametrize("kind", KINDS)
@given(data=st.data())
@settings(max_examples=40, deadline=None)
def test_a_silence_starts_a_key_anew(kind: str, data: st.DataObject) -> None:
    table = data.draw(streams())
    after = data.draw(st.sampled_from([15, 20, 40]))
    asked = query(
        WINDOWS[kind], ["n", "peak", "all"], forget_after=after, lateness=data.draw(st.sampled_from([0, 10]))
    )
    stream, store = data.draw(events(table)), MemoryPages()
    stored, restarts = data.draw(st.booleans()), data.draw(st.booleans())
    operator = wr.Operator.open(asked, table.schema, store) if stored else wr.Operator(asked, table.schema)
    found = []
    for event in stream:
        found.append(feed(operator, event))
        if stored:
            operator.commit()
        if restarts:
            opened = wr.Operator.open(asked, table.schema, store) if stored else None
            operator = opened or wr.Operator.restore(asked, operator.snapshot())
    expected, late = oracle.evaluate_stream(stream, asked)
    got = asked.bind(table.schema).sort(pa.concat_tables(found))
    assert got.to_pylist() == expected.to_pylist() or repr(got.to_pylist()) == repr(expected.to_pylist())
    assert operator.late_rows == late.num_rows


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("stored", [False, True])
def test_keys_that_come_once_leave_nothing(kind: str, stored: bool) -> None:
    asked = query(WINDOWS[kind], ["n", "peak"], forget_after=100)
    schema = pa.schema(
        {"k": pa.string(), "ts": pa.int64(), "x": pa.float64(), "i": pa.int32(), "d": pa.int64()}
    )
    store = MemoryPages()
    operator = wr.Operator.open(asked, schema, store) if stored else wr.Operator(asked, schema)
    sizes = []
    for begin in range(0, 12_000, 1500):
        times = np.arange(begin, begin + 1500)
        keys = [f"key {time}" for time in times]
        columns: dict[str, Any] = {
            "k": keys,
            "ts": times,
            "x": times * 1.0,
            "i": pa.array(times % 9, pa.int32()),
        }
        operator.process(pa.table({**columns, "d": times}, schema=schema))
        operator.advance(begin + 1500)
        if stored:
            operator.commit()
        sizes.append(sum(map(len, store.held.values())) if stored else len(operator.snapshot()))
    assert max(sizes[2:]) < 1.5 * sizes[1], sizes


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"window": wr.TimeWindow(10)}, "forget a key by themselves"),
        ({"window": wr.SessionWindow(10)}, "forget a key by themselves"),
        ({"window": wr.CountWindow(3), "late": "update"}, "late='drop' or 'side'"),
        ({"window": wr.CountWindow(3), "early": 5}, "without early"),
        ({"window": wr.SlideByTime(3, 2000)}, "at least the slide"),
        ({"window": wr.CountWindow(3), "forget_after": 0}, "longer than zero"),
    ],
)
def test_what_cannot_be_forgotten_is_refused(options: dict[str, Any], told: str) -> None:
    with pytest.raises(errors.QueryError, match=told):
        wr.Query(**{"aggregates": {"n": wr.Count()}, "forget_after": 1000, **options})


def test_a_query_that_forgets_is_another_query() -> None:
    plain = wr.Query(window=wr.CountWindow(3), aggregates={"n": wr.Count()})
    asked = wr.Query(window=wr.CountWindow(3), aggregates={"n": wr.Count()}, forget_after="1h")
    assert wr.Query.from_json(asked.to_json()) == asked and asked.fingerprint != plain.fingerprint
