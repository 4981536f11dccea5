# SPDX-License-Identifier: Apache-2.0
"""Keys that are forgotten when they have been silent for long: ``forget_after``.

Windows that rows end, not time, wait for the next row of their key for ever. With ``forget_after``, a key that had no
row for longer than that starts anew with its next row. Event time alone decides it: the time between two rows of the
key that follow each other. So it does not matter how rows are cut into batches, nor when the state is dropped.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from windrow.kernels.slices.layout import FOREVER, LAST_ROW
from windrow.operator.buffer import Batch
from windrow.operator.parts import Parts
from windrow.operator.plan import Ints
from windrow.operator.slices import SliceTable


class Forgetting:
    """Starts keys of a slice table anew that were silent for longer than ``after``."""

    def __init__(self, table: SliceTable, after: int) -> None:
        self.table, self.after = table, after
        self.next = -FOREVER
        """No key is to be forgotten before this time."""

    def advance(self, parts: Parts, batch: Batch, reached: int) -> pa.Table:
        """Take the rows of a batch; the windows that are final at a time."""
        found = []
        for rows in self.rounds(batch):
            found.append(parts.output.table(self.table.advance(rows, reached), "final"))
        self.drop_silent(reached)
        return found[0] if len(found) == 1 else parts.bound.sort(pa.concat_tables(found))

    def rounds(self, batch: Batch) -> Iterator[Batch]:
        """The rows of a batch, which are in the order of time, cut where a key was silent for too long.

        Before each round, its keys are started anew. So the rows of a round must be taken, and their windows made,
        before the next round is asked for.
        """
        generation = self._generations(batch)
        for number in range(int(generation.max(initial=0)) + 1):
            rows = batch.some(generation == number)
            if number:
                self.table.restart(np.unique(rows.keys), keep=LAST_ROW)
            yield rows

    def drop_silent(self, reached: int) -> None:
        """Drop the state of keys that start anew with any row that may still come."""
        if reached <= self.next:
            return
        last = self._last()
        silent = np.flatnonzero((last != 0) & (last - FOREVER < reached - self.after))
        if len(silent):
            self.table.restart(silent)
        left = last[last != 0]
        self.next = int(left.min()) - FOREVER + self.after if len(left) else -FOREVER

    def _generations(self, batch: Batch) -> Ints:
        """How often its key has started anew before each row, since the rows before the batch."""
        if not len(batch.times):
            return np.zeros(0, dtype=np.int64)
        last = self._last()
        order = np.argsort(batch.keys, kind="stable")
        keys, times = batch.keys[order], batch.times[order] + FOREVER
        first = np.append(True, keys[1:] != keys[:-1])
        before = np.where(first, last[keys], np.append(0, times[:-1]))
        anew = (before != 0) & (times - before > self.after)
        count = np.cumsum(anew)
        begins = np.flatnonzero(first)
        lengths = np.diff(np.append(begins, len(keys)))
        last[keys[np.append(begins[1:], len(keys)) - 1]] = times[np.append(begins[1:], len(keys)) - 1]
        generation = np.empty(len(keys), dtype=np.int64)
        generation[order] = count - np.repeat(count[begins] - anew[begins], lengths)
        return generation

    def _last(self) -> Ints:
        self.table.ensure_keys()
        return self.table.slicer.counter_of(LAST_ROW, (), np.int64)
