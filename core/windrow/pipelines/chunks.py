# SPDX-License-Identifier: Apache-2.0
"""Updates of one source as columns, and the arithmetic on them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from windrow.pipelines.streams import TYPES, Source

__all__ = ["Chunk", "Ints", "fitted", "in_order", "order", "whole"]

Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Chunk:
    """Updates of one source, as columns."""

    stream: str
    ts: Ints
    sequence: Ints
    values: pa.Table

    @classmethod
    def of(cls, stream: str, ts: Any, sequence: Any, values: pa.Table) -> Chunk:
        return cls(stream, np.asarray(ts, np.int64), np.asarray(sequence, np.int64), values)

    def events(self) -> list[Any]:
        """The updates as rows."""
        times = zip(self.ts.tolist(), self.sequence.tolist(), strict=True)
        return [(*at, self.stream, row) for at, row in zip(times, self.values.to_pylist(), strict=True)]


def order(chunks: Sequence[Chunk]) -> tuple[Ints, Ints, Ints]:
    """The updates of all chunks by (ts, sequence): where each is, and its id."""
    ts = np.concatenate([chunk.ts for chunk in chunks])
    sequence = np.concatenate([chunk.sequence for chunk in chunks])
    where = np.lexsort((_origin(chunks), sequence, ts))
    return where, ts[where], sequence[where]


def _origin(chunks: Sequence[Chunk]) -> Ints:
    """The place of each update's source among the sources, by name."""
    names = sorted(chunk.stream for chunk in chunks)
    return np.concatenate([np.full(len(chunk.ts), names.index(chunk.stream)) for chunk in chunks])


def fitted(chunk: Chunk, source: Source) -> pa.Table | None:
    """The values as the source's channels; None if they do not fit, which row by row says where."""
    columns = []
    names = chunk.values.column_names
    if not set(names) <= set(source.channels):
        return None
    for channel, kind in source.channels.items():
        if channel not in names:
            columns.append(pa.nulls(chunk.values.num_rows, TYPES[kind]))
            continue
        column = chunk.values.column(channel)
        if column.type != TYPES[kind] and not (kind == "double" and pa.types.is_integer(column.type)):
            return None
        columns.append(whole(pc.cast(column, TYPES[kind], safe=False), TYPES[kind]))
    return pa.Table.from_arrays(columns, names=list(source.channels))


def whole(column: Any, kind: pa.DataType) -> pa.Array:
    if isinstance(column, pa.ChunkedArray):
        return (
            column.chunk(0)
            if column.num_chunks == 1
            else pa.concat_arrays(column.chunks)
            if column.num_chunks
            else pa.nulls(0, kind)
        )
    return column


def in_order(chunks: Sequence[Chunk]) -> bool:
    """Whether the ids increase strictly: of one chunk as it stands, of several together once they are sorted."""
    if len(chunks) == 1:
        ts, sequence, origin = chunks[0].ts, chunks[0].sequence, np.zeros(len(chunks[0].ts), np.int64)
    else:
        where, ts, sequence = order(chunks)
        origin = _origin(chunks)[where]
    same = ts[1:] == ts[:-1]
    later = (sequence[1:] > sequence[:-1]) | ((sequence[1:] == sequence[:-1]) & (origin[1:] > origin[:-1]))
    return bool(((ts[1:] > ts[:-1]) | (same & later)).all())
