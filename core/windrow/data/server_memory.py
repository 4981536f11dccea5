# SPDX-License-Identifier: Apache-2.0
"""Memory in use on a server, once a second for two years. Synthetic.

What it matches: 62,208,000 readings (720 days), in KB, of a machine with 64 GB: the stream of the AMTA
experiments. Its shape is invented: a level that rises with a leak and falls at the weekly restart, the
rhythm of days and weekends, jobs that take and give back memory, and noise that fades over minutes.

With ``regimes`` it is harder to predict: the level of use changes after days or weeks, the machine is nearly idle for two
months, some nights nothing changes at all, readings are whole megabytes, use grows over the two years, and now and
then it reaches all 64 GB.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from windrow.data.blocks import BATCH, chance, reader, timestamps
from windrow.errors import GeneratorError

SCHEMA = pa.schema({"timestamp": pa.timestamp("us", "UTC"), "used_kb": pa.int64()})
START = 1_420_070_400  # 1 January 2015
ROWS = 62_208_000
TOTAL_KB = 64 * 1024 * 1024
BLOCK = 1 << 16
DAY, WEEK = 86_400, 7 * 86_400
COLLAPSE = 400 * DAY  # when the machine is idle for 60 days
FADING = 1.0 / 120.0  # how much of the wandering noise is lost each second


def server_memory(
    rows: int | None = None, seed: int = 0, *, regimes: bool = False, batch_rows: int = BATCH
) -> pa.RecordBatchReader:
    """Memory in use, in KB, in order of time; without ``rows`` two years. ``regimes`` lets its level change.

    >>> server_memory(rows=2).read_all().column("timestamp").to_pylist()[1].isoformat()
    '2015-01-01T00:00:01+00:00'
    >>> server_memory(rows=1, regimes=True).read_all().column("used_kb")[0].as_py() % 1024
    0
    """
    if not isinstance(regimes, bool):
        raise GeneratorError(f"regimes has to be True or False, not {regimes!r}")
    return reader(SCHEMA, _blocks(seed, regimes), rows, batch_rows)


def _blocks(seed: int, regimes: bool) -> Iterator[pa.RecordBatch]:
    wander = 0.0
    schedule = _schedule(seed) if regimes else None
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
        if schedule is None:
            kilobytes = np.clip(used * TOTAL_KB, 0.05 * TOTAL_KB, 0.98 * TOTAL_KB).astype(np.int64)
        else:
            kilobytes = _in_regimes(used, second, seed, *schedule)
        yield pa.RecordBatch.from_arrays(
            [timestamps((START + second) * 1_000_000), pa.array(kilobytes)], schema=SCHEMA
        )


def _schedule(seed: int) -> tuple[np.ndarray, np.ndarray]:
    """When the level changes, every 3 to 30 days, and the factor from then on."""
    draw = chance(seed, 3)
    lengths = draw.uniform(3 * DAY, 30 * DAY, ROWS // (3 * DAY) + 1)
    begins = np.append(0, np.cumsum(lengths)[:-1]).astype(np.int64)
    return begins, np.exp(0.32 * draw.standard_normal(len(begins)))


def _in_regimes(
    used: np.ndarray, second: np.ndarray, seed: int, begins: np.ndarray, factors: np.ndarray
) -> np.ndarray:
    """Kilobytes in use, of a machine whose use changes for good every now and then."""
    level = factors[np.searchsorted(begins, second, side="right") - 1]
    level = level * (0.85 + 0.3 * second / ROWS)
    level = np.where((second >= COLLAPSE) & (second < COLLAPSE + 60 * DAY), 0.1 * level, level)
    day = second // DAY
    days, place = np.unique(day, return_inverse=True)
    idle = np.array([chance(seed, 4, int(each)).random() < 0.2 for each in days])[place]
    still = idle & (second % DAY >= 2 * 3600) & (second % DAY < 5 * 3600)
    used = np.where(still, 0.3, used) * np.where(still, factors[day % len(factors)], level)
    megabytes = np.clip(used * TOTAL_KB, 0.0, TOTAL_KB).astype(np.int64) // 1024
    return megabytes * 1024


def _jobs(seed: int, second: np.ndarray) -> np.ndarray:
    """Memory of hourly jobs. Some hours have a job that takes memory for a part of the hour; a few take a lot."""
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
    """Autoregressive noise, as a weighted running sum. It is computed in pieces so that the weights do not overflow."""
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
