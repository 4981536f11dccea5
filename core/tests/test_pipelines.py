"""Pipelines: one tree for each update, whatever the graph looks like; changes in the stream; many owners."""

from __future__ import annotations

import json
import os
import random
import signal
import time
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import windrow as wr
from windrow.errors import CorruptSnapshot, ExpressionError, PermissionDenied, PipelineError
from windrow.expressions import Registered
from windrow.pipelines import (
    Change,
    Composite,
    Emissions,
    Id,
    Quotas,
    Runtime,
    Source,
    Space,
    Update,
    matching,
)
from windrow.pipelines.emissions import UpdateColumns
from windrow.pipelines.engine import feed, update_rows
from windrow.pipelines.ranks import ranks
from windrow.storage.pages import MemoryPages

A = Source("o/a", channels={"v": "bigint"}, read="*")


def made(out: Any, stream: str) -> list[tuple[int, tuple[Any, ...]]]:
    return [(update.at.ts, update.values) for update in out if update.stream == stream]


def updates(stream: str, *pairs: tuple[int, Any]) -> list[dict[str, Any]]:
    return [{"stream": stream, "ts": ts, "v": value} for ts, value in pairs]


# One tree for each update.


def diamond(compose: Any = "fresh") -> list[Any]:
    """a → f → x and a → g1 → g2 → x: the arms have unequal lengths."""
    return [
        A,
        Composite("o/f", inputs={"a": "o/a"}, channels={"v": "a.v + 1"}),
        Composite("o/g1", inputs={"a": "o/a"}, channels={"v": "a.v * 10"}),
        Composite("o/g2", inputs={"g": "o/g1"}, channels={"v": "g.v + 5"}),
        Composite(
            "o/x", inputs={"f": "o/f", "g": "o/g2"}, channels={"v": "f.v * 1000 + g.v"}, compose=compose
        ),
    ]


def test_a_diamond_fires_once_with_both_arms_fresh() -> None:
    space = Space("s")
    space.put(*diamond(), by="o")
    assert made(space.push(updates("o/a", (1, 1), (2, 2))), "o/x") == [(1, (2015,)), (2, (3025,))]
    # As in figure 3.2a of the thesis: the first arm fires, the other one is old, and its update is discarded.
    first = Space("s")
    first.put(*diamond("first"), by="o")
    assert made(first.push(updates("o/a", (1, 1), (2, 2))), "o/x") == [(1, (None,)), (2, (3015,))]
    assert first.figures()[-1]["discarded"] == 2


@pytest.mark.parametrize("order", ["arrival", "event"])
def test_two_sources_with_equal_times_both_count(order: Any) -> None:
    runtime = Runtime(order=order)
    b = Source("o/b", channels={"v": "bigint"})
    both = Composite(
        "o/sum", inputs={"a": "o/a", "b": "o/b"}, channels={"v": "coalesce(a.v, 0) + coalesce(b.v, 0)"}
    )
    runtime.process(changes=[Change.put(stream.to_dict(), by="o") for stream in (A, b, both)])
    out = list(runtime.process([(5, 0, "o/a", {"v": 1}), (5, 0, "o/b", {"v": 10})])) + list(
        runtime.advance(6)
    )
    assert made(out, "o/sum") == [(5, (1,)), (5, (11,))]


def test_a_channel_reads_those_before_it() -> None:
    space = Space("s")
    space.put(A, Composite("o/f", inputs={"a": "o/a"}, channels={"z": "a.v + 1", "b": "z * 2"}), by="o")
    assert made(space.push(updates("o/a", (1, 1))), "o/f") == [(1, (2, 4))]


def test_old_updates_are_discarded_and_counted() -> None:
    space = Space("s")
    space.put(*diamond(), by="o")
    space.push(updates("o/a", (5, 1)))
    assert len(space.push(updates("o/a", (4, 2)))) == 0
    assert space.figures()[0]["discarded"] == 1


# Random graphs, cycles among them, against a small oracle.


class Oracle:
    """The rules of a tree, as plainly as they can be written. It knows nothing of heaps, plans or pages."""

    def __init__(self, inputs: dict[str, list[str]], first: set[str]) -> None:
        self.inputs, self.first = inputs, first
        self.rank = oracle_ranks(inputs)
        self.latest: dict[str, tuple[Any, int]] = {}

    def update(self, source: str, at: tuple[int, int, str], value: int) -> list[tuple[str, int, int]]:
        emitted = [(source, at[0], value)]
        self.latest[source] = (at, value)
        done, waiting = {source}, self.readers(source, {source})
        while waiting:
            name = min(waiting, key=lambda n: (-1 if n in self.first else self.rank[n], n))
            waiting = [each for each in waiting if each != name]
            done.add(name)
            found = 1 + sum(
                self.latest[other][1] if other in self.latest else 0 for other in self.inputs[name]
            )
            found %= 1009
            if found % 7 == 3:  # where
                continue
            self.latest[name] = (at, found)
            emitted.append((name, at[0], found))
            waiting += [each for each in self.readers(name, done) if each not in waiting]
        return emitted

    def readers(self, name: str, done: set[str]) -> list[str]:
        return [each for each, inputs in self.inputs.items() if name in inputs and each not in done]


def oracle_ranks(inputs: dict[str, list[str]]) -> dict[str, int]:
    """As the definition says, with reachability by brute force."""
    found: dict[str, int] = {}

    def above(name: str) -> int:
        lowest = 0 if not inputs[name] else 1
        return max([lowest, *(found[i] + 1 for i in inputs[name] if i in found and i != name)])

    def needs(name: str, left: set[str]) -> set[str]:
        reached, todo = set(), [name]
        while todo:
            for other in inputs[todo.pop()]:
                if other in left and other not in reached:
                    reached.add(other)
                    todo.append(other)
        return reached

    while len(found) < len(inputs):
        left = set(inputs) - set(found)
        ready = [name for name in inputs if name in left and not (set(inputs[name]) - {name}) & left]
        if ready:
            for name in ready:
                found[name] = above(name)
            continue
        waits = {name: needs(name, left) for name in left}
        closed = [n for n in inputs if n in left and all(n in waits[other] for other in waits[n])]
        found[closed[0]] = above(closed[0])
    return found


@st.composite
def graphs(draw: Any) -> tuple[dict[str, list[str]], set[str]]:
    sources = draw(st.integers(1, 3))
    count = draw(st.integers(1, 7))
    names = [f"o/{'s' if n < sources else 'c'}{n}" for n in range(sources + count)]
    inputs: dict[str, list[str]] = {name: [] for name in names[:sources]}
    for n, name in enumerate(names[sources:], sources):
        earlier = draw(st.lists(st.sampled_from(names[:n]), min_size=1, max_size=3, unique=True))
        later = draw(st.lists(st.sampled_from(names[n:]), max_size=2, unique=True))  # cycles, and itself
        inputs[name] = earlier + later
    first = draw(st.sets(st.sampled_from(names[sources:]), max_size=2))
    return inputs, first


def composite(name: str, inputs: list[str], first: set[str]) -> Composite:
    terms = [f"coalesce(i{n}.v, 0)" for n in range(len(inputs))]
    return Composite(
        name,
        inputs={f"i{n}": other for n, other in enumerate(inputs)},
        channels={"v": f"(1 + {' + '.join(terms)}) % 1009"},
        where="v % 7 != 3",
        types={"v": "bigint"},
        compose="first" if name in first else "fresh",
        history=5,
    )


def build(
    put: Any,
    inputs: dict[str, list[str]],
    first: set[str],
    composite: Any = composite,
    channels: Any = A.channels,
) -> None:
    """Put a graph. Streams that do not exist yet cannot be inputs, so cycles are closed by putting streams again."""
    known: list[str] = []
    for name, others in inputs.items():
        if others:
            put(composite(name, [other for other in others if other in known], first))
        else:
            put(Source(name, channels=channels, history=5))
        known.append(name)
    for name, others in inputs.items():
        if others:
            put(composite(name, others, first))


@given(graphs(), st.data())
@settings(max_examples=40, deadline=None)
def test_random_graphs_are_those_of_the_oracle(
    graph: tuple[dict[str, list[str]], set[str]], data: Any
) -> None:
    inputs, first = graph
    assert ranks(inputs) == oracle_ranks(inputs)
    sources = [name for name, others in inputs.items() if not others]
    events = data.draw(
        st.lists(st.tuples(st.sampled_from(sources), st.integers(0, 2), st.integers(0, 9)), max_size=40)
    )
    oracle, ts, expected, rows = Oracle(inputs, first), 0, [], []
    for number, (source, step, value) in enumerate(events):
        ts += step
        rows.append((ts, number, source, {"v": value}))
        expected += oracle.update(source, (ts, number, source), value)
    results = []
    for order, size in (("arrival", 1), ("arrival", 1000), ("event", 7), ("event", 1000)):
        pages = MemoryPages()
        runtime = Runtime(pages, order=order, columns=1)  # type: ignore[arg-type]
        build(lambda stream, r=runtime: r.change(Change.put(stream.to_dict(), by="o")), inputs, first)
        out: list[Update] = []
        for begin in range(0, max(len(rows), 1), size):
            part = rows[begin : begin + size]
            out += list(runtime.process(part))
            if order == "event" and part:
                out += list(runtime.advance(part[-1][0]))
            runtime.commit()
            if size == 7:
                runtime = Runtime(pages, order=order)  # type: ignore[arg-type]
        out += list(runtime.advance(ts + 1))
        assert not runtime.reports()
        results.append([(update.stream, update.at.ts, update.values[0]) for update in out])
    assert all(result == expected for result in results)


# Columns and rows, byte by byte.

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


SESSIONS = wr.Query(window=wr.SessionWindow("3us"), aggregates={"n": wr.Count()})


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


# Batches, windows and changes at a time.


@pytest.mark.parametrize("order", ["event", "arrival"])
def test_a_commit_changes_nothing_that_is_due(order: Any) -> None:
    found = []
    for commits in (False, True):
        runtime = Runtime(order=order)
        streams = [Source("o/a", channels={"v": "bigint"}), Composite("o/m", {"x": "o/a"}, query=SESSIONS)]
        runtime.process(changes=[Change.put(stream.to_dict(), by="o") for stream in streams])
        out: list[Update] = []
        for ts in (0, 2, 4, 20):
            out += [*runtime.process([(ts, 0, "o/a", {"v": ts})]), *runtime.advance(ts)]
            if commits:
                runtime.commit()
        found.append([*out, *runtime.advance(100)])
    assert found[0] == found[1]
    assert [update.values[-1] for update in found[0] if update.stream == "o/m"] == [3, 1]


def city() -> list[Any]:
    hourly = wr.Query(window=wr.TimeWindow("50us", "25us"), aggregates={"n": wr.Count(), "sum": wr.Sum("v")})
    last = wr.Query(by="stream", window=wr.CountWindow(3, 1), aggregates={"peak": wr.Max("v")})
    return [
        *diamond(),
        Source("o/b", channels={"v": "bigint"}),
        Composite("o/both", inputs={"x": ("o/a", "o/b")}),
        Composite("o/hours", inputs={"x": "o/both"}, query=hourly),
        Composite("o/sessions", inputs={"x": "o/a"}, query=SESSIONS),
        Composite("o/peaks", inputs={"x": ("o/a", "o/b")}, query=last),
        Composite("o/over", inputs={"h": "o/hours", "x": "o/x"}, channels={"d": "x.v - h.sum"}, where="d % 2 == 0"),
        Composite(
            "o/now",
            inputs={"x": ("o/a", "o/b")},
            latest={"mean": wr.Mean("v"), "n": wr.Count()},
            expire="3us",
        ),
    ]  # fmt: skip


def stream_of(count: int, seed: int = 1) -> list[Any]:
    generator, ts, rows = random.Random(seed), 0, []
    for number in range(count):
        ts += generator.choice([0, 0, 1, 1, 2, 7])
        rows.append((ts, number, generator.choice(["o/a", "o/b"]), {"v": generator.randrange(-50, 50)}))
    return rows


def trace(
    size: int, order: Any, rows: list[Any], changes: list[Change], pages: Any = None
) -> list[tuple[Any, ...]]:
    """Everything that is emitted, and what is known in the end."""
    pages = MemoryPages() if pages is None else pages
    runtime = Runtime(pages, order=order)
    runtime.process(changes=[Change.put(stream.to_dict(), by="o") for stream in city()])
    runtime.process(changes=changes)
    out: list[Update] = []
    for begin in range(0, len(rows), size):
        part = rows[begin : begin + size]
        out += list(runtime.process(part))
        if order == "event":
            out += list(runtime.advance(part[-1][0]))
        runtime.commit(str(begin + len(part)))
    out += list(runtime.advance(rows[-1][0] + 100))
    assert not runtime.reports()
    figures = [
        (name, runtime.state(name).figures, list(runtime.state(name).history))
        for name in runtime.graph.streams
    ]
    return [*out, *figures]


def test_batches_of_any_size_are_one_stream() -> None:
    rows = stream_of(240)
    at = rows[100][0]
    changes = [
        Change.put(Composite("o/f", inputs={"a": "o/a"}, channels={"v": "a.v - 1"}).to_dict(), by="o", at=Id(at, 0)),
        Change.put(Composite("o/new", inputs={"a": "o/f"}, channels={"v": "a.v * 2"}).to_dict(), by="o", at=Id(at, 5)),
        Change.drop("o/now", by="o", at=Id(rows[170][0], 0)),
    ]  # fmt: skip
    expected = trace(1, "arrival", rows, changes)
    assert sum(isinstance(each, Update) and each.stream == "o/over" for each in expected) > 20
    for size, order in ((1000, "arrival"), (7, "event"), (1000, "event")):
        assert trace(size, order, rows, changes) == expected
    # Without a change that waits for its time, all that can be is computed in columns.
    plain = trace(1, "arrival", rows, [])
    assert trace(1000, "event", rows, []) == plain
    assert [e for e in plain if e[0] == "o/hours"] == [e for e in expected if e[0] == "o/hours"]


def test_columns_are_as_good_as_rows() -> None:
    table = pa.table({"ts": range(0, 600, 1), "v": [n * 7 % 101 for n in range(600)]})
    found = []
    for size in (1, 300, 600):
        space = Space("s")
        space.put(*(stream for stream in city() if stream.name not in ("o/peaks", "o/now")), by="o")
        out = Emissions()
        for begin in range(0, 600, size):
            out.extend(space.push(table.slice(begin, size), stream="o/a"))
        found.append((list(out), space.figures(), space.history("o/over").to_pylist()))
    assert len(found[0][0]) > 3000 and all(each == found[0] for each in found)


def test_a_change_at_a_time_splits_the_stream_there() -> None:
    space = Space("s")
    space.put(A, Composite("o/f", inputs={"a": "o/a"}, channels={"v": "a.v + 1"}), by="o")
    space.put(Composite("o/f", inputs={"a": "o/a"}, channels={"v": "a.v + 100"}), by="o", at=10)
    out = space.push(updates("o/a", (9, 0), (10, 0), (11, 0)))
    assert made(out, "o/f") == [(9, (1,)), (10, (100,)), (11, (100,))]
    with pytest.raises(PipelineError, match="which has passed"):
        space.drop("o/f", by="o", at=5)
    assert [entry["status"] for entry in space.log()] == ["applied", "applied", "applied", "refused"]


def test_a_mistake_in_a_later_change_is_an_error_now() -> None:
    """Those that wait already count: what one of them adds can be built on, and what it drops cannot."""
    space = Space("s")
    space.put(A, by="o")
    later = Composite("o/f", inputs={"a": "o/a"}, channels={"v": "a.v + 1"})
    top = Composite("o/g", inputs={"f": "o/f"}, channels={"v": "f.v * 2"})
    with pytest.raises(PipelineError, match="no stream 'o/f'"):
        space.put(top, by="o", at=20)
    with pytest.raises(PermissionDenied, match="'bob' may not put 'o/f'"):
        space.put(later, by="bob", at=20)
    space.put(later, by="o", at=10)
    with pytest.raises(PipelineError, match="no stream 'o/f'"):
        space.put(top, by="o", at=9)
    space.put(top, by="o", at=20)
    assert made(space.push(updates("o/a", (9, 0), (10, 1), (20, 2))), "o/g") == [(20, (6,))]


# Changes, owners, rights.


def test_owners_and_rights() -> None:
    space = Space("s")
    space.put(Source("ann/t", channels={"v": "double"}), by="ann")
    mine = Composite("bob/m", inputs={"t": "ann/t"}, channels={"v": "t.v * 2"})
    with pytest.raises(PermissionDenied, match="'bob' may not subscribe to 'ann/t'"):
        space.put(mine, by="bob")
    with pytest.raises(PermissionDenied, match="its owner is 'ann'"):
        space.put(Source("ann/u", channels={"v": "double"}), by="bob")
    with pytest.raises(PermissionDenied):
        space.grant("ann/t", "read", "bob", by="bob")
    space.grant("ann/t", "read", "bob", by="ann")
    space.put(mine, by="bob")
    with pytest.raises(PermissionDenied, match="may not write"):
        space.push(updates("ann/t", (1, 1.0)), by="bob")
    assert len(space.push(updates("ann/t", (1, 1.0)), by="ann")) == 2
    with pytest.raises(PipelineError, match="'bob/m' depend"):
        space.drop("ann/t", by="ann", cascade=True)
    # A revoked reader sees nothing more: no update, no latest value, no history; it is counted.
    assert space.latest("ann/t", by="bob") == {"ts": 1, "v": 1.0}
    space.revoke("ann/t", "read", "bob", by="ann")
    assert [update.stream for update in space.push(updates("ann/t", (2, 5.0)))] == ["ann/t"]
    assert space.figures()[1]["blocked"] == 1 and space.latest("bob/m", by="bob") == {"ts": 1, "v": 2.0}
    for ask in (space.latest, space.history):
        with pytest.raises(PermissionDenied, match="'bob' may not read 'ann/t'"):
            ask("ann/t", by="bob")  # type: ignore[operator]
        with pytest.raises(PermissionDenied, match="if there is such a stream"):
            ask("ann/nothing", by="bob")  # type: ignore[operator]
    space.drop("bob/m", by="bob")
    space.drop("ann/t", by="ann")
    assert space.figures() == []


def test_streams_join_that_match() -> None:
    space = Space("s")
    mean = {"c": wr.Mean("c")}
    north = Composite(
        "eve/north", inputs={"t": matching(district="north")}, channels={"c": "t.c"}, types={"t.c": "double"}
    )
    space.put(
        north,
        Composite("eve/mean", inputs={"t": matching(district="north")}, types={"t.c": "double"}, latest=mean),
        by="eve",
    )
    for n in range(3):
        source = Source(
            f"ann/t{n}", channels={"c": "double"}, read="*", labels={"district": "north" if n else "south"}
        )
        space.put(source, by="ann")
    space.put(Source("ann/secret", channels={"c": "double"}, labels={"district": "north"}), by="ann")
    space.put(Source("ann/text", channels={"c": "string"}, read="*", labels={"district": "north"}), by="ann")
    rows = [
        {"stream": f"ann/{name}", "ts": n, "c": v}
        for n, (name, v) in enumerate([("t0", 1.0), ("t1", 2.0), ("t2", 4.0), ("secret", 9.0)])
    ]
    out = space.push(rows)
    assert made(out, "eve/north") == [(1, (2.0,)), (2, (4.0,))]
    assert made(out, "eve/mean") == [(1, (2.0,)), (2, (3.0,))]
    space.grant("ann/secret", "subscribe", "eve", by="ann")
    assert made(space.push([{"stream": "ann/secret", "ts": 8, "c": 9.0}]), "eve/mean") == [(8, (5.0,))]
    space.drop("ann/secret", by="ann")
    space.drop("ann/t1", by="ann")
    assert made(space.push([{"stream": "ann/t2", "ts": 9, "c": 6.0}]), "eve/mean") == [(9, (6.0,))]


def test_state_survives_what_does_not_concern_it() -> None:
    space = Space("s")
    hours = Composite(
        "o/h", inputs={"a": "o/a"}, query=wr.Query(window=wr.TimeWindow("10us"), aggregates={"n": wr.Count()})
    )
    space.put(A, hours, Composite("o/f", inputs={"h": "o/h"}, channels={"n": "h.n"}), by="o")
    space.push(updates("o/a", (1, 1), (2, 1)))
    changed = Composite("o/f", inputs={"h": "o/h"}, channels={"n": "h.n * 2"})
    labelled = Composite("o/h", inputs=hours.inputs, query=hours.query, labels={"unit": "count"})
    assert space.diff([changed, labelled, A, Source("o/z", channels={"v": "double"})]) == [
        {"stream": "o/f", "effect": "restarted"},
        {"stream": "o/h", "effect": "changed"},
        {"stream": "o/a", "effect": "unchanged"},
        {"stream": "o/z", "effect": "added"},
    ]
    space.put(changed, labelled, by="o")
    assert made(space.advance(10), "o/f") == [(10, (4,))]
    # A replayed composite is as if it had been there; so are its windows.
    space.push(updates("o/a", (11, 7), (25, 8)))
    space.put(Composite("o/r", inputs={"a": "o/a"}, channels={"v": "a.v + 1"}, start="replay"), by="o")
    space.put(Composite("o/rh", inputs=hours.inputs, query=hours.query, start="replay"), by="o")
    assert space.history("o/r").column("v").to_pylist() == [2, 2, 8, 9]
    assert (
        space.history("o/rh").column("n").to_pylist()
        == space.history("o/h").column("n").to_pylist()
        == [2, 1]
    )
    with pytest.raises(PipelineError, match="'o/a' cannot change: 'o/r' depends on it"):
        space.put(Source("o/a", channels={"w": "bigint"}), by="o")


def test_windows_are_saved_after_a_drop() -> None:
    pages = MemoryPages()
    hours = Composite(
        "o/h", inputs={"a": "o/a"}, query=wr.Query(window=wr.TimeWindow("10us"), aggregates={"n": wr.Count()})
    )
    space = Space("s", pages)
    space.put(A, hours, Composite("o/f", inputs={"a": "o/a"}, channels={"v": "a.v"}), by="o")
    space.push(updates("o/a", (1, 1)))
    space.drop("o/f", by="o")
    space.push(updates("o/a", (2, 1)))
    assert made(Space("s", pages).advance(10), "o/h") == [(10, (0, 10, 2))]


def test_streams_are_dropped_and_replaced_right_after_a_restart() -> None:
    """Their state is in the store, and of channels that the graph no longer has."""
    pages = MemoryPages()
    copy = Composite("o/f", inputs={"a": "o/a"}, channels={"v": "a.v"})
    peaks = wr.Query(window=wr.TimeWindow("10us"), aggregates={"peak": wr.Max("v")})
    space = Space("s", pages)
    space.put(
        Source("o/a", channels={"v": "double"}), copy, Composite("o/h", {"x": "o/f"}, query=peaks), by="o"
    )
    space.put(Composite("o/g", inputs={"a": "o/a"}, channels={"v": "a.v"}), by="o")
    space.push({"stream": "o/a", "ts": 1, "v": 1.5})
    space = Space("s", pages)
    space.drop("o/g", by="o")
    assert not [name for name in pages.get(["s/o/g"])]
    space.put(Source("o/a", channels={"v": "bigint"}), by="o")
    # What is computed from it has values of another type, so it begins anew; and it can be opened again.
    assert space.latest("o/f") is None
    space.push({"stream": "o/a", "ts": 2, "v": 2})
    space = Space("s", pages)
    assert space.latest("o/f") == {"ts": 2, "v": 2}
    assert made(space.advance(10), "o/h") == [(10, (0, 10, 2))]
    assert Space("s", pages).latest("o/h") == {"ts": 10, "window_start": 0, "window_end": 10, "peak": 2}


def test_one_failure_stops_nobody_else() -> None:
    sent: list[Update] = []
    functions = {"risky": Registered(lambda v: 1 // (v - 1), (pa.int64(),), pa.int64())}
    space = Space(
        "s", functions=functions, sinks={"alerts": sent.append}, quotas=Quotas(streams=5, executions=50)
    )
    space.put(A, by="o")
    space.put(Composite("o/bad", inputs={"a": "o/a"}, channels={"v": "risky(a.v)"}), by="o")
    space.put(Composite("o/big", inputs={"a": "o/a"}, channels={"v": "a.v * 4611686018427387904"}), by="o")
    space.put(Composite("o/good", inputs={"a": "o/a"}, channels={"v": "a.v + 1"}, sink="alerts"), by="o")
    assert made(space.push(updates("o/a", (1, 1), (2, 3))), "o/good") == [(1, (2,)), (2, (4,))]
    told = [(report.kind, report.stream, report.at.ts if report.at else None) for report in space.reports()]
    assert told == [("failed", "o/bad", 1), ("failed", "o/big", 2)]
    assert [update.values for update in sent] == [(2,), (4,)]
    space.push(
        [
            {"stream": "o/a", "ts": 3, "w": 1},
            {"stream": "o/a", "ts": 4, "v": "x"},
            {"stream": "o/a", "ts": 5, "v": 5},
        ]
    )
    assert [report.kind for report in space.reports()][:2] == ["refused", "refused"] and space.latest(
        "o/a"
    ) == {"ts": 5, "v": 5}
    for wrong, message in (
        (Composite("o/w", inputs={"a": "o/a"}, channels={"v": "().__class__"}), "channel 'v' of 'o/w'"),
        (Composite("o/w", inputs={"a": "o/a"}, channels={"v": "eval('1')"}), "no function 'eval'"),
        (Composite("o/w", inputs={"a": "o/a"}, sink="elsewhere"), "no sink 'elsewhere'"),
        (Composite("o/w", inputs={"a": "o/b"}), "no stream 'o/b'"),
        (Composite("o/w", inputs={"a": "o/a"}, history=10**9), "at most 100000"),
    ):
        with pytest.raises((PipelineError, ExpressionError), match=message.replace("(", r"\(")):
            space.put(wrong, by="o")
    space.put(Source("o/z", channels={"v": "double"}), by="o")
    with pytest.raises(PipelineError, match="has 5 streams"):
        space.put(Source("o/y", channels={"v": "double"}), by="o")


def test_history_is_queried_by_time_condition_and_box() -> None:
    space = Space("s")
    space.put(Source("o/p", channels={"lat": "double", "lon": "double"}, history=40), by="o")
    space.push([{"stream": "o/p", "ts": n, "lat": float(n), "lon": -float(n)} for n in range(100)])
    assert space.history("o/p").num_rows == 40
    assert space.history("o/p", since=70, until=80, where="lat % 1 == 0" if False else "lat > 75").column(
        "ts"
    ).to_pylist() == [76, 77, 78, 79]
    assert space.history("o/p", box=("lat", "lon", 61.5, -99, 70, -65), last=3).column("ts").to_pylist() == [
        68,
        69,
        70,
    ]


# State.


def job(pages: Any, sent: Any, told: Any) -> None:
    """Goes on from the last commit to the end of the stream. A change is on its way in the middle of it."""
    runtime = Runtime(pages, order="event")
    if not runtime.graph.streams:
        runtime.process(changes=[Change.put(stream.to_dict(), by="o") for stream in city()])
        runtime.commit("0")
    rows, begin = stream_of(300), int(runtime.source_position)
    while begin < len(rows):
        part = rows[begin : begin + 5]
        if begin == 150:
            f = Composite("o/f", inputs={"a": "o/a"}, channels={"v": "a.v - 1"})
            runtime.process(changes=[Change.put(f.to_dict(), by="o", at=Id(part[-1][0] + 3, 0))])
        out = [*runtime.process(part), *runtime.advance(part[-1][0])]
        sent.write("".join(f"{begin} {u.stream} {u.at} {u.values}\n" for u in out))
        sent.flush()
        told(begin)
        begin += len(part)
        runtime.commit(str(begin))


def _tell(pipe: int, _: int) -> None:
    os.write(pipe, b".")


def test_killed_anywhere_it_goes_on_from_its_last_commit(tmp_path: Path) -> None:
    rocksdb = pytest.importorskip("windrow.storage.rocksdb")
    pytest.importorskip("rocksdict")
    with open(tmp_path / "whole", "w") as whole:
        job(MemoryPages(), whole, lambda begin: None)
    generator, kills, ended = random.Random(7), 0, False
    while not ended:
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            code = 1
            try:
                with open(tmp_path / "crashed", "a") as sent:
                    job(
                        rocksdb.RocksDBPages(tmp_path / "state", sync=False),
                        sent,
                        partial(_tell, writing),
                    )
                code = 0
            finally:
                os._exit(code)
        os.close(writing)
        life = generator.randrange(1, 6)
        while life and os.read(reading, 1):
            life -= 1
        if not life:
            time.sleep(generator.random() / 200)  # before, in or after a commit
            os.kill(child, signal.SIGKILL)
            kills += 1
        ended = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        os.close(reading)
    # What was sent before a commit that did not happen was sent again: the same lines, under the same position.
    lines = (tmp_path / "crashed").read_text().splitlines()
    assert kills >= 20 and list(dict.fromkeys(lines)) == (tmp_path / "whole").read_text().splitlines()


def test_damaged_state_is_refused() -> None:
    pages = MemoryPages()
    space = Space("s", pages)
    space.put(*diamond(), by="o")
    space.push(updates("o/a", *((n, n) for n in range(40))))
    for name in list(pages.held):
        for broken in (pages.held[name][:-1], b"00000000" + pages.held[name][8:], b""):
            damaged = MemoryPages()
            damaged.commit({**pages.held, name: broken}, [])
            with pytest.raises(CorruptSnapshot):
                again = Space("s", damaged)
                for stream in again.runtime.graph.streams:
                    again.history(stream)
    assert Space("s", pages).history("o/x").num_rows == 40


def test_the_command(tmp_path: Path) -> None:
    pytest.importorskip("rocksdict")
    from click.testing import CliRunner

    from windrow.cli import main

    (tmp_path / "a.toml").write_text(
        '[[stream]]\nname = "ann/t"\nchannels = { f = "double" }\nread = ["*"]\n'
    )
    (tmp_path / "b.toml").write_text(
        '[[stream]]\nname = "bob/c"\ninputs = { t = "ann/t" }\nchannels = { c = "(t.f - 32) / 1.8" }\n'
    )
    rows = ['{"stream": "ann/t", "ts": 1, "f": 50}', '{"stream": "ann/t", "ts": 2, "f": 14}']
    (tmp_path / "rows.jsonl").write_text("\n".join(rows) + "\n")

    def windrow(*words: str, code: int = 0) -> str:
        done = CliRunner().invoke(main, ["pipeline", *words, "--store", str(tmp_path / "store")])
        assert done.exit_code == code, done.output
        return done.output

    windrow("put", str(tmp_path / "a.toml"), "--by", "ann")
    assert windrow("diff", str(tmp_path / "a.toml"), str(tmp_path / "b.toml")).split() == [
        "unchanged",
        "ann/t",
        "added",
        "bob/c",
    ]
    windrow("put", str(tmp_path / "b.toml"), "--by", "bob")
    assert windrow("run", "--input", str(tmp_path / "rows.jsonl")).count("\n") == 4
    assert windrow("run", "--input", str(tmp_path / "rows.jsonl")) == ""  # it was read to the end
    assert windrow("latest", "bob/c").strip() == '{"ts": 2, "c": -10.0}'
    assert windrow("history", "bob/c", "--where", "c > 0").count("\n") == 1
    assert "depend(s) on it" in windrow("drop", "ann/t", "--by", "ann", code=2)
    windrow("grant", "ann/t", "read", "*", "--by", "ann", "--revoke")
    assert "may not read 'ann/t'" in windrow("latest", "ann/t", "--by", "bob", code=2)
    assert "revoked    ann/t" in windrow("explain", "bob/c") and "×" in windrow("draw")
