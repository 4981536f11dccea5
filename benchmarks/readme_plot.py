"""The plot of the README: ``python -m benchmarks.readme_plot`` draws ``benchmarks/results/readme.png`` from the results.

Each pair of bars is windrow and the engine's own windows in one run of ``windrow bench spark`` or ``flink``. What a run has not
measured is left out.
"""

from __future__ import annotations

import csv
from dataclasses import dataclass
from pathlib import Path

RESULTS = Path(__file__).parent / "results"
OURS, THEIRS = "#00897b", "#9e9e9e"


@dataclass(frozen=True)
class Pair:
    """Rows per second of windrow, and of what the engine has of its own."""

    name: str
    ours: float
    theirs: float


def main() -> None:
    pairs = [*spark("batch", "groupBy(window)"), *spark("streaming", "groupBy(window)"), *flink()]
    if not pairs:
        raise SystemExit("no results to draw: run `windrow bench spark` and `windrow bench flink` first")
    draw(pairs, RESULTS / "readme.png")


def spark(file: str, peer: str) -> list[Pair]:
    """The cases of a file that compare the same windows: their names begin with range and slide."""
    return [
        Pair(
            f"Spark {file}, {line['case'].removeprefix('stream, ').partition(',')[0]}",
            float(line["ours_rows_per_second"]),
            float(line["peer_rows_per_second"]),
        )
        for line in lines(RESULTS / "spark" / f"{file}.csv")
        if "range/slide" in line["case"] and line["peer"].startswith(peer)
    ]


def flink() -> list[Pair]:
    """`HOP` beside the fastest of our ways in, for each kind of rows that both were measured on."""
    rates = {
        line["contender"]: float(line["rows per second"]) for line in lines(RESULTS / "flink" / "flink.csv")
    }
    pairs = []
    for name, theirs in rates.items():
        if name.startswith("HOP, "):
            kind = name.removeprefix("HOP, ")
            ours = [rate for other, rate in rates.items() if other != name and other.endswith(f", {kind}")]
            if ours:
                pairs.append(
                    Pair(f"Flink, range/slide {kind.removeprefix('ratio ')} rows", max(ours), theirs)
                )
    return pairs


def lines(file: Path) -> list[dict[str, str]]:
    if not file.exists():
        return []
    with file.open(encoding="utf-8", newline="") as text:
        return list(csv.DictReader(text))


def draw(pairs: list[Pair], file: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(8, 0.62 * len(pairs) + 1.1))
    for place, pair in enumerate(pairs):
        for offset, rate, colour in ((-0.2, pair.ours, OURS), (0.2, pair.theirs, THEIRS)):
            axes.barh(place + offset, rate, 0.38, color=colour)
            axes.text(rate * 1.15, place + offset, f"{rate:,.0f}", va="center", fontsize=9)
    axes.set_yticks(range(len(pairs)), [pair.name for pair in pairs])
    axes.set_xscale("log")
    axes.set_xlim(left=10, right=max(max(pair.ours, pair.theirs) for pair in pairs) * 12)
    axes.set_xlabel("rows per second, 2 cores (logarithmic)")
    axes.invert_yaxis()
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(
        handles=[
            pyplot.Rectangle((0, 0), 1, 1, color=OURS, label="windrow"),
            pyplot.Rectangle((0, 0), 1, 1, color=THEIRS, label="the engine's own windows"),
        ],
        loc="lower left",
        bbox_to_anchor=(0, 1),
        ncols=2,
        frameon=False,
    )
    figure.tight_layout()
    figure.savefig(file, dpi=120)
    pyplot.close(figure)


if __name__ == "__main__":
    main()
