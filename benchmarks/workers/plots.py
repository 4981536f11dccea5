"""One picture for each table."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
from matplotlib import pyplot

from benchmarks import themed
from benchmarks.algorithms.measure import Row

SHADES = (themed.OURS, "#7fc4bd", themed.OTHER, "#d0b9af", themed.PLAIN, themed.PALE)


def draw(table: str, rows: list[Row], path: Path) -> None:
    """The picture of a table, if it has one."""
    if table in PICTURES and rows:
        PICTURES[table](rows, path)


def _grouped(
    rows: list[Row], group: str, by: Callable[[Row], str], path: Path, *, label: str, ideal: bool = True
) -> None:
    """Windows per second and the time of a window, side by side: a group of bars for each value of a column."""
    groups = list(dict.fromkeys(row[group] for row in rows))
    names = list(dict.fromkeys(by(row) for row in rows))
    figure, both = pyplot.subplots(1, 2, figsize=(10, 3.8), constrained_layout=True)
    measures = (
        ("windows_per_second", "windows per second"),
        ("milliseconds_per_window", "CPU milliseconds per window"),
    )
    for axes, (measure, title) in zip(both, measures, strict=True):
        for place, name in enumerate(names):
            found = {row[group]: row[measure] for row in rows if by(row) == name}
            spots = [n + place * 0.8 / len(names) for n, each in enumerate(groups) if each in found]
            heights = [found[each] for each in groups if each in found]
            bars = axes.bar(spots, heights, 0.76 / len(names), label=name, color=SHADES[place])
            axes.bar_label(bars, fmt="%.3g", fontsize=7)
        if ideal and measure == "windows_per_second":
            for n, each in enumerate(groups):
                wanted = next(row["ideal_per_second"] for row in rows if row[group] == each)
                begin, label_ = n - 0.4 / len(names), "ideal" if n == 0 else None
                axes.hlines(
                    wanted, begin, begin + 0.8, colors=themed.PLAIN, linestyles="dashed", label=label_
                )
        axes.set_xticks(
            [n + 0.4 - 0.4 / len(names) for n in range(len(groups))],
            [f"{g:,}" if isinstance(g, int) else g for g in groups],
        )
        axes.set(title=title, xlabel=label)
        axes.tick_params(labelsize=8)
        axes.spines[["top", "right"]].set_visible(False)
    both[0].legend(fontsize=8, frameon=False)
    themed.save(figure, path)
    pyplot.close(figure)


def _workers(row: Row) -> str:
    return f"{row['workers']} worker{'s' if row['workers'] != 1 else ''}"


def _models(rows: list[Row], path: Path) -> None:
    _grouped(rows, "window", lambda row: f"{row['model']}, {row['workers']}", path, label="range / slide")


def _chunks(rows: list[Row], path: Path) -> None:
    plain = [row for row in rows if row["slab"] == rows[0]["slab"]]
    _grouped(plain, "rows_at_a_time", _workers, path, label="rows at a time")


def _bars(rows: list[Row], path: Path, *, name: str, value: str, label: str) -> None:
    """A bar for each contender, on a logarithmic axis."""
    found = {row[name]: float(row[value]) for row in reversed(rows)}
    figure, axes = pyplot.subplots(figsize=(9, 0.45 * len(found) + 1), constrained_layout=True)
    colours = [themed.OURS if each.startswith("windrow") else themed.PLAIN for each in found]
    bars = axes.barh(list(found), list(found.values()), color=colours)
    axes.bar_label(bars, fmt="%.3g", fontsize=8, padding=3)
    axes.set_xscale("log")
    axes.set_xlabel(label)
    axes.spines[["top", "right"]].set_visible(False)
    themed.save(figure, path)
    pyplot.close(figure)


def _fits(rows: list[Row], path: Path) -> None:
    label = "parabolas per CPU second, windows of 1,000 rows, slide 1"
    _bars(rows, path, name="contender", value="windows_per_second", label=label)


def _medians(rows: list[Row], path: Path) -> None:
    """Windows per second over the size of the window; a dash of its own for each way to call windrow."""
    figure, axes = pyplot.subplots(figsize=(9, 4.5), constrained_layout=True)
    dashes, greys = iter(("-", "--", "-.", ":")), iter((themed.OTHER, themed.PLAIN, themed.PALE))
    for name in dict.fromkeys(row["contender"] for row in rows):
        ours = name.startswith("windrow")
        axes.plot(
            [row["window"] for row in rows if row["contender"] == name],
            [row["million_windows_per_second"] for row in rows if row["contender"] == name],
            label=name,
            color=themed.OURS if ours else next(greys),
            linestyle=next(dashes) if ours else "-",
            marker="o",
            markersize=3,
        )
    axes.set_xscale("log", base=2)
    axes.set_ylim(bottom=0)
    axes.set(xlabel="rows in a window, slide 1", ylabel="million medians per CPU second")
    axes.grid(True, alpha=0.25)
    axes.legend(fontsize=8, frameon=False)
    themed.save(figure, path)
    pyplot.close(figure)


PICTURES: dict[str, Any] = {
    "figure-11": _models,
    "figure-12-and-13": _chunks,
    "figure-14": lambda rows, path: _grouped(
        rows, "quotes_per_second", _workers, path, label="quotes per second"
    ),
    "figure-15": lambda rows, path: _grouped(rows, "range_s", _workers, path, label="range in seconds"),
    "figure-16": lambda rows, path: _grouped(rows, "slide_rows", _workers, path, label="slide in rows"),
    "fits": _fits,
    "medians": _medians,
}
