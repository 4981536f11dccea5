"""Streams that several tests of pipelines share."""

from __future__ import annotations

import random
from typing import Any

from hypothesis import strategies as st

import windrow as wr
from windrow.pipelines import (
    Composite,
    Source,
)

A = Source("o/a", channels={"v": "bigint"}, read="*")


def made(out: Any, stream: str) -> list[tuple[int, tuple[Any, ...]]]:
    return [(update.at.ts, update.values) for update in out if update.stream == stream]


def updates(stream: str, *pairs: tuple[int, Any]) -> list[dict[str, Any]]:
    return [{"stream": stream, "ts": ts, "v": value} for ts, value in pairs]


SESSIONS = wr.Query(window=wr.SessionWindow("3us"), aggregates={"n": wr.Count()})
FEW = wr.Query(window=wr.CountWindow(3, 2), aggregates={"n": wr.Count()})


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
