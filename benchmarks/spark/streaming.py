"""Streaming: rows a second of whole micro-batches, and state, against the ways that Spark has of its own.

All contenders of a case read the same files, a micro-batch each. Where one would not end, all get fewer rows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import windrow as wr
from benchmarks.spark.contenders import NATIVE, START, TWO_STEP
from benchmarks.spark.measure import OURS, Line
from windrow_spark import windowed

BATCHES, ROUNDS = 6, 2
IDENTITY = "mapInArrow identity"
ROWS = "plug long, ts timestamp, load double"
Windows = Callable[[DataFrame], DataFrame]


class Stream:
    """A folder of files, one for each micro-batch."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self.spark, self.folder = spark, folder
        self.rows = 0
        self.runs = 0

    def add(self, rows: int, keys: int, gap: int) -> None:
        """A file of so many rows of keys in turn, each ``gap`` microseconds after the last."""
        self.spark.sql(
            f"""select id % {keys} as plug, timestamp_micros({START} + id * {gap}) as ts,
                       cast((id * 7919) % 100003 as double) / 8 as load
                from range({self.rows}, {self.rows + rows}, 1, 1)"""
        ).write.mode("append").option("maxRecordsPerFile", 0).parquet(str(self.folder / "rows"))
        self.rows += rows

    def read(self) -> DataFrame:
        reader = self.spark.readStream.schema(ROWS).option("maxFilesPerTrigger", 1)
        return reader.parquet(str(self.folder / "rows")).withWatermark("ts", "0 seconds")

    def run(self, windows: Windows) -> list[dict[str, Any]]:
        """The progress of every micro-batch with rows, with a new checkpoint."""
        self.runs += 1
        query = (
            windows(self.read())
            .writeStream.format("noop")
            .option("checkpointLocation", self.checkpoint())
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
        return [progress for progress in query.recentProgress if progress["numInputRows"]]

    def checkpoint(self) -> str:
        """The checkpoint of the last run."""
        return str(self.folder / f"checkpoint-{self.runs}")


def peak(range: int) -> wr.Query:
    return wr.Query("plug", window=wr.TimeWindow(f"{range}s", "1s"), aggregates={"peak": wr.Max("load")})


def ours(range: int, **options: Any) -> Windows:
    return lambda frame: windowed(frame, peak(range), **options)


def native(range: int, slide: int = 1) -> Windows:
    return lambda frame: frame.groupBy("plug", F.window("ts", f"{range} seconds", f"{slide} seconds")).agg(
        F.max("load")
    )


def two_step(range: int) -> Windows:
    """A tumbling aggregation, and a sliding one over its results, in one query."""

    def windows(frame: DataFrame) -> DataFrame:
        slices = frame.groupBy("plug", F.window("ts", "1 second")).agg(F.max("load").alias("load"))
        sliding = F.window(F.window_time("window"), f"{range} seconds", "1 second")
        return slices.groupBy("plug", sliding).agg(F.max("load"))

    return windows


def identity(frame: DataFrame) -> DataFrame:
    return frame.mapInArrow(lambda batches: batches, ROWS)


@dataclass(frozen=True)
class Case:
    """One stream, and what its contenders make of it."""

    name: str
    rows: int
    keys: int
    gap: int
    contenders: Mapping[str, Windows]
    required: Mapping[str, float]


def cases(rows: int) -> list[Case]:
    """``rows`` are those of a micro-batch of the larger streams."""
    three = {OURS: ours(1000), NATIVE: native(1000), TWO_STEP: two_step(1000)}
    return [
        Case("stream, range/slide 1000, dense, 10 keys", rows, 10, 1000, {OURS: ours(1000), TWO_STEP: two_step(1000)}, {}),
        Case("stream, range/slide 1000, sparse, small batches", max(rows // 1000, 200), 10, 200_000, three, {}),
        Case("stream, 10 keys, to and from Python", rows, 10, 1000, {OURS: ours(1000), IDENTITY: identity}, {IDENTITY: 0.4}),
        Case("stream, 10,000 keys, to and from Python", rows, 10_000, 1000, {OURS: ours(1000), IDENTITY: identity}, {}),
    ]  # fmt: skip


def measured(spark: SparkSession, case: Case, folder: Path) -> list[Line]:
    """A line for each peer, and one for the rows of state that each has."""
    stream = Stream(spark, folder / case.name.replace(" ", "-").replace("/", "-"))
    for _ in range(BATCHES):
        stream.add(case.rows, case.keys, case.gap)
    runs: dict[str, list[list[dict[str, Any]]]] = {name: [] for name in case.contenders}
    for _ in range(ROUNDS):
        for name, windows in case.contenders.items():
            runs[name].append(stream.run(windows))
    rates = {name: max(map(_rows_per_second, each)) for name, each in runs.items()}
    lines = [_line(case, peer, rates[OURS], rate) for peer, rate in rates.items() if peer != OURS]
    if NATIVE in runs:
        held = {name: max(map(_state_rows, each)) for name, each in runs.items()}
        lines.append(
            _line(
                case,
                f"{NATIVE}, input rows per row of state",
                *(stream.rows / held[name] for name in (OURS, NATIVE)),
            )
        )
    return lines


def _line(case: Case, peer: str, rate: float, other: float) -> Line:
    required = case.required.get(peer, "")
    reached = "" if required == "" else rate / other >= float(required)
    return Line(case.name, case.rows, int(rate), peer, int(other), round(rate / other, 3), required, reached)


def _rows_per_second(progress: list[dict[str, Any]]) -> float:
    """Of the later micro-batches: the first ones start workers and compile."""
    return median(
        each["numInputRows"] * 1000 / each["durationMs"]["triggerExecution"] for each in progress[2:]
    )


def _state_rows(progress: list[dict[str, Any]]) -> float:
    return float(max(sum(each["numRowsTotal"] for each in one["stateOperators"]) for one in progress))
