"""Measure everything: ``python -m benchmarks.algorithms`` at the root of the repository, or with
``--quick``.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from benchmarks.algorithms import latency, plots, targets, throughput, trees
from benchmarks.algorithms.measure import Row, write

SECTIONS = ("peers", "count", "time", "latency", "sizes", "eviction", "targets")
RATE = "million rows a second"
SLIDE = "Time of one slide: minimum, quartiles, maximum; ◆ the worst slide, without interruptions"


@click.command()
@click.option("--quick", is_flag=True, help="Few rows, few sizes: minutes instead of an hour.")
@click.option("--only", multiple=True, type=click.Choice(SECTIONS), help="Only these sections.")
@click.option(
    "--out", type=click.Path(path_type=Path), default=Path("benchmarks/results/algorithms"), show_default=True
)
def main(quick: bool, only: tuple[str, ...], out: Path) -> None:
    """Throughput, latency and eviction of windrow, its algorithms and its peers; CSV and SVG files."""
    out.mkdir(parents=True, exist_ok=True)
    console = Console()
    chosen = only or SECTIONS
    run = Run(quick, out, console)
    columns = (TextColumn("{task.description:>9}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console) as progress:
        for section in SECTIONS:
            if section in chosen:
                steps = getattr(run, section)
                task = progress.add_task(section, total=None)
                total, parts = steps()
                progress.update(task, total=total)
                rows: list[Row] = []
                for part in parts:
                    rows += part
                    progress.advance(task)
                run.finish(section, rows)
    console.print(_table(run.reached), f"Results are in {out}/")


class Run:
    """The sections: each says how many steps it has, and measures them."""

    def __init__(self, quick: bool, out: Path, console: Console) -> None:
        self.quick, self.out, self.console = quick, out, console
        self.rounds = 3 if quick else 5
        self.reached: list[Row] = []

    def peers(self) -> tuple[int, Iterator[list[Row]]]:
        ranges = (
            [8, 25, 40, 64, 1 << 10, 1 << 14, 1 << 17, 1 << 20]
            if self.quick
            else [1 << k for k in range(3, 21)] + [20, 100, 1000]
        )
        return len(ranges), throughput.against_peers(20_000_000, ranges, self.rounds)

    def count(self) -> tuple[int, Iterator[list[Row]]]:
        powers = (3, 10, 15, 20) if self.quick else range(3, 21)
        sizes = [(1 << k, 1) for k in powers] + [
            (1 << 17, slide) for slide in ((2, 10) if self.quick else range(2, 11))
        ]
        return len(sizes), throughput.count_windows(
            3_000_000 if self.quick else 4_000_000, sizes, min(self.rounds, 3)
        )

    def time(self) -> tuple[int, Iterator[list[Row]]]:
        minutes = (6, 60) if self.quick else range(6, 61, 6)
        slides = (0.02, 0.1) if self.quick else [k / 100 for k in range(2, 11)]
        sizes = [(60.0 * m, 0.01) for m in minutes] + [(3600.0, slide) for slide in slides]
        return len(sizes), throughput.time_windows(
            2_000_000 if self.quick else 4_000_000, sizes, min(self.rounds, 3)
        )

    def latency(self) -> tuple[int, Iterator[list[Row]]]:
        return len(latency.CASES), latency.summaries(
            200_000 if self.quick else 1_000_000, 3 if self.quick else 5
        )

    def sizes(self) -> tuple[int, Iterator[list[Row]]]:
        sizes = [1 << k for k in range(0, 19 if self.quick else 23, 6 if self.quick else 1)]
        return len(sizes), trees.window_sizes(sizes, min(self.rounds, 3))

    def eviction(self) -> tuple[int, Iterator[list[Row]]]:
        power = 17 if self.quick else 23
        evictions = [1 << k for k in range(0, power, 4 if self.quick else 1)] + [(1 << power) - 1]
        return len(trees.BULK), trees.bulk_evictions(1 << power, evictions, min(self.rounds, 5))

    def targets(self) -> tuple[int, Iterator[list[Row]]]:
        def measured() -> Iterator[list[Row]]:
            yield list(targets.own_aggregate(2_000_000 if self.quick else 20_000_000, self.rounds))
            yield list(targets.first_calls())

        return 2, measured()

    def finish(self, section: str, rows: list[Row]) -> None:
        """Write a section's table and picture, and note what it says about the targets."""
        if section == "targets":
            self.reached += rows
            write(self.reached, self.out / "targets.csv")
            return
        write(rows, self.out / f"{section}.csv")
        self.reached += {
            "peers": targets.from_peers,
            "count": targets.flat,
            "latency": targets.worst_latency,
        }.get(section, lambda _: iter(()))(rows)
        self.draw(section, rows)

    def draw(self, section: str, rows: list[Row]) -> None:
        """The plots of a section."""
        if section == "peers":
            self._rates(rows, "range", "Largest of 20 million float64, slide 1", "peers", "rows in a window")
        elif section == "count":
            by_one = [row for row in rows if row["slide"] == 1]
            self._rates(by_one, "range", "Largest, count windows, slide 1", "count_range", "rows in a window")
            fixed = [row for row in rows if row["range"] == 1 << 17]
            self._rates(fixed, "slide", "Largest, count windows of 2¹⁷ rows", "count_slide", "slide, rows")
        elif section == "time":
            by_one = [row for row in rows if row["slide"] == 1]
            self._rates(
                by_one,
                "range_s",
                "Largest, time windows, 100 Hz, slide 10 ms",
                "time_range",
                "range, seconds",
            )
            fixed = [row for row in rows if row["range_s"] == 3600.0]
            self._rates(
                fixed, "slide_s", "Largest, time windows of 1 h, 100 Hz", "time_slide", "slide, seconds"
            )
        elif section == "latency":
            plots.boxes(rows, SLIDE, self.out / "latency.svg")
        elif section == "sizes":
            labels = ("partials in the window", "nanoseconds per slide")
            plots.lines(
                rows,
                "size",
                "ns_per_slide",
                "algorithm",
                "Window size",
                self.out / "sizes.svg",
                labels=labels,
            )
        elif section == "eviction":
            labels = ("partials evicted at once", "microseconds, eviction and result")
            title = f"Bulk eviction from {rows[0]['size']:,} partials"
            plots.lines(
                rows, "evicted", "microseconds", "algorithm", title, self.out / "eviction.svg", labels=labels
            )

    def _rates(self, rows: list[Row], x: str, title: str, name: str, label: str) -> None:
        plots.lines(
            rows,
            x,
            "million_rows_per_second",
            "contender",
            title,
            self.out / f"{name}.svg",
            labels=(label, RATE),
        )


def _table(rows: list[Row]) -> Table:
    table = Table("what", "reached", "wanted", "met", title="What must be reached")
    for row in rows:
        table.add_row(row["what"], f"{row['reached']:g}", row["wanted"], row["met"])
    return table


if __name__ == "__main__":
    main()
