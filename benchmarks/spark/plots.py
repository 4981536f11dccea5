"""The plot of the break-even, from the lines of its table. It needs no Spark."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks import themed


def draw(cells: Sequence[Mapping[str, Any]], file: Path) -> None:
    """How many times as fast windrow was as the best other way, over range/slide."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(8, 4.2))
    for what, colour in zip(unique(cells, "aggregates"), (themed.OURS, "#ef6c00"), strict=False):
        for density, dashes in zip(unique(cells, "density"), ("-", "--"), strict=False):
            line = [cell for cell in cells if (cell["aggregates"], cell["density"]) == (what, density)]
            places = [cell["range_by_slide"] for cell in line], [cell["times_faster"] for cell in line]
            axes.plot(*places, dashes, color=colour, marker="o", label=f"{what}, {density}")
    axes.axhline(1, color=themed.PLAIN, linewidth=1)
    axes.set_xscale("log")
    axes.set_yscale("log")
    ratios = unique(cells, "range_by_slide")
    axes.set_xticks(ratios, [f"{ratio:,}" for ratio in ratios])
    axes.set_yticks([0.25, 0.5, 1, 2, 4], ["¼", "½", "1", "2", "4"])
    axes.minorticks_off()
    axes.set_xlabel("range/slide")
    axes.set_ylabel("times as fast as the best\nother way (above 1: faster)")
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False)
    figure.tight_layout()
    themed.save(figure, file)
    pyplot.close(figure)


def unique(cells: Sequence[Mapping[str, Any]], name: str) -> list[Any]:
    return list(dict.fromkeys(cell[name] for cell in cells))
