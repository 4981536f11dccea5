# SPDX-License-Identifier: Apache-2.0
"""One operator per bucket of keys, with its state in Spark's state store: what a stateful worker does with a bucket.

Only the state variables survive a task. A worker process also keeps operators; see :mod:`windrow_spark.worker_cache`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import pyarrow as pa
from pyspark.sql import Row

from windrow import Idle, IdleFigures, Operator, Query
from windrow.columns.ipc import from_ipc, to_ipc
from windrow.errors import FingerprintMismatch
from windrow.kernels.compiling import compile_seconds
from windrow.operator.emitter import Emitter
from windrow.operator.window_batches import BATCHES, windows_in
from windrow.storage.pages import HEADER
from windrow.storage.segments import Segments
from windrow_spark.buckets import BucketVariables
from windrow_spark.null_times import refuse_null_times
from windrow_spark.sent_code import SentCode, arrive
from windrow_spark.worker_cache import WorkerCache, new_job


class StateValues:
    """Values in the state variables of one bucket.

    State variables belong to one call of Spark, so a cached operator gets them anew each time.
    """

    def __init__(self) -> None:
        self.header: Any = None
        self.pages: Any = None
        self.written = 0
        """How many values were written so far."""

    def attach(self, header: Any, pages: Any) -> None:
        """Use these state variables from now on."""
        self.header, self.pages = header, pages

    def detach(self) -> None:
        """Forget the state variables; the call of Spark that they belong to is over."""
        self.header = self.pages = None

    def get(self, names: Iterable[str]) -> dict[str, bytes]:
        found = {}
        for name in names:
            if name == HEADER:
                if (held := self.header.get()) is not None:
                    found[name] = bytes(held[0])
            elif (page := self.pages.getValue((name,))) is not None:
                found[name] = bytes(page[0])
        return found

    def commit(self, put: Mapping[str, bytes], delete: Iterable[str]) -> None:
        self.written += len(put)
        for name, page in put.items():
            if name == HEADER:
                self.header.update((page,))
            else:
                self.pages.updateValue((name,), (page,))
        for name in delete:
            self.pages.removeKey((name,))


_KEPT: WorkerCache[tuple[Operator | Emitter, StateValues]] = WorkerCache()


class BucketOperators:
    """Feeds the operators of buckets with rows and watermarks.

    With ``partials``, the input is partials of slices instead of rows. With ``emits``, windows are not computed: the
    output is batches of windows for workers. ``code`` is what the driver has compiled for them.
    """

    def __init__(
        self,
        query: Query,
        schema: pa.Schema,
        buckets: int,
        *,
        partials: bool = False,
        emits: bool = False,
        idle: Idle | None = None,
        code: SentCode | None = None,
    ) -> None:
        self.query, self.schema, self.buckets = query, schema, buckets
        self.partials, self.emits, self.idle, self.code = partials, emits, idle, code
        self.nothing = (BATCHES if emits else query.bind(schema).output_schema).empty_table()
        self.job = new_job()

    def step(self, bucket: int, state: BucketVariables, packed: list[bytes] | None, watermark: int) -> Row:
        """Rows of a bucket and a watermark, in milliseconds, or a watermark alone; the windows that are final now."""
        arrive(self.code)
        rows = None if packed is None else pa.concat_tables([from_ipc(each) for each in packed])
        mark = state.mark.get()
        compiled_before = compile_seconds()
        operator, pages = self._operator(bucket, state, mark)
        late_before, pages_before, idle_before = operator.late_rows, pages.written, _figures(operator)
        found = list(self._fed(operator, rows, watermark * 1000))
        late = operator.late() if self.query.late == "side" else None
        windows = pa.concat_tables([table for table in found if table.num_rows] or [self.nothing])
        written = operator.commit()
        pages.detach()
        token = _KEPT.keep(self.job, bucket, (operator, pages))
        wake = state.wake_at(operator.wake, None if mark is None else mark[1], fired=rows is None)
        state.mark.update((token, wake, self.buckets))
        late_rows, idle = operator.late_rows - late_before, _figures(operator)
        return Row(
            windows=to_ipc(windows) if windows.num_rows else None,
            late=to_ipc(late) if late is not None and late.num_rows else None,
            emitted=windows_in(windows) if self.emits else windows.num_rows,
            late_rows=late_rows,
            pages=pages.written - pages_before,
            written=written,
            compile_seconds=compile_seconds() - compiled_before,
            cold_keys=idle.cold_keys,
            freezes=idle.freezes - idle_before.freezes,
            thaws=idle.thaws - idle_before.thaws,
        )

    def _fed(self, operator: Operator | Emitter, rows: pa.Table | None, watermark: int) -> Iterator[pa.Table]:
        """The windows that new rows and the watermark finish. A watermark of zero means that Spark has none yet."""
        if self.partials and isinstance(
            operator, Operator
        ):  # the watermark has just finished these slices, so they are older than it
            if rows is not None:
                yield operator.process_partials(rows)
            if watermark > 0:
                yield operator.advance(watermark)
            return
        if watermark > 0:
            yield operator.advance(watermark)
        if rows is not None:
            refuse_null_times(rows, self.query.time)
            yield operator.process(rows)
            if watermark > 0 and self.query.lateness:  # late rows may have finished windows
                yield operator.advance(watermark)

    def _operator(
        self, bucket: int, state: BucketVariables, mark: Any
    ) -> tuple[Operator | Emitter, StateValues]:
        if mark is not None and mark[2] != self.buckets:
            raise FingerprintMismatch.of_buckets(mark[2], self.buckets)
        known = _KEPT.take(self.job, bucket, None if mark is None else bytes(mark[0]))
        if known is not None:
            known[1].attach(state.header, state.pages)
            return known
        pages = StateValues()
        pages.attach(state.header, state.pages)
        if self.emits:
            return Emitter(self.query, self.schema, Segments(pages)), pages
        return Operator.open(self.query, self.schema, Segments(pages), idle=self.idle), pages


def _figures(operator: Operator | Emitter) -> IdleFigures:
    return operator.idle if isinstance(operator, Operator) else IdleFigures()
