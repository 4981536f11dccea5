"""Functions of whole windows: Figs 11 to 16 of De Matteis and Mencagli (2017) on two cores, and what users pick today.

    python -m benchmarks.workers                       # about eight minutes on two idle cores
    python -m benchmarks.workers --quick               # fewer rows, and one round
    python -m benchmarks.workers --only fits medians   # some tables; the others stay as they are

It writes a table, and mostly a picture, for each section into ``benchmarks/results/workers``, and ``targets.csv`` from
all of them. One core against one is measured in CPU time, which other programs disturb less; more workers against one on
the clock, so these need an idle machine. ``pip install -e '.[dev]'`` has the peers; one that is missing is left out.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from rich.console import Console
from rich.table import Table

from benchmarks.algorithms.measure import Row, write
from benchmarks.redraw import rows as read
from benchmarks.workers import figures, fits, functions, live, medians, plots
from benchmarks.workers.targets import targets

RESULTS = Path(__file__).parents[1] / "results" / "workers"
SECTIONS: dict[str, Callable[[int, int], Iterator[Row]]] = {
    "compiled": functions.compiled,
    "medians": medians.compared,
    "fits": fits.compared,
    "fit-errors": lambda share, rounds: iter([fits.error(10_000_000 // share)]),
    "two-workers": lambda share, rounds: functions.two_workers(share, 2 * rounds),
    "python": lambda share, rounds: functions.python(share, 2 * rounds),
    "live": lambda share, rounds: iter([live.live(200_000, 10 if share == 1 else 5)]),
    "memory": lambda share, rounds: iter([live.memory(1_000_000)]),
    "figure-11": lambda share, rounds: figures.models(min(rounds, 2)),
    "figure-12-and-13": lambda share, rounds: figures.chunks(min(rounds, 2)),
    "figure-14": lambda share, rounds: figures.rates(min(rounds, 2)),
    "figure-15": lambda share, rounds: figures.ranges(min(rounds, 2)),
    "figure-16": lambda share, rounds: figures.slides(min(rounds, 2)),
}
"""The tables in the order in which they are measured. Each gets by what rows are divided, and how many rounds there are."""


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="a tenth of the rows, and one round")
    parser.add_argument("--only", nargs="+", choices=list(SECTIONS), default=list(SECTIONS))
    parser.add_argument("--output", type=Path, default=RESULTS)
    asked = parser.parse_args()
    share, rounds = (10, 1) if asked.quick else (1, 4)
    console, begin = Console(), time.perf_counter()
    for name in asked.only:
        measured = []
        for row in SECTIONS[name](share, rounds):
            measured.append(row)
            told = ", ".join(f"{column} {value}" for column, value in row.items())
            print(f"{time.perf_counter() - begin:6.1f} s  {name}: {told}", flush=True)
        write(measured, asked.output / f"{name}.csv")
        plots.draw(name, measured, asked.output / f"{name}.svg")
    files = ((name, asked.output / f"{name}.csv") for name in SECTIONS)
    reached = list(targets({name: read(file) for name, file in files if file.exists()}))
    write(reached, asked.output / "targets.csv")
    console.print(_table(reached))
    busy = os.getloadavg()[0] - (os.cpu_count() or 1)
    if busy > 0.5:
        console.print("Other programs were running: what several workers reach is worth little.")


def _table(reached: list[Row]) -> Table:
    table = Table("what", "reached", "wanted", "met")
    for row in reached:
        table.add_row(*(str(value) for value in row.values()), style="" if row["met"] == "yes" else "bold")
    return table


if __name__ == "__main__":
    main()
