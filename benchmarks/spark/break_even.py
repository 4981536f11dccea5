"""Where windrow begins to be faster than the best other way on Spark: range/slide × density × aggregates.

In each cell all ways get the same rows. There are fewer of them where two steps would take too long. `groupBy(window)` is left out
where it would take longer still, and from a range of 300 slides on: two steps are many times faster there.
"""

from __future__ import annotations

import csv
import sys
from collections.abc import Iterator
from dataclasses import astuple, dataclass, fields
from functools import partial
from pathlib import Path

from pyspark.sql import SparkSession

from benchmarks.spark import contenders as way
from benchmarks.spark.batch import DENSE, KEYS, SPARSE
from benchmarks.spark.measure import OURS, seconds

RATIOS = (1, 2, 5, 10, 60, 300, 1000)
DENSITIES = {"dense": (DENSE, 100), "sparse": (SPARSE, 1)}
"""Microseconds from a row to the next one, and how many rows of a key share a slide."""
COPIES = 6_000_000
"""What a way copies at most: rows for `groupBy(window)`, slices for two steps. `groupBy(window)` is left out where it copies more."""
MOST_OF_NATIVE = 60
"""The longest range, in slides, that `groupBy(window)` gets."""


ORDER = (OURS, way.NATIVE, way.TWO_STEP)


@dataclass(frozen=True)
class Cell:
    """What one cell took, in seconds, and how many times faster windrow was than the faster peer."""

    aggregates: str
    density: str
    range_by_slide: int
    rows: int
    windrow: float | str
    native: float | str
    two_step: float | str
    times_faster: float


def cells(spark: SparkSession, rows: int, rounds: int) -> Iterator[Cell]:
    for density, (gap, shared) in DENSITIES.items():
        for ratio in RATIOS:
            count = min(rows, COPIES * shared // ratio)
            frame = way.loads(spark, count, KEYS, gap)
            for what in (*way.AGGREGATES, way.ROUNDED):
                ways = {OURS: way.ours, way.TWO_STEP: way.two_step}
                fits = ratio <= MOST_OF_NATIVE and count * ratio <= COPIES
                ways |= {way.NATIVE: way.native} if fits else {}
                taken = seconds(
                    {name: partial(job, frame, ratio, what) for name, job in ways.items()}, rounds
                )
                best = min(took for name, took in taken.items() if name != OURS)
                ours, native, two = (round(taken[name], 3) if name in taken else "" for name in ORDER)
                cell = Cell(what, density, ratio, count, ours, native, two, round(best / taken[OURS], 2))
                print(f"    {cell}", file=sys.stderr, flush=True)
                yield cell
            frame.unpersist()


def write(found: list[Cell], folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "break-even.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow([field.name for field in fields(Cell)])
        writer.writerows(astuple(cell) for cell in found)
