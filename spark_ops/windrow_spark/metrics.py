# SPDX-License-Identifier: Apache-2.0
"""Figures of streams, for each micro-batch: windows, late rows, pages and bytes of state, time to compile.

>>> listener = Metrics()
>>> spark.streams.addListener(listener)                                             # doctest: +SKIP
>>> listener.totals()
{'windows': 0, 'late_rows': 0, 'pages_written': 0, 'bytes_written': 0}
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from pyspark.sql.streaming import StreamingQueryListener

from windrow.columns.times import instant
from windrow_spark.starts import METRICS


@dataclass(frozen=True)
class Measured:
    """One micro-batch of one stream."""

    stream: str
    batch: int
    rows: int
    windows: int
    late_rows: int
    pages_written: int
    bytes_written: int
    """What the operators wrote to the state store: new slices, not whole windows."""
    compile_seconds: float
    """The seconds that all workers spent compiling; only new workers compile."""
    state_rows: int
    state_bytes: int
    seconds: float
    watermark: int | None = None
    """The watermark of the micro-batch, in microseconds since 1970; ``None`` before there is one."""
    cold_keys: int = 0
    """Keys whose windows are frozen, in the buckets that had rows or windows in this micro-batch."""
    freezes: int = 0
    thaws: int = 0

    def __str__(self) -> str:
        return (
            f"batch {self.batch}: {self.rows:,} rows → {self.windows:,} windows, {self.late_rows:,} late, "
            f"{self.pages_written:,} pages ({self.bytes_written:,} bytes) of state written, {self.seconds:.1f} s"
            + (f", of which workers compiled {self.compile_seconds:.1f} s" if self.compile_seconds else "")
        )


class Metrics(StreamingQueryListener):
    """Collects the figures of each micro-batch. ``tell`` is called with each; ``print`` as ``tell`` shows a line."""

    def __init__(self, tell: Callable[[Measured], None] | None = None) -> None:
        self.batches: list[Measured] = []
        self.tell = tell

    def totals(self) -> dict[str, int]:
        names = ("windows", "late_rows", "pages_written", "bytes_written")
        return {name: sum(getattr(batch, name) for batch in self.batches) for name in names}

    def onQueryStarted(self, event: Any) -> None:
        pass

    def onQueryProgress(self, event: Any) -> None:
        progress = event.progress
        for name, found in (progress.observedMetrics or {}).items():
            if name.startswith(METRICS):
                operators = progress.stateOperators
                measured = Measured(
                    stream=progress.name or str(progress.id),
                    batch=progress.batchId,
                    rows=progress.numInputRows,
                    windows=found["windows"] or 0,
                    late_rows=found["late_rows"] or 0,
                    pages_written=found["pages_written"] or 0,
                    bytes_written=found["bytes_written"] or 0,
                    compile_seconds=found["compile_seconds"] or 0.0,
                    state_rows=sum(each.numRowsTotal for each in operators),
                    state_bytes=sum(each.memoryUsedBytes for each in operators),
                    seconds=progress.durationMs.get("triggerExecution", 0) / 1000,
                    watermark=_micros((progress.eventTime or {}).get("watermark")),
                    cold_keys=found["cold_keys"] or 0,
                    freezes=found["freezes"] or 0,
                    thaws=found["thaws"] or 0,
                )
                self.batches.append(measured)
                if self.tell is not None:
                    self.tell(measured)

    def onQueryIdle(self, event: Any) -> None:
        pass

    def onQueryTerminated(self, event: Any) -> None:
        pass


def _micros(watermark: str | None) -> int | None:
    """Spark's watermark, a text in UTC. Before the first one, it is 1970."""
    found = 0 if watermark is None else instant(datetime.fromisoformat(watermark))
    return found or None
