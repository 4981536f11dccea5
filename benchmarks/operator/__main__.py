"""``python -m benchmarks.operator``: rows per second of ``wr.aggregate`` beside Polars in the same run, the cost of a batch into a
window of 2**20 slices beside one of 2**10, and of late rows that correct windows beside rows that windows wait for. Prints tables and
writes CSV and a plot into ``benchmarks/results/operator``.

Polars has two forms that come near a sliding window. ``group_by_dynamic`` gives the same windows as ``wr.aggregate``: it is the peer.
``rolling`` gives one result per row instead of one per slide; it is shown beside it.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
from rich.console import Console
from rich.progress import track

import windrow as wr
from benchmarks.algorithms.measure import Row, rounded, write
from windrow.state.pages import MemoryPages

RESULTS = Path(__file__).parents[1] / "results" / "operator"
AGGREGATES = {"peak": wr.Max("load"), "mean": wr.Mean("load"), "n": wr.Count()}


def rows_of(rows: int, keys: int, seconds: int) -> pa.Table:
    """Readings of many plugs in the order of time."""
    random = np.random.default_rng(7)
    return pa.table(
        {
            "plug": random.integers(0, keys, rows),
            "ts": pa.array(np.sort(random.integers(0, seconds * 10**6, rows)), pa.timestamp("us")),
            "load": random.random(rows),
        }
    )


def best(run: Callable[[], Any], rounds: int) -> tuple[float, Any]:
    """The shortest of some runs, and what the last gave."""
    shortest, result = float("inf"), None
    for _ in range(rounds):
        result = None  # the memory of an answer is given back before the next is made
        begin = time.perf_counter()
        result = run()
        shortest = min(shortest, time.perf_counter() - begin)
    return shortest, result


def against_polars(rows: int, keys: int, seconds: int, window: str, slide: str, rounds: int) -> list[Row]:
    """The same query in windrow and in Polars."""
    table = rows_of(rows, keys, seconds)
    frame = pl.from_arrow(table)
    assert isinstance(frame, pl.DataFrame)
    query = wr.Query(by="plug", window=wr.TimeWindow(window, slide), aggregates=AGGREGATES)
    results = [pl.col("load").max().alias("peak"), pl.col("load").mean().alias("mean"), pl.len().alias("n")]
    contenders: dict[str, Callable[[], Any]] = {
        "windrow": lambda: wr.aggregate(table, query),
        "polars group_by_dynamic": lambda: frame.group_by_dynamic(
            "ts", every=slide, period=window, group_by="plug", start_by="window"
        ).agg(results),
        "polars rolling (a result per row)": lambda: frame.rolling("ts", period=window, group_by="plug").agg(
            results
        ),
    }
    contenders["windrow"]()  # compiles
    measured: list[Row] = []
    for name, run in contenders.items():
        taken, result = best(run, rounds)
        windows = result.num_rows if isinstance(result, pa.Table) else result.height
        measured.append(
            {
                "window": f"{window}/{slide}",
                "rows": rows,
                "keys": keys,
                "contender": name,
                "results": windows,
                "million_rows_per_second": rounded(rows / taken / 1e6),
                "million_results_per_second": rounded(windows / taken / 1e6),
            }
        )
        ours = measured[0]["million_rows_per_second"]
        measured[-1]["windrow_is_times_as_fast"] = rounded(ours / measured[-1]["million_rows_per_second"])
    return measured


def into_a_long_window(slices: int, batches: int) -> Row:
    """Batches of 1,000 rows, each a new slice, into a window that is full; state in a store."""
    schema = pa.schema({"ts": pa.int64(), "load": pa.float64()})
    query = wr.Query(window=wr.TimeWindow(slices * 10, 10), aggregates={"peak": wr.Max("load")})
    operator = wr.Operator.open(query, schema, MemoryPages())
    at = 0

    def batch(count: int) -> int:
        nonlocal at
        times = at + 10 * np.arange(count)
        at += 10 * count
        operator.process(pa.table({"ts": times, "load": np.sin(times)}, schema=schema))
        operator.advance(at)
        return operator.commit()

    while at < slices * 10:
        batch(1 << 15)
    taken, written = [], []
    for _ in range(batches):
        begin = time.perf_counter()
        written.append(batch(1000))
        taken.append(time.perf_counter() - begin)
    return {
        "slices": slices,
        "milliseconds_per_batch_median": rounded(1e3 * float(np.median(taken))),
        "bytes_written_median": int(np.median(written)),
        "bytes_written_most": max(written),
        "slices_in_memory": int(operator._state.runs.held.sum()),
    }


def with_late_rows(rows: int, keys: int, rounds: int) -> list[Row]:
    """A stream in batches, one row in a hundred up to five seconds late: corrected, or waited for."""
    table = rows_of(rows, keys, 600)
    random = np.random.default_rng(8)
    times = np.asarray(table.column("ts").cast(pa.int64())).copy()
    late = random.random(rows) < 0.01
    times[late] -= random.integers(0, 5_000_000, int(late.sum()))
    table = table.set_column(1, "ts", pa.array(times, pa.timestamp("us")))
    measured: list[Row] = []
    for how in ("drop", "update"):
        query = wr.Query(
            by="plug", window=wr.TimeWindow("1m", "1s"), aggregates=AGGREGATES, late=how, lateness="5s"
        )

        def run(query: wr.Query = query) -> dict[str, int]:
            operator, found = wr.Operator(query, table.schema), {"results": 0, "corrections": 0}
            for begin in range(0, rows, rows // 200):
                batch = table.slice(begin, rows // 200)
                found["corrections"] += operator.process(batch).num_rows
                found["results"] += operator.advance(int(times[begin : begin + rows // 200].max())).num_rows
            return {**found, "results": found["results"] + operator.flush().num_rows}

        run()  # compiles
        taken, found = best(run, rounds)
        measured.append(
            {
                "late": how,
                "rows": rows,
                "keys": keys,
                **found,
                "million_rows_per_second": rounded(rows / taken / 1e6),
                "million_results_per_second": rounded(sum(found.values()) / taken / 1e6),
            }
        )
    return measured


def draw(measured: list[Row], path: Path) -> None:
    """Rows per second, a group of bars for each window and number of keys."""
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(9, 4))
    cases = list(dict.fromkeys((row["window"], row["keys"]) for row in measured))
    contenders = list(dict.fromkeys(row["contender"] for row in measured))
    for place, contender in enumerate(contenders):
        rates = [float(row["million_rows_per_second"]) for row in measured if row["contender"] == contender]
        spots = [case + 0.26 * (place - 1) for case in range(len(cases))]
        axes.bar_label(axes.bar(spots, rates, 0.24, label=contender), fmt="%.3g", fontsize=8)
    axes.set_xticks(range(len(cases)), [f"{window}, {int(keys):,} keys" for window, keys in cases])
    axes.set_yscale("log")
    axes.set_ylabel("million rows per second, 2 cores")
    axes.legend(frameon=False)
    figure.tight_layout()
    figure.savefig(path, dpi=120)
    pyplot.close(figure)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a tenth of the rows")
    quick = parser.parse_args().quick
    rows, console = 10_000_000 // (10 if quick else 1), Console()
    cases = [
        (rows, 1, 36_000, "1h", "1s"),
        (rows, 10_000, 600, "1h", "1s"),
        (rows, 10_000, 36_000, "1h", "1m"),
    ]
    measured: list[Row] = []
    for case in track(cases, "against Polars"):
        measured += against_polars(*case, rounds=3)
    for row in measured:
        console.print(row)
    write(measured, RESULTS / "polars.csv")
    draw(measured, RESULTS / "polars.png")
    long = [into_a_long_window(2**size, 20) for size in track((10, 20), "a batch into a long window")]
    for row in long:
        console.print(row)
    write(long, RESULTS / "long-window.csv")
    late = with_late_rows(rows // 5, 1000, rounds=3)
    for row in late:
        console.print(row)
    write(late, RESULTS / "late-rows.csv")


if __name__ == "__main__":
    main()
