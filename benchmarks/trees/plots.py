"""The plots of the tables: Figures 4.6 to 4.9 of the MTA thesis with our numbers. ``python -m benchmarks.trees.plots``."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt

from benchmarks import themed

RESULTS = Path(__file__).parents[1] / "results" / "trees"
FIGURES = {
    "sizes": ("Fig. 4.6: a slide", "size", "cpu_ns", "ns"),
    "evictions": ("Fig. 4.7: a bulk eviction from 2²³ rows", "evicted", "microseconds", "µs"),
    "memory": ("Fig. 4.8: memory of the process", "size", "bytes", "bytes"),
    "dimensions": ("Fig. 4.9: an update with k counts", "dimensions", "cpu_ns", "ns"),
}


def draw(folder: Path) -> None:
    """One SVG and one PNG with a panel for each table that is there."""
    tables = {
        name: list(csv.DictReader(path.open()))
        for name in FIGURES
        if (path := folder / f"{name}.csv").exists()
    }
    figure, axes = plt.subplots(1, len(tables), figsize=(4.2 * len(tables), 3.6), squeeze=False)
    for axis, (name, rows) in zip(axes[0], tables.items(), strict=True):
        title, across, up, unit = FIGURES[name]
        for label in dict.fromkeys(row.get("window", "one window") for row in rows):
            points = [
                (float(row[across]), float(row[up]))
                for row in rows
                if row.get("window", "one window") == label
            ]
            axis.plot(*zip(*points, strict=True), marker=".", label=label)
        axis.set_title(title, fontsize=9)
        axis.set_xlabel(across.replace("_", " "))
        axis.set_ylabel(unit)
        if name != "dimensions":
            axis.set_xscale("log", base=2)
            axis.set_yscale("log")
        axis.legend(fontsize=6)
    figure.tight_layout()
    figure.savefig(folder / "figures.png", dpi=90)
    themed.save(figure, folder / "figures.svg")
    plt.close(figure)


def main(*_: Any) -> None:
    draw(RESULTS)


if __name__ == "__main__":
    main()
