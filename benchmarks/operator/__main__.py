"""``python -m benchmarks.operator``: rows per second of windrow in this process, beside its peers in the same run.

The peers take turns with windrow, over the same rows, warm. What is measured is the median of the rounds, and a ratio is the
median of the ratios within a round. Prints tables and writes CSV and plots into ``benchmarks/results/operator``.

ClickHouse, Bytewax and Pathway take part if they are installed: ``pip install chdb bytewax pathway``.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

from rich.console import Console

from benchmarks import themed
from benchmarks.algorithms.measure import Row, ratio, rounded, write
from benchmarks.operator import batch, streaming
from benchmarks.operator.data import Case
from benchmarks.operator.long_windows import into_a_long_window, with_late_rows

RESULTS = Path(__file__).parents[1] / "results" / "operator"
PATIENCE = 30.0
"""A contender that takes more seconds for a turn has only that one."""
BATCHES = (
    Case("dense", 5_000_000, 100, 600, 60),
    Case("dense, long window", 5_000_000, 100, 7_200, 3_600),
    Case("many keys", 5_000_000, 10_000, 600, 60),
    Case("sparse", 500_000, 1_000, 3_600, 60),
)
STREAM = Case("stream", 60_000, 1_000, 60, 60)
LATE = Case("late rows", 2_000_000, 1_000, 600, 60)


def measured(case: Case, contenders: Mapping[str, Callable[[], Any]], rounds: int) -> list[Row]:
    """What the contenders do, in turns. The first turn of each does not count, unless it is very long."""
    seconds: dict[str, list[float]] = {name: [] for name in contenders}
    results: dict[str, int] = {}
    for turn in range(rounds + 1):
        for name, run in contenders.items():
            if turn and max(seconds[name], default=0.0) > PATIENCE:
                continue
            begin = perf_counter()
            found = run()
            taken = perf_counter() - begin
            results[name] = found if isinstance(found, int) else found.num_rows
            if turn or taken > PATIENCE:
                seconds[name].append(taken)
    return [
        {
            "case": case.name,
            "window": f"{case.range}s/1s",
            "rows": case.rows,
            "keys": case.keys,
            "rows_per_slice": rounded(case.per_slice),
            "contender": name,
            "results": results[name],
            "million_rows_per_second": rounded(case.rows / median(taken) / 1e6),
            "windrow_is_times_as_fast": rounded(ratio(seconds["windrow"], taken)),
        }
        for name, taken in seconds.items()
    ]


def draw(rows: list[Row], path: Path) -> None:
    """Rows per second, a group of bars for each case."""
    from matplotlib import pyplot

    cases, contenders = (list(dict.fromkeys(row[name] for row in rows)) for name in ("case", "contender"))
    figure, axes = pyplot.subplots(figsize=(2 + 2 * len(cases), 4))
    width = 0.84 / len(contenders)
    for place, contender in enumerate(contenders):
        bars = {row["case"]: row["million_rows_per_second"] for row in rows if row["contender"] == contender}
        spots = [cases.index(case) + width * (place - (len(contenders) - 1) / 2) for case in bars]
        drawn = axes.bar(spots, list(bars.values()), 0.92 * width, label=contender)
        axes.bar_label(drawn, fmt="%.3g", fontsize=7)
    axes.set_xticks(range(len(cases)), cases)
    axes.set_yscale("log")
    axes.set_ylabel("million rows per second, 2 cores")
    axes.legend(frameon=False, fontsize=8)
    figure.tight_layout()
    themed.save(figure, path)
    pyplot.close(figure)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.operator", description=__doc__)
    parts = ("batch", "stream", "long", "late")
    parser.add_argument("--only", action="append", choices=parts, help="only this part; may be repeated")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--out", type=Path, default=RESULTS)
    asked = parser.parse_args()
    chosen, console = asked.only or parts, Console()

    def publish(name: str, rows: list[Row]) -> None:
        for row in rows:
            console.print(row)
        write(rows, asked.out / f"{name}.csv")

    for name, module, cases in (("batch", batch, BATCHES), ("stream", streaming, (STREAM,))):
        if name in chosen:
            rows: list[Row] = []
            for case in cases:
                console.print(f"{name}: {case}")
                rows += measured(case, module.contenders(case, case.table()), asked.rounds)
            publish(name, rows)
            draw(rows, asked.out / f"{name}.svg")
    if "long" in chosen:
        publish("long-window", [into_a_long_window(2**size, 20) for size in (10, 20)])
    if "late" in chosen:
        publish("late-rows", with_late_rows(LATE, asked.rounds))


if __name__ == "__main__":
    main()
