# SPDX-License-Identifier: Apache-2.0
"""`windrow run --engine flink`: files, or a folder that grows, go through a Flink job in this process."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from threading import Event
from typing import Any

import pyarrow as pa
from pyarrow import parquet
from pyflink.common.job_client import JobClient
from pyflink.datastream import DataStream, MapFunction, StreamExecutionEnvironment
from pyflink.datastream.data_stream import CloseableIterator

import windrow  # noqa: F401  # whole, before its parts: see the package
from windrow.cli.binding import bind_rows
from windrow.cli.files import RowSource, files_in, open_rows
from windrow.cli.job import Done, Job, Progress
from windrow.cli.watch import watched
from windrow_flink import (
    environment,
    late_rows,
    read_packed,
    stop_with_savepoint,
    unpack,
    windowed_packed,
)
from windrow_flink.packed import as_bytes
from windrow_flink.rowtypes import BYTES
from windrow_flink.watching import SETTINGS, Feed

WINDOWS, LATE = b"w", b"l"


def run(job: Job, progress: Progress) -> Done:
    """Compute the windows on Flink's mini cluster and write them, in the order of every result."""
    with tempfile.TemporaryDirectory(prefix="windrow-") as folder:
        return (_stream if job.watch else _batch)(job, progress, Path(folder))


def _batch(job: Job, progress: Progress, work: Path) -> Done:
    rows = open_rows(job.source, job.form, job.memory_bytes)
    bound = bind_rows(job.query, rows)
    files, count = _parquet_files(job, rows, work, progress)
    progress.say("starting Flink")
    flink = environment(_slots())
    packed, schema = read_packed(flink, files, job.query, disorder=job.delay_us)
    windows = windowed_packed(packed, job.query, schema, packed_output=True, idle=job.idle)
    found = [bound.output_schema.empty_table()]
    with job.writing_late(rows.schema) as late:
        with _tagged(windows, windows, job).execute_and_collect("windrow run") as elements:
            progress.say("windows on Flink", count)
            for tag, table in map(_untagged, elements):
                if tag == LATE:
                    late.write(table.cast(rows.schema))
                else:
                    progress.add(windows=table.num_rows)
                    found.append(table.select(bound.output_schema.names).cast(bound.output_schema))
        progress.say("writing")
        with job.writing(bound.output_schema) as out:
            out.write(bound.sort(pa.concat_tables(found)))
    return Done(count, out, late.written)


def _stream(job: Job, progress: Progress, work: Path) -> Done:
    """Windows of a folder that grows. This thread writes them as they come; another watches the folder and feeds the job."""
    stop = Event()
    rows = watched(job, progress, stop)
    bound = bind_rows(job.query, rows)
    flink = environment(_slots(), settings=SETTINGS)
    feed = Feed(work / "feed", job.query, rows.schema, job.delay_us or 0)
    packed = feed.rows(flink)
    windows = windowed_packed(packed, job.query, rows.schema, packed_output=True, idle=job.idle)
    with (
        job.writing(bound.output_schema) as out,
        job.writing_late(rows.schema) as late,
        _collecting(flink, _tagged(feed.in_order(windows, packed), windows, job)) as (client, elements),
        _feeding(rows, feed, client, work, progress, stop) as fed,
    ):
        for tag, table in map(_untagged, elements):
            if tag == LATE:
                late.write(table.cast(rows.schema))
            else:
                out.write(table)
                progress.add(windows=table.num_rows)
        count = fed()
    return Done(count, out, late.written)


class Tag(MapFunction):
    """Packed tables, each behind a byte that says what it holds."""

    def __init__(self, tag: bytes) -> None:
        self.tag = tag

    def map(self, element: Any) -> bytes:
        return self.tag + bytes(element)


def _tagged(windows: DataStream, result: DataStream, job: Job) -> DataStream:
    """Windows and, for a query with late="side", late rows, in one stream, because a job has one collector."""
    tagged = windows.map(Tag(WINDOWS), output_type=BYTES)
    return (
        tagged.union(late_rows(result).map(Tag(LATE), output_type=BYTES))
        if job.query.late == "side"
        else tagged
    )


def _untagged(element: bytes | Sequence[int]) -> tuple[bytes, pa.Table]:
    blob = as_bytes(element)
    return blob[:1], unpack(blob[1:])


@contextmanager
def _collecting(flink: StreamExecutionEnvironment, stream: DataStream) -> Iterator[tuple[JobClient, Any]]:
    """A running job, and the elements of a stream of it. PyFlink's own way to collect does not give access to the job."""
    elements = CloseableIterator(stream._j_data_stream.collectAsync(), stream.get_type())
    client = flink.execute_async("windrow run")
    with elements:
        yield client, elements


@contextmanager
def _feeding(
    rows: RowSource, feed: Feed, client: JobClient, work: Path, progress: Progress, stop: Event
) -> Iterator[Callable[[], int]]:
    """Feed rows to the job in a thread, and end the job when they end.

    Gives a function that returns the number of rows, or raises what was wrong with them.
    """
    over = Event()

    def feed_all() -> int:
        count = 0
        try:
            for batch in rows:
                if batch.num_rows and not over.is_set():
                    feed.put(batch, over)
                    count += batch.num_rows
                    progress.add(rows=batch.num_rows)
            if not over.is_set():
                progress.say("the last windows")
                stop_with_savepoint(client, work / "savepoint", drain=True)
        except BaseException:
            client.cancel()
            raise
        return count

    with ThreadPoolExecutor(1) as pool:
        fed = pool.submit(feed_all)
        try:
            yield fed.result
        except Exception:
            if fed.done():  # something was wrong with the rows, and that ended the job
                fed.result()
            raise
        finally:
            over.set()
            stop.set()


def _slots() -> int:
    return max(1, min(os.cpu_count() or 1, 4))


def _parquet_files(job: Job, rows: RowSource, folder: Path, progress: Progress) -> tuple[list[Path], int]:
    """The files as they are, if they are Parquet; otherwise a copy, made by the reader that every engine uses."""
    path = Path(job.source)
    known = [] if job.source == "-" else files_in(path) if path.is_dir() else [path]
    if known and all(each.suffix.lower() == ".parquet" for each in known) and job.form in (None, "parquet"):
        return known, rows.total or 0
    progress.say("copying to Parquet")
    count = 0
    with parquet.ParquetWriter(folder / "rows.parquet", rows.schema) as out:
        for batch in rows:
            out.write_batch(batch)
            count += batch.num_rows
    return [folder / "rows.parquet"], count
