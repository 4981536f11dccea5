# SPDX-License-Identifier: Apache-2.0
"""`windrow run` in this process: batches in, windows out; memory holds only the open windows."""

from __future__ import annotations

import os

import numpy as np
import pyarrow as pa

from windrow.cli.binding import bind_rows, refuse_null_times
from windrow.cli.files import open_rows
from windrow.cli.job import Done, Job, Progress
from windrow.cli.refusals import Refusal
from windrow.cli.watch import watched
from windrow.columns.batching import gather
from windrow.memory import format_bytes
from windrow.operator.operator import Operator
from windrow.query.bound import BoundQuery
from windrow.query.estimate import fewest_windows
from windrow.query.slicing import columns_sent, time_windows

ROWS = 1 << 17
"""Small batches are gathered into tables of this many rows, unless windows are to come out on the way."""


def run(job: Job, progress: Progress) -> Done:
    """Stream the rows through an operator and write what it finishes."""
    memory = job.memory_bytes
    rows = watched(job, progress) if job.watch else open_rows(job.source, job.form, memory)
    bound = bind_rows(job.query, rows)
    operator = Operator(
        job.query, rows.schema, threads=os.cpu_count() or 1, workers=job.workers, idle=job.idle
    )
    progress.say("watching" if job.watch else "reading", rows.total)
    count, held, latest = 0, 0, np.iinfo(np.int64).min
    waiting = columns_sent(job.query, rows.schema.names) if job.delay_us is None and _in_order(bound) else []
    with job.writing(bound.output_schema) as out, job.writing_late(rows.schema) as late:

        def finished(windows: pa.Table) -> None:
            out.write(windows)
            job.check_windows(out.written, "so far there are")
            progress.add(windows=windows.num_rows)

        for table in gather(rows, ROWS if job.delay_us is None else 1):
            refuse_null_times(job.query, job.source, rows, table, count)
            if not count:
                job.check_windows(fewest_windows(bound, table, job.windows_limit), "the rows have at least")
            if waiting:
                held += table.select(waiting).nbytes
                _check_waiting(held, memory)
            finished(operator.process(table))
            if job.query.late == "side":
                late.write(operator.late().cast(rows.schema))
            count += table.num_rows
            progress.add(rows=table.num_rows)
            if table.num_rows and job.delay_us is not None:
                latest = max(latest, int(bound.times(table).max()))
                finished(operator.advance(latest - job.delay_us))
        progress.say("writing")
        for windows in operator.finish():
            finished(windows)
    return Done(count, out, operator.late_rows)


def _in_order(bound: BoundQuery) -> bool:
    """Whether rows wait for the watermark, because their order matters to the window or to an aggregate."""
    return not time_windows(bound.query) or not all(each.commutative for each in bound.monoids.values())


def _check_waiting(held: int, memory: int) -> None:
    if held > memory:
        raise Refusal(
            f"this query needs rows in order of time, so they wait until the input ends, and they take more than the "
            f"{format_bytes(memory)} that --memory allows; give --delay, so that rows wait no longer than that, or raise --memory"
        )
