"""How the trees are measured: CPU time of this process, and time on the clock, in turns."""

from __future__ import annotations

import csv
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

Row = dict[str, Any]


def in_turns(contenders: dict[str, Callable[[], int]], rounds: int, *, warm: bool = True) -> dict[str, Row]:
    """The least time for one row of each contender, ns; all in turns, after a turn to warm up.

    A contender returns how many rows it has done. CPU time is that of all threads of this process: on a busy machine
    it says more than the clock, which is there too.
    """
    best: dict[str, Row] = {}
    for turn in range(0 if warm else 1, rounds + 1):
        for name, run in contenders.items():
            wall, cpu = time.perf_counter_ns(), time.process_time_ns()
            rows = run()
            taken = {"cpu_ns": time.process_time_ns() - cpu, "wall_ns": time.perf_counter_ns() - wall}
            if turn:
                found = best.setdefault(name, dict.fromkeys(taken, float("inf")))
                for unit, value in taken.items():
                    found[unit] = min(found[unit], round(value / rows, 1))
    return best


def write(path: Path, rows: list[Row]) -> None:
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
