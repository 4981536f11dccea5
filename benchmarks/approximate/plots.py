"""The plots of the CSV files: ``python -m benchmarks.approximate.plots [SCALE]``.

``distributions`` has Figures 5.4 to 5.8 of the MTA thesis, ``tables`` has Tables 5.1 and 5.2, ``times`` Figures 5.9 to 5.11.
"""

from __future__ import annotations

import csv
import sys
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt

from benchmarks import themed
from benchmarks.approximate.__main__ import ERRORS, LEAVES
from benchmarks.approximate.tables import THESIS_BLOCKS, THESIS_ERRORS, THESIS_LEAVES, read

RESULTS = Path(__file__).parents[1] / "results" / "approximate"
PANELS = {
    "mean, certain (Fig. 5.4)": ("mean", lambda within: "relative" in within and "confidence" not in within),
    "mean, predicted (Fig. 5.4)": ("mean", lambda within: "confidence" in within),
    "mean, fixed leaves (Fig. 5.5)": ("mean", lambda within: "relative" not in within),
    "max (Fig. 5.7)": ("max", lambda within: True),
    "max by blocks, as printed (Fig. 5.6)": ("max by blocks, printed", lambda within: True),
    "max by blocks, corrected (Fig. 5.6)": ("max by blocks, corrected", lambda within: True),
    "hops of the mean (Fig. 5.8)": ("hops of the mean", lambda within: True),
}


def main(scale: str) -> None:
    suffix = "" if scale == "1" else f"_{scale}"
    rows = list(csv.DictReader((RESULTS / f"distributions{suffix}.csv").open()))
    if scale == "1":
        rows += read("distributions_blocks") + read("distributions_hops")
    some = sorted({row["data"] for row in rows}, reverse=True)
    panels = {
        title: panel for title, panel in PANELS.items() if any(row["aggregate"] == panel[0] for row in rows)
    }
    figure, axes = plt.subplots(
        len(some), len(panels), figsize=(4.2 * len(panels), 3.6 * len(some)), sharey=True, squeeze=False
    )
    for line, data in zip(axes, some, strict=True):
        for axis, (title, (aggregate, chosen)) in zip(line, panels.items(), strict=True):
            names = dict.fromkeys(
                row["within"] for row in rows if row["aggregate"] == aggregate and chosen(row["within"])
            )
            for name in names:
                points = [
                    (max(float(row["relative_error"]), 1e-10), float(row["windows"]))
                    for row in rows
                    if (row["data"], row["aggregate"], row["within"]) == (data, aggregate, name)
                ]
                if points:
                    axis.step(*zip(*points, strict=True), where="post", label=name)
            axis.set_xscale("log")
            axis.set_title(f"{title}, {data}", fontsize=9)
            axis.set_xlabel("relative error of a result")
            axis.legend(fontsize=6)
        line[0].set_ylabel("share of windows")
    _save(figure, f"distributions{suffix}")


def tables() -> None:
    """Leaves as a share of the slices, ours and the thesis's."""
    rows = {(row["data"], row["aggregate"], row["within"]): row for row in read("promises")}
    figure, axes = plt.subplots(1, 4, figsize=(17, 3.8))
    lines: list[dict[str, dict[float, float]]] = [{}, {}, {}, {}]
    lines[0]["thesis"] = dict(zip(ERRORS, THESIS_ERRORS, strict=True))
    lines[1]["thesis"] = dict(THESIS_BLOCKS)
    for at, aggregate in ((2, "mean"), (3, "max")):
        lines[at]["thesis"] = dict(zip(LEAVES, THESIS_LEAVES[aggregate], strict=True))
    for (data, aggregate, within), row in rows.items():
        share, given = (
            float(row["leaves_share_percent"]),
            dict(each.split("=") for each in within.split(", ")),
        )
        if "leaves" in given:
            lines[2 if aggregate == "mean" else 3].setdefault(data, {})[float(given["leaves"])] = share
        elif aggregate == "mean":
            kind = "predicted" if "confidence" in given else "certain"
            lines[0].setdefault(f"{kind}, {data}", {})[float(given["relative"])] = share
    for row in read("blocks"):
        of = lines[1].setdefault(f"{row['rule']}, {row['data']}", {})
        of[float(row["block"])] = float(row["footprint_percent"])
    titles = (
        "Table 5.1: means, by error",
        "Table 5.1: maxima, by block",
        "Table 5.2: means, by leaves",
        "Table 5.2: maxima, by leaves",
    )
    for axis, title, some in zip(axes, titles, lines, strict=True):
        for label, points in some.items():
            axis.plot(*zip(*sorted(points.items()), strict=True), marker=".", label=label)
        axis.set(xscale="log", yscale="log")
        axis.set_title(title, fontsize=9)
        axis.legend(fontsize=6)
    axes[0].set_ylabel("leaves, % of the slices")
    _save(figure, "tables")


def times() -> None:
    """How long updates take, as a cumulative distribution."""
    rows = read("times")
    names = list(dict.fromkeys(row["figure"] for row in rows))
    figure, axes = plt.subplots(1, max(len(names), 1), figsize=(13, 3.6), squeeze=False)
    for axis, name in zip(axes[0], names, strict=False):
        for window in ("AMTA", "A2MTA"):
            some = [row for row in rows if (row["figure"], row["window"]) == (name, window)]
            axis.plot(
                [float(row["microseconds"]) for row in some],
                [float(row["share"]) for row in some],
                label=window,
            )
        axis.set(xscale="log", xlabel="µs")
        axis.set_title(f"Fig. {name}", fontsize=9)
        axis.legend(fontsize=7)
    axes[0][0].set_ylabel("share of updates")
    _save(figure, "times")


def _save(figure: Any, name: str) -> None:
    figure.tight_layout()
    figure.savefig(RESULTS / f"{name}.png", dpi=90)
    themed.save(figure, RESULTS / f"{name}.svg")
    plt.close(figure)


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "1")
    tables()
    times()
