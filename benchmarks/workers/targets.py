"""What must be reached, and what was, from the tables of a run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from benchmarks.algorithms.measure import Row, rounded

NOISE = 0.03
"""Two runs of the same thing differ by so much."""
Tables = Mapping[str, list[Row]]


def targets(tables: Tables) -> Iterator[Row]:
    """A line for each figure that must be reached; of tables that were not measured, none."""
    for row in tables.get("compiled", []):
        yield _target(f"Apply, {row['function']}: × a numba loop by hand", row["of_by_hand"], 0.8)
    yield from _of_medians(tables.get("medians", []))
    for row in tables.get("two-workers", []):
        if row["workers"] == "2, on demand":
            if row["windows"] == "even":
                what, wanted, column = "two workers, even windows: × one", 1.7, "times_one_worker"
            else:
                what, wanted, column = "two workers, uneven windows: × round robin", 1.6, "times_round_robin"
            yield _target(what, row[column], wanted)
            yield _target(f"{what}, by CPU time, as if cores were free", row[f"{column}_by_cpu"], wanted)
    for row in tables.get("python", []):
        what = f"two workers, Python function ({row['function']}): × one (or 1, as far as a clock can tell)"
        yield _target(what, row["times_one_worker"], 1.0 - NOISE)
    for row in tables.get("live", []):
        yield _target(
            "200,000 quotes/s, slide-by-tuple 4,000, 3 s: seconds of work per second",
            row["seconds_of_work_per_second"],
            1.0,
            most=True,
        )
        yield _target("the same in CPU seconds, of two cores", row["cpu_seconds_per_second"], 2.0, most=True)
    for row in tables.get("memory", []):
        yield _target("10⁶ rows, slide 1,000: peak in windows' bytes", row["peak_in_windows"], 6.0, most=True)
    for row in tables.get("fits", []):
        if row["contender"] == "pandas numba engine":
            what = "PolynomialFit, degree 2: × pandas' numba engine"
            yield _target(what, row["windrow_is_times_as_fast"], 20.0)
    for row in tables.get("fit-errors", []):
        what = f"PolynomialFit, error after {row['slides']:,} slides"
        yield _target(what, row["largest_relative_error"], 1e-8, most=True)


def _of_medians(rows: list[Row]) -> Iterator[Row]:
    rate = {(row["contender"], row["window"]): row["million_windows_per_second"] for row in rows}
    share = {(row["contender"], row["window"]): row["of_bottleneck"] for row in rows}
    for contender, name in (("windrow aggregate", "Median"), ("windrow aggregate, Quantile", "Quantile")):
        if share.get((contender, 1000)):
            yield _target(f"{name}, 1,000 rows, slide 1: × bottleneck", share[contender, 1000], 0.3)
        if (contender, 1 << 20) in rate:
            times = rate[contender, 1000] / rate[contender, 1 << 20]
            yield _target(f"{name}, 2²⁰ rows: × the time of 1,000 rows", times, 3.0, most=True)


def _target(what: str, reached: float, wanted: float, most: bool = False) -> Row:
    met = reached <= wanted if most else reached >= wanted
    return {
        "what": what,
        "reached": rounded(reached),
        "wanted": f"{'≤' if most else '≥'} {wanted:g}",
        "met": "yes" if met else "no",
    }
