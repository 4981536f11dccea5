# SPDX-License-Identifier: Apache-2.0
"""One runtime per space of pipelines, with its state in Spark's state store: what a stateful worker does with a space."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Row

from windrow.columns.ipc import from_ipc, to_ipc
from windrow.pipelines.engine import OUTPUT, Settings, exported, feed
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
    """Feeds the runtimes of spaces with updates, changes and watermarks.

    ``wanted`` are the columns that are asked for. Without the kind of rows among them, reports are only counted.
    """

    def __init__(self, settings: Settings, wanted: Sequence[str]) -> None:
        self.settings = settings
        self.wanted = [name for name in OUTPUT.names if name in wanted]
        self.job = new_job()

    def step(self, space: str, state: BucketVariables, packed: list[bytes] | None, watermark: int) -> Row:
        found, emitted, reported, _ = self.run(space, state, packed, watermark)
        return Row(rows=found, space=space, emitted=emitted, reported=reported)

    def run(
        self, space: str, state: BucketVariables, packed: list[bytes] | None, watermark: int
    ) -> tuple[bytes | None, int, int, dict[str, pa.Table]]:
        """What a space emits, packed, how many updates and reports there are, and what other spaces import, as rows."""
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
        updates = pc.equal(found.column("kind"), "update")
        emitted = pc.sum(updates).as_py() or 0
        shown = found if "kind" in self.wanted or emitted == len(found) else found.filter(updates)
        rows_out = to_ipc(shown.select(self.wanted)) if len(shown) else None
        return rows_out, emitted, len(found) - emitted, sent

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

    def step(
        self, space: str, state: BucketVariables, packed: list[bytes] | None, watermark: int
    ) -> list[Row]:
        found, emitted, reported, sent = self.run(space, state, packed, watermark)
        out = Row(bucket=space, number=0, rows=None, found=found, emitted=emitted, reported=reported)
        later = [
            Row(bucket=other, number=0, rows=to_ipc(rows), found=None, emitted=0, reported=0)
            for other, rows in sent.items()
        ]
        return [out, *later]
