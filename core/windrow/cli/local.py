"""`windrow run` in this process: batches in, windows out, memory for the open windows only."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from windrow.cli.files import Rows, open_rows
from windrow.cli.job import Done, Job, Progress
from windrow.cli.watch import watched
from windrow.operator import Operator
from windrow.tables import as_table

TOGETHER = 1 << 17  # small batches are put together to so many rows


def run(job: Job, progress: Progress) -> Done:
    """Stream the rows through an operator and write what it finishes."""
    rows = watched(job, progress) if job.watch else open_rows(job.source, job.form)
    bound = job.query.bind(rows.schema)
    operator = Operator(job.query, rows.schema, threads=os.cpu_count() or 1)
    progress.say("watching" if job.watch else "reading", rows.total)
    count, latest = 0, np.iinfo(np.int64).min
    with job.writing(bound.output_schema) as out, job.writing_late(rows.schema) as late:

        def finished(windows: pa.Table) -> None:
            out.write(windows)
            progress.add(windows=windows.num_rows)

        for table in _together(rows, at_once=job.delay_us is not None):
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


def _together(rows: Rows, *, at_once: bool) -> Iterator[pa.Table]:
    waiting: list[Any] = []
    held = 0
    for batch in rows:
        waiting.append(batch)
        held += batch.num_rows
        if at_once or held >= TOGETHER:
            yield as_table(pa.Table.from_batches(waiting))
            waiting, held = [], 0
    if waiting:
        yield as_table(pa.Table.from_batches(waiting))
