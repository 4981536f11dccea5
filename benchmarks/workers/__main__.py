"""``python -m benchmarks.workers``: fits and medians of whole windows beside what users pick today, and functions of whole
windows with one worker and with two. Prints tables and writes CSV and plots into ``benchmarks/results/workers``.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from rich.console import Console

from benchmarks import themed
from benchmarks.algorithms.measure import Row, write
from benchmarks.workers import fits, medians, models

RESULTS = Path(__file__).parents[1] / "results" / "workers"


def draw_fits(measured: list[Row], path: Path) -> None:
    """Windows per second, a bar for each contender."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    rates = {row["contender"]: float(row["windows_per_second"]) for row in reversed(measured)}
    figure, axes = pyplot.subplots(figsize=(9, 4))
    colours = ["tab:blue" if name.startswith("windrow") else "tab:grey" for name in rates]
    axes.bar_label(
        axes.barh(list(rates), list(rates.values()), color=colours), fmt="%.3g", fontsize=8, padding=3
    )
    axes.set_xscale("log")
    axes.set_xlabel("parabolas per second, windows of 1,000 rows, slide 1, 2 cores")
    figure.tight_layout()
    themed.save(figure, path)
    pyplot.close(figure)


def draw_medians(measured: list[Row], path: Path) -> None:
    """Windows per second over the size of the window."""
    from benchmarks.algorithms.plots import lines

    labels = ("rows in a window", "million medians per second")
    title = "the median of every window, slide 1"
    lines(measured, "window", "million_windows_per_second", "contender", title, path, labels=labels)


def draw_workers(measured: list[Row], path: Path) -> None:
    """Windows per second, a group of bars for each window."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(9, 4))
    windows = list(dict.fromkeys(row["window"] for row in measured))
    for place, workers in enumerate(models.WORKERS):
        rates = [float(row["windows_per_second"]) for row in measured if row["workers"] == workers]
        spots = [window + 0.4 * place for window in range(len(windows))]
        axes.bar_label(axes.bar(spots, rates, 0.38, label=f"{workers} workers"), fmt="%.3g", fontsize=8)
    axes.set_xticks([window + 0.2 for window in range(len(windows))], windows)
    axes.set_yscale("log")
    axes.set_ylabel("fits per second, 2 cores")
    axes.legend(frameon=False)
    figure.tight_layout()
    themed.save(figure, path)
    pyplot.close(figure)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a tenth of the rows, and one round")
    quick = parser.parse_args().quick
    share, rounds = (10, 1) if quick else (1, 5)
    console = Console()
    many = fits.compared(fits.FAST, 2_000_000 // share, rounds)
    few = fits.compared(fits.SLOW, 20_000 // share + fits.WINDOW, rounds)
    for row in many + few:
        console.print(row)
    write(many + few, RESULTS / "fits.csv")
    draw_fits(many + few[1:], RESULTS / "fits.svg")
    middle = medians.compared(max(5_000_000 // share, 2 << 20), rounds)
    for row in middle:
        console.print(row)
    write(middle, RESULTS / "medians.csv")
    draw_medians(middle, RESULTS / "medians.svg")
    fitted = models.by_workers(200_000 // share, rounds)
    for name, rows in {
        "workers": fitted,
        "apply": models.apply(2_000_000 // share, rounds),
        "live": [models.live(200_000, 2 if quick else 10)],
        "memory": [models.memory(1_000_000)],
    }.items():
        for row in rows:
            console.print(row)
        write(rows, RESULTS / f"{name}.csv")
    draw_workers(fitted, RESULTS / "workers.svg")


if __name__ == "__main__":
    main()
