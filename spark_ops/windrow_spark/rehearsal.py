# SPDX-License-Identifier: Apache-2.0
"""A query is run over made-up rows, as an executor runs it over real ones, so that its kernels are compiled or loaded.

Only what the rows' types and the query decide is the same as in the job. A kernel that is not met here is compiled where it is
needed.
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from windrow import Idle, Operator, Query
from windrow.columns.arrow import event_times
from windrow.columns.times import PER_UNIT
from windrow.operator.emitter import Emitter
from windrow.operator.window_batches import WindowWorker
from windrow.query.slicing import time_windows
from windrow.storage.pages import MemoryPages
from windrow.storage.segments import Segments
from windrow_spark.sorted_rows import SortedRowWindows

__all__ = ["batch_rehearsal", "stream_rehearsal"]

FEW, MANY = 64, 1 << 14
"""Rows: one for each of some slices, and enough for the kernels of dense rows."""
MOST_WINDOWS = 50_000
"""If a row is in more windows, those at the end of the rows are not computed."""
BEGIN = 1_600_000_000_000_000
logger = logging.getLogger("windrow.compiling")


def batch_rehearsal(query: Query, schema: pa.Schema, partials: pa.Schema | None = None) -> Callable[[], None]:
    """What a task of a batch job does: rows, or partials of slices, sorted by key and time."""

    def rehearse() -> None:
        with _whatever_happens():
            short = _without_interpreted(query, schema)
            for rows in _tables(short, schema, partials):
                sorted_rows = rows.sort_by([(name, "ascending") for name in (*short.by, short.time)])
                operator = Operator(short, schema)
                _take(operator, sorted_rows, partials)
                operator.advance(_middle(short, rows, partials))
                if _affordable(short):
                    for _ in SortedRowWindows(short, schema, partials).windows(sorted_rows.to_batches()):
                        pass

    return rehearse


def stream_rehearsal(
    query: Query,
    schema: pa.Schema,
    *,
    partials: pa.Schema | None = None,
    emits: bool = False,
    idle: Idle | None = None,
) -> Callable[[], None]:
    """What the stateful tasks of a stream do, and those that compute windows: rows, watermarks, commits, a restart, the end."""

    def rehearse() -> None:
        with _whatever_happens():
            short = _without_interpreted(query, schema)
            for rows in _tables(short, schema, partials):
                middle = _middle(short, rows, partials)
                if emits:
                    _emit(short, schema, rows, middle)
                    continue
                pages = MemoryPages()
                for late in (False, True):  # the second one begins with the state of the first
                    operator = Operator.open(short, schema, Segments(pages), idle=idle)
                    _take(operator, rows, partials)
                    operator.advance(middle)
                    if late:
                        _take(operator, rows, partials)
                        operator.advance(middle + 1)
                    operator.commit()
                if _affordable(short):
                    operator.flush()

    return rehearse


@contextmanager
def _whatever_happens() -> Iterator[None]:
    """Made-up rows need not suit a function of the user's. What was met until then is enough."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    except Exception as problem:
        logger.debug("the rehearsal of a query ended early: %s", problem)


def _without_interpreted(query: Query, schema: pa.Schema) -> Query:
    """Without functions that are interpreted: they have no kernels, and the user did not ask for calls on the driver."""
    bound = query.bind(schema)
    wholes = {name: bound.whole(name) for name in query.aggregates}
    found: Any = {
        name: each
        for name, each in query.aggregates.items()
        if (whole := wholes[name]) is None or whole.compiled
    }
    return query if len(found) == len(wholes) else replace(query, aggregates=found)


def _take(operator: Operator, rows: pa.Table, partials: pa.Schema | None) -> None:
    if partials is None:
        operator.process(rows)
    else:
        operator.process_partials(rows)


def _emit(query: Query, schema: pa.Schema, rows: pa.Table, middle: int) -> None:
    emitter = Emitter(query, schema, Segments(MemoryPages()))
    worker = WindowWorker(query, schema)
    emitter.process(rows)
    for batch in emitter.advance(middle).column("batch").to_pylist():
        worker.windows(batch)
    emitter.commit()


def _affordable(query: Query) -> bool:
    return all(window.longest // window.slide <= MOST_WINDOWS for window in time_windows(query))


# Rows.


def _tables(query: Query, schema: pa.Schema, partials: pa.Schema | None) -> Iterator[pa.Table]:
    """Few rows over two windows, then many rows in few slices."""
    windows = time_windows(query)
    slide = min((window.slide for window in windows), default=1_000_000)
    few = slide
    if windows and _affordable(query):
        few = max(2 * max(window.longest for window in windows) // FEW, 1)
    unit = query.time_unit if partials is None else None  # slices have microseconds
    for number, step in ((FEW, few), (MANY, max(slide // (MANY // FEW), 1))):
        times, numbers = BEGIN + step * np.arange(number), np.arange(number)
        yield pa.table(
            [
                _times(times, field.type, unit)
                if field.name == query.time
                else _values(field.type, numbers % (number // 32 if field.name in query.by else 7))
                for field in partials or schema
            ],
            schema=partials or schema,
        )


def _times(micros: Any, type_: pa.DataType, unit: str | None) -> pa.Array:
    if pa.types.is_timestamp(type_):
        return pa.array(micros).cast(pa.timestamp("us", type_.tz)).cast(type_, safe=False)
    times, divided = PER_UNIT[unit or "us"]
    return pa.array(micros * divided // times).cast(type_)


def _values(type_: pa.DataType, numbers: Any) -> pa.Array:
    if pa.types.is_string(type_) or pa.types.is_binary(type_):
        return pa.array([f"value {number}" for number in numbers]).cast(type_)
    if pa.types.is_boolean(type_):
        return pa.array(numbers % 2 == 0)
    if pa.types.is_floating(type_):
        return pa.array(numbers + 0.5).cast(type_)
    try:
        small = pa.array(numbers, pa.int32() if pa.types.is_date32(type_) else pa.int64())
        return small.cast(type_)
    except pa.ArrowException:
        return pa.nulls(len(numbers), type_)


def _middle(query: Query, rows: pa.Table, partials: pa.Schema | None) -> int:
    """The time in the middle of the rows, in microseconds."""
    if partials is None:
        return int(np.median(query.bind(rows.schema).times(rows)))
    return int(np.median(event_times(rows, query.time)))
