"""The plots of the break-even and of latency, from the lines of their tables. They need no Spark."""

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
    for what, colour in zip(unique(cells, "aggregates"), (themed.OURS, "#ef6c00", "#8d6e63"), strict=False):
        for density, dashes in zip(unique(cells, "density"), ("-", "--"), strict=False):
            line = [cell for cell in cells if (cell["aggregates"], cell["density"]) == (what, density)]
            places = [cell["range_by_slide"] for cell in line], [cell["times_faster"] for cell in line]
            axes.plot(*places, dashes, color=colour, marker="o", label=f"{what}, {density}")
    axes.axhline(1, color=themed.PLAIN, linewidth=1)
    axes.set_xscale("log")
    axes.set_yscale("log")
    ratios = unique(cells, "range_by_slide")
    axes.set_xticks(ratios, [f"{ratio:,}" for ratio in ratios])
    most = max(cell["times_faster"] for cell in cells)
    powers = [power for power in range(-2, 12) if power <= 2 or 2**power <= most]
    axes.set_yticks([2.0**power for power in powers], ["¼", "½", *(f"{2**power}" for power in powers[2:])])
    axes.minorticks_off()
    axes.set_xlabel("range/slide")
    axes.set_ylabel("times as fast as the best\nother way (above 1: faster)")
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False)
    figure.tight_layout()
    themed.save(figure, file)
    pyplot.close(figure)


def draw_latency(lines: Sequence[Mapping[str, Any]], file: Path) -> None:
    """The first windows of a cold job, and a steady micro-batch, of each load and contender."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    loads = list(dict.fromkeys(_load(line) for line in lines))
    figure, both = pyplot.subplots(1, 2, figsize=(9, 0.9 + 0.9 * len(loads)), sharey=True)
    for axes, name, title in zip(
        both, ("first_windows", "steady_batch"), ("first windows, s", "steady micro-batch, s"), strict=True
    ):
        for place, load in enumerate(loads):
            mine = [line for line in lines if _load(line) == load]
            shown = mine if name == "first_windows" else mine[:3]
            for number, line in enumerate(shown):
                height = 0.8 / len(shown)
                at = place - 0.4 + height * (number + 0.5)
                colour = (
                    themed.OURS
                    if line["contender"] == "windrow"
                    else _COLOURS.get(line["contender"], themed.PLAIN)
                )
                axes.barh(at, line[name], height=height * 0.9, color=colour)
                axes.text(line[name], at, f" {line[name]:.2g}", va="center", fontsize=8)
        axes.set_title(title, fontsize=10)
        axes.set_yticks(range(len(loads)), [_text(load) for load in loads])
        axes.margins(x=0.15)
        axes.spines[["top", "right"]].set_visible(False)
    both[0].invert_yaxis()
    colours = {"windrow": themed.OURS, **_COLOURS, "tumbling groupBy": themed.PLAIN}
    told = [name for name in colours if any(line["contender"] == name for line in lines)]
    handles = [pyplot.Rectangle((0, 0), 1, 1, color=colours[name]) for name in told]
    figure.legend(handles, told, frameon=False, loc="lower center", ncols=2, fontsize=8)
    figure.tight_layout(rect=(0, 0.5 / figure.get_figheight(), 1, 1))
    themed.save(figure, file)
    pyplot.close(figure)


_COLOURS = {
    "a Python operator that does nothing": "#90a4ae",
    "windrow, empty cache on executors": "#ef6c00",
    "windrow, empty cache, nothing sent": "#8d6e63",
}


def _load(line: Mapping[str, Any]) -> tuple[int, int, int, int]:
    return line["rows_per_batch"], line["keys"], line["slices"], line["buckets"]


def _text(load: tuple[int, int, int, int]) -> str:
    rows, keys, slices, buckets = load
    return f"{rows:,} rows, {keys:,} keys\n{slices:,} slices, {buckets} buckets"


def unique(cells: Sequence[Mapping[str, Any]], name: str) -> list[Any]:
    return list(dict.fromkeys(cell[name] for cell in cells))
