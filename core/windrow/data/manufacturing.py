# SPDX-License-Identifier: Apache-2.0
"""Manufacturing equipment read 100 times a second, in the schema of the DEBS 2012 grand challenge. Synthetic.

What it matches: 66 fields (time, index, three energy meters ``mf``, six process values ``pc``, ``res``, and 54
binary sensors), 100 rows a second, whose meters follow the machine's cycle of work. (Jerzak et al., *The
DEBS 2012 Grand Challenge*, 2012; the data of the boundary aggregator's throughput experiments, 32 million
rows.) Levels, cycles and noise are invented.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from windrow.data.blocks import BATCH, Floats, Ints, chance, reader, timestamps

METERS = ("mf01", "mf02", "mf03")
VALUES = ("pc13", "pc14", "pc15", "pc25", "pc26", "pc27")
BINARY = (
    *(f"bm{number:02}" for number in range(5, 11)),
    *(f"pp{number:02}" for number in range(1, 37)),
    *(f"pc{number:02}" for number in (*range(1, 7), *range(19, 25))),
)
SCHEMA = pa.schema(
    [
        ("ts", pa.timestamp("us", "UTC")),
        ("index", pa.int64()),
        *((name, pa.int32()) for name in (*METERS, *VALUES, "res")),
        *((name, pa.bool_()) for name in BINARY),
    ]
)
START = 1_329_955_200_000_000  # 23 February 2012
STEP = 10_000  # microseconds: 100 Hz
ROWS = 32_390_519  # what three to four days come to
BLOCK = 1 << 15
CYCLE = 1_450  # rows of one piece of work: 14.5 s


def manufacturing(rows: int | None = None, seed: int = 0, *, batch_rows: int = BATCH) -> pa.RecordBatchReader:
    """Readings of one machine, in order of time; without ``rows`` about 32 million.

    >>> manufacturing(rows=3).read_all().select(["ts", "mf01"]).num_rows
    3
    """
    return reader(SCHEMA, _blocks(seed), rows, batch_rows)


def _blocks(seed: int) -> Iterator[pa.RecordBatch]:
    setup = chance(seed, 0)
    halves = setup.integers(40, 6 * CYCLE, size=len(BINARY))
    offsets = setup.integers(0, 2 * halves)
    for number, first in enumerate(range(0, ROWS, BLOCK)):
        draw = chance(seed, 1, number)
        index = np.arange(first, min(first + BLOCK, ROWS))
        rows = len(index)
        jitter = draw.integers(0, 900, size=rows, dtype=np.int32)
        columns = [timestamps(START + index * STEP + jitter), pa.array(index)]
        columns += [pa.array(each) for each in _readings(index, draw)]
        columns += [
            _switch(first, rows, int(half), int(shift)) for half, shift in zip(halves, offsets, strict=True)
        ]
        yield pa.RecordBatch.from_arrays(columns, schema=SCHEMA)


def _readings(index: Ints, draw: np.random.Generator) -> Iterator[Ints]:
    """Energy meters, process values and the reserved field, as whole numbers."""
    at = index % CYCLE
    hours = index / 360_000.0
    drift = 1.0 + 0.02 * np.sin(hours)
    # Heating, working in three strokes, idling.
    demand = np.where(at < 300, 0.55, np.where(at < 1150, 1.0 + 0.25 * np.sin(at / 45.0), 0.18)) * drift
    for level in (13_800, 14_600, 12_900):
        yield _whole(level * demand, 90.0, draw)
    for number, level in enumerate((8_100, 7_900, 8_300, 5_250, 5_400, 5_150)):
        yield _whole(level * (1.0 + 0.04 * demand) + 3.0 * number * hours, 12.0, draw)
    yield np.zeros(len(index), dtype=np.int32)


def _whole(level: Floats, spread: float, draw: np.random.Generator) -> Ints:
    noise = draw.standard_normal(len(level), dtype=np.float32)
    return np.maximum(level + spread * noise, 0.0).astype(np.int32)


def _switch(first: int, rows: int, half: int, shift: int) -> pa.Array:
    """A sensor that is off for ``half`` rows, then on for ``half`` rows, and so on, starting at ``shift``."""
    start = first + shift
    runs = np.arange(start // half, (start + rows) // half + 1, dtype=np.int64) & 1
    states = np.repeat(runs.astype(np.uint8), half)[start % half :][:rows]
    packed = np.packbits(states, bitorder="little")
    return pa.Array.from_buffers(pa.bool_(), rows, [None, pa.py_buffer(packed)])
