"""The plot of the README: ``python -m benchmarks.readme_plot`` draws ``benchmarks/results/readme.svg`` from the results.

It shows few cases, so that it can be read at a glance; the page of each engine has all. Each group of bars is windrow and other ways
to compute the same windows on the same engine: the same rows, in one run of ``windrow bench spark`` or ``flink``, warm. Cases in which
windrow is not ahead are drawn like the others. What a run has not measured is left out.
"""

from __future__ import annotations

import csv
from dataclasses import dataclass
from pathlib import Path

from benchmarks import themed

RESULTS = Path(__file__).parent / "results"
OURS = "windrow"
COLOURS = {
    OURS: themed.OURS,
    "two-step": themed.PLAIN,
    "groupBy(window)": themed.PALE,
    "SQL HOP": themed.OTHER,
}
LABELS = {
    OURS: "windrow",
    "two-step": "Spark, two-step",
    "groupBy(window)": "Spark, groupBy(window)",
    "SQL HOP": "Flink SQL, HOP",
}
SHOWN = ("range/slide 1000,", "range/slide 10,")
"""The cases of Spark: windows that overlap much, and windows that overlap little."""


@dataclass(frozen=True)
class Group:
    """Rows per second of each way to compute the same windows of the same rows."""

    name: str
    rates: dict[str, float]


def main() -> None:
    groups = [*spark(), *flink()]
    if not groups:
        raise SystemExit("no results to draw: run `windrow bench spark` and `windrow bench flink` first")
    draw(groups, RESULTS / "readme.svg")


def spark() -> list[Group]:
    """The cases of batches that slide, each with the most rows that it was measured on, and every peer that got them."""
    measured = [
        line
        for line in lines(RESULTS / "spark" / "batch.csv")
        if line["case"].startswith(SHOWN) and line["peer"] in COLOURS
    ]
    most = {line["case"]: 0 for line in measured}
    for line in measured:
        most[line["case"]] = max(most[line["case"]], int(line["rows"]))
    found: dict[str, Group] = {}
    for line in measured:
        if int(line["rows"]) == most[line["case"]]:
            name = f"Spark, {line['case']} rows"
            group = found.setdefault(name, Group(name, {OURS: float(line["ours_rows_per_second"])}))
            group.rates[line["peer"]] = float(line["peer_rows_per_second"])
    return list(found.values())


def flink() -> list[Group]:
    """`windowed_table` beside `HOP`, over the same table."""
    return [
        Group(
            f"Flink, range/slide {cell['range_by_slide']}, {cell['density']} rows",
            {
                OURS: int(cell["rows"]) / float(cell["push_down"]),
                "SQL HOP": int(cell["rows"]) / float(cell["hop"]),
            },
        )
        for cell in lines(RESULTS / "flink" / "break-even.csv")
        if cell["aggregates"] == "max, count" and cell["range_by_slide"] in ("10", "3600")
    ]


def lines(file: Path) -> list[dict[str, str]]:
    if not file.exists():
        return []
    with file.open(encoding="utf-8", newline="") as text:
        return list(csv.DictReader(text))


def draw(groups: list[Group], file: Path) -> None:
    """Narrow, with the name of each group above its bars, so that it can be read on a phone."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    bars = sum(len(group.rates) for group in groups)
    figure, axes = pyplot.subplots(figsize=(5.4, 0.15 * bars + 0.26 * len(groups) + 0.9))
    place = 0.0
    for group in groups:
        axes.text(0, place, group.name, transform=axes.get_yaxis_transform(), va="center", fontsize=8.5)
        for way, rate in group.rates.items():
            place += 1
            axes.barh(place, rate, 0.85, color=COLOURS[way])
            axes.text(rate * 1.12, place, f"{rate:,.0f}", va="center", fontsize=8)
        place += 1.7
    axes.set_yticks([])
    axes.set_xscale("log")
    axes.set_xlim(100, max(max(group.rates.values()) for group in groups) * 9)
    axes.tick_params(labelsize=8)
    axes.set_xlabel("rows per second, 2 cores (logarithmic)", fontsize=8.5)
    axes.set_ylim(place - 0.9, -0.8)
    axes.spines[["top", "right", "left"]].set_visible(False)
    shown = [way for way in COLOURS if any(way in group.rates for group in groups)]
    handles = [pyplot.Rectangle((0, 0), 1, 1, color=COLOURS[way], label=LABELS[way]) for way in shown]
    figure.legend(handles=handles, loc="upper left", ncols=2, frameon=False, fontsize=8)
    figure.tight_layout(rect=(0, 0, 1, 1 - 0.42 / figure.get_figheight()))
    themed.save(figure, file)
    pyplot.close(figure)


if __name__ == "__main__":
    main()
