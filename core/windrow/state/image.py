"""Runs as plain values, and back: what snapshots and pages hold.

Slices are written key after key, oldest first; a pointer to a slice is its number in that sequence. Only
what cannot be computed again is written: ``lcs`` and ``csa`` are rebuilt, in the same grouping, so that a
restored operator goes on with the same bits.
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

POINTERS = ("lo", "front", "back")


def live_keys(state: State, discipline: Discipline, keys: Keys) -> Ints:
    """The keys that have any state, in their order; the others are as if they had never been seen."""
    order = keys.order
    live: Ints = order[is_live(state, discipline)[order]]
    return live


def is_live(state: State, discipline: Discipline) -> Any:
    """For every key, whether it has any state."""
    live = state.runs.held > 0
    for counter in discipline.counted().values():
        live |= np.atleast_2d(counter != 0).any(axis=0)
    return live


def image_of(state: State, discipline: Discipline, keys: Keys, order: Ints) -> dict[str, Any]:
    """The runs, windows and counters of these keys."""
    lengths = np.zeros(len(order), dtype=np.int64)
    slots = np.empty(int(state.runs.held[order].sum()), dtype=np.int64)
    state.kernels.walk(state.runs, order, lengths, slots)
    sorter = np.argsort(slots)
    pointers = {name: _numbers(getattr(state.slides, name)[:, order], slots, sorter) for name in POINTERS}
    return {
        "keys": [keys.values[key] for key in order.tolist()],
        "lengths": to_bytes(lengths),
        "following": to_bytes(state.slides.following[:, order]),
        **{name: to_bytes(numbers) for name, numbers in pointers.items()},
        "counters": {name: to_bytes(counter[..., order]) for name, counter in discipline.counted().items()},
        "slices": slices_of(state, slots),
    }


def _numbers(pointers: Any, slots: Ints, sorter: Ints) -> Any:
    """Where among some slots each pointer points to; NONE for nowhere."""
    if not len(slots):
        return np.full(pointers.shape, NONE, dtype=np.int64)
    found = sorter[np.minimum(np.searchsorted(slots, pointers, sorter=sorter), len(slots) - 1)]
    return np.where(slots[found] == pointers, found, NONE)


def load_image(image: dict[str, Any], state: State, discipline: Discipline, keys: Keys) -> Ints:
    """Add the keys of an image to a state; returns their numbers."""
    numbers = np.array([keys.add(tuple(key)) for key in image["keys"]], dtype=np.int64)
    count = len(numbers)
    state.ensure_keys(len(keys))
    lengths = from_bytes(image["lengths"], np.int64)
    if len(lengths) != count:
        raise CorruptSnapshot(f"the state has {count} keys, but the lengths of {len(lengths)} runs")
    slots = load_slices(image["slices"], state)
    if len(slots) != int(lengths.sum()):
        raise CorruptSnapshot(f"the state has {len(slots)} slices, but runs of {int(lengths.sum())}")
    runs, slides = state.runs, state.slides
    if len(slots):
        runs.follower[slots], runs.leader[slots] = np.append(slots[1:], NONE), np.append(NONE, slots[:-1])
    ends = np.cumsum(lengths)
    some = np.flatnonzero(lengths)
    first, last = slots[(ends - lengths)[some]], slots[ends[some] - 1]
    runs.first[numbers[some]], runs.last[numbers[some]] = first, last
    runs.leader[first] = runs.follower[last] = NONE
    runs.held[numbers] = lengths
    slides.following[:, numbers] = from_bytes(image["following"], np.int64).reshape(state.windows, count)
    slot_of = np.append(slots, NONE)
    for name in POINTERS:
        getattr(slides, name)[:, numbers] = slot_of[
            from_bytes(image[name], np.int64).reshape(state.windows, count)
        ]
    for name, blob in image["counters"].items():
        counter = discipline.counter_named(name)
        counter[..., numbers] = from_bytes(blob, counter.dtype).reshape(*counter.shape[:-1], count)
    for tower in state.towers:
        tower.kernels.rebuild(
            tower.parts, tower.lcs, tower.csa, runs.follower, runs.leader,
            slides.lo, slides.front, slides.back, state.slots, state.keys, numbers,
        )  # fmt: skip
    return numbers


def slices_of(state: State, slots: Ints) -> dict[str, Any]:
    """Slices, without what connects them."""
    runs = state.runs
    return {
        "stamps": to_bytes(runs.stamp[slots]),
        "stops": b"" if (runs.stop[slots] == runs.stamp[slots]).all() else to_bytes(runs.stop[slots]),
        "pages": b"" if not runs.page[slots].any() else to_bytes(runs.page[slots]),
        "partials": {
            tower.name: encode(tower.monoid, tuple(part[slots] for part in tower.parts), 0, len(slots))
            for tower in state.towers
        },
    }


def load_slices(slices: dict[str, Any], state: State) -> Ints:
    """Put slices into free slots, connected to nothing; returns the slots."""
    stamps = from_bytes(slices["stamps"], state.runs.stamp.dtype)
    count = len(stamps)
    while state.runs.meta[0] < count:
        state.grow_slots()
    runs = state.runs
    top = int(runs.meta[0])
    slots: Ints = runs.free[top - count : top][::-1].astype(np.int64)
    runs.meta[0] = top - count
    runs.stamp[slots] = stamps
    runs.stop[slots] = from_bytes(slices["stops"], stamps.dtype) if slices["stops"] else stamps
    runs.page[slots] = from_bytes(slices["pages"], np.int64) if slices["pages"] else 0
    for tower in state.towers:
        for part, saved in zip(
            tower.parts, decode(tower.monoid, slices["partials"][tower.name]), strict=True
        ):
            part[slots] = saved
    return slots


def to_bytes(array: Any) -> bytes:
    little: bytes = np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("<")).tobytes()
    return little


def from_bytes(blob: bytes, dtype: Any) -> Any:
    return np.frombuffer(blob, dtype=np.dtype(dtype).newbyteorder("<")).astype(dtype)


def to_ipc(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table.combine_chunks())
    return bytes(sink.getvalue())


def from_ipc(blob: bytes) -> pa.Table:
    try:
        return pa.ipc.open_stream(blob).read_all()
    except pa.ArrowInvalid as cause:
        raise CorruptSnapshot(f"the waiting rows in the state cannot be read: {cause}") from cause
