"""Pipelines: many owners, their rights, and what a change of one stream does to others."""

from __future__ import annotations

import pyarrow as pa
import pytest
from pipeline_graphs import (
    A,
    made,
    updates,
)

import windrow as wr
from windrow.errors import ExpressionError, PermissionDenied, PipelineError
from windrow.expressions import Registered
from windrow.pipelines import (
    Composite,
    Quotas,
    Source,
    Space,
    Update,
    matching,
)
from windrow.storage.pages import MemoryPages


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
    assert space.history("o/p", since=70, until=80, where="lat > 75").column("ts").to_pylist() == [
        76,
        77,
        78,
        79,
    ]
    for box in (("lat", "lon"), ("lat", "lon", 0, 0, "north", 1), ("lat", "lon", 0, 0, float("inf"), 1)):
        with pytest.raises(PipelineError, match="two channels, latitude and longitude, and four numbers"):
            space.history("o/p", box=box)  # type: ignore[arg-type]
    assert space.history("o/p", box=("lat", "lon", 61.5, -99, 70, -65), last=3).column("ts").to_pylist() == [
        68,
        69,
        70,
    ]


def test_streams_that_match_count_in_what_may_be_on_a_stream() -> None:
    """Put by name or by labels, by the composite, by the stream or by a grant; a refusal leaves everything as it was."""
    limits = Quotas(fan_out=1)
    pages = MemoryPages()
    space = Space("s", pages, quotas=limits)
    put = lambda *streams: [space.put(stream, by=stream.owner) for stream in streams]  # noqa: E731
    kinds = {"t.v": "bigint"}
    north, south = (
        Composite(f"eve/{d}", {"t": matching(district=d)}, {"v": "t.v"}, types=kinds)
        for d in ("north", "south")
    )
    other = Composite("bob/north", {"t": matching(district="north")}, {"v": "t.v"}, types=kinds)
    labelled = lambda district, **more: Source(  # noqa: E731
        "ann/t", {"v": "bigint"}, read="*", labels={"district": district, **more}
    )
    put(labelled("north"), north, south)
    for one_more in (other, Composite("bob/c", {"t": "ann/t"}, {"v": "t.v"})):
        with pytest.raises(PipelineError, match="'ann/t' would have 2 composites on it; at most 1"):
            put(one_more)
    assert len(space.push({"stream": "ann/t", "ts": 1, "v": 1})) == 2
    put(labelled("south"))  # leaves one and joins the other
    assert [u.stream for u in space.push({"stream": "ann/t", "ts": 2, "v": 1})] == ["ann/t", "eve/south"]
    put(labelled("nowhere"), other)
    with pytest.raises(PipelineError, match="'ann/t' would have 2 composites"):
        put(labelled("north"))
    hidden = Source("ann/h", {"v": "bigint"}, read="eve", labels={"district": "north"})
    put(hidden)
    with pytest.raises(PipelineError, match="'ann/h' would have 2 composites"):
        space.grant("ann/h", "subscribe", "bob", by="ann")
    with pytest.raises(PermissionDenied):
        put(Composite("bob/h", {"t": "ann/h"}, {"v": "t.v"}))
    # With lower quotas a space can be opened; what is there stays, and can be put again.
    put(Source("ann/u", {"v": "bigint"}))
    before = space.figures()
    space = Space("s", pages, quotas=Quotas(streams=1, history=1, fan_out=0))
    assert space.figures() == before
    put(Composite("eve/north", north.inputs, {"v": "t.v + 1"}, types=kinds, history=1))
    with pytest.raises(PipelineError, match="has 1 streams"):
        put(Source("ann/v", {"v": "bigint"}, history=1))
    with pytest.raises(PipelineError, match="at most 1 are kept"):
        put(Source("ann/u", {"v": "bigint"}))


def test_what_only_matches_a_stream_goes_on_without_it() -> None:
    space = Space("s")
    everything = {"t": matching(kind="v")}
    labelled = [Source(f"o/{n}", {"v": "bigint"}, read="*", labels={"kind": "v"}) for n in "ab"]
    space.put(*labelled, by="o")
    space.put(
        Composite("o/all", everything, {"v": "t.v"}), Composite("o/on", {"x": "o/all"}, {"v": "x.v"}), by="o"
    )
    space.put(
        Composite("o/f", {"a": "o/a"}, {"v": "a.v"}), Composite("o/g", {"f": "o/f"}, {"v": "f.v"}), by="o"
    )
    space.put(Composite("eve/all", everything, {"v": "t.v"}), by="eve")
    with pytest.raises(PipelineError, match="'o/a' cannot be dropped: 'o/f' depend"):
        space.drop("o/a", by="o")
    space.drop("o/a", by="o", cascade=True)
    assert [row["stream"] for row in space.figures()] == ["o/b", "o/all", "o/on", "eve/all"]
    emitted = [u.stream for u in space.push({"stream": "o/b", "ts": 1, "v": 1})]
    assert emitted == ["o/b", "eve/all", "o/all", "o/on"]
