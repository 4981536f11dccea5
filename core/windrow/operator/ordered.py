# SPDX-License-Identifier: Apache-2.0
"""Rows that wait until they are in order: the strategy of ``late="drop"`` and ``late="side"`` where order matters."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from windrow.kernels.slices.layout import FOREVER
from windrow.operator.buffer import Batch
from windrow.operator.forgetting import Forgetting
from windrow.operator.late import LateRows
from windrow.operator.parts import Parts
from windrow.operator.plan import Ints

PIECE = 1 << 18
"""So many rows are taken at a time: what is in work stays in reach of the caches."""
SPANS = 4
"""A piece has at least so many times the rows that windows need, because it reads those of its first window anew."""


class WaitInOrder(LateRows):
    """Rows wait in the buffer until they are ``lateness`` behind the watermark. Then they are taken in their order."""

    def __init__(self, parts: Parts) -> None:
        self.parts, self.behind = parts, parts.bound.query.lateness
        after = parts.bound.query.forget_after
        self.forgetting = None if after is None else Forgetting(parts.table, after)

    def accept(self, rows: pa.Table, times: Ints) -> pa.Table:
        self.parts.wait(rows, times)
        return self.parts.output.empty

    def accept_partials(self, partials: pa.Table, times: Ints) -> pa.Table:
        return self.parts.accept_partials(partials, times)

    def advance(self, watermark: int) -> pa.Table:
        reached = watermark - self.behind if watermark < FOREVER else FOREVER
        batch = self.parts.buffer.settle(reached)
        if self.forgetting is not None:
            return self.forgetting.advance(self.parts, batch, reached)
        found = []
        for rows, until in self._pieces(batch, reached):
            found.append(self.parts.output.table(self.parts.table.advance(rows, until), "final"))
        return found[0] if len(found) == 1 else pa.concat_tables(found)

    def unfinished(self, watermark: int) -> pa.Table:
        return self.parts.unfinished(watermark)

    def _pieces(self, batch: Batch, reached: int) -> Iterator[tuple[Batch, int]]:
        """Rows that have settled, in pieces of several windows, each with the time up to which all rows are there then.

        It is asked for the next piece when the windows of the last one are made. Those of several keys, or of several
        windows, are made all at once, because they are sorted.
        """
        begin, times, stored = 0, batch.times, self.parts.rows
        if len(times) <= PIECE:
            yield batch, reached
            return
        alone = self.parts.keys.count <= 1 and self.parts.table.slicer.windows == 1
        needed = stored.needed if alone else 0
        while alone and (end := begin + max(PIECE, SPANS * needed)) < len(times):
            end = int(np.searchsorted(times, times[end]))  # rows of the same time stay together
            if end <= begin:
                break
            yield batch.slice(begin, end), int(times[end])
            before, needed = needed, stored.needed
            alone = needed - before < end - begin  # otherwise one window is longer than the piece
            begin = end
        yield batch.slice(begin, len(times)), reached
