"""Runs every contender, prints and writes what was measured, and says which targets are reached."""

from __future__ import annotations

import argparse
import csv
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

from benchmarks.flink import contenders as run
from benchmarks.flink.data import Rows

OUT = Path(__file__).parent.parent / "results" / "flink"
FLINKS_OWN = ("HOP", "reduce", "count windows", "empty")


@dataclass
class Results:
    """Rows per second of each contender, one number for each time that it ran."""

    rates: dict[str, list[float]] = field(default_factory=dict)
    rows: dict[str, int] = field(default_factory=dict)
    begun: float = field(default_factory=time.monotonic)

    def note(self, name: str, rows: int, seconds: float) -> None:
        self.rates.setdefault(name, []).append(rows / seconds)
        self.rows[name] = rows
        passed = time.monotonic() - self.begun
        print(
            f"{passed:5.0f} s  {name:48s} {rows:>11,} rows {seconds:8.2f} s {rows / seconds:>12,.0f} rows/s",
            flush=True,
        )

    def rate(self, name: str) -> float:
        return median(self.rates[name])

    def ratio(self, ours: str, theirs: str) -> float | None:
        """The median of the ratios of runs that followed each other."""
        pairs = zip(self.rates.get(ours, []), self.rates.get(theirs, []), strict=False)
        ratios = [a / b for a, b in pairs]
        return median(ratios) if ratios else None


def main() -> None:
    parse = argparse.ArgumentParser(prog="python -m benchmarks.flink", description=__doc__)
    parse.add_argument("--scale", type=float, default=1.0, help="times the usual number of rows")
    parse.add_argument("--only", action="append", choices=CASES, help="only this part; may be repeated")
    parse.add_argument("--out", type=Path, default=OUT)
    asked = parse.parse_args()
    results = Results()
    chosen = asked.only or list(CASES)
    with tempfile.TemporaryDirectory() as folder:
        for place, name in enumerate(chosen, 1):
            print(
                f"[{place}/{len(chosen)}] {name}: {(CASES[name].__doc__ or '').splitlines()[0]}", flush=True
            )
            CASES[name](Path(folder), asked.scale, results)
    targets = reached(results)
    asked.out.mkdir(parents=True, exist_ok=True)
    with open(asked.out / "flink.csv", "w", newline="") as out:
        writer = csv.writer(out)
        writer.writerow(["contender", "rows", "rows per second"])
        writer.writerows((name, results.rows[name], round(results.rate(name))) for name in results.rates)
    with open(asked.out / "targets.csv", "w", newline="") as out:
        writer = csv.writer(out)
        writer.writerow(["target", "measured", "wanted", "reached"])
        writer.writerows((name, f"{found:.4g}", f"{want:g}", ok) for name, found, want, ok in targets)
    for name, measured, wanted, ok in targets:
        print(f"{'reached ' if ok else 'MISSED  '} {name}: {measured:.3g} (wanted {wanted:g})")
    plot(results, asked.out / "flink.png")


def packed(folder: Path, scale: float, results: Results) -> None:
    """many rows and keys in one element, at parallelism 1"""
    data, asked = Rows(int(20_000_000 * scale), 16, 10_000), run.query(100, 1)
    run.packed(Rows(200_000, 16, 10_000), folder, asked)  # compiles, and warms the JVM up
    for _ in range(2):
        results.note("packed, max", data.count, run.packed(data, folder, asked))


def ratio_100(folder: Path, scale: float, results: Results) -> None:
    """range/slide 100, dense (10,000 rows a second) and sparse (100 rows a second) rows"""
    dense, sparse = Rows(int(10_000_000 * scale), 16, 10_000), Rows(int(1_000_000 * scale), 16, 100)
    asked, little = run.query(100, 1), Rows(200_000, 16, 10_000)
    run.hop(little, 100, 1)
    run.pushed_down(little, asked)
    run.packed(little, folder, asked)
    for name, data in (("dense", dense), ("sparse", sparse)):
        results.note(f"HOP, ratio 100, {name}", data.count, run.hop(data, 100, 1))
        results.note(f"packed, ratio 100, {name}", data.count, run.packed(data, folder, asked))
        if name == "dense":
            results.note(f"push-down, ratio 100, {name}", data.count, run.pushed_down(data, asked))


def ratio_1000(folder: Path, scale: float, results: Results) -> None:
    """range/slide 1000, 100 rows a second"""
    data = Rows(int(500_000 * scale), 16, 100)
    run.packed(Rows(50_000, 16, 100), folder, run.query(1000, 1))
    results.note("packed, ratio 1000, sparse", data.count, run.packed(data, folder, run.query(1000, 1)))
    results.note("HOP, ratio 1000, sparse", data.count, run.hop(data, 1000, 1))


def row_by_row(folder: Path, scale: float, results: Results) -> None:
    """one element for each row, against an empty function on the same keyed stream"""
    data, asked = Rows(int(200_000 * scale), 16, 1000), run.query(10, 1)
    run.row_by_row(Rows(20_000, 16, 1000), asked)
    for _ in range(3):
        results.note("windowed, row by row", data.count, run.row_by_row(data, asked))
        results.note("empty function, row by row", data.count, run.floor(data))


def reduce(folder: Path, scale: float, results: Results) -> None:
    """sliding windows of the DataStream API with a Python reduce, ratio 100; windrow row by row as well"""
    few, many = Rows(int(1_000 * scale), 16, 100), Rows(int(50_000 * scale), 16, 100)
    results.note("Python reduce, ratio 100", few.count, run.sliding_reduce(few, 100, 1))
    results.note("windowed, ratio 100, row by row", many.count, run.row_by_row(many, run.query(100, 1)))


def fig8(folder: Path, scale: float, results: Results) -> None:
    """max over the last 1024 rows at every row, 84 keys: FPBA against Flink's count windows"""
    run.fpba(Rows(5_000, 84, 1000), 1)
    for parallelism in (1, 2):
        ours, theirs = Rows(int(100_000 * scale), 84, 1000), Rows(int(6_000 * scale), 84, 1000)
        name = f"1024/1, parallelism {parallelism}"
        results.note(f"FPBA, {name}", ours.count, run.fpba(ours, parallelism))
        results.note(f"count windows, {name}", theirs.count, run.count_windows(theirs, parallelism))


CASES: dict[str, Callable[[Path, float, Results], None]] = {
    "packed": packed,
    "ratio-100": ratio_100,
    "ratio-1000": ratio_1000,
    "rows": row_by_row,
    "reduce": reduce,
    "fig8": fig8,
}


def reached(results: Results) -> list[tuple[str, float, float, bool]]:
    """What must be reached, of what was measured."""
    dense = [
        results.ratio(f"{way}, ratio 100, dense", "HOP, ratio 100, dense") for way in ("packed", "push-down")
    ]
    wanted: list[tuple[str, float | None, float]] = [
        (
            "packed rows per second, max",
            results.rate("packed, max") if "packed, max" in results.rates else None,
            3e6,
        ),
        ("times HOP at ratio 100, dense, the better way", max(filter(None, dense), default=None), 2),
        (
            "times HOP at ratio 100, sparse",
            results.ratio("packed, ratio 100, sparse", "HOP, ratio 100, sparse"),
            2,
        ),
        (
            "times HOP at ratio 1000",
            results.ratio("packed, ratio 1000, sparse", "HOP, ratio 1000, sparse"),
            50,
        ),
        (
            "of the floor, row by row",
            results.ratio("windowed, row by row", "empty function, row by row"),
            0.8,
        ),
        (
            "times sliding windows with a Python reduce",
            results.ratio("windowed, ratio 100, row by row", "Python reduce, ratio 100"),
            100,
        ),
        *(
            (
                f"times count windows, parallelism {p}",
                results.ratio(f"FPBA, 1024/1, parallelism {p}", f"count windows, 1024/1, parallelism {p}"),
                1,
            )
            for p in (1, 2)
        ),
    ]
    return [(name, found, want, found >= want) for name, found, want in wanted if found is not None]


def plot(results: Results, path: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    names = list(results.rates)[::-1]
    figure, axes = pyplot.subplots(figsize=(9, 0.4 * len(names) + 1))
    colours = ["#888888" if any(word in name for word in FLINKS_OWN) else "#1f77b4" for name in names]
    bars = axes.barh(names, [results.rate(name) for name in names], color=colours)
    axes.bar_label(bars, [f" {results.rate(name):,.0f}" for name in names])
    axes.set_xscale("log")
    axes.margins(x=0.15)
    axes.set_xlabel("rows per second (grey: Flink's own)")
    figure.tight_layout()
    figure.savefig(path, dpi=120)


if __name__ == "__main__":
    main()
