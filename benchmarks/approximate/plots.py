"""The plots of the CSV files: ``python -m benchmarks.approximate.plots [SCALE]``."""

from __future__ import annotations

import csv
import sys
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt

from benchmarks import themed

RESULTS = Path(__file__).parents[1] / "results" / "approximate"
PANELS = {
    "mean, certain (Fig. 5.4)": ("mean", lambda within: "relative" in within and "confidence" not in within),
    "mean, predicted (Fig. 5.4)": ("mean", lambda within: "confidence" in within),
    "mean, fixed leaves (Fig. 5.5)": ("mean", lambda within: "relative" not in within),
    "max (Figs. 5.6, 5.7)": ("max", lambda within: True),
}


def main(scale: str) -> None:
    suffix = "" if scale == "1" else f"_{scale}"
    rows = list(csv.DictReader((RESULTS / f"distributions{suffix}.csv").open()))
    some = sorted({row["data"] for row in rows}, reverse=True)
    figure, axes = plt.subplots(len(some), 4, figsize=(17, 3.6 * len(some)), sharey=True, squeeze=False)
    for line, data in zip(axes, some, strict=True):
        for axis, (title, (aggregate, chosen)) in zip(line, PANELS.items(), strict=True):
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
    figure.tight_layout()
    figure.savefig(RESULTS / f"distributions{suffix}.png", dpi=90)
    themed.save(figure, RESULTS / f"distributions{suffix}.svg")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "1")
