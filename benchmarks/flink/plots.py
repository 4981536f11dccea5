"""The plots of Flink's benchmarks, from rows per second of each contender. They need no Flink."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from benchmarks import themed

RATIOS = (1, 10, 100, 1000)
FLINKS_OWN = ("reduce", "count windows", "empty")
LINES = {
    "packed": False,
    "push-down": False,
    "gathered": False,
    "HOP": True,
    "two steps in SQL": True,
    "Java windows": True,
}
"""The contenders of the break-even plot, and which of them are Flink's own."""


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


def break_even(rates: Mapping[str, float], path: Path) -> None:
    """Rows per second over range/slide, a line for each contender; where the lines cross, they are equal."""
    from matplotlib import pyplot

    figure, both = pyplot.subplots(1, 2, figsize=(10, 4), sharey=True)
    for axes, density in zip(both, ("dense", "sparse"), strict=True):
        for name, own in LINES.items():
            cases = {ratio: f"{name}, ratio {ratio}, {density}" for ratio in RATIOS}
            known = {ratio: rates[case] for ratio, case in cases.items() if case in rates}
            axes.plot(list(known), list(known.values()), marker="o", ls="--" if own else "-", label=name)
        axes.set_xscale("log")
        axes.set_yscale("log")
        axes.set_title(f"{density} rows")
        axes.set_xlabel("range / slide")
        axes.spines[["top", "right"]].set_visible(False)
    both[0].set_ylabel("rows per second, 2 cores (dashed: Flink's own)")
    both[1].legend(frameon=False, fontsize=8)
    figure.tight_layout()
    themed.save(figure, path)
    pyplot.close(figure)
