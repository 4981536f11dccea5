"""Runs every contender, prints and writes what was measured, and says which targets are reached."""

from __future__ import annotations

import argparse
import csv
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from itertools import product
from pathlib import Path
from statistics import median

from benchmarks.flink import contenders as run
from benchmarks.flink import plots
from benchmarks.flink.data import Rows
from benchmarks.flink.plots import RATIOS

OUT = Path(__file__).parent.parent / "results" / "flink"


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
    try:
        with tempfile.TemporaryDirectory() as folder:
            for place, name in enumerate(chosen, 1):
                says = (CASES[name].__doc__ or "").splitlines()[0]
                print(f"[{place}/{len(chosen)}] {name}: {says}", flush=True)
                CASES[name](Path(folder), asked.scale, results)
    finally:
        publish(results, asked.out)


def publish(results: Results, folder: Path) -> None:
    """Write what was measured; what earlier runs measured of other contenders stays."""
    folder.mkdir(parents=True, exist_ok=True)
    targets = reached(results)
    measured = {name: [str(results.rows[name]), str(round(results.rate(name)))] for name in results.rates}
    merged = write(folder / "flink.csv", ["contender", "rows", "rows per second"], measured)
    found = {name: [f"{found:.4g}", f"{want:g}", str(ok)] for name, found, want, ok in targets}
    write(folder / "targets.csv", ["target", "measured", "wanted", "reached"], found)
    for name, rate, wanted, ok in targets:
        print(f"{'reached ' if ok else 'MISSED  '} {name}: {rate:.3g} (wanted {wanted:g})")
    rates = {name: float(row[-1]) for name, row in merged.items()}
    plots.bars(rates, folder / "flink.svg")
    if any(", ratio 10, " in name for name in rates):
        plots.break_even(rates, folder / "break-even.svg")


def write(path: Path, head: list[str], measured: dict[str, list[str]]) -> dict[str, list[str]]:
    """Rows of a table by their first column; new ones replace those that are there."""
    merged: dict[str, list[str]] = {}
    if path.exists():
        with open(path, newline="") as known:
            merged = {name: rest for name, *rest in list(csv.reader(known))[1:]}
    merged |= measured
    with open(path, "w", newline="") as out:
        writer = csv.writer(out)
        writer.writerow(head)
        writer.writerows([name, *rest] for name, rest in merged.items())
    return merged


def packed(folder: Path, scale: float, results: Results) -> None:
    """many rows and keys in one element, at parallelism 1"""
    data, asked = Rows(int(20_000_000 * scale), 16, 10_000), run.query(100, 1)
    run.packed(Rows(200_000, 16, 10_000), folder, asked)  # compiles, and warms the JVM up
    for _ in range(2):
        results.note("packed, max", data.count, run.packed(data, folder, asked))


def break_even(folder: Path, scale: float, results: Results) -> None:
    """range/slide from 1 to 1000, dense (10,000 rows a second) and sparse (100 rows a second) rows, without the start of the job"""
    for ratio, (name, count, per_second) in product(reversed(RATIOS), DENSITIES):
        many, few = (Rows(int(part * count * scale), 16, per_second) for part in (1, 0.1))
        tenth = Rows(few.count // 10, 16, per_second)
        asked, slow = run.query(ratio, 1), ratio == 1000 and name == "sparse"
        ways: dict[str, Callable[[Rows], float]] = {
            "gathered": partial(run.gathered, asked=asked),
            "HOP": partial(run.hop, range_=ratio, slide=1),
            "push-down": partial(run.pushed_down, asked=asked),
            "packed": partial(run.packed, folder=folder, asked=asked),
            "two steps in SQL": partial(run.two_steps, range_=ratio, slide=1),
            "Java windows": partial(run.java_windows, range_=ratio, slide=1),
        }
        for way, taking in ways.items():
            if way == "Java windows" and ratio == 1000:
                continue  # it would take minutes
            fewer = slow or way == "Java windows"  # and HOP, on sparse rows in a thousand windows each
            steady(
                results, f"{way}, ratio {ratio}, {name}", taking, *((tenth, few) if fewer else (few, many))
            )


DENSITIES = (("dense", 10_000_000, 10_000), ("sparse", 1_000_000, 100))


def steady(results: Results, name: str, way: Callable[[Rows], float], few: Rows, many: Rows) -> None:
    """The time of few rows, which also warm the JVM up, is taken off: it is the start of the job."""
    start = way(few)
    taken = max(way(many) - start, 1e-3)
    results.note(name, many.count - few.count, taken)


def row_by_row(folder: Path, scale: float, results: Results) -> None:
    """rows that the JVM makes: gathered, and one by one against an empty function on the same keyed stream"""
    data, more, asked = (
        Rows(int(200_000 * scale), 16, 1000),
        Rows(int(2_000_000 * scale), 16, 1000),
        run.query(10, 1),
    )
    run.row_by_row(Rows(20_000, 16, 1000), asked)
    for _ in range(3):
        results.note("windowed, row by row", data.count, run.row_by_row(data, asked))
        results.note("empty function, row by row", data.count, run.floor(data))
        results.note("windowed, gathered", more.count, run.gathered(more, asked))


def reduce(folder: Path, scale: float, results: Results) -> None:
    """sliding windows of the DataStream API with a Python reduce, ratio 100; windrow over the same rows"""
    few = Rows(int(1_000 * scale), 16, 100)
    run.row_by_row(few, run.query(100, 1))
    results.note("Python reduce, ratio 100", few.count, run.sliding_reduce(few, 100, 1))
    results.note("windowed, ratio 100, row by row", few.count, run.row_by_row(few, run.query(100, 1)))


SLOTS = (("parallelism 1", 1, 2), ("parallelism 2", 2, 2), ("parallelism 1 on one core", 1, 1))
"""A job of one slot uses more than one core, because its steps run side by side; so it is measured on one core, too."""


def slots(folder: Path, scale: float, results: Results) -> None:
    """one slot and two: ``windowed``, and FPBA (max over the last 1024 rows at every row, 84 keys), without the start of the job"""
    ways: dict[str, tuple[Callable[..., float], Rows, Rows]] = {
        "windowed": (
            partial(run.gathered, asked=run.query(10, 1)),
            Rows(int(1_000_000 * scale), 16, 10_000),
            Rows(int(16_000_000 * scale), 16, 10_000),
        ),
        "FPBA": (
            run.fpba,
            Rows(int(200_000 * scale), 84, 100_000),
            Rows(int(4_000_000 * scale), 84, 100_000),
        ),
    }
    for name, (way, few, many) in ways.items():
        for parallelism in (1, 2):
            way(few, parallelism=parallelism)  # compiles, and warms the JVM up
        for _ in range(2):
            for case, parallelism, cores in SLOTS:
                with run.on_cores(cores):
                    steady(results, f"{name}, {case}", partial(way, parallelism=parallelism), few, many)


def fig8(folder: Path, scale: float, results: Results) -> None:
    """max over the last 1024 rows at every row, 84 keys: FPBA against Flink's count windows, the same rows"""
    for parallelism in (1, 2):
        rows, name = Rows(int(6_000 * scale), 84, 1000), f"1024/1, parallelism {parallelism}"
        run.fpba(rows, parallelism)
        results.note(f"FPBA, {name}", rows.count, run.fpba(rows, parallelism))
        taken = run.fpba_row_by_row(rows, parallelism)
        results.note(f"FPBA row by row, {name}", rows.count, taken)
        results.note(f"count windows, {name}", rows.count, run.count_windows(rows, parallelism))


CASES: dict[str, Callable[[Path, float, Results], None]] = {
    "packed": packed,
    "break-even": break_even,
    "rows": row_by_row,
    "slots": slots,
    "reduce": reduce,
    "fig8": fig8,
}


def reached(results: Results) -> list[tuple[str, float, float, bool]]:
    """What must be reached, of what was measured."""
    dense = [
        results.ratio(f"{way}, ratio 100, dense", "HOP, ratio 100, dense")
        for way in ("gathered", "push-down")
    ]
    rate = results.rate("packed, max") if "packed, max" in results.rates else None
    wanted: list[tuple[str, float | None, float]] = [
        ("packed rows per second, max", rate, 3e6),
        ("times HOP at ratio 100, dense, the better way", max(filter(None, dense), default=None), 2),
        *(
            (
                f"times HOP at ratio {ratio}, sparse",
                results.ratio(f"gathered, ratio {ratio}, sparse", f"HOP, ratio {ratio}, sparse"),
                want,
            )
            for ratio, want in ((100, 2), (1000, 50))
        ),
        (
            "of the floor, row by row",
            results.ratio("windowed, row by row", "empty function, row by row"),
            0.8,
        ),
        ("times row by row, gathered", results.ratio("windowed, gathered", "windowed, row by row"), 1),
        *(
            (f"times {one}, {name} with two", results.ratio(f"{name}, parallelism 2", f"{name}, {case}"), 1.6)
            for one, case in (
                ("one slot", "parallelism 1"),
                ("one slot on one core", "parallelism 1 on one core"),
            )
            for name in ("windowed", "FPBA")
        ),
        (
            "times sliding windows with a Python reduce",
            results.ratio("windowed, ratio 100, row by row", "Python reduce, ratio 100"),
            1,
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


if __name__ == "__main__":
    main()
