"""The plots of Flink's benchmarks, from rows per second of each contender. They need no Flink."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from benchmarks import themed

FLINKS_OWN = ("reduce", "count windows", "empty")


def bars(rates: Mapping[str, float], path: Path) -> None:
    """What is not in the plot of the break-even, a bar each."""
    from matplotlib import pyplot

    names = [name for name in rates if "ratio" not in name][::-1]
    figure, axes = pyplot.subplots(figsize=(9, 0.4 * len(names) + 1))
    colours = [themed.PLAIN if any(word in name for word in FLINKS_OWN) else themed.OURS for name in names]
    drawn = axes.barh(names, [rates[name] for name in names], color=colours)
    axes.bar_label(drawn, [f" {rates[name]:,.0f}" for name in names])
    axes.set_xscale("log")
    axes.margins(x=0.15)
    axes.set_xlabel("rows per second, 2 cores (grey: Flink's own)")
    axes.spines[["top", "right"]].set_visible(False)
    figure.tight_layout()
    themed.save(figure, path)
    pyplot.close(figure)
