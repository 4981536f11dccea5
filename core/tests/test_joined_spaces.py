"""Edges between spaces: what comes out is what one space with all streams would give."""

from __future__ import annotations

import random
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pipeline_kills import kill_until_done

import windrow as wr
from windrow.errors import PipelineError
from windrow.pipelines import Change, Composite, Id, Joined, Runtime, Source, Space
from windrow.storage.pages import MemoryPages

ROUNDS = {"s1": 1, "s2": 2}
KINDS = ("sum", "sum", "sum", "union", "total", "span", "tumbling", "keyed", "session", "count", "latest")
Out = tuple[str, Id, tuple[Any, ...]]


def composite(name: str, kind: str, inputs: list[str], factor: int = 1, **more: Any) -> Composite:
    """A composite of a kind. All streams have a channel v."""
    aliases = {f"i{n}": other for n, other in enumerate(inputs)}
    terms = " + ".join(f"coalesce({alias}.v, 0)" for alias in aliases)
    windows: dict[str, Any] = {
        "span": wr.TimeWindow(8, 4),
        "tumbling": wr.TimeWindow(4),
        "keyed": wr.TimeWindow(4),
        "session": wr.SessionWindow(3),
        "count": wr.CountWindow(3, 2),
    }
    aggregates = {"v": wr.Sum("v"), "n": wr.Count()}
    if kind in windows:
        by = ["stream"] if kind == "keyed" else []
        query = wr.Query(by, window=windows[kind], aggregates=aggregates)
        return Composite(name, {"i": inputs}, channels={"v": f"i.v * {factor}"}, query=query, **more)
    if kind == "latest":
        return Composite(
            name, {"i": inputs}, channels={"v": f"i.v * {factor}"}, latest=aggregates, expire=7, **more
        )
    if kind == "union":
        return Composite(name, {"i": inputs}, channels={"v": f"i.v * {factor}"}, **more)
    if kind == "total":
        aliases["own"], terms = name, terms + " + coalesce(own.v, 0)"
    return Composite(
        name,
        aliases,
        channels={"v": f"({terms} + {factor}) % 1009"},
        where="v % 7 != 3",
        types={"v": "bigint"},
        **more,
    )


@st.composite
def cut_graphs(draw: Any) -> tuple[dict[str, tuple[str, list[str], int]], dict[str, list[Any]]]:
    """An acyclic graph with the space of each stream, and changes of some: (from when on, the new factor, or None to drop)."""
    sources, count = draw(st.integers(1, 3)), draw(st.integers(1, 7))
    names = draw(st.permutations([f"o/{letter}" for letter in "abcdefghij"]))[: sources + count]
    graph: dict[str, tuple[str, list[str], int]] = {}
    changes: dict[str, list[Any]] = {}
    for number, name in enumerate(names):
        if number < sources:
            graph[name] = ("source", [], draw(st.integers(0, 2)))
            continue
        size = draw(st.integers(1, 3))
        inputs = draw(st.lists(st.sampled_from(names[:number]), min_size=1, max_size=size, unique=True))
        least = max(graph[other][2] for other in inputs)
        graph[name] = (draw(st.sampled_from(KINDS)), inputs, draw(st.integers(least, 2)))
        if draw(st.booleans()):
            changes[name] = [(draw(st.integers(0, 12)), draw(st.integers(2, 5)))]
    return graph, changes


UPDATES = st.lists(
    st.tuples(st.integers(0, 20), st.integers(0, 1), st.integers(0, 9), st.integers(0, 50)),
    min_size=1,
    max_size=40,
)


@given(cut_graphs(), UPDATES, st.lists(st.integers(0, 22), max_size=4))
@settings(max_examples=50, deadline=None)
def test_a_graph_that_is_cut_into_spaces_is_that_of_one_space(
    cut: Any, given_: list[Any], marks: list[int]
) -> None:
    graph, changes = cut
    sources = [name for name, (kind, *_) in graph.items() if kind == "source"]
    rows = [(sources[which % len(sources)], ts, sequence, v) for ts, sequence, which, v in given_]
    watermarks = [*sorted(set(marks)), 100]
    whole = Space("whole", order="event")
    put(graph, changes, {name: whole for name in graph})
    expected = run(
        lambda watermark: [whole.advance(watermark)], {name: whole for name in graph}, rows, watermarks
    )

    spaces = [Space(f"s{number}", order="event", rounds=ROUNDS) for number in range(3)]
    home = {name: spaces[place] for name, (_, _, place) in graph.items()}
    export(graph, whole, home, spaces)
    put(graph, changes, home)
    joined = Joined(*spaces)
    found = run(lambda watermark: joined.advance(watermark).values(), home, rows, watermarks)
    assert found == expected
    assert not [
        report for space in (whole, *spaces) for report in space.reports() if report.kind != "refused"
    ]


def readers(graph: Any, name: str) -> set[int]:
    """The spaces of others that read a stream."""
    return {place for _, inputs, place in graph.values() if name in inputs} - {graph[name][2]}


def put(graph: Any, changes: Any, home: dict[str, Space]) -> None:
    """The streams of a graph, each where it lives. Those that change are put again, at a time."""
    for name, (kind, inputs, _) in graph.items():
        space = home[name]
        export = () if space.name == "whole" else tuple(f"s{place}" for place in sorted(readers(graph, name)))
        if kind == "source":
            space.put(Source(name, channels={"v": "bigint"}, export=export), by="o")
            continue
        space.put(composite(name, kind, inputs, export=export), by="o")
        for at, factor in changes.get(name, ()):
            space.put(composite(name, kind, inputs, factor, export=export), by="o", at=at)


def export(graph: Any, whole: Space, home: dict[str, Space], spaces: list[Space]) -> None:
    """The imports that the spaces need, with the channels that the streams have in one space."""
    names = {"int64": "bigint", "string": "string"}
    for name in graph:
        kinds = whole.runtime.graph.channels(name) or {}
        channels = {channel: names[str(kind)] for channel, kind in kinds.items()}
        for place in sorted(readers(graph, name)):
            spaces[place].put(Source(name, channels, space=home[name].name), by="o")


def run(advance: Any, home: dict[str, Space], rows: list[Any], watermarks: list[int]) -> list[Out]:
    """Push updates as the watermark lets them in; what all streams emit where they live, sorted."""
    found: list[Out] = []
    for before, watermark in zip([-1, *watermarks], watermarks, strict=False):
        for stream, ts, sequence, v in rows:
            if before <= ts < watermark or (before == -1 and ts < 0):
                home[stream].push({"stream": stream, "ts": ts, "sequence": sequence, "v": v})
        for out in advance(watermark):
            for update in out:
                found.append((update.stream, update.at, update.values))
    return sorted(set(found), key=repr)


def district(pages: dict[str, MemoryPages]) -> tuple[Space, Space]:
    """Two spaces, opened from their stores."""
    north, city = (
        Space(name, pages.setdefault(name, MemoryPages()), order="event", rounds={"city": 1})
        for name in ("north", "city")
    )
    return north, city


def put_district(north: Space, city: Space) -> None:
    north.put(Source("o/t", channels={"v": "bigint"}), by="o")
    north.put(composite("o/sum", "total", ["o/t"], export="city"), by="o")
    north.put(composite("o/span", "tumbling", ["o/t"], export="city"), by="o")
    city.put(Source("o/sum", channels={"v": "bigint"}, space="north", read="*"), by="o")
    kinds = dict.fromkeys(("window_start", "window_end", "v", "n"), "bigint")
    city.put(Source("o/span", channels=kinds, space="north", read="*", history=500), by="o")
    city.put(Composite("p/meet", {"a": "o/sum", "b": "o/span"}, {"v": "a.v * 1000 + b.v"}), by="p")
    pairs = wr.Query(window=wr.CountWindow(2), aggregates={"n": wr.Sum("v")})
    city.put(Composite("p/count", {"a": "o/sum"}, query=pairs, history=500), by="p")


@pytest.mark.parametrize("lost", ["north", "city", "both"])
def test_a_process_that_ends_between_two_spaces_loses_and_doubles_nothing(lost: str) -> None:
    """At every step, one of the spaces or both are opened again from what they have committed."""
    undisturbed = district({})
    put_district(*undisturbed)
    joined = Joined(*undisturbed)
    pages: dict[str, MemoryPages] = {}
    put_district(*district(pages))
    expected: list[Any] = []
    for ts in range(1, 12):
        undisturbed[0].push({"stream": "o/t", "ts": ts, "sequence": 0, "v": ts})
        expected += joined.advance(ts)["city"]
        north, city = district(pages)
        north.push({"stream": "o/t", "ts": ts, "sequence": 0, "v": ts})
        north.advance(ts)  # the process ends here: what is exported has not come to the city
        if lost != "city":
            north, _ = district(pages)
        if lost != "north":
            _, city = district(pages)
        Joined(north, city).advance(ts)
    _, city = district(pages)
    for stream in ("p/meet", "p/count", "o/sum", "o/span"):
        assert city.history(stream).equals(undisturbed[1].history(stream)), stream
        assert city.latest(stream) == undisturbed[1].latest(stream)
    assert len(expected) > 25 and not city.reports()


def test_a_restart_that_waits_in_the_space_that_imports_is_there_after_one() -> None:
    pages: dict[str, MemoryPages] = {}
    north, city = district(pages)
    put_district(north, city)
    joined = Joined(north, city)
    north.push([{"stream": "o/t", "ts": ts, "sequence": 0, "v": ts} for ts in range(6)])
    joined.advance(4)
    north.put(Composite("o/sum", {"x": "o/t"}, {"v": "x.v * 2"}, read="*", export="city"), by="o", at=5)
    north.advance(6)
    Joined(north, city)  # hands on what is exported, and commits; the city has not advanced yet
    north, city = district(pages)
    emitted = Joined(north, city).advance(6)["city"]
    assert [update.values for update in emitted if update.stream == "o/sum"][-1] == (10,)


def joined_job(stores: dict[str, Any], told: Any) -> None:
    """Two spaces, from their last commits to the end. In the middle, the import changes, and what builds on it."""
    kinds = {"order": "event", "rounds": {"city": 1}}
    north, city = (Space(name, store, **kinds) for name, store in stores.items())  # type: ignore[arg-type]
    if "p/count" not in city.runtime.graph.streams:
        put_district(north, city)
    joined = Joined(north, city)
    for ts in range(int(north.runtime.source_position or 0) + 1, 31):
        told(ts)
        if ts == 15:  # made again if the process ended before the push: the same change at the same time
            doubled = Composite("o/sum", {"x": "o/t"}, {"v": "x.v * 2"}, read="*", export="city")
            north.put(doubled, by="o", at=18)
            told(ts)
            city.put(Composite("p/meet", {"a": "o/sum"}, {"v": "a.v - 1"}), by="p", at=20)
            told(ts)
        north.push({"stream": "o/t", "ts": ts, "sequence": 0, "v": ts}, position=str(ts))
        told(ts)
        joined.advance(ts)
    joined.advance(40)
    for space in (north, city):
        space.close()


def joined_whole() -> dict[str, Any]:
    stores = {name: MemoryPages() for name in ("north", "city")}
    joined_job(stores, lambda ts: None)
    return stores


def test_killed_anywhere_joined_spaces_lose_and_double_nothing(tmp_path: Path) -> None:
    pytest.importorskip("rocksdict")
    whole = joined_whole()
    stores = {name: f"rocksdb:{tmp_path / name}" for name in whole}
    kills = kill_until_done(partial(joined_job, stores), 3, joined_whole)
    assert kills >= 20
    found = []
    for store in (whole["city"], stores["city"]):
        with Space("city", store, order="event", rounds={"city": 1}) as city:
            names = ("p/meet", "p/count", "o/sum", "o/span")
            found.append([(city.history(name).to_pylist(), city.latest(name)) for name in names])
            assert not city.reports()
    assert found[0] == found[1]
    assert [len(history) for history, _ in found[0][1::2]] == [15, 8]


def test_what_would_not_be_equal_is_refused() -> None:
    north, city = district({})
    put_district(north, city)
    channels = {"v": "bigint"}
    with pytest.raises(PipelineError, match=r"round 0 and 'city' in round 1.*rounds=\{'north': 2\}"):
        north.put(Source("o/back", channels, space="city"), by="o")
    with pytest.raises(PipelineError, match="'o/out' cannot be exported to 'north'"):
        city.put(Source("o/out", channels, export="north"), by="o")
    with pytest.raises(PipelineError, match="order='event'"):
        Space("city", rounds={"city": 1}).put(Source("o/t", channels, space="north"), by="o")
    with pytest.raises(PipelineError, match="leave out write= and export="):
        Source("o/t", channels, space="north", write="*")
    with pytest.raises(PipelineError, match="compose='first'"):
        city.put(Composite("p/first", {"a": "o/sum"}, compose="first"), by="p")
    one = Composite("p/one", {"a": "o/sum"}, {"v": "a.v"}, read="*")
    two = Composite("p/two", {"a": "p/one"}, {"v": "a.v"}, read="*")
    city.put(one, two, by="p")
    with pytest.raises(PipelineError, match="'p/one', 'p/two' depend on each other"):
        city.put(Composite("p/one", {"a": "o/sum", "b": "p/two"}, {"v": "a.v + b.v"}, read="*"), by="p")
    with pytest.raises(PipelineError, match="exported to 'city'; put it without export="):
        north.drop("o/sum", by="o")
    with pytest.raises(PipelineError, match="no source 'o/sum' to push to"):
        city.push({"stream": "o/sum", "ts": 1, "v": 1})
    with pytest.raises(PipelineError, match="rounds= has"):
        Runtime(rounds={"city": -1})
    cyclic = Space("city", order="event", rounds={"city": 1})
    cyclic.put(Source("p/a", channels), Composite("p/x", {"a": "p/a"}, {"v": "a.v"}, compose="first"), by="p")
    with pytest.raises(PipelineError, match="'p/x' has compose='first'"):
        cyclic.put(Source("o/sum", channels, space="north"), by="o")


def test_rights_are_those_of_the_space_that_reads() -> None:
    """A reader who is revoked in the city sees nothing more of the import, though the north goes on."""
    north, city = district({})
    put_district(north, city)
    joined = Joined(north, city)
    city.revoke("o/sum", "read", "*", by="o", at=Id(5, 0))
    north.push([{"stream": "o/t", "ts": ts, "sequence": 0, "v": ts} for ts in range(3, 8)])
    joined.advance(20)
    assert city.latest("o/sum", by="o") == north.latest("o/sum", by="o")
    assert city.history("p/count").column("ts").to_pylist() == [4]
    with pytest.raises(PipelineError, match="may not read"):
        city.history("o/sum", by="p")
    assert next(row for row in city.figures() if row["stream"] == "p/count")["blocked"] == 3


def test_an_import_takes_what_fits_and_nobody_forges_it() -> None:
    """A value of another type is refused with its update; a change that calls itself an import is no operation."""
    north, city = district({})
    north.put(Source("o/t", channels={"v": "double"}, export="city"), by="o")
    city.put(Source("o/t", channels={"v": "bigint"}, space="north"), by="o")
    north.push([{"stream": "o/t", "ts": ts, "v": v} for ts, v in ((1, 1.5), (2, 2.5))])
    Joined(north, city).advance(10)
    assert [(r.kind, r.stream, r.at and r.at.ts) for r in city.reports()] == [
        ("refused", "o/t", 1),
        ("refused", "o/t", 2),
    ]
    with pytest.raises(PipelineError, match="a change is put, drop, grant or revoke"):
        Change("import", "o", "{}")  # type: ignore[arg-type]


def random_steps(seed: int) -> list[Any]:
    """Steps of two joined spaces: updates, watermarks, and changes at once or later, on either side of the edge."""
    chance, ts = random.Random(seed), 0
    steps: list[Any] = []
    for number in range(25):
        later = chance.choice([None, ts + 1, ts + 3, ts])
        kind = chance.choice(["tumbling", "span", "session", "count"])
        what = chance.choice(["push"] * 5 + ["advance"] * 3 + ["sum", "span", "meet", "right"])
        if what == "push":
            ts += chance.choice([0, 1, 1, 2])
            steps.append(
                lambda n, _, ts=ts, s=number: n.push({"stream": "o/t", "ts": ts, "sequence": s, "v": ts})
            )
        elif what == "advance":
            steps.append(ts + chance.choice([-1, 0, 0, 1]))
        elif what == "sum":
            put = composite("o/sum", "total", ["o/t"], number, export="city")
            steps.append(lambda n, _, put=put, at=later: n.put(put, by="o", at=at))
        elif what == "span":
            put = composite("o/span", kind, ["o/t"], export="city")
            steps.append(lambda n, _, put=put, at=later: n.put(put, by="o", at=at))
        elif what == "meet":
            put = Composite("p/meet", {"a": "o/sum", "b": "o/span"}, {"v": f"a.v * {number} + b.v"})
            steps.append(lambda _, c, put=put, at=later: c.put(put, by="p", at=at))
        else:
            step = chance.choice(["grant", "revoke"])
            steps.append(lambda _, c, step=step: getattr(c, step)("o/sum", "read", "*", by="o"))
    return [*steps, ts + 5, ts + 50]


@pytest.mark.parametrize("seed", range(12))
def test_restarts_between_any_two_steps_change_nothing(seed: int) -> None:
    found = []
    for restarts in (False, True):
        pages: dict[str, MemoryPages] = {}
        north, city = district(pages)
        put_district(north, city)
        joined = Joined(north, city)
        told: list[Any] = []
        for step in random_steps(seed):
            try:
                told += joined.advance(step)["city"] if isinstance(step, int) else step(north, city) or ()
            except PipelineError as error:  # a change that came too late
                told.append(str(error))
            told += [report[:3] for space in (north, city) for report in space.reports()]
            if restarts:
                north, city = district(pages)
                joined = Joined(north, city)
        found.append(
            (told, [city.history(name) for name in ("p/meet", "p/count", "o/sum", "o/span")], north.figures())
        )
    assert found[0] == found[1] and len(found[0][0]) > 5
