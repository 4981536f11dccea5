"""Where windrow begins to be faster than ``HOP`` on Flink: range/slide × density × aggregates.

In each cell all ways get the same rows, and the stream is at least 1.5 times as long as the range, so that windows are full. There
are fewer rows where ``HOP`` would take too long: it merges all slices of a window whenever one is due.
"""

from __future__ import annotations

import csv
import sys
from collections.abc import Iterator
from dataclasses import astuple, dataclass, fields
from functools import partial
from pathlib import Path
from statistics import median

import windrow as wr
from benchmarks.flink import contenders as way
from benchmarks.flink.data import Rows
from windrow_flink import environment, read_packed, windowed_packed, windowed_table

RATIOS = (10, 60, 300, 1000, 3600)
KEYS = 4
DENSITIES = {"dense": (100 * KEYS, 2_000_000), "sparse": (KEYS // 2, 100_000)}
"""Rows in each slide, which is a second, and how many rows there are if the range is short."""
MERGES = 60_000_000
"""How many slices `HOP` merges at most, by a shorter stream; but never shorter than 1.5 ranges."""

AGGREGATES: dict[str, tuple[str, str, dict[str, wr.Aggregate]]] = {
    "max, count": ("BIGINT", "MAX(v)", {"found": wr.Max("v"), "n": wr.Count()}),
    "mean, count": ("DOUBLE", "AVG(x)", {"found": wr.Mean("x"), "n": wr.Count()}),
}
"""The type of the first result, what Flink SQL calls it, and windrow's query."""


@dataclass(frozen=True)
class Cell:
    """What one cell took, in seconds of the job, and how many times faster windrow was over the same table as `HOP`.

    ``packed`` is for information: its rows are read from a file.
    """

    aggregates: str
    density: str
    range_by_slide: int
    rows: int
    packed: float
    push_down: float
    hop: float
    times_faster: float


def cells(folder: Path, scale: float, rounds: int) -> Iterator[Cell]:
    for density, (per_second, usual) in DENSITIES.items():
        for ratio in RATIOS:
            in_a_window = ratio * KEYS * min(1, per_second / KEYS)
            slides = max(min(usual / per_second, MERGES / in_a_window) * scale, 1.5 * ratio)
            data = Rows(int(slides * per_second), KEYS, per_second)
            for what in AGGREGATES:
                ways = {
                    "packed": partial(packed, data, folder, ratio, what),
                    "push_down": partial(pushed_down, data, ratio, what),
                    "hop": partial(hop, data, ratio, what),
                }
                taken = {name: median(job() for _ in range(rounds)) for name, job in ways.items()}
                times = round(taken["hop"] / taken["push_down"], 2)
                cell = Cell(what, density, ratio, data.count, **taken, times_faster=times)
                print(f"    {cell}", file=sys.stderr, flush=True)
                yield cell


def warm_up(folder: Path) -> None:
    """Compile, and let the JVM do so."""
    few = Rows(200_000, KEYS, 10)
    for what in AGGREGATES:
        packed(few, folder, 10, what)
        pushed_down(few, 10, what)
        hop(few, 10, what)


def query(ratio: int, what: str) -> wr.Query:
    return wr.Query(by="k", window=wr.TimeWindow(f"{ratio}s", "1s"), aggregates=AGGREGATES[what][2])


def packed(data: Rows, folder: Path, ratio: int, what: str) -> float:
    """windrow, packed rows from a Parquet file."""
    flink, asked = environment(), query(ratio, what)
    stream, schema = read_packed(flink, data.parquet(folder), asked, buckets=KEYS)
    return way.ran(flink, windowed_packed(stream, asked, schema, buckets=KEYS, packed_output=True))


def pushed_down(data: Rows, ratio: int, what: str) -> float:
    """windrow, slices by Flink SQL."""
    tables = way.source(data)
    answer = windowed_table(tables.from_path("rows"), query(ratio, what), push_down=True, buckets=1)
    tables.create_temporary_view("answer", answer)
    return way.inserted(tables, "SELECT k, found, n FROM answer", columns(what))


def hop(data: Rows, ratio: int, what: str) -> float:
    """Flink SQL's HOP, aggregated in two phases."""
    return way.inserted(
        way.source(data),
        f"SELECT k, {AGGREGATES[what][1]}, COUNT(*) FROM TABLE(HOP(TABLE `rows`, DESCRIPTOR(ts), {way.seconds(1)}, "
        f"{way.seconds(ratio)})) GROUP BY k, window_start, window_end",
        columns(what),
    )


def columns(what: str) -> str:
    return f"k BIGINT, found {AGGREGATES[what][0]}, n BIGINT"


def write(found: list[Cell], folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "break-even.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow([field.name for field in fields(Cell)])
        writer.writerows(astuple(cell) for cell in found)
