# SPDX-License-Identifier: Apache-2.0
"""One runtime per space of pipelines, with its state in Spark's state store: what a stateful worker does with a space."""

from __future__ import annotations

import pyarrow as pa
from pyspark.sql import Row

from windrow.columns.ipc import from_ipc, to_ipc
from windrow.pipelines.engine import Settings, feed
from windrow.pipelines.runtime import Runtime
from windrow.storage.segments import Segments
from windrow_spark.bucket_operators import StateValues
from windrow_spark.buckets import BucketVariables
from windrow_spark.sent_code import speak
from windrow_spark.worker_cache import WorkerCache, new_job

OUT = "rows binary, space string, emitted long, reported long"

_KEPT: WorkerCache[tuple[Runtime, StateValues]] = WorkerCache()


class SpaceRuntimes:
    """Feeds the runtimes of spaces with updates, changes and watermarks."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.job = new_job()

    def step(self, space: str, state: BucketVariables, packed: list[bytes] | None, watermark: int) -> Row:
        speak()
        rows = None if packed is None else pa.concat_tables([from_ipc(each) for each in packed])
        mark = state.mark.get()
        runtime, pages = self._runtime(space, state, None if mark is None else bytes(mark[0]))
        found = feed(runtime, rows, watermark * 1000 if watermark > 0 else None)
        runtime.commit()
        pages.detach()
        token = _KEPT.keep(self.job, space, (runtime, pages))
        wake = state.wake_at(runtime.wake, None if mark is None else mark[1], fired=rows is None)
        state.mark.update((token, wake, 0))
        emitted = sum(kind == "update" for kind in found.column("kind").to_pylist())
        return Row(
            rows=to_ipc(found) if found.num_rows else None,
            space=space,
            emitted=emitted,
            reported=found.num_rows - emitted,
        )

    def _runtime(
        self, space: str, state: BucketVariables, token: bytes | None
    ) -> tuple[Runtime, StateValues]:
        known = _KEPT.take(self.job, space, token)
        if known is not None:
            known[1].attach(state.header, state.pages)
            return known
        pages = StateValues()
        pages.attach(state.header, state.pages)
        return self.settings.open(Segments(pages)), pages
