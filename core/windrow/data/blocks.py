# SPDX-License-Identifier: Apache-2.0
"""How every generator works: numbered blocks of rows, cut into record batches.

A block depends on the seed, on its number, and on the end of the block before it. It does not depend on the size
of the batches, so the rows are the same however they are cut. One block is in memory at a time.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from windrow.errors import GeneratorError

__all__ = ["BATCH", "Floats", "Ints", "chance", "positive", "reader", "timestamps"]

BATCH = 1 << 16
"""The default number of rows in a record batch."""

Floats = NDArray[np.floating[Any]]
Ints = NDArray[np.integer[Any]]


def reader(
    schema: pa.Schema, blocks: Iterator[pa.RecordBatch], rows: int | None, batch_rows: int
) -> pa.RecordBatchReader:
    """The first ``rows`` rows of the blocks (all of them with ``None``), in batches of at most ``batch_rows``."""
    if rows is not None and (not isinstance(rows, int) or rows < 0):
        raise GeneratorError(f"rows has to be a whole number of at least 0, or None, not {rows!r}")
    positive("batch_rows", batch_rows)

    def batches() -> Iterator[pa.RecordBatch]:
        left = rows
        for block in blocks:
            if left is not None and block.num_rows > left:
                block = block.slice(0, left)
            for start in range(0, block.num_rows, batch_rows):
                yield block.slice(start, batch_rows)
            if left is not None:
                left -= block.num_rows
                if left == 0:
                    return

    return pa.RecordBatchReader.from_batches(schema, batches() if rows != 0 else iter(()))


def chance(seed: int, *place: int) -> np.random.Generator:
    """A random generator for one place, such as the number of a block. The same seed and place give the same numbers."""
    if not isinstance(seed, int) or seed < 0:
        raise GeneratorError(f"seed has to be a whole number of at least 0, not {seed!r}")
    return np.random.Generator(np.random.SFC64([seed, *place]))


def positive(name: str, value: int) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise GeneratorError(f"{name} has to be a whole number of at least 1, not {value!r}")
    return value


def timestamps(microseconds: Ints) -> pa.Array:
    """Microseconds since the epoch as an Arrow column of times in UTC, without a copy."""
    whole = np.ascontiguousarray(microseconds, dtype=np.int64)
    return pa.Array.from_buffers(pa.timestamp("us", "UTC"), len(whole), [None, pa.py_buffer(whole)])
