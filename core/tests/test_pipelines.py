"""Pipelines: one tree for each update, whatever the graph looks like; batches, windows, and changes at a time."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pipeline_graphs import (
    FEW,
    SESSIONS,
    A,
    build,
    city,
    diamond,
    graphs,
    made,
    stream_of,
    updates,
)

from windrow.errors import PermissionDenied, PipelineError
from windrow.pipelines import (
    Change,
    Composite,
    Emissions,
    Id,
    Runtime,
    Source,
    Space,
    Update,
)
from windrow.pipelines.ranks import ranks
from windrow.storage.pages import MemoryPages


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


# Batches, windows and changes at a time.


@pytest.mark.parametrize("order", ["event", "arrival"])
def test_a_commit_changes_nothing_that_is_due(order: Any) -> None:
    """An engine hands over the watermarks that the runtime asks for before they have passed, and no others."""
    found = []
    for commits in (False, True):
        runtime = Runtime(order=order)
        streams = [
            Source("o/a", channels={"v": "bigint"}),
            Composite("o/m", {"x": "o/a"}, query=SESSIONS),
            Composite("o/few", {"x": "o/a"}, query=FEW),
        ]
        runtime.process(changes=[Change.put(stream.to_dict(), by="o") for stream in streams])
        out: list[Update] = []
        for ts in (0, 2, 4, 20):
            out += runtime.process([(ts, 0, "o/a", {"v": ts})])
            for watermark in range(ts, ts + 3):
                if commits:
                    runtime.commit()
                if runtime.wake is not None and runtime.watermark < runtime.wake <= watermark:
                    out += runtime.advance(watermark)
            assert out[-1].at.ts == ts
        found.append([*out, *runtime.advance(100)])
    assert found[0] == found[1]
    assert [update.values[-1] for update in found[0] if update.stream == "o/m"] == [3, 1]


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
