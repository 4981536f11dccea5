"""The paper's figures from our tables, as SVG and as PNG."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
from matplotlib import pyplot

from benchmarks import themed
from benchmarks.idle.linear_road import RATES

Row = dict[str, Any]
SHADES = (themed.PLAIN, "#7fc4bd", "#4db1a6", themed.OURS, themed.OTHER, "#d0b9af", "#1f2328")
STATES = {"rows": "rows as contents", "stops": "wr.Stops"}


def draw(lines: list[Row], folder: Path) -> None:
    """All pictures of the table ``linear_road``."""
    rates(lines, "done_at", "rows per second", folder / "figure-1-throughput.svg")
    rates(lines, "late_at", "latency in ms, 99th percentile", folder / "figure-2-latency.svg")
    bars(lines, {"freezes": "freezes", "thaws": "thaws"}, folder / "figure-3-compressions.svg", log=True)
    memory = {"rss_mb": "RSS in MB", "state_mb": "state in MB", "cold_share": "share of keys that are cold"}
    bars(lines, memory, folder / "figure-4-memory.svg")


def rates(lines: list[Row], figure: str, label: str, path: Path) -> None:
    """A line for each D over the rate at which rows come, for both kinds of state."""
    picture, both = pyplot.subplots(1, 2, figsize=(10, 3.8), constrained_layout=True, sharey=True)
    for axes, (state, title) in zip(both, STATES.items(), strict=True):
        for shade, line in zip(SHADES, [line for line in lines if line["state"] == state], strict=False):
            heights = [line[f"{figure}_{rate}"] for rate in RATES]
            axes.plot([rate / 1000 for rate in RATES], heights, marker="o", color=shade, label=line["after"])
        axes.set(title=title, xlabel="thousand rows come per second", yscale="log")
        axes.spines[["top", "right"]].set_visible(False)
    both[0].set_ylabel(label)
    both[0].legend(fontsize=8, frameon=False, title="D")
    themed.save(picture, path, png=True)
    pyplot.close(picture)


def bars(lines: list[Row], figures: dict[str, str], path: Path, *, log: bool = False) -> None:
    """A bar for each D, for both kinds of state, in a plot for each figure."""
    picture, every = pyplot.subplots(1, len(figures), figsize=(10, 3.6), constrained_layout=True)
    names = list(dict.fromkeys(line["after"] for line in lines))
    for axes, (figure, title) in zip(every, figures.items(), strict=True):
        for place, (state, label) in enumerate(STATES.items()):
            found = {line["after"]: line[figure] for line in lines if line["state"] == state}
            spots = [n + 0.4 * place for n in range(len(names))]
            shade = (themed.OTHER, themed.OURS)[place]
            axes.bar(spots, [found.get(name, 0) for name in names], 0.38, color=shade, label=label)
        axes.set_xticks([n + 0.2 for n in range(len(names))], names)
        axes.set(title=title, xlabel="D", **({"yscale": "symlog"} if log else {}))
        axes.tick_params(labelsize=8)
        axes.spines[["top", "right"]].set_visible(False)
    every[0].legend(fontsize=8, frameon=False)
    themed.save(picture, path, png=True)
    pyplot.close(picture)
