"""Timing that noise does not spoil: contenders take turns, and what counts is the ratio within a turn."""

from __future__ import annotations

import csv
import math
import statistics
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

Row = dict[str, Any]


TURN = 0.15
"""Seconds that a contender may repeat itself within a turn; the best repetition counts."""


def in_turns(
    contenders: Mapping[str, Callable[[], Any]], rounds: int, clock: Callable[[], float] = time.perf_counter
) -> dict[str, list[float]]:
    """Seconds of every contender in every round, after one turn that does not count.

    A slow contender, which takes a turn of several seconds, takes part in fewer rounds. ``time.process_time`` as the clock
    counts the seconds of the processor, which other programs on the machine disturb less.
    """
    slow = {name: _turn(run, clock) for name, run in contenders.items()}
    seconds: dict[str, list[float]] = {name: [] for name in contenders}
    for turn in range(rounds):
        for name, run in contenders.items():
            if turn == 0 or slow[name] * turn < 5.0:
                seconds[name].append(_turn(run, clock))
    return seconds


def ratio(mine: list[float], theirs: list[float]) -> float:
    """How many times as fast as theirs mine is: the median over the rounds that both took part in."""
    return statistics.median(b / a for a, b in zip(mine, theirs, strict=False))


def write(rows: Iterable[Row], path: Path) -> None:
    """Rows of one table as CSV; columns in the order in which they first occur."""
    rows = list(rows)
    columns = list(dict.fromkeys(column for row in rows for column in row))
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="") as file:
        table = csv.DictWriter(file, columns)
        table.writeheader()
        table.writerows(rows)


def rounded(value: float) -> float:
    """Four significant digits; more are noise."""
    return float(f"{value:.4g}")


def _turn(run: Callable[[], Any], clock: Callable[[], float]) -> float:
    """The best of as many repetitions as fit into a turn, at least one."""
    best, begin = math.inf, clock()
    while True:
        last = clock()
        run()
        now = clock()
        best = min(best, now - last)
        if now - begin > TURN:
            return best
