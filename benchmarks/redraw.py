"""Draws the plots again, from the tables in ``benchmarks/results`` and without measuring: ``python -m benchmarks.redraw``."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

from benchmarks import readme_plot

RESULTS = Path(__file__).parent / "results"


def main() -> None:
    readme_plot.main()
    algorithms(RESULTS / "algorithms")
    spark(RESULTS / "spark")
    flink(RESULTS / "flink")
    workers(RESULTS / "workers")


def algorithms(folder: Path) -> None:
    from rich.console import Console

    from benchmarks.algorithms.__main__ import Run

    for section in ("peers", "count", "time", "latency", "sizes", "eviction"):
        Run(True, folder, Console()).draw(section, rows(folder / f"{section}.csv"))


def spark(folder: Path) -> None:
    from benchmarks.spark.plots import draw, draw_latency

    draw(rows(folder / "break-even.csv"), folder / "break-even.svg")
    if (folder / "latency.csv").exists():
        draw_latency(rows(folder / "latency.csv"), folder / "latency.svg")


def flink(folder: Path) -> None:
    from benchmarks.flink import plots
    from benchmarks.spark.plots import draw

    rates = {row["contender"]: float(row["rows per second"]) for row in rows(folder / "flink.csv")}
    plots.bars(rates, folder / "flink.svg")
    if (folder / "break-even.csv").exists():
        draw(rows(folder / "break-even.csv"), folder / "break-even.svg")


def workers(folder: Path) -> None:
    from benchmarks.workers import plots

    for name in plots.PICTURES:
        plots.draw(name, rows(folder / f"{name}.csv"), folder / f"{name}.svg")


def rows(file: Path) -> list[dict[str, Any]]:
    """The lines of a table, with numbers as numbers."""
    with file.open(encoding="utf-8", newline="") as text:
        return [{name: number(cell) for name, cell in line.items()} for line in csv.DictReader(text)]


def number(cell: str) -> Any:
    for kind in (int, float):
        try:
            return kind(cell)
        except ValueError:
            continue
    return cell


if __name__ == "__main__":
    main()
