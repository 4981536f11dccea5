"""What runs inside Flink's workers: the pace of steps, their times, their rows, and names for results."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyflink.common import Row
from pyflink.common.watermark_strategy import TimestampAssigner
from pyflink.datastream import FlatMapFunction, MapFunction
from pyflink.datastream.connectors.base import Source
from pyflink.java_gateway import get_gateway

from windrow import Query
from windrow_flink import pack
from windrow_flink.function import rows_out


def slow_numbers(count: int, per_second: float) -> Source:
    """A source of the numbers from 0 on, so many a second. Their type is Flink's INT."""
    gateway = get_gateway()
    flink = gateway.jvm.org.apache.flink
    numbers = gateway.new_array(gateway.jvm.Object, count)
    for number in range(count):
        numbers[number] = number
    whole = flink.api.common.typeinfo.Types.INT
    made = flink.connector.datagen.functions.FromElementsGeneratorFunction(whole, numbers)
    pace = flink.api.connector.source.util.ratelimit.RateLimiterStrategy.perSecond(per_second)
    return Source(flink.connector.datagen.source.DataGeneratorSource(made, count, pace, whole))


class Pace(MapFunction):  # type: ignore[misc]
    """Step numbers, each after what came before has gone its way. The restart in the middle is a failure, once."""

    def __init__(self, kinds: list[str], pause: float, done: Path) -> None:
        restarts = [number for number, kind in enumerate(kinds) if kind == "restart"]
        self.kinds, self.pause, self.done = kinds, pause, str(done)
        self.fails = restarts[len(restarts) // 2] if restarts else -1

    def map(self, number: int) -> int:
        if self.kinds[number] == "breath" or (number and self.kinds[number - 1] != "rows"):
            time.sleep(self.pause * busy())
        if number == self.fails and not Path(self.done).exists():
            Path(self.done).touch()
            raise RuntimeError(f"a restart, as step {number} of the case says")
        return number


def busy() -> float:
    """How many times longer everything takes on this machine now than if it had nothing else to do."""
    return max(1.0, min(20.0, os.getloadavg()[0] / (os.cpu_count() or 1)))


class StepTime(TimestampAssigner):  # type: ignore[misc]
    """The time of each step: that of a watermark, or long ago."""

    def __init__(self, times: list[int]) -> None:
        self.times = times

    def extract_timestamp(self, value: int, record_timestamp: int) -> int:
        return self.times[value]


class Rows(FlatMapFunction):  # type: ignore[misc]
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


class Named:
    """A result with the name of its case."""

    def __init__(self, case: str, what: str) -> None:
        self.case, self.what = case, what

    def __call__(self, value: Any) -> tuple[str, str, list[Any]]:
        return self.case, self.what, [_plain(each) for each in value]


def _plain(value: Any) -> Any:
    if isinstance(value, Row):
        return value.as_dict()
    return list(value) if isinstance(value, Sequence) and not isinstance(value, str | bytes) else value
