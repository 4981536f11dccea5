"""Graphs of streams: the six of Table 3.1 of the thesis from their degrees, and pipelines with one large property."""

from __future__ import annotations

import random
from dataclasses import dataclass

from windrow.pipelines import Composite, Source

Streams = list[Source | Composite]


@dataclass(frozen=True)
class Topology:
    """A column of Table 3.1."""

    id: int
    nodes: int
    edges: int
    sources: int
    sinks: int
    max_in: int
    max_out: int


TABLE = (
    Topology(1, 21, 30, 11, 4, 9, 4),
    Topology(2, 19, 37, 9, 7, 8, 7),
    Topology(3, 42, 149, 17, 15, 14, 15),
    Topology(4, 43, 151, 18, 15, 16, 15),
    Topology(5, 80, 423, 30, 25, 29, 25),
    Topology(6, 74, 458, 24, 28, 24, 28),
)


def inputs_of(topology: Topology, seed: int = 0) -> list[list[int]]:
    """The inputs of each node, sources first, sinks last: so many edges, degrees skewed up to the largest."""
    generator = random.Random(seed)
    first, last = topology.sources, topology.nodes - topology.sinks
    inputs: list[set[int]] = [set() for _ in range(topology.nodes)]
    out = [0] * topology.nodes

    def add(start: int, end: int) -> bool:
        fits = len(inputs[end]) < topology.max_in and out[start] < topology.max_out
        if start >= end or start >= last or end < first or start in inputs[end] or not fits:
            return False
        inputs[end].add(start)
        out[start] += 1
        return True

    for end in range(first, topology.nodes):  # everybody has an input
        while not inputs[end]:
            add(generator.randrange(min(end, last)), end)
    for start in range(last):  # and everybody but a sink is one
        while not out[start]:
            add(start, generator.randrange(max(first, start + 1), topology.nodes))
    starts, ends = list(range(last)), list(range(first, topology.nodes))
    generator.shuffle(starts)
    generator.shuffle(ends)
    for _ in range(200_000):
        if sum(out) >= topology.edges:
            break
        # A few have many edges, as in the thesis, whose deviations are larger than the means.
        start = starts[int(len(starts) * generator.random() ** 2)]
        add(start, ends[int(len(ends) * generator.random() ** 2)])
    return [sorted(each) for each in inputs]


def streams_of(inputs: list[list[int]]) -> Streams:
    """Streams that sum their inputs, as in the thesis."""
    made: Streams = []
    for number, others in enumerate(inputs):
        if not others:
            made.append(Source(f"o/s{number}", channels={"v": "double"}))
            continue
        names = {f"i{place}": f"o/s{other}" for place, other in enumerate(others)}
        made.append(
            Composite(f"o/s{number}", inputs=names, channels=_sum([f"coalesce({i}.v, 0)" for i in names]))
        )
    return made


def _sum(terms: list[str]) -> dict[str, str]:
    """A sum in parts of 20, because an expression has at most 2,000 characters."""
    if len(terms) <= 20:
        return {"v": " + ".join(terms)}
    parts = {f"p{n}": " + ".join(terms[n : n + 20]) for n in range(0, len(terms), 20)}
    return {**parts, "v": " + ".join(parts)}


def pipeline(kind: str, streams: int) -> list[list[int]]:
    """So many streams with one large property: length, in-degree or out-degree."""
    if kind == "length":
        return [[], *([number] for number in range(streams - 1))]
    if kind == "out-degree":
        return [[], *([0] for _ in range(streams - 1))]
    return [*([] for _ in range(streams - 1)), list(range(streams - 1))]


def devices(count: int, composites: int) -> list[list[int]]:
    """Composites over the latest of five devices each."""
    generator = random.Random(1)
    return [
        *([] for _ in range(count)),
        *(sorted(generator.sample(range(count), 5)) for _ in range(composites)),
    ]
