"""How long do windows wait, and what does it cost? ``python -m benchmarks.flink.latency``

For each of the settings in ``docs/flink.md`` in thread mode: how long after its end a window of 100 ms is there, at 1,000 rows a
second that carry the time of day; and how many rows per second a job takes that gets them as fast as it can, without its start. In
process mode the Python function that makes these rows would itself wait for its bundles, which would be measured too.
"""

from __future__ import annotations

import argparse
import csv
import time
from pathlib import Path
from typing import Any

import numpy as np
from pyflink.common import Row, Types, WatermarkStrategy
from pyflink.datastream import MapFunction
from pyflink.datastream.connectors.number_seq import NumberSequenceSource

import windrow as wr
from benchmarks.flink import contenders as run
from benchmarks.flink.data import Rows
from windrow_flink import environment, windowed

OUT = Path(__file__).parent.parent / "results" / "flink"
WATERMARKS, BUFFERS = "pipeline.auto-watermark-interval", "execution.buffer-timeout.interval"
SETTINGS: dict[str, dict[str, str]] = {
    "defaults": {},
    "1 s": {WATERMARKS: "1 s"},
    "20 ms": {WATERMARKS: "20 ms"},
    "20 ms, buffers 5 ms": {WATERMARKS: "20 ms", BUFFERS: "5 ms"},
    "2 ms, buffers 1 ms": {WATERMARKS: "2 ms", BUFFERS: "1 ms"},
}
PER_SECOND = 1000
START = 3.0
"""The first seconds of a job do not count."""


class Clock(MapFunction):  # type: ignore[misc]
    """A row every millisecond, with the time at which it is made."""

    def open(self, context: Any) -> None:
        self.begun = time.time()

    def map(self, number: int) -> Row:
        time.sleep(max(0.0, self.begun + number / PER_SECOND - time.time()))
        return Row(number % 16, int(time.time() * 1e6), number)


class Delay(MapFunction):  # type: ignore[misc]
    """When the window ended, and how many milliseconds ago that was."""

    def map(self, window: Row) -> tuple[int, float]:
        return window[2], time.time() * 1e3 - window[2] / 1e3


def delays(settings: dict[str, str], seconds: float) -> np.ndarray[Any, Any]:
    """How many milliseconds after its end each window came out."""
    flink = environment(mode="thread", settings=settings)
    numbers = flink.from_source(
        NumberSequenceSource(0, int(seconds * PER_SECOND)),
        WatermarkStrategy.no_watermarks(),
        "numbers",
        Types.LONG(),
    )
    rows = numbers.map(Clock(), output_type=run.ROW)
    query = wr.Query(by="k", window=wr.TimeWindow("100ms"), aggregates={"peak": wr.Max("v")})
    found = windowed(rows, query, disorder=0).map(
        Delay(), output_type=Types.TUPLE([Types.LONG(), Types.DOUBLE()])
    )
    with found.execute_and_collect() as results:
        ends, waited = np.array(list(results)).T
    # The first windows waited for the job's start; the last ones were ended by its end.
    return waited[(ends > ends.min() + START * 1e6) & (ends < ends.max() - 1e6)]


def rate(settings: dict[str, str], rows: int) -> float:
    """Rows per second of a job that gets them as fast as it can; the time of few rows is taken off."""
    few, many = Rows(rows // 8, 16, 10_000), Rows(rows, 16, 10_000)
    start, taken = (run.gathered(each, run.query(10, 1), 1, "thread", settings) for each in (few, many))
    return (many.count - few.count) / (taken - start)


def main() -> None:
    parse = argparse.ArgumentParser(prog="python -m benchmarks.flink.latency", description=__doc__)
    parse.add_argument("--seconds", type=float, default=10.0)
    parse.add_argument("--rows", type=int, default=12_000_000)
    parse.add_argument("--out", type=Path, default=OUT)
    asked = parse.parse_args()
    asked.out.mkdir(parents=True, exist_ok=True)
    run.gathered(Rows(200_000, 16, 10_000), run.query(10, 1))  # compiles, and warms the JVM up
    with open(asked.out / "latency.csv", "w", newline="") as out:
        writer = csv.writer(out)
        writer.writerow(["settings", "delay_ms_median", "delay_ms_99_percent", "rows_per_second"])
        for name, settings in SETTINGS.items():
            waited = delays(settings, START + asked.seconds)
            median, worst = np.percentile(waited, [50, 99])
            found = [name, round(median), round(worst), round(rate(settings, asked.rows))]
            writer.writerow(found)
            out.flush()
            print(*found, flush=True)


if __name__ == "__main__":
    main()
