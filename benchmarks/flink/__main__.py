"""Runs every contender, prints and writes what was measured, and says which targets are reached."""

from __future__ import annotations

import argparse
import csv
import tempfile
from collections.abc import Callable
from pathlib import Path

from benchmarks.flink import contenders as run
from benchmarks.flink.data import Rows

OUT = Path(__file__).parent.parent / "results" / "flink"


def main() -> None:
    parse = argparse.ArgumentParser(prog="python -m benchmarks.flink", description=__doc__)
    parse.add_argument("--scale", type=float, default=1.0, help="times the usual number of rows")
    parse.add_argument("--only", action="append", help="packed, dense, sparse, rows, reduce, fig8")
    parse.add_argument("--out", type=Path, default=OUT)
    asked = parse.parse_args()
    results: dict[str, float] = {}
    cases: dict[str, Callable[[Path, float, dict[str, float]], None]] = {
        "packed": packed,
        "dense": dense,
        "sparse": sparse,
        "rows": row_by_row,
        "reduce": reduce,
        "fig8": fig8,
    }
    with tempfile.TemporaryDirectory() as folder:
        for name, case in cases.items():
            if not asked.only or name in asked.only:
                case(Path(folder), asked.scale, results)
    targets = reached(results)
    asked.out.mkdir(parents=True, exist_ok=True)
    with open(asked.out / "flink.csv", "w", newline="") as out:
        writer = csv.writer(out)
        writer.writerow(["contender", "rows per second"])
        writer.writerows((name, round(rate)) for name, rate in results.items())
    with open(asked.out / "targets.csv", "w", newline="") as out:
        writer = csv.writer(out)
        writer.writerow(["target", "measured", "wanted", "reached"])
        writer.writerows(targets)
    for name, measured, wanted, ok in targets:
        print(f"{'reached ' if ok else 'MISSED  '} {name}: {measured:.3g} (wanted {wanted:g})")
    plot(results, asked.out / "flink.png")


def note(results: dict[str, float], name: str, rows: int, seconds: float) -> None:
    results[name] = rows / seconds
    print(f"{name:55s} {rows:>10,} rows {seconds:8.2f} s {rows / seconds:>12,.0f} rows/s", flush=True)


def packed(folder: Path, scale: float, results: dict[str, float]) -> None:
    data = Rows(int(20_000_000 * scale), 16, 10_000)
    _, parquet = data.files(folder)
    query = run.query("100s", "1s")
    run.packed(parquet, query)  # compiles, and warms the JVM up
    note(results, "packed, max, ratio 100", data.count, run.packed(parquet, query))


def dense(folder: Path, scale: float, results: dict[str, float]) -> None:
    data, little = Rows(int(10_000_000 * scale), 16, 10_000), Rows(100_000, 16, 10_000)
    text, parquet = data.files(folder)
    run.hop(little.files(folder)[0], 100, 1)  # compile, and warm up
    run.pushed_down(little.files(folder)[0], run.query("100s", "1s"))
    note(results, "HOP, ratio 100, dense", data.count, run.hop(text, 100, 1))
    note(results, "push-down, ratio 100, dense", data.count, run.pushed_down(text, run.query("100s", "1s")))
    note(results, "packed, ratio 100, dense", data.count, run.packed(parquet, run.query("100s", "1s")))


def sparse(folder: Path, scale: float, results: dict[str, float]) -> None:
    few, many = Rows(int(60_000 * scale), 16, 100), Rows(int(4_000_000 * scale), 16, 100)
    text, _ = few.files(folder)
    note(results, "HOP, ratio 1000, sparse", few.count, run.hop(text, 1000, 1))
    _, parquet = many.files(folder)
    note(results, "packed, ratio 1000, sparse", many.count, run.packed(parquet, run.query("1000s", "1s")))


def row_by_row(folder: Path, scale: float, results: dict[str, float]) -> None:
    count = int(300_000 * scale)
    query = run.query("10s", "1s")
    run.row_by_row(count // 10, 16, 1000, query)
    for attempt in (1, 2):
        note(results, f"empty function, row by row ({attempt})", count, run.floor(count, 16, 1000))
        note(results, f"windowed, row by row ({attempt})", count, run.row_by_row(count, 16, 1000, query))


def reduce(folder: Path, scale: float, results: dict[str, float]) -> None:
    few = int(1_500 * scale)
    note(results, "Python reduce, ratio 100", few, run.sliding_reduce(few, 16, 100, 100, 1))
    data = Rows(int(4_000_000 * scale), 16, 100)
    _, parquet = data.files(folder)
    note(results, "packed, ratio 100, sparse", data.count, run.packed(parquet, run.query("100s", "1s")))


def fig8(folder: Path, scale: float, results: dict[str, float]) -> None:
    ours, theirs = int(100_000 * scale), int(10_000 * scale)
    for parallelism in (1, 2):
        note(results, f"FPBA, 1024/1, parallelism {parallelism}", ours, run.fpba(ours, 84, parallelism))
        note(
            results,
            f"count windows, 1024/1, parallelism {parallelism}",
            theirs,
            run.count_windows(theirs, 84, parallelism),
        )


def reached(results: dict[str, float]) -> list[tuple[str, float, float, bool]]:
    """What must be reached, of what was measured."""

    def ratio(ours: str, theirs: str) -> float | None:
        return results[ours] / results[theirs] if ours in results and theirs in results else None

    best = {name: rate for name, rate in results.items() if "dense" in name and not name.startswith("HOP")}
    ours = max(best, key=lambda name: best[name], default="")
    floors = [ratio(f"windowed, row by row ({n})", f"empty function, row by row ({n})") for n in (1, 2)]
    wanted: list[tuple[str, float | None, float]] = [
        ("packed rows per second, max", results.get("packed, max, ratio 100"), 3e6),
        ("times HOP at ratio 1000", ratio("packed, ratio 1000, sparse", "HOP, ratio 1000, sparse"), 50),
        ("times HOP at ratio 100", ratio(ours, "HOP, ratio 100, dense"), 2),
        (
            "times sliding windows with a Python reduce",
            ratio("packed, ratio 100, sparse", "Python reduce, ratio 100"),
            100,
        ),
        ("of the floor, row by row", max((f for f in floors if f is not None), default=None), 0.8),
        *(
            (
                f"times count windows, parallelism {p}",
                ratio(f"FPBA, 1024/1, parallelism {p}", f"count windows, 1024/1, parallelism {p}"),
                1,
            )
            for p in (1, 2)
        ),
    ]
    return [(name, found, want, found >= want) for name, found, want in wanted if found is not None]


def plot(results: dict[str, float], path: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    names = list(results)[::-1]
    figure, axes = pyplot.subplots(figsize=(9, 0.4 * len(names) + 1))
    colours = [
        "#888888" if any(word in name for word in ("HOP", "reduce", "count windows", "empty")) else "#1f77b4"
        for name in names
    ]
    axes.barh(names, [results[name] for name in names], color=colours)
    axes.set_xscale("log")
    axes.set_xlabel("rows per second (grey: Flink's own)")
    figure.tight_layout()
    figure.savefig(path, dpi=120)


if __name__ == "__main__":
    main()
