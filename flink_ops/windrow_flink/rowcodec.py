# SPDX-License-Identifier: Apache-2.0
"""Rows of a stream as bytes, and back to columns: what travels to the window function, and is logged in its state.

A row is a head of fixed width, then its texts, then everything else as tagged values. The head is that of every
element, then which fields are null, the numbers, and the lengths of the texts. So the heads of many rows are read as
one array. Nothing is pickled: what is read from state is data.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa

import windrow  # noqa: F401  # whole, before its parts: see the package
from windrow.columns.encoding import decode_value, encode_value
from windrow.columns.times import TimeUnit
from windrow.errors import ColumnError, TimeColumnError
from windrow_flink.elements import HEAD
from windrow_flink.times import microseconds, moment

MOST_FLAGS = 63


class RowCodec:
    """Encodes rows of one schema; ``positions`` say where its fields are in a row, and ``unit`` what its time is in.

    >>> from windrow_flink.elements import MET
    >>> schema = pa.schema({"plug": pa.string(), "ts": pa.int64(), "load": pa.float64()})
    >>> codec = RowCodec(schema, "ts", [0, 1, 2])
    >>> rows = [codec.encode(0, ("a", 7, 1.5)), codec.encode(0, ("b", 9, None)), codec.encode(0, ("a", 9, 2.5))]
    >>> entries = [MET.pack(watermark) + row for watermark, row in zip([5, 5, 8], rows)]
    >>> [(watermark, table.to_pylist()) for watermark, table in codec.decode(entries)]
    [(5, [{'plug': 'a', 'ts': 7, 'load': 1.5}, {'plug': 'b', 'ts': 9, 'load': None}]), (8, [{'plug': 'a', 'ts': 9, 'load': 2.5}])]
    """

    form = "rows"

    def __init__(
        self, schema: pa.Schema, time: str, positions: Sequence[int], unit: TimeUnit | None = None
    ) -> None:
        self.schema, self.time, self.positions, self.unit = schema, time, list(positions), unit
        self._time_at = self.positions[schema.get_field_index(time)]
        kinds = [_kind(field.type) if place < MOST_FLAGS else "other" for place, field in enumerate(schema)]
        # The head has the time in microseconds. A time in another unit is a number like others, too.
        indexes = [(i, p) for i, p in enumerate(self.positions) if unit or schema.field(i).name != time]
        self._numbers = [
            (i, p, kinds[i] == "time") for i, p in indexes if kinds[i] in ("int", "float", "time")
        ]
        self._texts = [(i, p) for i, p in indexes if kinds[i] == "text"]
        self._others = [(i, p) for i, p in indexes if kinds[i] == "other"]
        formats = ["f8" if kinds[i] == "float" else "i8" for i, _, _ in self._numbers]
        self._head = np.dtype(
            [("met", "<i8"), ("key", "<i4"), ("rows", "<i4"), ("time", "<i8"), ("nulls", "<u8")]
            + [(f"{i}", f"<{form}") for (i, _, _), form in zip(self._numbers, formats, strict=True)]
            + [(f"{i}", "<u4") for i, _ in self._texts]
        )
        numbers = "".join("d" if form == "f8" else "q" for form in formats)
        self._pack = struct.Struct(f"{HEAD.format}Q{numbers}{'I' * len(self._texts)}").pack
        plain = not self._texts and not self._others and not any(temporal for _, _, temporal in self._numbers)
        self._plain = [p for _, p, _ in self._numbers] if plain else None
        """Where the numbers are, if there is nothing else in a row."""

    def __reduce__(self) -> tuple[Callable[..., RowCodec], tuple[Any, ...]]:
        return RowCodec, (self.schema, self.time, self.positions, self.unit)

    def time_of(self, row: Any) -> int:
        """The event time of a row, in microseconds."""
        value = row[self._time_at]
        if value is None:
            raise TimeColumnError(
                f"time column {self.time!r} has a null; every row needs a time: drop such rows first, or give them one"
            )
        return value if self.unit is None and type(value) is int else moment(value, self.unit)

    def encode(self, key: int, row: Any) -> bytes:
        """One row, for the bucket with this Flink key."""
        time = self.time_of(row)
        if self._plain is not None:
            values = [row[position] for position in self._plain]
            if None not in values:
                try:
                    return self._pack(key, 1, time, 0, *values)
                except struct.error as cause:
                    raise self._misfit(row, cause) from cause
        return self._encode(key, time, row)

    def _encode(self, key: int, time: int, row: Any) -> bytes:
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
            blob = self._pack(key, 1, time, nulls, *head, *map(len, texts)) + b"".join(texts)
        except struct.error as cause:
            raise self._misfit(row, cause) from cause
        return blob + encode_value([row[position] for _, position in self._others]) if self._others else blob

    def _misfit(self, row: Any, cause: Exception) -> ColumnError:
        return ColumnError(f"the row {row!r} does not fit {self.schema.to_string()!r}: {cause}")

    def decode(self, entries: list[bytes]) -> Iterator[tuple[int, pa.Table]]:
        """Entries of the log as tables, one for each run of rows that met the same watermark."""
        if not entries:
            return
        size = self._head.itemsize
        whole = entries if self._plain is not None else [entry[:size] for entry in entries]
        heads = np.frombuffer(b"".join(whole), dtype=self._head)
        table = self._table(entries, heads)
        met = heads["met"]
        cuts = [0, *(np.flatnonzero(met[1:] != met[:-1]) + 1).tolist(), len(entries)]
        for begin, end in pairwise(cuts):
            yield int(met[begin]), table.slice(begin, end - begin)

    def _table(self, entries: list[bytes], heads: Any) -> pa.Table:
        nulls = heads["nulls"]
        place = self.schema.get_field_index(self.time)
        columns: dict[int, pa.Array] = {}
        if self.unit is None:
            columns[place] = _moments(
                pa.array(np.ascontiguousarray(heads["time"])), self.schema.field(place).type
            )
        for i, _, temporal in self._numbers:
            type_ = self.schema.field(i).type
            mask = (nulls >> np.uint64(i)) & np.uint64(1) != 0
            column = pa.array(np.ascontiguousarray(heads[f"{i}"]), mask=mask if mask.any() else None)
            columns[i] = _moments(column, type_) if temporal else _cast(column, type_)
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


def _moments(micros: pa.Array, type_: pa.DataType) -> pa.Array:
    if not pa.types.is_timestamp(type_):
        return _cast(micros, type_)
    return micros.cast(pa.timestamp("us", type_.tz)).cast(type_)


def _cast(column: pa.Array, type_: pa.DataType) -> pa.Array:
    return column if column.type == type_ else column.cast(type_)
