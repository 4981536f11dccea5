# SPDX-License-Identifier: Apache-2.0
"""A folder as a stream: its files in order of their names, then new files, until Ctrl-C or until none comes."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from pathlib import Path
from threading import Event, current_thread, main_thread

import pyarrow as pa

from windrow.cli.files import RowSource, files_in, format_of, open_rows
from windrow.cli.job import Job, Progress
from windrow.cli.refusals import Refusal

__all__ = ["watched"]

PAUSE = 0.25  # seconds between two looks


def watched(job: Job, progress: Progress, stop: Event | None = None) -> RowSource:
    """The rows of the files of a folder, as they appear; their columns are those of the first file.

    A file is read when its size has not changed between two looks. Ctrl-C or `stop` ends the stream.
    """
    stop = Event() if stop is None else stop
    _stop_at_interrupt(stop)
    files = _files(Path(job.source), job.idle_seconds, progress, stop)
    first = next(files, None)
    if first is None:
        raise Refusal(f"no file has appeared in {job.source}; expected names such as rows-001.parquet")
    opened = open_rows(str(first), job.form, job.memory_bytes)

    def batches() -> Iterator[pa.RecordBatch]:
        yield from opened
        for path in files:
            rows = open_rows(str(path), job.form or format_of(path), job.memory_bytes)
            yield from (_like(batch, opened.schema, path) for batch in rows)

    return RowSource(opened.schema, batches())


def _files(folder: Path, idle: float | None, progress: Progress, stop: Event) -> Iterator[Path]:
    seen: set[Path] = set()
    sizes: dict[Path, int] = {}
    last = time.monotonic()
    while not stop.is_set():
        found = [path for path in files_in(folder) if path not in seen]
        ready = [path for path in found if sizes.get(path) == path.stat().st_size]
        sizes = {path: path.stat().st_size for path in found}
        for path in ready:
            if stop.is_set():
                return
            progress.say(f"reading {path.name}")
            seen.add(path)
            yield path
            last = time.monotonic()
        if not found:
            if idle is not None and time.monotonic() - last >= idle:
                return
            progress.say("waiting for files")
        stop.wait(PAUSE)


def _stop_at_interrupt(stop: Event) -> None:
    """Let the first Ctrl-C set the event, so that work in progress is finished; a second one interrupts as usual."""
    if current_thread() is main_thread():
        before = signal.getsignal(signal.SIGINT)

        def first(*_: object) -> None:
            stop.set()
            signal.signal(signal.SIGINT, before)

        signal.signal(signal.SIGINT, first)


def _like(batch: pa.RecordBatch, schema: pa.Schema, path: Path) -> pa.RecordBatch:
    try:
        return pa.RecordBatch.from_arrays(
            [batch.column(field.name).cast(field.type) for field in schema], schema=schema
        )
    except (KeyError, pa.ArrowException) as error:
        raise Refusal(f"{path} has different columns from the file before it: {error}") from error
