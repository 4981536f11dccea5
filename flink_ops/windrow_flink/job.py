"""`windrow run --engine flink`: files through a Flink job in this process, packed rows in and packed windows out."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pyarrow as pa
from pyarrow import parquet

from windrow.cli.files import Rows, files_in, open_rows
from windrow.cli.job import Done, Job, Progress
from windrow.cli.refusals import Refusal
from windrow_flink import environment, read_packed, unpack, windowed_packed


def run(job: Job, progress: Progress) -> Done:
    """Compute the windows on Flink's mini cluster and write them, in the order of every answer."""
    if job.watch:
        raise Refusal(
            "--watch is not for --engine flink: its file source cannot be told to end; use --engine local or spark"
        )
    rows = open_rows(job.source, job.form)
    bound = job.query.bind(rows.schema)
    with tempfile.TemporaryDirectory(prefix="windrow-") as folder:
        files, count = _parquet_files(job, rows, Path(folder), progress)
        progress.say("starting Flink")
        flink = environment(parallelism=max(1, min(os.cpu_count() or 1, 4)))
        packed, schema = read_packed(flink, files, job.query, disorder=job.delay_us)
        windows = windowed_packed(packed, job.query, schema, packed_output=True)
        found = [bound.output_schema.empty_table()]
        with windows.execute_and_collect("windrow run") as elements:
            progress.say("windows on Flink", count)
            for element in elements:
                table = unpack(element)
                progress.add(windows=table.num_rows)
                found.append(table.select(bound.output_schema.names).cast(bound.output_schema))
    progress.say("writing")
    with job.writing(bound.output_schema) as out:
        out.write(bound.sort(pa.concat_tables(found)))
    return Done(count, out)


def _parquet_files(job: Job, rows: Rows, folder: Path, progress: Progress) -> tuple[list[Path], int]:
    """The files as they are, if they are Parquet; else a copy, made by the reader that every engine uses."""
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
