"""Rows that wait until the watermark has passed them, for windows and aggregates that need rows in their
order."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from windrow.keys import Keys
from windrow.runs import Ints
from windrow.state.image import from_bytes, from_ipc, to_bytes, to_ipc


class Batch(NamedTuple):
    """Waiting rows: their input columns, times and key numbers; ``name`` is that of their page in a store,
    if they are in one."""

    data: pa.Table
    times: Ints
    keys: Ints
    name: str = ""

    def some(self, chosen: Any) -> Batch:
        if chosen.all():
            return self
        return Batch(self.data.filter(pa.array(chosen)), self.times[chosen], self.keys[chosen])

    def in_order(self) -> Batch:
        """In the order of time, then arrival."""
        if len(self.times) < 2 or (self.times[1:] >= self.times[:-1]).all():
            return self
        order = np.argsort(self.times, kind="stable")
        return Batch(self.data.take(pa.array(order)), self.times[order], self.keys[order])


class Waiting:
    """All waiting rows, in the order of arrival."""

    def __init__(self, schema: pa.Schema) -> None:
        self.schema = schema
        self.batches: list[Batch] = []
        self.gone: list[str] = []
        """Pages of rows that wait no more."""

    def add(self, data: pa.Table, times: Ints, keys: Ints) -> None:
        self.batches.append(Batch(data, times, keys))

    @property
    def earliest(self) -> int | None:
        return min((int(batch.times.min()) for batch in self.batches), default=None)

    def earliest_from(self, time: int) -> int | None:
        """The earliest time of a row, of those that are not before this one."""
        later = (batch.times[batch.times >= time] for batch in self.batches)
        return min((int(times.min()) for times in later if len(times)), default=None)

    def settle(self, reached: int) -> Batch:
        """Take the rows before a time, in the order of time, then arrival."""
        everything = self._joined()
        settled = everything.times < reached
        if not settled.any():
            return everything.some(settled)
        self.gone += [batch.name for batch in self.batches if batch.name]
        self.batches = [] if settled.all() else [everything.some(~settled)]
        return everything.some(settled).in_order()

    def between(self, since: int, until: int, keys: Ints | None = None) -> Batch:
        """The rows in a span of time, of these keys or of all, in the order of time, then arrival; they wait on."""
        everything = self._joined()
        chosen = (everything.times >= since) & (everything.times < until)
        if keys is not None:
            chosen &= np.isin(everything.keys, keys)
        return everything.some(chosen).in_order()

    def _joined(self) -> Batch:
        if not self.batches:
            return Batch(self.schema.empty_table(), np.empty(0, np.int64), np.empty(0, np.int64))
        return Batch(
            pa.concat_tables([batch.data for batch in self.batches]),
            np.concatenate([batch.times for batch in self.batches]),
            np.concatenate([batch.keys for batch in self.batches]),
        )


def batch_image(batch: Batch, keys: Keys) -> dict[str, Any]:
    """Waiting rows as plain values."""
    distinct, of = np.unique(keys.ranks()[batch.keys], return_inverse=True)
    return {
        "rows": to_ipc(batch.data),
        "times": to_bytes(batch.times),
        "keys": [keys.values[key] for key in keys.order[distinct].tolist()],
        "of": to_bytes(of.astype(np.int64)),
    }


def load_batch(image: dict[str, Any], keys: Keys, name: str = "") -> Batch:
    numbers = np.array([keys.add(tuple(key)) for key in image["keys"]], dtype=np.int64)
    return Batch(
        from_ipc(image["rows"]),
        from_bytes(image["times"], np.int64),
        numbers[from_bytes(image["of"], np.int64)],
        name,
    )
