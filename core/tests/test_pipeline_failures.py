"""Pipelines: what fails is reported with its update, stays broken until it is put again, and stops nobody else."""

from __future__ import annotations

from typing import Any

import pytest
from pipeline_graphs import A, made

import windrow as wr
from windrow.errors import CorruptSnapshot
from windrow.pipelines import Change, Composite, Emissions, Runtime, Space
from windrow.pipelines.scrub import scrub_space
from windrow.pipelines.turns import BROKEN
from windrow.storage.pages import MemoryPages

TEN = wr.TimeWindow("10us")
ROWS = {"o/w": wr.Query(window=TEN, aggregates={"s": wr.Sum("v * 4611686018427387904")})}
"""Fails where it takes a row with a value of 2 or more."""
FAILING = {**ROWS, "o/w2": wr.Query(window=TEN, aggregates={"s": wr.Sum("v")})}
"""The second one fails where it hands out a sum that is too large."""
GOOD = wr.Query(window=TEN, aggregates={"n": wr.Count()})


def opened(pages: Any, columns: int, order: Any = "event") -> Runtime:
    return Runtime(pages, order=order, columns=columns)


def put(runtime: Runtime, *streams: Any) -> Emissions:
    return runtime.process(changes=[Change.put(stream.to_dict(), by="o") for stream in streams])


def rows(*pairs: tuple[int, int]) -> list[Any]:
    return [(ts, 0, "o/a", {"v": v}) for ts, v in pairs]


def failed(runtime: Runtime) -> list[tuple[str, str, int]]:
    return [(r.kind, r.stream, r.at.ts) for r in runtime.reports() if r.at is not None]


@pytest.mark.parametrize("columns", [1, 1 << 40], ids=["columns", "rows"])
@pytest.mark.parametrize("commits", [True, False])
def test_a_window_that_fails_stops_nobody_else_and_stays_broken(columns: int, commits: bool) -> None:
    """At a commit, which hands rows over, or when it is due; among columns or among rows."""
    pages = MemoryPages()
    runtime = opened(pages, columns)
    windows = [Composite(name, {"a": "o/a"}, query=query) for name, query in FAILING.items()]
    put(runtime, A, *windows, Composite("o/good", {"a": "o/a"}, query=GOOD))
    put(runtime, Composite("o/on", {"w": "o/w", "g": "o/good"}, {"s": "w.s", "n": "g.n"}))
    out: list[Any] = []
    for part in (rows((1, 1), (11, 1)), rows((12, 3), (13, (1 << 63) - 1), (14, 1)), rows((25, 1), (35, 1))):
        runtime.process(part)
        out += runtime.advance(part[-1][0] + 1)
        if commits:
            runtime.commit()
    out += runtime.advance(40)
    runtime.commit()
    assert made(out, "o/w") == [(10, (0, 10, 1 << 62))] and made(out, "o/w2") == [(10, (0, 10, 1))]
    assert [n for _, (*_, n) in made(out, "o/good")] == [1, 4, 1, 1]
    assert [n for _, (_, n) in made(out, "o/on")] == [1, 1, 4, 1, 1]
    told = failed(runtime)
    assert [(kind, stream) for kind, stream, _ in told] == [("failed", "o/w"), ("failed", "o/w2")]
    assert all(11 < ts <= 20 for *_, ts in told)
    # What is left of them is of no use, and forgotten. The rows that come now are counted as failed.
    assert not [name for name in pages.held if name.startswith(("w/0/o/w/", "w/0/o/w2/"))]
    again = opened(pages, columns)
    again.process(rows((41, 1), (51, 1)))
    out = list(again.advance(60))
    assert made(out, "o/w") == [] and len(made(out, "o/good")) == 2
    assert failed(again) == [] and again.state("o/w").figures.failed >= 2
    # Another definition begins anew, and is not broken after a restart.
    counted = wr.Query(window=TEN, aggregates={"s": wr.Count()})
    put(again, Composite("o/w", {"a": "o/a"}, query=counted))
    again.process(rows((61, 3)))
    again.commit()
    last = opened(pages, columns)
    assert made(last.advance(70), "o/w") == [(70, (60, 70, 1))] and last.reports() == []
    assert scrub_space(pages).damaged == {}


def test_a_window_that_fails_in_a_replay_refuses_no_change() -> None:
    pages = MemoryPages()
    runtime = opened(pages, 64)
    put(runtime, A)
    runtime.process(rows((1, 1), (12, 3), (23, 1)))
    runtime.advance(30)
    replayed = Composite("o/w", {"a": "o/a"}, query=ROWS["o/w"], start="replay")
    out = put(runtime, replayed, Composite("o/good", {"a": "o/a"}, query=GOOD, start="replay"))
    assert [ts for ts, _ in made(out, "o/w")] == [10] and [ts for ts, _ in made(out, "o/good")] == [
        10,
        20,
        30,
    ]
    assert failed(runtime) == [("failed", "o/w", 20)]
    runtime.commit()
    again = opened(pages, 64)
    again.process(rows((31, 1)))
    assert made(again.advance(40), "o/w") == [] and failed(again) == []


def test_columns_that_a_window_fails_on_go_on_for_the_others() -> None:
    """It fails in a piece of a backlog. Later pieces run row by row, and say the same of everybody else."""
    streams = [
        A,
        Composite("o/w", {"a": "o/a"}, query=ROWS["o/w"]),
        Composite("o/f", {"a": "o/a"}, {"v": "a.v + 1"}),
    ]
    found = []
    for columns in (8, 1 << 40):
        runtime = opened(MemoryPages(), columns)
        put(runtime, *streams, Composite("o/good", {"x": "o/f"}, query=GOOD))
        runtime.process([(ts, 0, "o/a", {"v": 2 if ts == 25 else 1}) for ts in range(60)])
        out = [u for u in runtime.advance(100) if u.stream != "o/w"]
        figures = {name: runtime.state(name).figures for name in ("o/a", "o/f", "o/good")}
        found.append((out, figures, [(kind, stream) for kind, stream, _ in failed(runtime)]))
    assert found[0] == found[1] and found[0][2] == [("failed", "o/w")]


def test_a_damaged_page_of_what_is_broken_is_refused() -> None:
    pages = MemoryPages()
    runtime = opened(pages, 64)
    put(runtime, A, Composite("o/w", {"a": "o/a"}, query=ROWS["o/w"]))
    runtime.process(rows((1, 3), (12, 1)))
    runtime.advance(20)
    runtime.commit()
    pages.held[BROKEN] = pages.held[BROKEN][:-1] + b"]"
    assert list(scrub_space(pages).damaged) == [BROKEN]
    with pytest.raises(CorruptSnapshot, match="broken windows"):
        opened(pages, 64)


def test_a_space_says_what_failed() -> None:
    """A push commits, so a window can fail there; the push returns what the others have made of it."""
    space = Space("s")
    space.put(A, Composite("o/w", {"a": "o/a"}, query=ROWS["o/w"]), by="o")
    space.put(Composite("o/f", {"a": "o/a"}, {"v": "a.v + 1"}), by="o")
    assert made(space.push({"stream": "o/a", "ts": 1, "v": 3}), "o/f") == [(1, (4,))]
    assert [(r.kind, r.stream) for r in space.reports()] == [("failed", "o/w")]
    assert made(space.push({"stream": "o/a", "ts": 2, "v": 3}), "o/f") == [(2, (4,))]
