# SPDX-License-Identifier: Apache-2.0
"""One hot key, or no key, and windows that count rows: the rows of the key are cut into ranges, one task for each.

:mod:`windrow.query.key_ranges` says where to cut, which rows a range needs, and which windows are its own. For that, Spark
counts: once how many rows each key has, and once, for keys that are to be cut, how many rows there are in each cell of time.
Then a row gets the numbers of the ranges that need it, from a small table that is broadcast.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from pyspark.sql import Observation
from pyspark.sql import functions as F

from windrow import Query
from windrow.query.key_ranges import KeyRange, Ranges, RowCounts, coarse, cut_key, grids
from windrow_spark.arrow_types import as_spark_has
from windrow_spark.batch import OUTPUT_ROWS, column, with_code
from windrow_spark.cluster import cores
from windrow_spark.ranges import RANGE, SAMPLE, stands_out
from windrow_spark.schemas import FittedQuery
from windrow_spark.slices import event_time
from windrow_spark.sorted_rows import SortedRowWindows

KEY, OTHER, TIME, ARRIVAL = "__windrow_key", "__windrow_other", "__windrow_time", "__windrow_arrival"
RANGES_A_CORE = 2
"""How many ranges there are for each core, unless a number is asked for. The last core to finish is waited for less."""
LEAST_ROWS = 1 << 18
"""A key with fewer rows is not cut unless asked: to count them would take as long as it saves."""
ROUNDS = 3
"""How often cells with too many rows are counted again."""
ROWS_A_TASK = 1 << 21
"""There are as many tasks as ranges, and more if each would have more rows than this."""


class HotKey(NamedTuple):
    """A key that is to be cut, known by its hash."""

    hash: int
    earliest: int
    latest: int
    ranges: int


@dataclass(frozen=True)
class Cut:
    """Where the hot keys of a DataFrame are cut."""

    ranges: list[tuple[int, KeyRange]]
    """Ranges, each with the hash of its key."""
    tasks: int


def cut_of(frame: Any, fitted: FittedQuery, ranges: int | None, *, look: bool) -> Cut | None:
    """Where to cut the keys that have more rows than one of so many equal shares; None if there is no such key.

    With ``look``, the first rows are looked at, and only if a key stands out there, all rows are counted. Without a number
    of ranges, there are some for each core, and no more than are worth it.
    """
    at_once = cores(frame.sparkSession) if ranges is None else 0
    if at_once == 1:
        return None
    if look and not stands_out(frame, fitted.query, at_once, least=SAMPLE):
        return None
    number = ranges or RANGES_A_CORE * at_once
    rows, hot = _hot_keys(frame, fitted, number, least=LEAST_ROWS if look else 1)
    found = []
    for key, cells in zip(hot, _cells(frame, fitted, hot), strict=True):
        cuts = cut_key(fitted.query, cells, key.ranges, worth=ranges is None)
        found += [(key.hash, each) for each in cuts if len(cuts) > 1]
    return Cut(found, max(len(found), -(-rows // ROWS_A_TASK))) if found else None


def by_key_ranges(frame: Any, fitted: FittedQuery, cut: Cut) -> Any:
    """The windows of a batch DataFrame, with the rows of its hot keys cut into ranges.

    Rows of one time are in an order that all ranges agree on: the order in which Spark reads them.
    """
    query, names = fitted.query, fitted.schema.names
    numbered = _numbered(frame, fitted, cut)
    place = F.when(F.col(RANGE) > 0, F.col(RANGE) - 1).otherwise(F.pmod(F.col(KEY), F.lit(cut.tasks)))
    rows = numbered.repartitionById(cut.tasks, place.cast("int"))
    keys = [f"c{names.index(name)}" for name in query.by]
    rows = rows.sortWithinPartitions(*keys, RANGE, TIME, ARRIVAL)
    sent = rows.select(*(f"c{place}" for place in range(len(names))), RANGE)
    ranged = replace(query, by=(*query.by, RANGE))
    schema = fitted.schema.append(pa.field(RANGE, pa.int64()))
    task = _task(ranged, schema, Ranges(query, [each for _, each in cut.ranges]))
    return sent.mapInArrow(with_code(frame, ranged, schema, task), fitted.output)


# Counting.


def _hot_keys(frame: Any, fitted: FittedQuery, ranges: int, least: int) -> tuple[int, list[HotKey]]:
    """How many rows there are, and the keys that have more than one of so many equal shares."""
    time = event_time(fitted)
    counts = [F.count(time).alias("rows"), F.min(time).alias("earliest"), F.max(time).alias("latest")]
    if not fitted.query.by:
        found = frame.agg(F.lit(0).alias(KEY), *counts).collect()
        total = found[0].rows
    else:
        all_rows = Observation()
        keys = frame.groupBy(_hash(fitted).alias(KEY)).agg(*counts)
        counted = keys.observe(all_rows, F.sum("rows").alias("total"))
        found = counted.orderBy(F.desc("rows")).limit(ranges).collect()
        total = all_rows.get["total"] or 0
    return total, [
        HotKey(row[KEY], row.earliest, row.latest, -(-row.rows * ranges // total))
        for row in found
        if row.rows * ranges > total and row.rows >= least
    ]


def _cells(frame: Any, fitted: FittedQuery, hot: Sequence[HotKey]) -> list[RowCounts]:
    """The rows of each hot key, counted in cells of time. Cells that turn out to be coarse are counted again."""
    found = _counted(frame, fitted, hot, [[(key.earliest, key.latest)] for key in hot]) if hot else []
    for _ in range(ROUNDS - 1):
        wide = [coarse(fitted.query, cells, key.ranges) for cells, key in zip(found, hot, strict=True)]
        if not any(each.any() for each in wide):
            break
        spans = [
            list(zip(cells.first[each].tolist(), cells.last[each].tolist(), strict=True))
            for cells, each in zip(found, wide, strict=True)
        ]
        finer = _counted(frame, fitted, hot, spans)
        kept = (
            RowCounts(*(values[~each] for values in cells)) for cells, each in zip(found, wide, strict=True)
        )
        found = [_in_order(*both) for both in zip(kept, finer, strict=True)]
    return found


def _counted(
    frame: Any, fitted: FittedQuery, hot: Sequence[HotKey], spans: Sequence[Sequence[tuple[int, int]]]
) -> list[RowCounts]:
    """The cells of some spans of each hot key."""
    asked = [
        (which, key.hash, *span, *cells)
        for which, (key, mine) in enumerate(zip(hot, spans, strict=True))
        for span, cells in zip(mine, grids(fitted.query, mine, key.ranges), strict=True)
    ]
    names = ["which", "hash", "earliest", "latest", "origin", "width"]
    table = pa.table([pa.array(values, pa.int64()) for values in zip(*asked, strict=True)], names=names)
    rows = frame.select(
        _hash(fitted).alias(KEY), _hash(fitted, 1).alias(OTHER), event_time(fitted).alias(TIME)
    )
    time = F.col(TIME)
    met = rows.join(
        F.broadcast(frame.sparkSession.createDataFrame(table)),
        (F.col(KEY) == F.col("hash")) & time.between(F.col("earliest"), F.col("latest")),
    )
    cell = time - F.pmod(time - F.col("origin"), F.col("width"))
    counts = [F.min(time).alias("first"), F.max(time).alias("last"), F.count(time).alias("rows")]
    others = [F.min(OTHER).alias("least"), F.max(OTHER).alias("most")]
    counted = met.groupBy("which", cell.alias("cell")).agg(*counts, *others).toArrow()
    columns = {name: counted.column(name).to_numpy() for name in counted.column_names}
    found = []
    for which in range(len(hot)):
        mine = columns["which"] == which
        one_key = len(np.unique([columns["least"][mine], columns["most"][mine]])) == 1
        mine &= one_key  # no cells, no cuts: their rows would be counted together
        found.append(_in_order(RowCounts(*(columns[name][mine] for name in RowCounts._fields))))
    return found


def _in_order(*several: RowCounts) -> RowCounts:
    together = [np.concatenate(values) for values in zip(*several, strict=True)]
    order = np.argsort(together[0])
    return RowCounts(*(values[order] for values in together))


def _hash(fitted: FittedQuery, salt: int | None = None) -> Any:
    """A number for the key of a row. Keys that share it are told apart by another one, with a salt."""
    by = fitted.query.by
    salted = [] if salt is None else [F.lit(salt)]
    return F.xxhash64(*salted, *map(column, by)) if by else F.lit(0).cast("long")


# Sending.


def _numbered(frame: Any, fitted: FittedQuery, cut: Cut) -> Any:
    """Rows with the number of a range that needs them, once for each such range; 0 for keys that are not cut.

    Columns are numbered, because PySpark cannot send a column whose name has a dot.
    """
    values = [column(name).alias(f"c{place}") for place, name in enumerate(fitted.schema.names)]
    own = [_hash(fitted).alias(KEY), event_time(fitted).alias(TIME)]
    rows = frame.select(*values, *own, F.monotonically_increasing_id().alias(ARRIVAL))
    listed = [(key, each.sent, each.last, number) for number, (key, each) in enumerate(cut.ranges, 1)]
    names = ["hash", "sent", "last", RANGE]
    table = pa.table([pa.array(values, pa.int64()) for values in zip(*listed, strict=True)], names=names)
    needed = (F.col(KEY) == F.col("hash")) & F.col(TIME).between(F.col("sent"), F.col("last"))
    # A row without a time is sent on; the operator refuses it by name.
    met = rows.join(F.broadcast(frame.sparkSession.createDataFrame(table)), needed, "left")
    return met.withColumn(RANGE, F.coalesce(F.col(RANGE), F.lit(0).cast("long")))


def _task(ranged: Query, schema: pa.Schema, ranges: Ranges) -> Any:
    def windows(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for table in SortedRowWindows(ranged, schema).windows(_needed(ranges, batches)):
            found = as_spark_has(ranges.owned(table, RANGE))
            yield from found.combine_chunks().to_batches(max_chunksize=OUTPUT_ROWS)

    return windows


def _needed(ranges: Ranges, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The rows that their ranges need."""
    skipped = ranges.skipped_rows()
    for batch in batches:
        needed = skipped.needed(batch.column(batch.num_columns - 1).to_numpy())
        yield batch if needed.all() else batch.filter(pa.array(needed))
