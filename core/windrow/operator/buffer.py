# SPDX-License-Identifier: Apache-2.0
"""Rows that wait until the watermark has passed them, for windows and aggregates that need rows in order."""

from __future__ import annotations

from heapq import heappop, heappush
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from windrow.columns.ipc import from_ipc, to_ipc
from windrow.columns.times import AT_ONCE, TimeUnit, ascending
from windrow.operator.keys import Keys
from windrow.operator.plan import Ints
from windrow.storage.image import from_bytes, to_bytes
from windrow.storage.validate import check_rows

MOST_PAGES = 64
"""With more pages of rows than this, a commit gathers them into one."""


class Batch(NamedTuple):
    """Rows in the buffer: their input columns, times and key numbers.

    ``name`` is that of their page in a store, if they are in one.
    """

    data: pa.Table
    times: Ints
    keys: Ints
    name: str = ""

    def some(self, chosen: Any) -> Batch:
        if chosen.all():
            return self
        return Batch(self.data.filter(pa.array(chosen)), self.times[chosen], self.keys[chosen])

    def slice(self, begin: int, end: int) -> Batch:
        """Consecutive rows."""
        if begin == 0 and end == len(self.times):
            return self
        return Batch(self.data.slice(begin, end - begin), self.times[begin:end], self.keys[begin:end])

    def in_order(self) -> Batch:
        """In the order of time, then arrival."""
        few = len(self.times) < AT_ONCE
        if (self.times[1:] >= self.times[:-1]).all() if few else ascending(self.times):
            return self
        order = np.argsort(self.times, kind="stable")
        return Batch(self.data.take(pa.array(order)), self.times[order], self.keys[order])


class Buffer:
    """All rows that wait. Taking rows out costs time that follows the rows taken, not those that stay."""

    def __init__(self, schema: pa.Schema, time: str, unit: TimeUnit | None = None) -> None:
        self.schema, self.time, self.unit = schema, time, unit
        self.gone: list[str] = []
        """Pages of rows that have left the buffer."""
        self._batches: dict[int, Batch] = {}
        """By the number of their arrival."""
        self._earliest: list[tuple[int, int]] = []
        """A heap of the earliest time in each batch, with its number."""
        self._arrivals = 0

    @property
    def batches(self) -> list[Batch]:
        """All batches, in the order of arrival."""
        return [self._batches[number] for number in sorted(self._batches)]

    def add(self, data: pa.Table, times: Ints, keys: Ints, name: str = "") -> None:
        self._put(self._arrivals, Batch(data, times, keys, name))
        self._arrivals += 1

    @property
    def earliest(self) -> int | None:
        """The earliest time of a row."""
        return self._earliest[0][0] if self._earliest else None

    def earliest_from(self, time: int) -> int | None:
        """The earliest time of a row, of those that are not before this one."""
        later = (batch.times[batch.times >= time] for batch in self._batches.values())
        return min((int(times.min()) for times in later if len(times)), default=None)

    def settle(self, reached: int) -> Batch:
        """Take the rows before a time out of the buffer, in the order of time, then arrival."""
        taken: dict[int, Batch] = {}
        while self._earliest and self._earliest[0][0] < reached:
            _, number = heappop(self._earliest)
            batch = self._batches.pop(number)
            settled = batch.times < reached
            taken[number] = batch.some(settled)
            self.gone += [batch.name] if batch.name else []
            if not settled.all():
                self._put(number, batch.some(~settled))
        return self._joined([taken[number] for number in sorted(taken)]).in_order()

    def between(self, since: int, until: int, keys: Ints | None = None) -> Batch:
        """The rows in a span of time, of these keys or of all, in the order of time, then arrival. They stay."""
        found = []
        for batch in self.batches:
            chosen = (batch.times >= since) & (batch.times < until)
            if keys is not None:
                chosen &= np.isin(batch.keys, keys)
            if chosen.any():
                found.append(batch.some(chosen))
        return self._joined(found).in_order()

    def images(self, keys: Keys) -> list[dict[str, Any]]:
        """All rows as plain values, for a snapshot; they do not tell how rows were cut into batches."""
        return [_image(self._joined(self.batches), keys)] if self._batches else []

    def unnamed(self, commit: int, keys: Keys) -> dict[str, dict[str, Any]]:
        """The rows that are in no page yet, as plain values under names for the pages of a commit."""
        if len(self._batches) > MOST_PAGES:
            self._gather()
        for number in sorted(self._batches):
            batch = self._batches[number]
            if not batch.name:
                self._batches[number] = batch._replace(name=f"rows.{commit}.{number}")
        fresh = [batch for batch in self.batches if batch.name.startswith(f"rows.{commit}.")]
        return {batch.name: _image(batch, keys) for batch in fresh}

    def committed(self) -> None:
        """The pages of rows that have left the buffer are deleted."""
        self.gone = []

    def load(self, image: dict[str, Any], keys: Keys, name: str = "") -> None:
        """Add rows that :meth:`images` or :meth:`unnamed` gave. They are checked first."""
        check_rows(image, self.schema, (self.time, self.unit), keys.fields)
        numbers = keys.load(image["keys"])
        of = from_bytes(image["of"], np.int64)
        rows = pa.Table.from_arrays(from_ipc(image["rows"]).columns, schema=self.schema)  # as all others
        self.add(rows, from_bytes(image["times"], np.int64), numbers[of], name)

    def _put(self, number: int, batch: Batch) -> None:
        self._batches[number] = batch
        heappush(self._earliest, (int(batch.times.min()), number))

    def _gather(self) -> None:
        """Put all rows into one batch: many small pages cost more than writing them again."""
        batches, self._batches, self._earliest = self.batches, {}, []
        self.gone += [batch.name for batch in batches if batch.name]
        self.add(*self._joined(batches)[:3])

    def _joined(self, batches: list[Batch]) -> Batch:
        if not batches:
            return Batch(self.schema.empty_table(), np.empty(0, np.int64), np.empty(0, np.int64))
        if len(batches) == 1:
            return batches[0]._replace(name="")
        return Batch(
            pa.concat_tables([batch.data for batch in batches]),
            np.concatenate([batch.times for batch in batches]),
            np.concatenate([batch.keys for batch in batches]),
        )


def _image(batch: Batch, keys: Keys) -> dict[str, Any]:
    distinct, of = np.unique(keys.ranks()[batch.keys], return_inverse=True)
    return {
        "rows": to_ipc(batch.data),
        "times": to_bytes(batch.times),
        "keys": keys.plain(keys.order[distinct]),
        "of": to_bytes(of.astype(np.int64)),
    }
