"""One picture for each table."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
from matplotlib import pyplot

from benchmarks import themed
from benchmarks.algorithms.measure import Row


def lines(
    rows: list[Row],
    x: str,
    y: str,
    by: str,
    title: str,
    path: Path,
    *,
    labels: tuple[str, str],
    log_y: bool = True,
) -> None:
    """One line per value of ``by``."""
    figure, axes = pyplot.subplots(figsize=(9, 5.5), constrained_layout=True)
    for number, name in enumerate(dict.fromkeys(row[by] for row in rows)):
        points = sorted((row[x], row[y]) for row in rows if row[by] == name)
        ours = str(name).startswith("windrow")
        axes.plot(
            [point[0] for point in points],
            [point[1] for point in points],
            marker="o",
            markersize=3,
            linewidth=2.2 if ours else 1.2,
            linestyle="--" if "copy" in str(name) else "-",
            color=themed.OURS if ours else pyplot.get_cmap("tab20")(number % 20),
            label=name,
        )
    wide = max(row[x] for row in rows) > 100 * max(1e-9, min(row[x] for row in rows))
    if wide:
        axes.set_xscale("log", base=2)
    if log_y:
        axes.set_yscale("log")
    axes.set(title=title, xlabel=labels[0], ylabel=labels[1])
    axes.grid(True, which="both", alpha=0.25)
    axes.legend(fontsize=8, ncols=2)
    themed.save(figure, path)
    pyplot.close(figure)


def boxes(rows: list[Row], title: str, path: Path) -> None:
    """Quartiles as boxes, from the minimum to the maximum, for every window and algorithm; and the worst slide
    without interruptions."""
    windows = list(dict.fromkeys((row["aggregate"], row["window"]) for row in rows))
    lines = -(-len(windows) // 2)
    figure, grid = pyplot.subplots(
        lines, 2, figsize=(9, 4.2 * lines), constrained_layout=True, sharey=True, squeeze=False
    )
    for axes in grid.flat[len(windows) :]:
        axes.set_visible(False)
    for axes, window in zip(grid.flat, windows, strict=False):
        chosen = [row for row in rows if (row["aggregate"], row["window"]) == window]
        axes.bxp([_box(row) for row in chosen], showfliers=False)
        worst = [row["worst_slide_ns"] for row in chosen]
        axes.plot(range(1, len(chosen) + 1), worst, "D", color="#00897b", markersize=5)
        axes.set_yscale("log")
        axes.set_title(f"{window[0]}, {window[1]}")
        axes.tick_params(axis="x", rotation=60)
        axes.grid(True, axis="y", alpha=0.25)
    figure.suptitle(title)
    figure.supylabel("nanoseconds")
    themed.save(figure, path)
    pyplot.close(figure)


def _box(row: Row) -> dict[str, Any]:
    return {
        "label": row["algorithm"],
        "whislo": max(row["min_ns"], 0.5),
        "q1": row["lower_quartile_ns"],
        "med": row["median_ns"],
        "q3": row["upper_quartile_ns"],
        "whishi": row["max_ns"],
    }
