"""Rows of a stream as bytes and back to columns: what waits in keyed state until the watermark asks for it.

A row is a head of fixed width (the watermark when it came, which fields are null, its numbers, the lengths of
its texts), then the texts, then everything else as tagged values. So the heads of many rows are read as one
array. Nothing is pickled: what is read from state is data.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa

from windrow.aggregates.encoding import decode_value, encode_value
from windrow.errors import ColumnError, TimeColumnError
from windrow_flink.times import microseconds

MOST_FLAGS = 63


class RowCodec:
    """Encodes rows of one schema, of which ``fields`` are kept; ``positions`` say where they are in a row.

    >>> schema = pa.schema({"plug": pa.string(), "ts": pa.int64(), "load": pa.float64()})
    >>> codec = RowCodec(schema, "ts", [0, 1, 2])
    >>> entries = [codec.encode(("a", 7, 1.5), 5), codec.encode(("b", 9, None), 5), codec.encode(("a", 9, 2.5), 8)]
    >>> [(watermark, table.to_pylist()) for watermark, table in codec.decode(entries)]
    [(5, [{'plug': 'a', 'ts': 7, 'load': 1.5}, {'plug': 'b', 'ts': 9, 'load': None}]), (8, [{'plug': 'a', 'ts': 9, 'load': 2.5}])]
    """

    def __init__(self, schema: pa.Schema, time: str, positions: Sequence[int | str]) -> None:
        self.schema, self.time, self.positions = schema, time, list(positions)
        self._time_at = self.positions[schema.get_field_index(time)]
        kinds = [_kind(field.type) if place < MOST_FLAGS else "other" for place, field in enumerate(schema)]
        indexes = list(enumerate(self.positions))
        self._numbers = [
            (i, p, kinds[i] == "time") for i, p in indexes if kinds[i] in ("int", "float", "time")
        ]
        self._texts = [(i, p) for i, p in indexes if kinds[i] == "text"]
        self._others = [(i, p) for i, p in indexes if kinds[i] == "other"]
        formats = ["f8" if kinds[i] == "float" else "i8" for i, _, _ in self._numbers]
        self._head = np.dtype(
            [("watermark", "<i8"), ("nulls", "<u8")]
            + [(f"{i}", f"<{form}") for (i, _, _), form in zip(self._numbers, formats, strict=True)]
            + [(f"{i}", "<u4") for i, _ in self._texts]
        )
        layout = "<qQ" + "".join("d" if form == "f8" else "q" for form in formats) + "I" * len(self._texts)
        self._pack = struct.Struct(layout).pack

    def __reduce__(self) -> tuple[type[RowCodec], tuple[Any, ...]]:
        return RowCodec, (self.schema, self.time, self.positions)

    def time_of(self, row: Any) -> int:
        """The event time of a row, in microseconds."""
        value = row[self._time_at]
        if value is None:
            raise TimeColumnError(
                f"time column {self.time!r} has a null; every row needs a time: drop such rows first, or give them one"
            )
        return value if type(value) is int else microseconds(value)

    def encode(self, row: Any, watermark: int) -> bytes:
        """One row that came when the watermark was this."""
        nulls = 0
        head: list[Any] = []
        for i, position, temporal in self._numbers:
            value = row[position]
            if value is None:
                nulls |= 1 << i
                value = 0
            elif temporal:
                value = microseconds(value)
            head.append(value)
        texts = []
        for i, position in self._texts:
            value = row[position]
            if value is None:
                nulls |= 1 << i
                texts.append(b"")
            else:
                texts.append(value.encode())
        try:
            blob = self._pack(watermark, nulls, *head, *map(len, texts)) + b"".join(texts)
        except Exception as cause:
            raise ColumnError(f"the row {row!r} does not fit {self.schema.to_string()!r}: {cause}") from cause
        return blob + encode_value([row[position] for _, position in self._others]) if self._others else blob

    def decode(self, entries: list[bytes]) -> Iterator[tuple[int, pa.Table]]:
        """The rows as tables, one for each run of rows that came under the same watermark."""
        if not entries:
            return
        size = self._head.itemsize
        heads = np.frombuffer(b"".join([entry[:size] for entry in entries]), dtype=self._head)
        table = self._table(entries, heads)
        watermarks = heads["watermark"]
        cuts = [0, *(np.flatnonzero(watermarks[1:] != watermarks[:-1]) + 1).tolist(), len(entries)]
        for begin, end in pairwise(cuts):
            yield int(watermarks[begin]), table.slice(begin, end - begin)

    def _table(self, entries: list[bytes], heads: Any) -> pa.Table:
        nulls = heads["nulls"]
        columns: dict[int, pa.Array] = {}
        for i, _, temporal in self._numbers:
            type_ = self.schema.field(i).type
            mask = (nulls >> np.uint64(i)) & np.uint64(1) != 0
            column = pa.array(np.ascontiguousarray(heads[f"{i}"]), mask=mask if mask.any() else None)
            columns[i] = (
                column.cast(pa.timestamp("us", type_.tz)).cast(type_) if temporal else _cast(column, type_)
            )
        at = np.full(len(entries), self._head.itemsize, dtype=np.int64)
        for i, _ in self._texts:
            ends = at + heads[f"{i}"]
            gone = ((nulls >> np.uint64(i)) & np.uint64(1) != 0).tolist()
            spans = zip(entries, at.tolist(), ends.tolist(), gone, strict=True)
            texts = [None if null else entry[a:b].decode() for entry, a, b, null in spans]
            columns[i] = pa.array(texts, self.schema.field(i).type)
            at = ends
        if self._others:
            values = [decode_value(entry[a:]) for entry, a in zip(entries, at.tolist(), strict=True)]
            for place, (i, _) in enumerate(self._others):
                columns[i] = pa.array([row[place] for row in values], self.schema.field(i).type)
        return pa.table([columns[i] for i in range(len(self.schema))], schema=self.schema)


def _kind(type_: pa.DataType) -> str:
    types = pa.types
    if types.is_timestamp(type_):
        return "time"
    if types.is_boolean(type_) or (types.is_integer(type_) and type_ != pa.uint64()):
        return "int"
    if types.is_floating(type_):
        return "float"
    return "text" if types.is_string(type_) or types.is_large_string(type_) else "other"


def _cast(column: pa.Array, type_: pa.DataType) -> pa.Array:
    return column if column.type == type_ else column.cast(type_)
