"""Runs every contender, prints and writes what was measured, and says which targets are reached."""

from __future__ import annotations

import argparse
import csv
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import median

from benchmarks.flink import contenders as run
from benchmarks.flink import plots
from benchmarks.flink.break_even import Cell, cells, warm_up, write
from benchmarks.flink.cores import adopt_orphans, cpu_seconds
from benchmarks.flink.data import Rows
from benchmarks.spark.plots import draw  # needs no Spark

RATIOS = (1, 10, 100, 1000)
ROUNDS = 2
"""Of the jobs for slots. The start of workers may differ by seconds from job to job, so the fastest counts."""
OUT = Path(__file__).parent.parent / "results" / "flink"


@dataclass
class Results:
    """Rows per second of each contender, one number for each time that it ran."""

    rates: dict[str, list[float]] = field(default_factory=dict)
    rows: dict[str, int] = field(default_factory=dict)
    cells: list[Cell] = field(default_factory=list)
    """Of the break-even."""
    cores: dict[str, float] = field(default_factory=dict)
    """How many cores were busy, where that was measured."""
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
    parse.add_argument(
        "--only",
        action="append",
        choices=CASES,
        help="only this part, with a table of its own; may be repeated",
    )
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
    asked.out.mkdir(parents=True, exist_ok=True)
    if results.cells:
        write(results.cells, asked.out)
    if results.rates:
        write_rates(results, asked.out, "" if asked.only is None else "-".join(chosen))
    rates = {name: results.rate(name) for name in results.rates}
    try:
        if rates:
            plots.bars(rates, asked.out / f"{'flink' if asked.only is None else '-'.join(chosen)}.svg")
        if results.cells:
            draw([asdict(cell) for cell in results.cells], asked.out / "break-even.svg")
    except ModuleNotFoundError as missing:
        print(f"no plot without {missing.name}: python -m benchmarks.redraw draws it later")


def write_rates(results: Results, folder: Path, part: str) -> None:
    """The rates, and the targets that they reach or miss; of a part, in tables with its name."""
    targets = reached(results)
    with open(folder / f"{part or 'flink'}.csv", "w", newline="") as out:
        writer = csv.writer(out)
        writer.writerow(["contender", "rows", "rows per second", "cores busy"])
        writer.writerows(
            (name, results.rows[name], round(results.rate(name)), f"{results.cores.get(name, ''):.3}")
            for name in results.rates
        )
    with open(folder / f"{part}{part and '-'}targets.csv", "w", newline="") as out:
        writer = csv.writer(out)
        writer.writerow(["target", "measured", "wanted", "reached"])
        writer.writerows((name, f"{found:.4g}", f"{want:g}", ok) for name, found, want, ok in targets)
    for name, measured, wanted, ok in targets:
        print(f"{'reached ' if ok else 'MISSED  '} {name}: {measured:.3g} (wanted {wanted:g})")


def packed(folder: Path, scale: float, results: Results) -> None:
    """many rows and keys in one element, at parallelism 1"""
    data, asked = Rows(int(20_000_000 * scale), 16, 10_000), run.query(100, 1)
    run.packed(Rows(200_000, 16, 10_000), folder, asked)  # compiles, and warms the JVM up
    for _ in range(2):
        results.note("packed, max", data.count, run.packed(data, folder, asked))


def break_even(folder: Path, scale: float, results: Results) -> None:
    """HOP and windrow over range/slide, dense and sparse rows, two sets of aggregates; in a table of its own"""
    warm_up(folder)
    results.cells.extend(cells(folder, scale, rounds=1))


def ratios(folder: Path, scale: float, results: Results) -> None:
    """range/slide from 1 to 1000, dense (10,000 rows a second) and sparse (100 rows a second) rows"""
    for name, count, per_second in (("dense", 10_000_000, 10_000), ("sparse", 1_000_000, 100)):
        data, few = Rows(int(count * scale), 16, per_second), Rows(int(count * scale) // 10, 16, per_second)
        for ratio in RATIOS:
            asked, case = run.query(ratio, 1), f"ratio {ratio}, {name}"
            some = few if ratio == 1000 and name == "sparse" else data  # HOP would take minutes
            run.packed(few, folder, asked)
            run.hop(few, ratio, 1)
            for _ in range(2):
                results.note(f"packed, {case}", some.count, run.packed(some, folder, asked))
                results.note(f"HOP, {case}", some.count, run.hop(some, ratio, 1))
            results.note(f"push-down, {case}", some.count, run.pushed_down(some, asked))
            results.note(f"two steps in SQL, {case}", few.count, run.two_steps(few, ratio, 1))
            results.note(f"gathered, {case}", few.count, run.gathered(few, asked))
            if ratio <= 100:
                results.note(f"Java windows, {case}", few.count, run.java_windows(few, ratio, 1))


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


def slots(folder: Path, scale: float, results: Results) -> None:
    """one slot and two, once they run: ``windowed``, and FPBA (max over the last 1024 rows at every row, 84 keys)"""
    adopt_orphans()
    asked = run.query(10, 1)
    ways: dict[str, tuple[Callable[[Rows, int], float], Callable[[int], Rows], int]] = {
        "windowed": (
            lambda data, slots: run.gathered(data, asked, slots),
            lambda count: Rows(count, 16, 10_000),
            48_000_000,
        ),
        "FPBA": (run.fpba, lambda count: Rows(count, 84, 100_000), 12_000_000),
    }
    for name, (job, data, count) in ways.items():
        further = int(count * scale)
        few = further // 20
        job(data(few // 10), 1)  # compiles
        for parallelism in (1, 2):
            short, long = (
                min(_measured(job, data(rows), parallelism) for _ in range(ROUNDS))
                for rows in (few, few + further)
            )
            seconds, used = (b - a for a, b in zip(short, long, strict=True))
            results.note(f"{name}, parallelism {parallelism}", further, seconds)
            results.cores[f"{name}, parallelism {parallelism}"] = used / seconds


def _measured(job: Callable[[Rows, int], float], data: Rows, parallelism: int) -> tuple[float, float]:
    """How many seconds a job takes, and how much CPU time."""
    before = cpu_seconds()
    return job(data, parallelism), cpu_seconds() - before


def fig8(folder: Path, scale: float, results: Results) -> None:
    """max over the last 1024 rows at every row, 84 keys: FPBA against Flink's count windows, the same rows"""
    for parallelism in (1, 2):
        rows, name = Rows(int(6_000 * scale), 84, 1000), f"1024/1, parallelism {parallelism}"
        run.fpba(rows, parallelism)
        results.note(f"FPBA, {name}", rows.count, run.fpba(rows, parallelism))
        results.note(f"FPBA row by row, {name}", rows.count, run.fpba_row_by_row(rows, parallelism))
        results.note(f"count windows, {name}", rows.count, run.count_windows(rows, parallelism))


CASES: dict[str, Callable[[Path, float, Results], None]] = {
    "packed": packed,
    "break-even": break_even,
    "ratios": ratios,
    "rows": row_by_row,
    "slots": slots,
    "reduce": reduce,
    "fig8": fig8,
}


def reached(results: Results) -> list[tuple[str, float, float, bool]]:
    """What must be reached, of what was measured."""
    dense = [
        results.ratio(f"{way}, ratio 100, dense", "HOP, ratio 100, dense") for way in ("packed", "push-down")
    ]
    rate = results.rate("packed, max") if "packed, max" in results.rates else None
    wanted: list[tuple[str, float | None, float]] = [
        ("packed rows per second, max", rate, 3e6),
        ("times HOP at ratio 100, dense, the better way", max(filter(None, dense), default=None), 2),
        *(
            (
                f"times HOP at ratio {ratio}, sparse",
                results.ratio(f"packed, ratio {ratio}, sparse", f"HOP, ratio {ratio}, sparse"),
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
            (
                f"times one slot, {name} on two",
                results.ratio(f"{name}, parallelism 2", f"{name}, parallelism 1"),
                1.6,
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
