"""Pipelines: columns and rows give the same updates, byte by byte."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pipeline_graphs import (
    SESSIONS,
    A,
    build,
    graphs,
    made,
)

import windrow as wr
from windrow.expressions import Registered
from windrow.pipelines import (
    Change,
    Composite,
    Emissions,
    Id,
    Quotas,
    Runtime,
    Source,
)
from windrow.pipelines.emissions import UpdateColumns
from windrow.pipelines.engine import feed, update_rows
from windrow.storage.pages import MemoryPages

KINDS = {"v": "bigint", "d": "double", "s": "string", "b": "boolean"}
VALUES = {
    "v": st.none() | st.integers(-9, 9) | st.sampled_from([1 << 62, -(1 << 63)]),  # sums of those overflow
    "d": st.none() | st.floats() | st.integers(-9, 9),
    "s": st.none() | st.text(max_size=4) | st.sampled_from(['"', "\\", "%s", ",", "\x00\x1f\u2028é😀"]),
    "b": st.none() | st.booleans(),
}


def rich(name: str, inputs: list[str], first: set[str]) -> Composite:
    """A composite with channels of all types, some of which are null; it may fail, and it filters."""
    return Composite(
        name,
        inputs={f"i{n}": other for n, other in enumerate(inputs)},
        channels={
            "v": " + ".join(f"coalesce(i{n}.v, 1)" for n in range(len(inputs))),
            "d": "-i0.d / 3",
            "s": f"concat(i{len(inputs) - 1}.s, '%d')",
            "b": "i0.d < v or i0.b",
        },
        where="v % 7 != 3",
        types=KINDS,
        compose="first" if name in first else "fresh",
        history=3,
        sink="alerts" if len(inputs) == 1 else None,
    )


@given(
    graphs(),
    st.sampled_from(["arrival", "arrival", "event"]),
    st.sampled_from([True, True, False]),
    st.data(),
)
@settings(max_examples=80, deadline=None)
def test_columns_are_rows_byte_by_byte(
    graph: tuple[dict[str, list[str]], set[str]], order: Any, plain: bool, data: Any
) -> None:
    """What engines are given, and what is stored: in columns as one by one, also if updates come out of order."""
    inputs, first = graph
    if plain:  # no cycles
        places = {name: n for n, name in enumerate(inputs)}
        inputs = {n: [o for o in others if places[o] < places[n]] for n, others in inputs.items()}
        first = set()
    counts = wr.Query(window=wr.TimeWindow("3us"), aggregates={"n": wr.Count()})
    streams: list[Any] = [A, Composite("o/h", {"a": "o/a"}, query=counts)]
    build(streams.append, inputs, first, rich, KINDS)
    streams.append(Composite("o/z", {"h": "o/h", "x": list(inputs)[-1]}, {"n": "h.n", "d": "x.d"}))
    sources = [name for name, others in inputs.items() if not others]
    step = st.integers(0 if data.draw(st.booleans()) else -1, 2)
    values = st.fixed_dictionaries({}, optional=VALUES)
    events = data.draw(st.lists(st.tuples(st.sampled_from(sources), step, values), min_size=4, max_size=30))
    size, ahead, same = (data.draw(st.sampled_from(each)) for each in ((3, 10, 30), (0, 0, 3), (1, 1, 2)))
    found = []
    for columns in (1 << 40, 1):
        pages, ts, parts = MemoryPages(), 0, []
        runtime = Runtime(pages, order=order, columns=columns, sinks=["alerts"])
        runtime.process(changes=[Change.put(stream.to_dict(), by="o") for stream in streams])
        for begin in range(0, len(events), size):
            parts.append(feed(runtime, update_rows([("o/a", ts, begin, '{"v": 1}')]), None))
            rows = []
            for number, (source, moved, named) in enumerate(events[begin : begin + size], begin + 1):
                ts += moved
                rows.append((source, ts, number // same, json.dumps(named)))
            parts.append(feed(runtime, update_rows(rows), None))
            parts.append(feed(runtime, None, ts - 1 + ahead))
            runtime.commit()
        parts.append(feed(runtime, None, 1 << 60))
        runtime.commit()
        stored = {name: page for name, page in pages.held.items() if not name.startswith("w/")}
        found.append((pa.concat_tables(parts).to_pylist(), stored))
    assert found[0] == found[1]


def test_a_table_of_columns_is_that_of_rows() -> None:
    """Of all that a table can hold: types of numbers, nulls, texts, no channels; and rows before, between and after."""
    kinds = [
        pa.int8(),
        pa.uint64(),
        pa.int64(),
        pa.float32(),
        pa.float64(),
        pa.bool_(),
        pa.string(),
        pa.list_(pa.int64()),
    ]
    numbers = [0.1, 1e16, -0.0, 5e-324, float("nan"), float("inf"), float("-inf"), 1e22, 123456789.0, 1e-5]
    given_: list[list[Any]] = [
        [1, -5, None], [1 << 63, 0, 7], [-(1 << 63), None, 3], [0.1, None, 3e38], numbers[:3], [True, None, False],
        ["a,b", None, '"\\\n\x7f\u2028é😀'], [[1, None], [], None],
    ]  # fmt: skip
    several = pa.table({f'"%{kind},é': pa.array(v, kind) for v, kind in zip(given_, kinds, strict=True)})
    tables = [several, several.select([]), several.slice(1, 1), pa.table({"d": numbers})]
    blocks = []
    for n, (table, count) in enumerate(zip(tables, (3, 3, 1, len(numbers)), strict=True)):
        event = np.arange(count) * (n + 1)
        blocks.append(UpdateColumns(f"o/{-n % 3}", n % 2, event, event * 10, event % 2, table, ["o/a"] * 99))
    columns, rows = Emissions(), Emissions()
    for more in (blocks, [], blocks[:1]):
        columns.add("o/r", Id(5, 1), (1.5, None), ("c", "e"))
        columns.add_blocks(more)
    for update in columns:
        rows.add(*update)
    assert columns.to_table().equals(rows.to_table()) and len(rows) == len(columns) == 3 + 17 + 3
    assert Emissions().to_table().equals(rows.to_table()[:0])
    with pytest.raises(TypeError, match="not JSON serializable"):
        moment = pa.table({"t": pa.array([1], pa.timestamp("us"))})
        columns.add_blocks([UpdateColumns("o/t", 0, *[np.zeros(1, np.int64)] * 3, moment, ["o/a"])])
        columns.to_table()


@pytest.mark.parametrize(
    "streams, options",
    [
        ([Composite(f"o/m{n}", {"x": "o/a"}, {"v": "x.v"}) for n in range(2)], {"quotas": Quotas(executions=2)}),
        (
            [Composite("o/m", {"x": "o/a"}, {"d": "half(x.v)"})],
            {"functions": {"half": Registered(lambda v: v // 2, (pa.int64(),), pa.float64())}},
        ),
        ([Composite("o/m", {"x": ("o/a", "o/b"), "y": ("o/a", "o/c")}, {"p": "x.v", "q": "y.v"})], {}),
        ([Source("o/e", channels={}), Composite("o/m", {"x": ("o/a", "o/e")})], {}),
        ([Composite("o/m", {"x": ("o/a", "o/b")}, query=SESSIONS)], {}),
    ],
    ids=["quota", "function", "two inputs", "no channels", "sessions"],
)  # fmt: skip
def test_what_columns_would_do_otherwise_is_done_by_rows_as_it_arrives(
    streams: list[Any], options: Any
) -> None:
    streams = [*(Source(f"o/{name}", channels={"v": "bigint"}) for name in "abc"), *streams]
    rows = [(ts, 0, "o/a", {"v": ts}) for ts in range(10, 40)]
    late = [(ts, 0, "o/b", {"v": ts}) for ts in (12, 39, 40)]
    found = []
    for columns in (1 << 40, 1):
        runtime = Runtime(order="arrival", columns=columns, **options)
        runtime.process(changes=[Change.put(stream.to_dict(), by="o") for stream in streams])
        out = [*runtime.process(rows), *runtime.process(late), *runtime.advance(70), *runtime.process(late)]
        figures = [runtime.state(name).figures for name in runtime.graph.streams]
        found.append((repr(out), figures, runtime.reports(), runtime.position))
    assert found[0] == found[1]


@pytest.mark.parametrize("columns", [1, 1 << 40], ids=["columns", "rows"])
def test_texts_do_not_grow_without_end(columns: int) -> None:
    """Each of eight composites makes its text ten times as long: without a limit, the last one has 10⁸ characters."""
    runtime = Runtime(columns=columns)
    source = Source("o/t", channels={"s": "string"})
    tens = [
        Composite(
            f"o/c{n}", {"x": "o/t" if n == 0 else f"o/c{n - 1}"}, {"s": f"concat({', '.join(['x.s'] * 10)})"}
        )
        for n in range(8)
    ]
    streams = [source, *tens, Composite("o/length", {"x": "o/t"}, {"n": "length(x.s)"})]
    runtime.process(changes=[Change.put(stream.to_dict(), by="o") for stream in streams])
    runtime.process([(ts, 0, "o/t", {"s": "é"}) for ts in (1, 2)])
    out = list(runtime.advance(5))
    lengths = [[len(values[0]) for _, values in made(out, f"o/c{n}")] for n in range(8)]
    assert lengths == [[10 ** (n + 1)] * 2 for n in range(5)] + [[], [], []]
    told = runtime.reports()
    assert [(r.stream, r.at) for r in told] == [("o/c5", Id(ts, 0, "o/t")) for ts in (1, 2)]
    assert "channel 's' would have 1000000 characters; a text has at most 100000" in told[0].message
    assert len(made(out, "o/length")) == 2
