# SPDX-License-Identifier: Apache-2.0
"""Window batches: consecutive windows and the rows that they have, as bytes for a worker that may be anywhere.

Windows overlap, so a row is in many of them. A batch of k windows of W rows that slide by S has W + (k - 1)·S rows: if
k is at least W / S, a row is sent at most twice. That is why windows travel in batches and not alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from windrow.aggregates.extent import EXTENT
from windrow.aggregates.whole import Extents, FunctionFailed, WholeWindow, failure
from windrow.columns import arrow
from windrow.columns.arrow import Array
from windrow.columns.encoding import decode_value, encode_value
from windrow.columns.ipc import checked_ipc, columns_from_ipc, columns_to_ipc, to_ipc
from windrow.errors import CorruptSnapshot
from windrow.operator.plan import Ints
from windrow.query import Query

__all__ = ["BATCHES", "SentRows", "WindowWorker", "cut", "windows_in"]

BATCHES = pa.schema({"windows": pa.int64(), "batch": pa.binary()})
"""How many windows are in a batch, and the batch."""
SPANS = 2
"""A batch has so many times the rows of its longest window, if so many windows are due."""
LEAST_VISITS = 1 << 15
"""The rows of all windows of a batch together: fewer are not worth sending."""


class SentRows(NamedTuple):
    """Columns of rows, and their types."""

    types: tuple[pa.DataType, ...]
    columns: tuple[Array, ...]


def cut(windows: pa.Table, watermark: int, rows: Mapping[str, SentRows]) -> pa.Table:
    """Windows that became due at a watermark, in batches.

    ``windows`` has extents in place of results; ``rows`` are those that they are positions in.
    """
    bounds = {name: _bounds(windows, name) for name in rows}
    order = np.lexsort(next(iter(bounds.values())))  # the windows of a key side by side, as its rows are
    windows = windows.take(pa.array(order))
    bounds = {name: (lo[order], hi[order]) for name, (lo, hi) in bounds.items()}
    pieces = list(_pieces(*next(iter(bounds.values()))))
    batches = [_batch(windows, bounds, watermark, rows, piece) for piece in pieces]
    return pa.table([[end - begin for begin, end in pieces], batches], schema=BATCHES)


def windows_in(batches: pa.Table) -> int:
    """How many windows are in batches."""
    return sum(batches.column("windows").to_pylist())


class WindowWorker:
    """Computes window batches of a query. It has no state: any worker can compute any batch."""

    def __init__(self, query: Query, schema: pa.Schema) -> None:
        self.bound = query.bind(schema)
        wholes = {name: self.bound.whole(name) for name in query.aggregates}
        self._wholes = {name: whole for name, whole in wholes.items() if whole is not None}
        types = {field.name: field.type for field in self.bound.output_schema}
        sent = {name: EXTENT if name in self._wholes else type_ for name, type_ in types.items()}
        self._sent = pa.schema(sent)

    def windows(self, batch: bytes) -> pa.Table:
        """The windows of a batch with their results: columns and types as the query gives them."""
        return self.finished(batch)[1]

    def finished(self, batch: bytes) -> tuple[int, pa.Table]:
        """As :meth:`windows`, with the watermark at which they became due."""
        value = decode_value(batch)
        if not (isinstance(value, list) and len(value) == 3 and isinstance(value[0], int)):
            raise CorruptSnapshot("these bytes are not a batch of windows")
        watermark, blob, rows = value
        windows = checked_ipc(blob)
        if windows.schema.types != self._sent.types or windows.schema.names != self._sent.names:
            raise CorruptSnapshot("a batch has windows of another query")
        if not isinstance(rows, dict) or rows.keys() != self._wholes.keys():
            raise CorruptSnapshot("a batch has rows of other aggregates than the query's")
        for name, whole in self._wholes.items():
            column = self._computed(name, whole, windows, columns_from_ipc(rows[name], whole.stored))
            windows = windows.set_column(windows.column_names.index(name), name, column)
        return watermark, windows.cast(self.bound.output_schema)

    def _computed(
        self, name: str, whole: WholeWindow, windows: pa.Table, rows: tuple[Array, ...]
    ) -> pa.Array:
        extents = Extents(rows, *_bounds(windows, name))
        if not ((extents.lo >= 0) & (extents.lo <= extents.hi) & (extents.hi <= len(rows[0]))).all():
            raise CorruptSnapshot(f"a batch has windows of {name!r} without their rows")
        monoid = self.bound.monoids[name]
        out = np.zeros(windows.num_rows, whole.dtype)
        ok = np.zeros(windows.num_rows, np.bool_)
        try:
            whole.compute(extents, out, ok)
        except FunctionFailed as failed:
            row = windows.slice(failed.window, 1)
            key = tuple(row.column(key)[0].as_py() for key in self.bound.query.by)
            start, end = (arrow.to_numpy(row.column(each))[0][0] for each in ("window_start", "window_end"))
            bounds = self.bound.shown_bounds(start, end)
            raise failure(name, monoid.name, key, bounds, failed.cause) from failed.cause
        return arrow.from_numpy(out, ok, monoid.output)


def _bounds(windows: pa.Table, name: str) -> tuple[Ints, Ints]:
    extents = arrow.one_array(windows.column(name))
    lo, hi = (arrow.to_numpy(extents.field(place))[0] for place in range(2))
    return lo, hi


def _pieces(lo: Ints, hi: Ints) -> Iterator[tuple[int, int]]:
    """Consecutive windows, sorted by their ends, that share many rows."""
    visits = np.append(0, np.cumsum(hi - lo))
    begin, count = 0, len(lo)
    while begin < count:
        far = int(lo[begin]) + SPANS * max(int(hi[begin] - lo[begin]), 1)
        enough = int(visits[begin]) + LEAST_VISITS
        end = max(int(np.searchsorted(hi, far)), int(np.searchsorted(visits, enough)), begin + 1)
        yield begin, min(end, count)
        begin = end


def _batch(
    windows: pa.Table,
    bounds: Mapping[str, tuple[Ints, Ints]],
    watermark: int,
    rows: Mapping[str, SentRows],
    piece: tuple[int, int],
) -> bytes:
    begin, end = piece
    some, sent = windows.slice(begin, end - begin), {}
    for name, (types, columns) in rows.items():
        lo, hi = (bound[begin:end] for bound in bounds[name])
        first, last = int(lo.min()), int(hi.max())
        shifted = [pa.array(lo - first), pa.array(hi - first)]
        extents = pa.StructArray.from_arrays(shifted, fields=list(EXTENT))
        some = some.set_column(some.column_names.index(name), name, extents)
        sent[name] = columns_to_ipc([column[first:last] for column in columns], types)
    return encode_value([watermark, to_ipc(some), sent])
