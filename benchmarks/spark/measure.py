"""What is compared, and how a job is timed: contenders in turn, warm, on the same rows, the same number of rounds."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

OURS = "windrow"


@dataclass(frozen=True)
class Case:
    """One input, and the contenders that compute the same from it; ``required`` is how many times a peer's rate ours is to be."""

    name: str
    rows: int
    contenders: Mapping[str, Callable[[], Any]]
    required: Mapping[str, float]


@dataclass(frozen=True)
class Line:
    """One line of a report: ours beside one peer."""

    case: str
    rows: int
    ours_rows_per_second: int
    peer: str
    peer_rows_per_second: int
    ratio: float
    required: float | str
    reached: bool | str


def seconds(contenders: Mapping[str, Callable[[], Any]], rounds: int) -> dict[str, float]:
    """The fastest of some rounds of each contender. A first round of all is not counted: it starts workers and compiles."""
    taken: dict[str, list[float]] = {name: [] for name in contenders}
    for number in range(rounds + 1):
        for name, frame in contenders.items():
            begin = time.perf_counter()
            frame().write.format("noop").mode("overwrite").save()
            if number:
                taken[name].append(time.perf_counter() - begin)
    return {name: min(each) for name, each in taken.items()}


def measured(case: Case, rounds: int) -> list[Line]:
    """A line for each peer of a case."""
    found = seconds(case.contenders, rounds)
    lines = []
    for peer, taken in found.items():
        if peer != OURS:
            ratio, required = taken / found[OURS], case.required.get(peer, "")
            reached = "" if required == "" else ratio >= float(required)
            ours, theirs = (int(case.rows / each) for each in (found[OURS], taken))
            lines.append(Line(case.name, case.rows, ours, peer, theirs, round(ratio, 3), required, reached))
            print(f"    {lines[-1]}", file=sys.stderr, flush=True)
    return lines
