# SPDX-License-Identifier: Apache-2.0
"""What runs inside Flink's workers: the pace of steps, their times, their rows, and names for results."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyflink.common import Row
from pyflink.common.watermark_strategy import TimestampAssigner
from pyflink.datastream import FlatMapFunction, KeyedProcessFunction, MapFunction
from pyflink.datastream.connectors.base import Source
from pyflink.java_gateway import get_gateway

from windrow import Query
from windrow_flink import pack
from windrow_flink.function import rows_out

NEVER = -(1 << 60)
"""The time, in milliseconds, of a step that must not move the watermark."""
FAR = 2_500_000_000_000
PATIENCE = 60
POLL = 0.02


def checkpointed_numbers(count: int, per_checkpoint: int) -> Source:
    """A source of the numbers from 0 on, so many from one checkpoint to the next. Their type is Flink's INT."""
    gateway = get_gateway()
    flink = gateway.jvm.org.apache.flink
    numbers = gateway.new_array(gateway.jvm.Object, count)
    for number in range(count):
        numbers[number] = number
    whole = flink.api.common.typeinfo.Types.INT
    made = flink.connector.datagen.functions.FromElementsGeneratorFunction(whole, numbers)
    pace = flink.api.connector.source.util.ratelimit.RateLimiterStrategy.perCheckpoint(per_checkpoint)
    return Source(flink.connector.datagen.source.DataGeneratorSource(made, count, pace, whole))


class Pace(MapFunction):  # type: ignore[misc]
    """Step numbers, each sent after the watermarks before it have passed the windows; and the failure of the job.

    ``acknowledged`` is where :class:`Acknowledge` tells of watermarks, ``failure`` is shared by all cases of the job. The first
    case that comes to step ``fails`` fails, and with it the job.
    """

    def __init__(self, times: list[int], fails: int, acknowledged: Path, failure: JobFailure) -> None:
        self.times, self.fails, self.acknowledged, self.failure = times, fails, acknowledged, failure

    def open(self, runtime_context: Any) -> None:
        for told in self.acknowledged.iterdir():  # before a failure
            told.unlink()
        self.told, self.restarted = NEVER, self.failure.failed.exists()

    def map(self, number: int) -> int:
        self._wait_for(self.told)
        if number == self.fails:
            self.failure.happen()
        self.told = max(self.told, self.times[number])
        return number

    def _wait_for(self, told: int) -> None:
        last = time.monotonic() + PATIENCE
        while told > NEVER and not (self.acknowledged / str(told)).exists():
            if self.failure.failed.exists() and not self.restarted:
                return  # the job is being stopped
            if time.monotonic() > last:
                raise TimeoutError(f"the watermark {told} has not come through in {PATIENCE} seconds")
            time.sleep(POLL)


class Acknowledge(KeyedProcessFunction):  # type: ignore[misc]
    """Passes results on, and tells when the watermark of a step has come through all that made them."""

    def __init__(self, times: list[int], acknowledged: Path) -> None:
        self.times, self.acknowledged = times, acknowledged

    def process_element(self, value: Any, context: Any) -> Iterator[Any]:
        if not isinstance(value, int):
            yield value
        elif self.times[value] > NEVER:
            due, clock = self.times[value] - 1, context.timer_service()
            if clock.current_watermark() >= due:  # Flink would wait for the next one
                self._tell(due)
            else:
                clock.register_event_time_timer(due)

    def on_timer(self, timestamp: int, context: Any) -> Iterator[Any]:
        self._tell(timestamp)
        yield from ()

    def _tell(self, reached: int) -> None:
        (self.acknowledged / str(reached + 1)).touch()


class JobFailure:
    """The one failure of a job."""

    def __init__(self, folder: Path) -> None:
        self.failed = folder / "failed"

    def happen(self) -> None:
        if not self.failed.exists():
            self.failed.touch()
            raise RuntimeError("a restart, as a step of the case says")


class StepTime(TimestampAssigner):  # type: ignore[misc]
    """The time of each step: that of a watermark, or long ago."""

    def __init__(self, times: list[int]) -> None:
        self.times = times

    def extract_timestamp(self, value: int, record_timestamp: int) -> int:
        return self.times[value]


class StepRows(FlatMapFunction):  # type: ignore[misc]
    """The rows of each step, one by one, or packed for a query."""

    def __init__(self, tables: list[pa.Table | None], query: Query | None) -> None:
        self.tables, self.query = tables, query

    def flat_map(self, number: int) -> Iterator[Any]:
        table = self.tables[number]
        if table is None or not table.num_rows:
            return
        if self.query is not None:
            yield from pack(table, self.query)
        else:
            yield from rows_out(table, True)


class LabelResult:
    """Results with the name of their case."""

    def __init__(self, case: str, what: str) -> None:
        self.case, self.what = case, what

    def __call__(self, value: Any) -> tuple[str, str, list[Any]]:
        return self.case, self.what, [_plain(each) for each in value]


def _plain(value: Any) -> Any:
    if isinstance(value, Row):
        return value.as_dict()
    return list(value) if isinstance(value, Sequence) and not isinstance(value, str | bytes) else value
