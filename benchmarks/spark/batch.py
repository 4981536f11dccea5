"""Batch: against the ways in which a skilled user computes the same windows on Spark, dense and sparse.

*Dense* is 100 rows of a key in every slide, *sparse* one row in every second slide. Where a way would take too long, all get
fewer rows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

from pyspark.sql import DataFrame, SparkSession

import windrow as wr
from benchmarks.spark import contenders as way
from benchmarks.spark.measure import OURS, Case
from windrow_spark import windowed

KEYS = 14
DENSE, SPARSE = 1_000_000 // (100 * KEYS), 2_000_000 // KEYS
"""Microseconds from a row to the next one: 100 rows of each key a second, and one in two seconds."""


def cases(spark: SparkSession, rows: int) -> list[Case]:
    """``rows`` are those of the largest input."""
    return [*_ratios(spark, rows), *_each_row(spark, rows), *_floors(spark, rows), *_hot_key(spark, rows)]


def _ratios(spark: SparkSession, rows: int) -> list[Case]:
    dense, sparse = (way.loads(spark, rows, KEYS, gap) for gap in (DENSE, SPARSE))
    few, few_sparse = (way.loads(spark, rows // 400, KEYS, gap) for gap in (DENSE, SPARSE))
    some = way.loads(spark, rows // 10, KEYS, DENSE)
    some_sparse, more_sparse = (way.loads(spark, rows // part, KEYS, SPARSE) for part in (20, 5))
    wins, five, twenty = {way.NATIVE: 1.0}, {way.TWO_STEP: 5.0}, {way.TWO_STEP: 20.0}
    return [
        _with_floor(_sliding("range/slide 1000, dense", dense, rows, 1000, five, without=way.NATIVE), dense),
        _sliding("range/slide 1000, dense", few, rows // 400, 1000),
        _sliding("range/slide 1000, sparse", more_sparse, rows // 5, 1000, twenty, without=way.NATIVE),
        _sliding("range/slide 1000, sparse", few_sparse, rows // 400, 1000),
        _sliding("range/slide 100, dense", some, rows // 10, 100),
        _sliding("range/slide 100, sparse", some_sparse, rows // 20, 100),
        _sliding("range/slide 10, dense", dense, rows, 10, wins),
        _sliding("range/slide 10, sparse", sparse, rows, 10, wins),
        _sliding("range/slide 1, dense", dense, rows, 1, wins),
        _sliding("range/slide 1, sparse", sparse, rows, 1, wins),
    ]


def _sliding(
    name: str,
    frame: DataFrame,
    rows: int,
    ratio: int,
    required: dict[str, float] | None = None,
    without: str = "",
) -> Case:
    ways: dict[str, Callable[..., Any]] = {
        OURS: way.ours,
        way.NATIVE: way.native,
        way.TWO_STEP: way.two_step,
    }
    taken = {each: partial(job, frame, ratio, "max, count") for each, job in ways.items() if each != without}
    return Case(name, rows, taken, required or {})


def _with_floor(case: Case, frame: DataFrame) -> Case:
    floor = {way.FLOOR_OF_SLICES: partial(way.floor_of_slices, frame)}
    return replace(case, contenders={**case.contenders, **floor})


def _each_row(spark: SparkSession, rows: int) -> list[Case]:
    """A window for each row, over the 100,000 rows before it."""
    count = rows // 2
    one = way.loads(spark, count, 1, 1000)
    query = wr.Query("plug", window=wr.SlideByTuple("100s", 1), aggregates={"peak": wr.Max("load")})
    return [
        Case(
            "a window for each row, of 100,000 rows",
            count,
            {
                OURS: lambda: windowed(one, query),
                way.OVER: lambda: way.over(one, 100, segment_tree=True),
                way.FLOOR: lambda: way.floor(one),
            },
            {way.OVER: 4.0},
        )
    ]


def _floors(spark: SparkSession, rows: int) -> list[Case]:
    """Aggregates without an SQL form: every row goes to Python, as in the peer, which does nothing with it there."""
    found = []
    for keys, ratio, slide in ((KEYS, 1000, 1), (10_000, 10, 100)):
        frame = way.loads(spark, rows // 2, keys, 1000)
        found.append(
            Case(
                f"rows to Python, {keys:,} keys",
                rows // 2,
                {
                    OURS: partial(
                        way.ours, frame, ratio, "max, count", slide, push_down=False, parallel=False
                    ),
                    way.FLOOR: partial(way.floor, frame),
                },
                {way.FLOOR: 1 / 1.5} if keys == KEYS else {},
            )
        )
    return found


def _hot_key(spark: SparkSession, rows: int) -> list[Case]:
    """One key: its time or its rows are cut, and two cores share it. With one cheap aggregate Spark's own half keeps one core
    busy already.
    """
    hot = way.loads(spark, rows // 2, 1, 1000).drop("plug")
    aggregates = {
        "median": wr.Median("load"),
        "spread": wr.Std("load"),
        "mean": wr.Mean("load"),
        "top": wr.TopK("load", 5),
    }
    query = wr.Query(window=wr.TimeWindow("2s", "100ms"), aggregates=aggregates)
    one_task = "windrow, one task"
    counted = way.loads(spark, rows, 1, 1000)
    smooth = wr.Apply(smoothed, ["load"], returns="f8")
    by_count = wr.Query("plug", window=wr.CountWindow(10_000, 5), aggregates={"smooth": smooth})
    return [
        Case(
            "one hot key, two tasks",
            rows // 2,
            {
                OURS: lambda: windowed(hot, query, parallel=2),
                one_task: lambda: windowed(hot, query, parallel=False),
            },
            {one_task: 1.6},
        ),
        Case(
            "one hot key, count windows, a function of 10,000 rows",
            rows,
            {
                OURS: lambda: windowed(counted, by_count),  # it finds the key, counts its rows and cuts them
                one_task: lambda: windowed(counted, by_count, parallel=False),
            },
            {one_task: 1.3},
        ),
    ]


def smoothed(loads: Any) -> Any:
    """Exponential smoothing: each step needs the one before it."""
    level = loads[0]
    for load in loads:
        level += 0.1 * (load - level)
    return level
