# SPDX-License-Identifier: Apache-2.0
"""The ways in which the local engine can compute a query; all of them have to give the oracle's answer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pyarrow as pa

import windrow as wr
from windrow.algorithms import REGISTRY
from windrow.errors import PropertyError, QueryError
from windrow.kernels.slices.layout import FOREVER
from windrow.operator.emitter import Emitter
from windrow.operator.window_batches import WindowWorker
from windrow.operator.window_order import WindowOrder, hold
from windrow.query.key_ranges import Ranges, RowCounts, cut_key, cuttable, grids
from windrow.storage.pages import MemoryPages
from windrow.testing.compare import comparable

Way = Callable[[wr.Query, pa.Table, np.random.Generator], pa.Table | None]
"""Gives the windows of rows, or nothing if the query cannot be computed in this way."""


def compiled(query: wr.Query, rows: pa.Table, random: np.random.Generator) -> pa.Table:
    """All rows at once, compiled."""
    return wr.aggregate(rows, query)


def interpreted(query: wr.Query, rows: pa.Table, random: np.random.Generator) -> pa.Table:
    """All rows at once, by the same code uncompiled."""
    operator = wr.Operator(query, rows.schema, compiled=False)
    return pa.concat_tables([operator.process(rows), operator.flush()])


def streamed(query: wr.Query, rows: pa.Table, random: np.random.Generator) -> pa.Table:
    """In batches, each followed by the highest possible watermark; sometimes restored from a snapshot."""
    operator = wr.Operator(query, rows.schema)
    found = []
    for batch, watermark in _batches(query, rows, random):
        found += [operator.process(batch), operator.advance(watermark)]
        if random.random() < 0.3:
            operator = wr.Operator.restore(query, operator.snapshot())
    return pa.concat_tables([*found, operator.flush()])


def stored(query: wr.Query, rows: pa.Table, random: np.random.Generator) -> pa.Table:
    """In batches, with the state in a store. Sometimes what was not committed is lost, and done again."""
    pages = MemoryPages()
    operator = wr.Operator.open(query, rows.schema, pages)
    found: list[pa.Table] = []
    pending: list[pa.Table] = []
    lost: list[tuple[pa.Table, int]] = []
    for batch, watermark in _batches(query, rows, random):
        lost.append((batch, watermark))
        pending += [operator.process(batch), operator.advance(watermark)]
        if random.random() < 0.5:
            operator.commit()
            found, pending, lost = [*found, *pending], [], []
        elif random.random() < 0.5:
            operator = wr.Operator.open(query, rows.schema, pages)
            pending = [table for b, mark in lost for table in (operator.process(b), operator.advance(mark))]
    return pa.concat_tables([*found, *pending, operator.flush()])


def scattered(query: wr.Query, rows: pa.Table, random: np.random.Generator) -> pa.Table | None:
    """As an engine with workers does it: an emitter, batches of windows that are computed in any order, a collector."""
    try:
        emitter = Emitter(query, rows.schema)
    except QueryError:
        return None
    worker, order = WindowWorker(query, rows.schema), WindowOrder(query.bind(rows.schema))
    held: list[bytes] = []
    found = []
    for batch, watermark in [*_batches(query, rows, random), (rows.slice(0, 0), FOREVER)]:
        emitter.process(batch)
        sent = emitter.advance(watermark)["batch"].to_pylist()
        held += [hold(*worker.finished(sent[place])) for place in random.permutation(len(sent))]
        ready, held = order.ready(held, watermark)
        found.append(ready)
    return pa.concat_tables(found)


def ranged(query: wr.Query, rows: pa.Table, random: np.random.Generator) -> pa.Table | None:
    """As an engine cuts hot keys: some rows of each key in each of several ranges, which are computed together."""
    if not cuttable(query):
        return None
    number, cuts, pieces = "__range", [], []
    times = query.bind(rows.schema).times(rows)
    keys = list(zip(*(comparable(rows.column(name)) for name in query.by), strict=True)) or [()] * len(times)
    for key in dict.fromkeys(keys):
        mine = np.array([each == key for each in keys])
        cells = _cells(query, times[mine], random)
        for each in cut_key(query, cells, int(random.integers(1, 6))):
            cuts.append(each)
            sent = np.flatnonzero(mine & (times >= each.sent) & (times <= each.last))
            sent = sent[np.argsort(times[sent], kind="stable")]
            piece = rows.take(pa.array(sent))
            pieces.append(piece.append_column(number, pa.array(np.full(len(sent), len(cuts)))))
    ranges = Ranges(query, cuts)
    empty = rows.slice(0, 0).append_column(number, pa.array([], pa.int64()))
    table = pa.concat_tables([empty, *pieces])
    needed = ranges.skipped_rows().needed(table.column(number).to_numpy())
    by_range = replace(query, by=(*query.by, number))
    return ranges.owned(interpreted(by_range, table.filter(pa.array(needed)), random), number)


def by_algorithm(name: str) -> Way:
    """With one algorithm, by name."""

    def way(query: wr.Query, rows: pa.Table, random: np.random.Generator) -> pa.Table | None:
        try:
            return interpreted(replace(query, algorithm=name), rows, random)
        except PropertyError:
            return None

    return way


WAYS: dict[str, Way] = {
    "compiled": compiled,
    "interpreted": interpreted,
    "streamed": streamed,
    "stored": stored,
    "scattered": scattered,
    "in ranges": ranged,
    **{f"algorithm {name}": by_algorithm(name) for name in sorted(REGISTRY)},
}


def _batches(query: wr.Query, rows: pa.Table, random: np.random.Generator) -> list[tuple[pa.Table, int]]:
    """Rows cut at random, each with the highest watermark for which no later row is late."""
    times = query.bind(rows.schema).times(rows)
    cuts = np.unique(np.append(random.integers(0, len(times) + 1, 5), len(times)))
    batches, begin = [], 0
    for end in cuts.tolist():
        rest = times[end:]
        watermark = int(rest.min()) if len(rest) else int(times.max(initial=0)) + 1
        batches.append((rows.slice(begin, end - begin), watermark + query.lateness))
        begin = end
    return batches


def _cells(query: wr.Query, times: np.ndarray, random: np.random.Generator) -> RowCounts:
    """The rows of a key, counted in some grid."""
    (grid,) = grids(query, [(int(times.min()), int(times.max()))], 1)
    cell = (times - grid.origin) // (grid.width * int(random.integers(1, 20)))
    each = [times[cell == which] for which in np.unique(cell)]
    counts = ([some.min() for some in each], [some.max() for some in each], [len(some) for some in each])
    return RowCounts(*(np.array(values, np.int64) for values in counts))
