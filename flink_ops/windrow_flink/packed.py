# SPDX-License-Identifier: Apache-2.0
"""Packed rows: many rows and keys in one element, so that they cross from Flink into Python together.

An element is a row of two fields: the Flink key of a bucket, and bytes. The bytes are a small head and an Arrow
record batch. The head holds the number of rows, their earliest time, and the time that the element contributes to
Flink's watermarks.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.dataset as dataset
from pyflink.common import Row, Types, WatermarkStrategy
from pyflink.datastream import DataStream, OutputTag, ProcessFunction, StreamExecutionEnvironment
from pyflink.datastream.connectors.number_seq import NumberSequenceSource

import windrow  # noqa: F401  # whole, before its parts: see the package
from windrow.columns.arrow import as_table
from windrow.columns.ipc import from_ipc, to_ipc
from windrow.durations import Duration
from windrow.errors import ColumnError, QueryError
from windrow.operator.idle import Idle
from windrow.query.query import BoundQuery, Query
from windrow_flink.buckets import Buckets, checked, spread
from windrow_flink.columns import check_fingerprint, read_columns
from windrow_flink.elements import HEAD, MET, PACKED
from windrow_flink.function import Wiring, rows_out
from windrow_flink.generated import gather
from windrow_flink.inputs import check_watermarks, checked_stream, kept_columns, stream_type
from windrow_flink.rowtypes import BYTES, schema_of, type_of
from windrow_flink.steps import finish, finish_rows, keyed_by_first, time_to_live, timed

ROWS = 1 << 17
"""How many rows a reader puts into one batch, before it is split by bucket."""
LOG = 4 << 20
"""How many bytes of a bucket are logged before its operator writes its pages."""
_TOLD = struct.Struct("<q")
"""The time that an element contributes to Flink's watermarks, after its head."""
_GATHERED = struct.Struct("<iI")
"""Before rows that the JVM has gathered: a mark that no record batch begins with, and what their columns are."""


def pack(data: Any, query: Query, buckets: int | None = None, *, uid: str = "windrow-pack") -> Any:
    """Rows as packed elements for :func:`windowed_packed`.

    Of a stream of rows: a stream in which the JVM gathers them until the next watermark, up to some thousands of
    each bucket. Its watermarks go along. Its columns have to be numbers, booleans and texts.

    Of Arrow data (or anything that becomes it), for a source or a flat-map of your own with
    ``output_type=windrow_flink.PACKED``: one element for each bucket of keys that has rows. The data should be
    some 10,000 to 100,000 rows, and sequences of them in order of time as far as the watermarks'
    ``disorder`` says.
    """
    if isinstance(data, DataStream):
        schema = schema_of(stream_type(checked_stream(data)))
        query.bind(schema)
        flink_keys = spread(checked(buckets, query))
        return gather(data, query, schema, kept_columns(query, schema), flink_keys, None, uid)
    return Packer(query, list(spread(checked(buckets, query))))(as_table(data))


def windowed_packed(
    stream: DataStream,
    query: Query,
    schema: pa.Schema,
    *,
    disorder: Duration | None = None,
    buckets: int | None = None,
    ttl: Duration | None = None,
    packed_output: bool = False,
    idle: Idle | Duration | None = None,
    uid: str = "windrow",
) -> DataStream:
    """The windows of a stream of packed rows.

    The elements are those of :func:`pack` and :func:`read_packed`, or bytes that hold an Arrow IPC stream
    each, from any source. ``disorder``, ``buckets``, ``ttl`` and ``uid`` are as for :func:`windrow_flink.windowed`.
    With ``packed_output`` the windows come as bytes too, an Arrow IPC stream for each emission; read them with
    :func:`unpack`. For queries with many windows that saves the most, because a row for each window is the most
    expensive part. Rows that come too late (``late="side"``) are at :func:`late_rows`, in the same form as the windows.
    """
    bound = query.bind(schema)
    kept = kept_columns(query, schema)
    packer = Packer(query, list(spread(checked(buckets, query))), kept)
    element = stream_type(stream)
    if disorder is None:
        check_watermarks(stream)
    if element == BYTES:
        stream = timed(stream, Split(packer, disorder is not None), PACKED, disorder, uid, alone=True)
    elif element == PACKED and disorder is not None:
        stream = timed(stream, TellTime(), PACKED, disorder, uid)
    elif element != PACKED:
        raise ColumnError(
            f"windowed_packed() needs elements made by pack() or bytes of Arrow IPC, not {element}; "
            f"give the step before it output_type=windrow_flink.PACKED"
        )
    emit = packed_out if packed_output else rows_out
    codec = Packed(kept)
    late_tag = None
    if query.late == "side":
        late_tag = OutputTag(f"{uid}-late", BYTES if packed_output else type_of(codec.schema))
    wiring = Wiring(query, codec, emit, late_tag, emit, ttl=time_to_live(ttl), idle=Idle.of(idle), log=LOG)
    keyed = keyed_by_first(stream, BYTES)
    if packed_output:
        return finish(keyed, wiring, BYTES, uid)
    return finish_rows(keyed, wiring, bound.output_schema, uid)


def read_packed(
    environment: StreamExecutionEnvironment,
    path: str | Path | Sequence[str | Path],
    query: Query,
    *,
    disorder: Duration | None = 0,
    rows: int = ROWS,
    buckets: int | None = None,
    uid: str = "windrow-read",
) -> tuple[DataStream, pa.Schema]:
    """Parquet, Arrow or CSV files as a stream of packed rows, and their schema.

    Files are read in the given order, by one task, which resumes where a checkpoint was taken. The watermark
    is the latest time read less ``disorder``; with ``None`` there is none until the end.
    """
    paths = [str(each) for each in ([path] if isinstance(path, str | Path) else path)]
    if not paths or not all(Path(each).is_file() for each in paths):
        raise QueryError(f"read_packed() needs files that exist, not {paths}")
    files = Files(paths, rows)
    query.bind(files.schema)
    packer = Packer(query, list(spread(checked(buckets, query))), kept_columns(query, files.schema))
    numbers = environment.from_source(
        NumberSequenceSource(0, len(files.pieces) - 1), WatermarkStrategy.no_watermarks(), uid, Types.LONG()
    ).uid(uid)
    numbers.set_parallelism(1)
    step = ReadPiece(files, packer, disorder is not None)
    return timed(numbers, step, PACKED, disorder, uid, parallelism=1), files.schema


def unpack(element: bytes | Sequence[int]) -> pa.Table:
    """The windows in an element of ``windowed_packed(…, packed_output=True)``, or its late rows.

    Takes it as a function gets it, or as ``execute_and_collect`` hands it over.
    """
    return from_ipc(as_bytes(element))


def as_bytes(element: bytes | Sequence[int]) -> bytes:
    """Bytes, also of what ``execute_and_collect`` makes of them."""
    return element if isinstance(element, bytes) else np.array(element, dtype=np.int8).tobytes()


class Packer:
    """Splits tables by bucket and makes an element of each part."""

    def __init__(self, query: Query, flink_keys: list[int], schema: pa.Schema | None = None) -> None:
        self.query, self.buckets, self.schema = query, Buckets(flink_keys), schema
        self._bound: BoundQuery | None = None

    def __reduce__(self) -> tuple[type[Packer], tuple[Any, ...]]:
        return Packer, (self.query, self.buckets.flink_keys, self.schema)

    def __call__(self, table: pa.Table) -> list[Row]:
        query = self.query
        schema = self.schema if self.schema is not None else kept_columns(query, table.schema)
        if self._bound is None or self._bound.schema is not schema:
            self._bound = query.bind(schema)
        bound = self._bound
        table = table.select(schema.names)
        if table.schema.types != schema.types:
            table = table.cast(schema)
        parts = self.buckets.split(table, query.by)
        if not parts:
            return []
        times = bound.times(table)
        # Flink may take the watermark between two elements of one batch. So only the last of them may contribute the latest time.
        moments = [int(times.min())] * (len(parts) - 1) + [int(times.max())]
        return [
            Row(
                flink_key,
                HEAD.pack(flink_key, part.num_rows, int(bound.times(part).min())) + self._body(part, time),
            )
            for (flink_key, part), time in zip(parts, moments, strict=True)
        ]

    def _body(self, part: pa.Table, moment: int) -> bytes:
        plain = _plain(part).combine_chunks()
        batches = plain.to_batches()
        assert len(batches) == 1
        body: bytes = batches[0].serialize().to_pybytes()
        return _TOLD.pack(moment) + body


class Packed:
    """Packed elements in the log: unchanged, each behind the watermark that it met."""

    form = "packed"

    def __init__(self, schema: pa.Schema) -> None:
        self.schema = _plain(schema.empty_table()).schema

    def decode(self, entries: list[bytes]) -> Iterator[tuple[int, pa.Table]]:
        together: list[pa.RecordBatch] = []
        last = 0
        for entry in entries:
            (met,) = MET.unpack_from(entry)
            if together and met != last:
                yield last, pa.Table.from_batches(together)
                together = []
            last = met
            together.append(self._rows(entry))
        if together:
            yield last, pa.Table.from_batches(together)

    def _rows(self, entry: bytes) -> pa.RecordBatch:
        body = pa.py_buffer(entry).slice(MET.size + HEAD.size + _TOLD.size)
        mark, columns = _GATHERED.unpack_from(memoryview(body))
        if mark != 1:
            return pa.ipc.read_record_batch(body, self.schema)
        check_fingerprint(columns, self.schema)
        _, rows, _ = HEAD.unpack_from(entry, MET.size)
        return read_columns(body.slice(_GATHERED.size), rows, self.schema)


class TellTime(ProcessFunction):
    """Packed elements, each with the time that it contributes to the watermarks."""

    def process_element(self, element: Row, context: ProcessFunction.Context) -> Iterable[Any]:
        return ((element, told(element)),)


class Split(ProcessFunction):
    """Arrow IPC streams, as bytes or as the only field of a row, to packed elements."""

    def __init__(self, packer: Packer, timed: bool) -> None:
        self.packer, self.timed = packer, timed

    def process_element(self, element: bytes | Row, context: ProcessFunction.Context) -> Iterable[Any]:
        packed = self.packer(from_ipc(element if isinstance(element, bytes) else element[0]))
        return [(each, told(each)) for each in packed] if self.timed else packed


def told(element: Row) -> int:
    """The time in milliseconds that a packed element contributes to the watermarks.

    No row that follows it in its batch is earlier than that by more than the disorder.
    """
    return int(_TOLD.unpack_from(element[1], HEAD.size)[0]) // 1000


class Files:
    """Files as numbered pieces of about so many rows."""

    def __init__(self, paths: list[str], rows: int) -> None:
        self.paths, self.rows = paths, rows
        opened = [_open(path) for path in paths]
        self.schema: pa.Schema = opened[0].schema
        for path, each in zip(paths, opened, strict=True):
            if not each.schema.equals(self.schema):
                raise ColumnError(
                    f"the columns of {path} differ from those of {paths[0]}; give them the same names and types"
                )
        self.pieces = [
            (place, number)
            for place, each in enumerate(opened)
            for number in range(-(-each.count_rows() // rows))
        ]
        if not self.pieces:
            raise QueryError(f"there is no row in {paths}")
        self._reading: tuple[int, int, Iterator[pa.RecordBatch]] | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_reading": None}

    def read(self, piece: int) -> pa.Table:
        """One piece. Pieces that are read in order come from one scan of the file."""
        place, number = self.pieces[piece]
        if self._reading is None or self._reading[:2] != (place, number):
            self._reading = (place, number, self._from(place, number * self.rows))
        table = pa.Table.from_batches([next(self._reading[2])], self.schema)
        self._reading = (place, number + 1, self._reading[2])
        return table

    def _from(self, place: int, skip: int) -> Iterator[pa.RecordBatch]:
        held: list[pa.Table] = []  # pieces are numbered, so each but the last has exactly so many rows
        for batch in _open(self.paths[place]).to_batches(batch_size=self.rows, fragment_readahead=1):
            if skip >= batch.num_rows:
                skip -= batch.num_rows
                continue
            held.append(pa.Table.from_batches([batch.slice(skip)]))
            skip = 0
            while sum(table.num_rows for table in held) >= self.rows:
                table = pa.concat_tables(held).combine_chunks()
                yield table.slice(0, self.rows).to_batches()[0]
                held = [table.slice(self.rows)] if table.num_rows > self.rows else []
        rest = pa.concat_tables(held).combine_chunks() if held else None
        if rest is not None and rest.num_rows:
            yield rest.to_batches()[0]


class ReadPiece(ProcessFunction):
    """Numbers of pieces to their packed rows."""

    def __init__(self, files: Files, packer: Packer, timed: bool) -> None:
        self.files, self.packer, self.timed = files, packer, timed

    def process_element(self, number: int, context: ProcessFunction.Context) -> Iterable[Any]:
        packed = self.packer(self.files.read(number))
        return [(each, told(each)) for each in packed] if self.timed else packed


def packed_out(found: pa.Table, exact: bool) -> Iterator[bytes]:
    """Windows (or late rows) as one element."""
    if not found.num_rows:
        return
    yield to_ipc(found)


def _open(path: str) -> Any:
    form = {".parquet": "parquet", ".csv": "csv"}.get(Path(path).suffix, "ipc")
    return dataset.dataset(path, format=form)


def _plain(table: pa.Table) -> pa.Table:
    """The table without dictionaries, which a single record batch cannot carry."""
    fields = [
        pa.field(each.name, each.type.value_type if pa.types.is_dictionary(each.type) else each.type)
        for each in table.schema
    ]
    plain = pa.schema(fields)
    return table.cast(plain) if plain.types != table.schema.types else table
