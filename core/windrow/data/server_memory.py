"""Memory in use on a server, once a second for two years. Synthetic.

What it matches: 62,208,000 readings (720 days), in KB, of a machine with 64 GB: the stream of the AMTA
experiments. Its shape is invented: a level that rises with a leak and falls at the weekly restart, the
rhythm of days and weekends, jobs that take and give back memory, and noise that fades over minutes.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from windrow.data.blocks import BATCH, chance, reader, timestamps

SCHEMA = pa.schema({"timestamp": pa.timestamp("us", "UTC"), "used_kb": pa.int64()})
START = 1_420_070_400  # 1 January 2015
ROWS = 62_208_000
TOTAL_KB = 64 * 1024 * 1024
BLOCK = 1 << 16
DAY, WEEK = 86_400, 7 * 86_400
FADING = 1.0 / 120.0  # how much of the wandering noise is lost each second


def server_memory(rows: int | None = None, seed: int = 0, *, batch_rows: int = BATCH) -> pa.RecordBatchReader:
    """Memory in use, in KB, in order of time; without ``rows`` two years.

    >>> server_memory(rows=2).read_all().column("timestamp").to_pylist()[1].isoformat()
    '2015-01-01T00:00:01+00:00'
    """
    return reader(SCHEMA, _blocks(seed), rows, batch_rows)


def _blocks(seed: int) -> Iterator[pa.RecordBatch]:
    wander = 0.0
    for number, first in enumerate(range(0, ROWS, BLOCK)):
        draw = chance(seed, 1, number)
        second = np.arange(first, min(first + BLOCK, ROWS))
        day = second % DAY
        week = second % WEEK
        used = 0.27 + 0.10 * (week / WEEK)  # since the restart
        used += 0.05 * np.sin((day / DAY - 0.3) * 2 * np.pi) * np.where(week < 5 * DAY, 1.0, 0.4)
        used += _jobs(seed, second)
        noise, wander = _wandering(draw, len(second), wander)
        used += noise
        kilobytes = np.clip(used * TOTAL_KB, 0.05 * TOTAL_KB, 0.98 * TOTAL_KB).astype(np.int64)
        yield pa.RecordBatch.from_arrays(
            [timestamps((START + second) * 1_000_000), pa.array(kilobytes)], schema=SCHEMA
        )


def _jobs(seed: int, second: np.ndarray) -> np.ndarray:
    """Every hour may have a job that takes some memory for a part of it; a few take a lot."""
    hour = second // 3600
    hours, place = np.unique(hour, return_inverse=True)
    drawn = np.array([chance(seed, 2, int(each)).random(4) for each in hours])
    size = np.where(drawn[:, 0] < 0.35, 0.02 + 0.06 * drawn[:, 1], 0.0) + np.where(
        drawn[:, 0] < 0.01, 0.25, 0.0
    )
    begin, length = 1800 * drawn[:, 2], 300 + 1500 * drawn[:, 3]
    at = second - hour * 3600 - begin[place]
    return np.where((at >= 0) & (at < length[place]), size[place], 0.0)


def _wandering(draw: np.random.Generator, rows: int, before: float) -> tuple[np.ndarray, float]:
    """Noise of which each second keeps the most: an autoregression, as a weighted running sum in pieces that
    the weights do not overflow."""
    shocks = draw.standard_normal(rows) * 0.0012
    keep = 1.0 - FADING
    piece = 4096
    weights = keep ** -np.arange(1.0, piece + 1)
    found = np.empty(rows)
    for start in range(0, rows, piece):
        part = shocks[start : start + piece]
        scale = weights[: len(part)]
        found[start : start + len(part)] = (before + np.cumsum(part * scale)) / scale
        before = float(found[start + len(part) - 1])
    return found, before
