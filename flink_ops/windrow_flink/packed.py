"""Packed rows: many rows and keys in one element, so that Flink's crossing into Python is paid once for all of them.

An element is a row of two fields: the Flink key of a bucket, and bytes. The bytes are a small head (how many
rows, their earliest time, and the time that the element may tell Flink's watermarks) and an Arrow record
batch.
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

from windrow.durations import Duration
from windrow.errors import ColumnError, QueryError
from windrow.query import BoundQuery, Query
from windrow.tables import as_table
from windrow_flink.batches import stream_batches
from windrow_flink.buckets import Buckets, checked, spread
from windrow_flink.elements import HEAD, MET, PACKED
from windrow_flink.function import Plan, rows_out
from windrow_flink.rowtypes import BYTES, type_of
from windrow_flink.stream import (
    check_watermarks,
    checked_stream,
    finish,
    kept_columns,
    keyed_by_first,
    stream_type,
    time_to_live,
    timed,
)

ROWS = 1 << 17
"""How many rows a reader puts into one batch, before it is split by bucket."""
LOG = 4 << 20
"""How many bytes of a bucket are logged before its operator writes its pages."""
_TOLD = struct.Struct("<q")
"""The time that an element may tell Flink's watermarks, after its head."""


def pack(data: Any, query: Query, buckets: int | None = None) -> Any:
    """Rows as packed elements for :func:`windowed_packed`.

    Of a stream of rows: a stream in which they cross into Python in Arrow batches of
    ``python.fn-execution.arrow.batch.size`` rows, or of as many as come within
    ``python.fn-execution.bundle.time``. Its watermarks do not go along: give :func:`windowed_packed` the ``disorder``.

    Of Arrow data (or anything that becomes it), for a source or a flat-map of your own with
    ``output_type=windrow_flink.PACKED``: one element for each bucket of keys that has rows. The data should be
    some 10,000 to 100,000 rows, and sequences of them in order of time as far as the watermarks'
    ``disorder`` says.
    """
    if isinstance(data, DataStream):
        return stream_batches(checked_stream(data), query)
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
    uid: str = "windrow",
) -> DataStream:
    """The windows of a stream of packed rows.

    The elements are those of :func:`pack` and :func:`read_packed`, or bytes that hold an Arrow IPC stream
    each, from wherever they come. ``disorder``, ``buckets``, ``ttl`` and ``uid`` are as for
    :func:`windrow_flink.windowed`. With ``packed_output`` the windows come as bytes too, an Arrow IPC stream
    for each emission (read them with :func:`unpack`): for queries with many windows, a row each is the
    dearest part. Rows that come too late (``late="side"``) are at :func:`late_rows`, in the same form as the
    windows.
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
    output, late = (BYTES, BYTES) if packed_output else (type_of(bound.output_schema), type_of(codec.schema))
    late_tag = OutputTag(f"{uid}-late", late) if query.late == "side" else None
    plan = Plan(query, codec, emit, late_tag, emit, ttl=time_to_live(ttl), log=LOG)
    return finish(keyed_by_first(stream, BYTES), plan, output, uid)


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
    return timed(numbers, step, PACKED, disorder, uid, single=True), files.schema


def unpack(element: bytes | Sequence[int]) -> pa.Table:
    """The windows in an element of ``windowed_packed(…, packed_output=True)``, or its late rows.

    Takes it as a function gets it, or as ``execute_and_collect`` hands it over.
    """
    return pa.ipc.open_stream(as_bytes(element)).read_all()


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
        # Elements of one batch follow each other, and the watermark may be taken between them: only the last may tell the latest time.
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
    """Packed elements in state: as they came, after the watermark that they met."""

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
            body = pa.py_buffer(entry).slice(MET.size + HEAD.size + _TOLD.size)
            together.append(pa.ipc.read_record_batch(body, self.schema))
        if together:
            yield last, pa.Table.from_batches(together)


class TellTime(ProcessFunction):
    """Packed elements with the time that each may tell."""

    def process_element(self, element: Row, context: ProcessFunction.Context) -> Iterable[Any]:
        return ((element, told(element)),)


class Split(ProcessFunction):
    """Arrow IPC streams to packed elements."""

    def __init__(self, packer: Packer, timed: bool) -> None:
        self.packer, self.timed = packer, timed

    def process_element(self, element: bytes, context: ProcessFunction.Context) -> Iterable[Any]:
        packed = self.packer(pa.ipc.open_stream(element).read_all())
        return [(each, told(each)) for each in packed] if self.timed else packed


def told(element: Row) -> int:
    """The time that a packed element may tell the watermarks: no later row of its batch is earlier by more than the disorder."""
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
        """One piece. Pieces that follow each other are read in one go."""
        place, number = self.pieces[piece]
        if self._reading is None or self._reading[:2] != (place, number):
            self._reading = (place, number, self._from(place, number * self.rows))
        table = pa.Table.from_batches([next(self._reading[2])], self.schema)
        self._reading = (place, number + 1, self._reading[2])
        return table

    def _from(self, place: int, skip: int) -> Iterator[pa.RecordBatch]:
        waiting: list[pa.Table] = []
        for batch in _open(self.paths[place]).to_batches(batch_size=self.rows, fragment_readahead=1):
            if skip >= batch.num_rows:
                skip -= batch.num_rows
                continue
            waiting.append(pa.Table.from_batches([batch.slice(skip)]))
            skip = 0
            while sum(table.num_rows for table in waiting) >= self.rows:
                table = pa.concat_tables(waiting).combine_chunks()
                yield table.slice(0, self.rows).to_batches()[0]
                waiting = [table.slice(self.rows)] if table.num_rows > self.rows else []
        rest = pa.concat_tables(waiting).combine_chunks() if waiting else None
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
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, found.schema) as writer:
        writer.write_table(found)
    yield sink.getvalue().to_pybytes()


def _open(path: str) -> Any:
    form = {".parquet": "parquet", ".csv": "csv"}.get(Path(path).suffix, "ipc")
    return dataset.dataset(path, format=form)


def _plain(table: pa.Table) -> pa.Table:
    """Without dictionaries: a record batch is sent without them."""
    fields = [
        pa.field(each.name, each.type.value_type if pa.types.is_dictionary(each.type) else each.type)
        for each in table.schema
    ]
    plain = pa.schema(fields)
    return table.cast(plain) if plain.types != table.schema.types else table
