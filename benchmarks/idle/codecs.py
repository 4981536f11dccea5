"""Codecs and levels: how small cold blocks become, and what that costs, for three kinds of state.

``rows`` and ``stops`` are those of Linear Road, ``floats`` are the maximum, mean and variance of numbers with one decimal
place, in windows of an hour that slide by a minute. D is 60 s. Processor time is that of the whole run relative to no
codec, of runs that alternate in one process.
"""

from __future__ import annotations

from collections.abc import Iterator
from statistics import median
from time import process_time
from typing import Any

import numpy as np
import pyarrow as pa

import windrow as wr
from benchmarks.idle import limits, linear_road
from benchmarks.idle.linear_road import SECOND

CODECS: tuple[tuple[str, int | None], ...] = (
    ("none", None),
    ("snappy", None),
    ("lz4", None),
    ("zstd", 1),
    ("zstd", 3),
    ("zstd", 9),
    ("pcodec", 4),
    ("pcodec", 8),
)
FLOATS = wr.Query(
    by="key",
    time="ts",
    window=wr.TimeWindow("1h", "1m"),
    aggregates={"peak": wr.Max("load"), "mean": wr.Mean("load"), "spread": wr.Var("load")},
)


def compared(rows: int, rounds: int) -> Iterator[dict[str, Any]]:
    """A line for each state, codec and level."""
    road = linear_road.seconds(rows, 1)
    states: dict[str, tuple[wr.Query, str, list[pa.Table]]] = {
        "rows": (linear_road.query("rows"), "time", road),
        "stops": (linear_road.query("stops"), "time", road),
        "floats": (FLOATS, "ts", decimals(rows // 100)),
    }
    for state, (query, time, batches) in states.items():
        took: dict[Any, list[float]] = {each: [] for each in CODECS}
        figures: dict[Any, wr.IdleFigures] = {}
        for number in range(rounds + 1):
            for codec, level in CODECS:
                idle = wr.Idle("60s", codec=codec, level=level)
                seconds, figures[codec, level] = run(query, batches, time, idle)
                took[codec, level] += [seconds] if number else []  # the first round loads kernels
        for (codec, level), each in took.items():
            ratios = [a / b for a, b in zip(each, took["none", None], strict=True)]
            yield {
                "state": state,
                "codec": codec,
                "level": "" if level is None else level,
                "cold_keys": figures[codec, level].cold_keys,
                "cold_mb": round(figures[codec, level].cold_bytes / 1e6, 3),
                "bytes_per_key": round(figures[codec, level].cold_bytes / figures[codec, level].cold_keys, 1),
                "cpu_ratio": round(median(ratios), 3),
                "cpu_spread": f"{min(ratios):.2f}–{max(ratios):.2f}",
                "rounds": rounds,
            }


def decimals(keys: int) -> list[pa.Table]:
    """As the floats of :mod:`benchmarks.idle.limits`, with one decimal place."""
    rounded = []
    for batch in limits.floats(keys):
        load = np.round(20 + 5 * batch["load"].to_numpy(), 1)
        rounded.append(batch.set_column(2, "load", pa.array(load)))
    return rounded


def run(query: wr.Query, batches: list[pa.Table], time: str, idle: Any) -> tuple[float, wr.IdleFigures]:
    """The processor time of a run, and what is frozen at its end."""
    operator = wr.Operator(query, batches[0].schema, idle=idle)
    began = process_time()
    for batch in batches:
        operator.process(batch)
        operator.advance(batch[time].cast(pa.int64())[-1].as_py())
    took = process_time() - began
    operator.advance(batches[-1][time].cast(pa.int64())[-1].as_py() + 61 * SECOND)
    return took, operator.idle
