"""``python -m benchmarks.soak``: what a long-lived operator holds and how long a batch takes, step after step.

Every scenario runs in a process of its own, with its state in a store, so that memory is its own. ``--hours 2`` repeats the
scenarios for so long; without it, they take a fixed number of steps. Writes ``memory-and-latency.csv`` and a plot into
``benchmarks/results/soak``. Exits with 1 if memory does not come back.
"""

from __future__ import annotations

import argparse
import multiprocessing
import sys
from pathlib import Path

from benchmarks import themed
from benchmarks.algorithms.measure import Row, write
from benchmarks.soak.loads import SCENARIOS, lived

RESULTS = Path(__file__).parents[1] / "results" / "soak"


def summary(seen: list[Row]) -> Row:
    """The first half of the steps beside the second half, without the first tenth, in which the state fills."""
    filled = seen[len(seen) // 10 :]
    halves = filled[: len(filled) // 2], filled[len(filled) // 2 :]
    peaks = [max(row["resident_mb"] for row in half) for half in halves]
    times = sorted(row["milliseconds"] for row in filled)
    return {
        "scenario": seen[0]["scenario"],
        "steps": len(seen),
        "rows": sum(row["rows"] for row in seen),
        "windows": sum(row["windows"] for row in seen),
        "resident_mb_first_half": peaks[0],
        "resident_mb_second_half": peaks[1],
        "store_kb_most": max(row["store_kb"] for row in seen),
        "store_kb_last": seen[-1]["store_kb"],
        "milliseconds_median": times[len(times) // 2],
        "milliseconds_p99": times[len(times) * 99 // 100],
        "milliseconds_most": times[-1],
    }


def plot(seen: list[Row], path: Path) -> None:
    """Memory and time of a step, scenario by scenario."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    names = list(dict.fromkeys(row["scenario"] for row in seen))
    figure, axes = pyplot.subplots(
        2, len(names), figsize=(3.2 * len(names), 5), sharex="col", squeeze=False, constrained_layout=True
    )
    for column, name in enumerate(names):
        own = [row for row in seen if row["scenario"] == name]
        for line, measure in enumerate(("resident_mb", "milliseconds")):
            axes[line][column].plot([row[measure] for row in own], color=themed.OURS, linewidth=1)
            axes[line][column].set_ylim(bottom=0)
        axes[0][column].set_title(name, fontsize=9)
        axes[1][column].set_xlabel("step")
    axes[0][0].set_ylabel("memory of the process (MB)")
    axes[1][0].set_ylabel("a batch (ms)")
    themed.save(figure, path)
    pyplot.close(figure)


def main() -> int:
    parse = argparse.ArgumentParser(prog="benchmarks.soak", description=__doc__)
    parse.add_argument("--hours", type=float, default=0.0, help="repeat each scenario for so long")
    parse.add_argument("--output", type=Path, default=RESULTS)
    asked = parse.parse_args()
    seen: list[Row] = []
    summaries: list[Row] = []
    for scenario in SCENARIOS:
        with multiprocessing.get_context("spawn").Pool(1) as pool:
            own = pool.apply(lived, (scenario.name, asked.hours))
        seen += own
        summaries.append(summary(own))
        print(summaries[-1], flush=True)
        write(summaries, asked.output / "memory-and-latency.csv")
        plot(seen, asked.output / "memory-and-latency.svg")
    grown = [
        row["scenario"]
        for row in summaries
        if row["resident_mb_second_half"] > 1.1 * row["resident_mb_first_half"] + 20
        and row["scenario"] != "a watermark stops and jumps"
    ]
    print(f"memory grows in: {', '.join(grown)}" if grown else "memory is bounded")
    return 1 if grown else 0


if __name__ == "__main__":
    sys.exit(main())
