"""Timing that a noisy machine does not spoil: contenders take turns, and what counts is the ratio within a turn."""

from __future__ import annotations

import csv
import statistics
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

Row = dict[str, Any]


def in_turns(contenders: Mapping[str, Callable[[], Any]], rounds: int, budget: float = 20.0) -> dict[str, list[float]]:
    """Seconds of every contender in every round, after one round that does not count.

    A contender whose warm-up took longer than its share of ``budget`` (seconds) runs in fewer rounds, but in one.
    """
    first = {name: _seconds(run) for name, run in contenders.items()}
    turns = {name: max(1, min(rounds, int(budget / max(seconds, 1e-9)))) for name, seconds in first.items()}
    seconds: dict[str, list[float]] = {name: [] for name in contenders}
    for turn in range(rounds):
        for name, run in contenders.items():
            if turn < turns[name]:
                seconds[name].append(_seconds(run))
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


def _seconds(run: Callable[[], Any]) -> float:
    begin = time.perf_counter()
    run()
    return time.perf_counter() - begin
