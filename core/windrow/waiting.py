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

    def settle(self, reached: int) -> Batch:
        """Take the rows before a time, in the order of time, then arrival."""
        if not self.batches:
            return Batch(self.schema.empty_table(), np.empty(0, np.int64), np.empty(0, np.int64))
        data = pa.concat_tables([batch.data for batch in self.batches])
        times = np.concatenate([batch.times for batch in self.batches])
        keys = np.concatenate([batch.keys for batch in self.batches])
        settled = times < reached
        if not settled.any():
            return Batch(data.slice(0, 0), times[:0], keys[:0])
        self.gone += [batch.name for batch in self.batches if batch.name]
        if settled.all():
            self.batches = []
        else:
            left = pa.array(~settled)
            self.batches = [Batch(data.filter(left), times[~settled], keys[~settled])]
            data, times, keys = data.filter(pa.array(settled)), times[settled], keys[settled]
        if len(times) > 1 and not (times[1:] >= times[:-1]).all():
            order = np.argsort(times, kind="stable")
            data, times, keys = data.take(pa.array(order)), times[order], keys[order]
        return Batch(data, times, keys)


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
