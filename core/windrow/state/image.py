"""An operator's state as plain values, and back: what a snapshot holds.

Slices are written key after key (keys in their order), oldest first; a pointer to a slice is its number in that sequence. Only what cannot be
computed again is written: ``lcs`` and ``csa`` are rebuilt, in the same grouping, so that a restored operator goes on with the same bits.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from windrow.aggregates.encoding import decode, encode
from windrow.disciplines import Discipline
from windrow.errors import CorruptSnapshot
from windrow.kernels.layout import NONE
from windrow.keys import Keys
from windrow.runs import Ints, State

Pending = list[tuple[pa.Table, Ints, Ints]]


def image_of(state: State, discipline: Discipline, keys: Keys, pending: Pending) -> dict[str, Any]:
    """The runs, windows, counters and waiting rows as plain values."""
    order = keys.order
    lengths = np.zeros(len(order), dtype=np.int64)
    slots = np.empty(state.slots - int(state.runs.meta[0]), dtype=np.int64)
    state.kernels.walk(state.runs, order, lengths, slots)
    number = np.full(state.slots + 1, NONE, dtype=np.int64)
    number[slots] = np.arange(len(slots))
    ranks = keys.ranks()
    return {
        "keys": [keys.values[key] for key in order.tolist()],
        "lengths": _bytes(lengths),
        "stamps": _bytes(state.runs.stamp[slots]),
        "stops": _bytes(state.runs.stop[slots]),
        "following": _bytes(state.slides.following[:, order]),
        **{name: _bytes(number[getattr(state.slides, name)[:, order]]) for name in ("lo", "front", "back")},
        "counters": {name: _bytes(counter[..., order]) for name, counter in discipline.counted().items()},
        "partials": {
            tower.name: encode(tower.monoid, tuple(part[slots] for part in tower.parts), 0, len(slots))
            for tower in state.towers
        },
        "wake": discipline.wake,
        "pending": [(to_ipc(data), _bytes(times), _bytes(ranks[of])) for data, times, of in pending],
    }


def load_image(image: dict[str, Any], state: State, discipline: Discipline, keys: Keys) -> Pending:
    """Put an image into a new state; returns the waiting rows."""
    for key in image["keys"]:
        keys.add(tuple(key))
    count = len(keys)
    state.ensure_keys(count)
    lengths = _array(image["lengths"], np.int64)
    total = int(lengths.sum())
    if len(lengths) != count:
        raise CorruptSnapshot(f"the snapshot has {count} keys, but the lengths of {len(lengths)} runs")
    while state.slots < total:
        state.grow_slots()
    runs, slides = state.runs, state.slides
    runs.meta[0] = state.slots - total
    runs.free[: state.slots - total] = np.arange(state.slots - 1, total - 1, -1)
    stamps = runs.stamp.dtype
    runs.stamp[:total], runs.stop[:total] = _array(image["stamps"], stamps), _array(image["stops"], stamps)
    runs.follower[:total], runs.leader[:total] = np.arange(1, total + 1), np.arange(-1, total - 1)
    ends = np.cumsum(lengths)
    some = np.flatnonzero(lengths)
    runs.first[some], runs.last[some] = (ends - lengths)[some], ends[some] - 1
    runs.leader[(ends - lengths)[some]] = NONE
    runs.follower[ends[some] - 1] = NONE
    slides.following[:, :count] = _array(image["following"], np.int64).reshape(state.windows, count)
    for name in ("lo", "front", "back"):
        getattr(slides, name)[:, :count] = _array(image[name], np.int64).reshape(state.windows, count)
    for name, blob in image["counters"].items():
        counter = discipline.counter(name, 3 if name == "trigger" else 0, stamps if name == "trigger" else np.int64)
        counter[..., :count] = _array(blob, counter.dtype).reshape(counter[..., :count].shape)
    discipline.wake = image["wake"]
    for tower in state.towers:
        for part, saved in zip(tower.parts, decode(tower.monoid, image["partials"][tower.name]), strict=True):
            part[:total] = saved
        tower.kernels.rebuild(
            tower.parts, tower.lcs, tower.csa, runs.follower, runs.leader,
            slides.lo, slides.front, slides.back, state.slots, state.keys, count,
        )  # fmt: skip
    return [
        (from_ipc(data), _array(times, np.int64), _array(of, np.int64)) for data, times, of in image["pending"]
    ]


def _bytes(array: Any) -> bytes:
    return np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("<")).tobytes()


def _array(blob: bytes, dtype: Any) -> Any:
    return np.frombuffer(blob, dtype=np.dtype(dtype).newbyteorder("<")).astype(dtype)


def to_ipc(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table.combine_chunks())
    return sink.getvalue().to_pybytes()


def from_ipc(blob: bytes) -> pa.Table:
    try:
        return pa.ipc.open_stream(blob).read_all()
    except pa.ArrowInvalid as cause:
        raise CorruptSnapshot(f"the waiting rows in the snapshot cannot be read: {cause}") from cause
