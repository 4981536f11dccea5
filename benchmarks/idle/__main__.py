"""Idle windows: figures 1 to 4 of Gulisano (2024) on Linear Road, codecs, ``auto``, worst cases, and a million keys.

    python -m benchmarks.idle                          # about 25 minutes on two idle cores
    python -m benchmarks.idle --quick                  # a tenth of the rows, and one round
    python -m benchmarks.idle --only codecs limits     # some tables; the others stay as they are
    python -m benchmarks.idle --only runs --more --rounds 1    # one more round beside those that were measured
    python -m benchmarks.idle --only spark             # what a running job writes; needs windrow[spark]; likewise flink

It writes a table for each section into ``benchmarks/results/idle``; ``linear_road.csv`` and the pictures follow from the runs in
``runs.csv``, and ``hours.csv`` from those in ``hours_runs.csv``. ``pip install -e '.[dev]'`` has pcodec and matplotlib.
"""

from __future__ import annotations

import argparse
import csv
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from benchmarks.idle import clairvoyant, codecs, layers, limits, linear_road, million, on_flink, on_spark
from benchmarks.redraw import rows as read

RESULTS = Path(__file__).parents[1] / "results" / "idle"
SECTIONS = ("runs", "hours", "codecs", "clairvoyant", "limits", "million", "layers")
ENGINES = ("spark", "flink")
HOURS = 11_000_000
"""All reports of an expressway: three hours, as in the paper."""


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="a tenth of the rows, and one round")
    parser.add_argument("--only", nargs="+", choices=SECTIONS + ENGINES, default=list(SECTIONS))
    parser.add_argument("--rows", type=int, default=2_000_000, help="reports of Linear Road")
    parser.add_argument("--keys", type=int, default=1_000_000, help="silent keys")
    parser.add_argument("--rounds", type=int, default=3)
    durations = list(linear_road.DURATIONS)
    parser.add_argument(
        "--durations", nargs="+", choices=durations, default=durations, help="never is needed"
    )
    parser.add_argument("--more", action="store_true", help="add rounds to the runs that are there")
    parser.add_argument("--output", type=Path, default=RESULTS)
    asked = parser.parse_args()
    share, rounds = (10, 1) if asked.quick else (1, asked.rounds)
    rows, keys, folder = asked.rows // share, asked.keys // share, asked.output
    folder.mkdir(parents=True, exist_ok=True)
    sections = {
        "codecs": lambda: codecs.compared(rows // 4, rounds),
        "clairvoyant": lambda: clairvoyant.compared(rows),
        "limits": lambda: limits.limits(100_000 // share, max(2 * rounds, 5)),
        "million": lambda: million.runs(keys),
        "layers": lambda: layers.compared(keys // 10, rounds),
        "spark": lambda: on_spark.runs(keys),
        "flink": lambda: on_flink.runs(keys),
    }
    for name in asked.only:
        if name == "runs":
            measure_runs(folder, rows, rounds, asked.durations, more=asked.more)
        elif name == "hours":
            known = read(folder / "hours_runs.csv") if asked.more else []
            first = 1 + max((run["round"] for run in known), default=-1)
            found = linear_road.rounds(HOURS // share, first, rounds, ["never", "60s", "auto"])
            runs = write(folder / "hours_runs.csv", found, known)
            write(folder / "hours.csv", linear_road.summary(runs), [])
        else:
            write(folder / f"{name}.csv", sections[name](), [])


def measure_runs(folder: Path, rows: int, rounds: int, durations: list[str], *, more: bool) -> None:
    """Runs over Linear Road, and what follows from them."""
    from benchmarks.idle.plots import draw

    known = read(folder / "runs.csv") if more else []
    first = 1 + max((run["round"] for run in known), default=-1)
    runs = write(folder / "runs.csv", linear_road.rounds(rows, first, rounds, durations), known)
    draw(write(folder / "linear_road.csv", linear_road.summary(runs), []), folder)


def write(path: Path, lines: Iterable[dict[str, Any]], known: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Write a table, line by line as they are measured, after those that are known."""
    found = list(known)
    for line in lines:
        found.append(line)
        print(path.stem, line, flush=True)
        with path.open("w", newline="", encoding="utf-8") as out:
            writer = csv.DictWriter(out, list(line))
            writer.writeheader()
            writer.writerows(found)
    return found


if __name__ == "__main__":
    main()
