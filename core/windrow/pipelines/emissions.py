# SPDX-License-Identifier: Apache-2.0
"""What a runtime hands out: emitted updates in their order, and reports of what went wrong.

>>> out = Emissions()
>>> out.add("ann/frozen", Id(5, 1), (-3.0,), ("c",))
>>> out.to_table().to_pylist()
[{'stream': 'ann/frozen', 'ts': 5, 'sequence': 1, 'values': '{"c":-3.0}'}]
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, NamedTuple, TypeGuard

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from windrow.pipelines.changes import Id
from windrow.pipelines.state import encode
from windrow.pipelines.texts import json_objects

__all__ = ["REPORTS", "UPDATES", "Emissions", "Report", "Update", "UpdateColumns", "reports_to_table"]

UPDATES = pa.schema(
    [("stream", pa.string()), ("ts", pa.int64()), ("sequence", pa.int64()), ("values", pa.string())]
)
"""Updates as rows, in and out. ``values`` is a JSON object of channels; ``ts`` is in microseconds."""

REPORTS = pa.schema(
    [
        ("kind", pa.string()),
        ("stream", pa.string()),
        ("ts", pa.int64()),
        ("sequence", pa.int64()),
        ("message", pa.string()),
    ]
)
"""Reports as rows. ``kind`` is ``failed`` (a composite, with the update that it failed on), ``refused`` (an update, or a
change) or ``late`` (a change whose time had passed)."""


class Update(NamedTuple):
    """An emitted update."""

    stream: str
    at: Id
    values: tuple[Any, ...]
    channels: tuple[str, ...]

    @property
    def named(self) -> dict[str, Any]:
        return dict(zip(self.channels, self.values, strict=True))


class Report(NamedTuple):
    kind: str
    stream: str
    at: Id | None
    message: str


@dataclass(frozen=True)
class UpdateColumns:
    """Many updates of one stream, as columns."""

    stream: str
    rank: int
    event: NDArray[np.int64]
    """Which event of the backlog made each; what is emitted goes by event, then rank, then stream."""
    ts: NDArray[np.int64]
    sequence: NDArray[np.int64]
    values: pa.Table
    origins: Sequence[str]
    """By event: the source whose update it is."""

    def rows(self) -> list[Update]:
        names = tuple(self.values.column_names)
        columns = [column.to_pylist() for column in self.values.columns]
        origins = [self.origins[event] for event in self.event]
        times = zip(self.ts.tolist(), self.sequence.tolist(), origins, strict=True)
        rows = zip(*columns, strict=True) if columns else ((),) * len(self.ts)
        return [Update(self.stream, Id(*at), row, names) for at, row in zip(times, rows, strict=True)]


class Emissions:
    """Emitted updates in order. Blocks of columns are turned into rows only if somebody asks."""

    def __init__(self) -> None:
        self.parts: list[list[Update] | list[UpdateColumns]] = []
        self.count = 0

    def add(self, stream: str, at: Id, values: tuple[Any, ...], channels: tuple[str, ...]) -> None:
        self.append(Update(stream, at, values, channels))

    def append(self, update: Update) -> None:
        if not self.parts or _is_columns(self.parts[-1]):
            self.parts.append([])
        self.parts[-1].append(update)  # type: ignore[arg-type]
        self.count += 1

    def add_blocks(self, blocks: list[UpdateColumns]) -> None:
        """The updates of one backlog."""
        self.parts.append(blocks)
        self.count += sum(len(block.ts) for block in blocks)

    def extend(self, other: Emissions) -> None:
        self.parts += other.parts
        self.count += other.count

    def __iter__(self) -> Iterator[Update]:
        for part in self.parts:
            if _is_columns(part):
                yield from _merged(part)
            else:
                yield from part  # type: ignore[misc]

    def __len__(self) -> int:
        return self.count

    def to_table(self) -> pa.Table:
        """The updates as rows of :data:`UPDATES`."""
        tables = [
            _blocks_table(part) if _is_columns(part) else _rows_table(part)  # type: ignore[arg-type]
            for part in self.parts
        ]
        if len(tables) == 1:
            return tables[0]
        return pa.concat_tables(tables).combine_chunks() if self.count else _rows_table([])

    def of(self, stream: str) -> list[Update]:
        """The updates of one stream."""
        return [update for update in self if update.stream == stream]


def _is_columns(part: list[Update] | list[UpdateColumns]) -> TypeGuard[list[UpdateColumns]]:
    return bool(part) and isinstance(part[0], UpdateColumns)


def _rows_table(rows: list[Update]) -> pa.Table:
    columns = [
        [row.stream for row in rows],
        [row.at.ts for row in rows],
        [row.at.sequence for row in rows],
        [encode(row.named) for row in rows],
    ]
    return pa.table([pa.array(c, f.type) for c, f in zip(columns, UPDATES, strict=True)], schema=UPDATES)


def _blocks_table(blocks: list[UpdateColumns]) -> pa.Table:
    """The rows that :func:`_merged` has, in its order, without an object for each."""
    blocks = sorted(blocks, key=lambda block: (block.rank, block.stream))
    order = np.argsort(np.concatenate([block.event for block in blocks]), kind="stable")
    number = np.repeat(np.arange(len(blocks)), [len(block.ts) for block in blocks])[order]
    same = groupby(blocks, key=lambda block: block.values.schema)
    texts = [json_objects([(block.values, len(block.ts)) for block in some]) for _, some in same]
    columns = [
        pa.array([block.stream for block in blocks], pa.string()).take(pa.array(number)),
        pa.array(np.concatenate([block.ts for block in blocks])[order]),
        pa.array(np.concatenate([block.sequence for block in blocks])[order]),
        pa.concat_arrays(texts).take(pa.array(order)),
    ]
    return pa.table(columns, schema=UPDATES)


def _merged(blocks: list[UpdateColumns]) -> Iterator[Update]:
    keyed = [
        ((event, block.rank, block.stream), row)
        for block in blocks
        for event, row in zip(block.event.tolist(), block.rows(), strict=True)
    ]
    keyed.sort(key=lambda pair: pair[0])
    return (row for _, row in keyed)


def reports_to_table(reports: list[Report]) -> pa.Table:
    """Reports as rows of :data:`REPORTS`."""
    rows = [
        {
            "kind": report.kind,
            "stream": report.stream,
            "ts": None if report.at is None else report.at.ts,
            "sequence": None if report.at is None else report.at.sequence,
            "message": report.message,
        }
        for report in reports
    ]
    return pa.Table.from_pylist(rows, REPORTS)
