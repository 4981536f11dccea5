# SPDX-License-Identifier: Apache-2.0
"""Which way a batch goes: Spark alone, slices to Python, or rows to Python. All give the same windows.

To send rows to Python and back has a fixed cost, and a cost for each row or slice. To let Spark copy a row, or a slice, to each of its
windows has a cost for each copy. The choice follows from how many windows a row is in, from how many rows share a slice, which a small
job finds in the first rows, and from how many rows Spark thinks that there are.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from pyspark.sql import functions as F

from windrow.aggregates import SliceSql
from windrow.query.slicing import copies_in_sql
from windrow_spark.batch import column
from windrow_spark.cluster import connected, cores
from windrow_spark.schemas import FittedQuery
from windrow_spark.slices import event_time, slice_start
from windrow_spark.spark_alone import TIME_TYPES

SAMPLE = 1 << 11
FEW_OF_ROWS, FEW_OF_SLICES = 4, 8
"""So many copies of a row, or of a slice, cost Spark less than Python takes for it, however many rows there are."""
FEW_OF_GROUPS = 4
"""With fewer rows a slice, those of a slice that are grouped further are about as many groups as rows."""
COPIES_A_CORE = 500_000
"""So many copies take a core as long as the fixed cost of Python."""
BYTES_A_ROW = 8
"""The least that a row takes, where Spark knows only the size of files."""
Name = Literal["groups", "copies", "two steps", "slices", "rows"]


@dataclass(frozen=True)
class BatchPlan:
    """How windows of a batch are computed, and why. ``forms`` is the SQL of each aggregate, if Spark computes slices or windows."""

    name: Name
    why: str
    forms: Mapping[str, SliceSql]

    def __str__(self) -> str:
        return f"{self.name}: {self.why}"


@dataclass(frozen=True)
class Look:
    """What the first rows tell: whether these are all, and how many share a slice (none if their order hides it)."""

    rows: int
    complete: bool
    rows_a_slice: float | None

    @property
    def sparse(self) -> bool:
        """Whether most slices hold one row, so that to aggregate them first only costs a shuffle."""
        return self.rows_a_slice is not None and self.rows_a_slice < 1.5


def plan_of(frame: Any, fitted: FittedQuery, forms: Mapping[str, SliceSql]) -> BatchPlan:
    """The plan of a query that can be pushed down with this SQL of its aggregates."""
    bound = fitted.bound
    time = bound.schema.field(bound.query.time).type
    copies = copies_in_sql(bound, forms) if time in TIME_TYPES else None
    if copies is not None and copies <= 2:
        return _alone(copies, forms, sparse=True, why="few windows share a row")
    seen = look(frame, fitted)
    rows = seen.rows if seen.complete else rows_of(frame)
    tasks = 1 if rows is None else cores(frame.sparkSession)
    if copies is not None and _cheap(copies, seen, rows, tasks):
        return _alone(copies, forms, sparse=seen.sparse, why="there is little to copy")
    if seen.sparse or ((seen.rows_a_slice or FEW_OF_GROUPS) < FEW_OF_GROUPS and _grouped(forms)):
        return BatchPlan("rows", "few rows share a slice", {})
    return BatchPlan("slices", "several rows share a slice", forms)


def _alone(copies: int, forms: Mapping[str, SliceSql], *, sparse: bool, why: str) -> BatchPlan:
    if copies == 1:
        return BatchPlan("groups", "windows do not overlap", forms)
    return BatchPlan("copies" if sparse else "two steps", why, forms)


def _grouped(forms: Mapping[str, SliceSql]) -> bool:
    return any(form.group is not None for form in forms.values())


def _cheap(copies: int, seen: Look, rows: int | None, tasks: int) -> bool:
    """Whether Spark copies rows or slices to their windows in less time than Python needs.

    >>> dense, sparse = Look(2048, False, 100.0), Look(2048, False, 1.0)
    >>> _cheap(1000, dense, 2_000_000, 2), _cheap(1000, dense, 50_000, 2), _cheap(8, dense, None, 2)
    (False, True, True)
    >>> _cheap(8, sparse, 2_000_000, 2), _cheap(4, sparse, None, 2)
    (False, True)
    """
    if copies <= (FEW_OF_ROWS if seen.sparse else FEW_OF_SLICES):
        return True
    if rows is None or seen.rows_a_slice is None:
        return False
    return rows / seen.rows_a_slice * copies <= COPIES_A_CORE * tasks


def look(frame: Any, fitted: FittedQuery) -> Look:
    """Look at the first rows, with one task. If they are few, or not in the order of time, they do not tell how many share a slice."""
    bound = fitted.bound
    key = F.hash(*map(column, fitted.query.by)) if fitted.query.by else F.lit(0)
    some = frame.select(key, slice_start(bound, event_time(fitted))).limit(SAMPLE).collect()
    placed = [(row[0], row[1]) for row in some if row[1] is not None]
    complete = len(some) < SAMPLE
    return Look(len(some), complete, rows_a_slice(placed, complete=complete))


def rows_a_slice(rows: list[tuple[int, int]], *, complete: bool = False) -> float | None:
    """How many rows, given as key and slice, share a slice. None if they are few, or their slices not in order, unless these are all.

    >>> rows_a_slice([(0, second // 10) for second in range(2000)])
    10.0
    >>> rows_a_slice([(0, second * 7919 % 2003) for second in range(2000)])
    >>> rows_a_slice([(0, 0), (0, 0)], complete=True)
    2.0
    """
    last: dict[int, int] = {}
    later = earlier = 0
    for key, start in rows:
        later += start > last.get(key, start)
        earlier += start < last.get(key, start)
        last[key] = start
    told = complete or (len(rows) >= SAMPLE // 2 and earlier * 10 < max(later, 1))
    return len(rows) / len(set(rows)) if rows and told else None


def rows_of(frame: Any) -> int | None:
    """About how many rows Spark thinks that a DataFrame has; none if it does not say."""
    if connected(frame.sparkSession):
        return None
    stats = frame._jdf.queryExecution().optimizedPlan().stats()
    if stats.rowCount().isDefined():
        return int(str(stats.rowCount().get()))
    return int(str(stats.sizeInBytes())) // BYTES_A_ROW
