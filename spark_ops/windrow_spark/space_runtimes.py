# SPDX-License-Identifier: Apache-2.0
"""One runtime per space of pipelines, with its state in Spark's state store: what a stateful worker does with a space."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Row

from windrow.columns.ipc import from_ipc, to_ipc
from windrow.pipelines.engine import Settings, exported, feed
from windrow.pipelines.runtime import Runtime
from windrow.storage.segments import Segments
from windrow_spark.bucket_operators import StateValues
from windrow_spark.buckets import BucketVariables
from windrow_spark.sent_code import speak
from windrow_spark.worker_cache import WorkerCache, new_job

OUT = "rows binary, space string, emitted long, reported long"
ROUND = "bucket string, number long, rows binary, found binary, emitted long, reported long"
"""Between rounds: ``rows`` for a space of a later round, or what a space has ``found``."""

_KEPT: WorkerCache[tuple[Runtime, StateValues]] = WorkerCache()


class SpaceRuntimes:
    """Feeds the runtimes of spaces with updates, changes and watermarks."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.job = new_job()

    def step(self, space: str, state: BucketVariables, packed: list[bytes] | None, watermark: int) -> Row:
        found, emitted, _ = self.run(space, state, packed, watermark)
        return Row(rows=_packed(found), space=space, emitted=emitted, reported=found.num_rows - emitted)

    def run(
        self, space: str, state: BucketVariables, packed: list[bytes] | None, watermark: int
    ) -> tuple[pa.Table, int, dict[str, pa.Table]]:
        """What a space emits and reports, how many of these rows are updates, and what other spaces import, as rows."""
        speak()
        tables = [from_ipc(each) for each in packed or ()]
        rows = pa.concat_tables(tables, promote_options="default") if tables else None
        mark = state.mark.get()
        runtime, pages = self._runtime(space, state, None if mark is None else bytes(mark[0]))
        found = feed(runtime, rows, watermark * 1000 if watermark > 0 else None)
        sent = exported(runtime)
        runtime.commit()
        pages.detach()
        token = _KEPT.keep(self.job, space, (runtime, pages))
        wake = state.wake_at(runtime.wake, None if mark is None else mark[1], fired=packed is None)
        state.mark.update((token, wake, 0))
        return found, pc.sum(pc.equal(found.column("kind"), "update")).as_py() or 0, sent

    def _runtime(
        self, space: str, state: BucketVariables, token: bytes | None
    ) -> tuple[Runtime, StateValues]:
        known = _KEPT.take(self.job, space, token)
        if known is not None:
            known[1].attach(state.header, state.pages)
            return known
        pages = StateValues()
        pages.attach(state.header, state.pages)
        return self.settings.open(Segments(pages), space), pages


class RoundRuntimes(SpaceRuntimes):
    """The runtimes of one of several rounds."""

    def step(  # type: ignore[override]
        self, space: str, state: BucketVariables, packed: list[bytes] | None, watermark: int
    ) -> list[Row]:
        found, emitted, sent = self.run(space, state, packed, watermark)
        reported = found.num_rows - emitted
        out = Row(bucket=space, number=0, rows=None, found=_packed(found), emitted=emitted, reported=reported)
        later = [
            Row(bucket=other, number=0, rows=to_ipc(rows), found=None, emitted=0, reported=0)
            for other, rows in sent.items()
        ]
        return [out, *later]


def _packed(found: pa.Table) -> bytes | None:
    return to_ipc(found) if found.num_rows else None
