# SPDX-License-Identifier: Apache-2.0
"""The slices of keys as plain values, and back: what snapshots and pages hold.

Slices are written key after key, oldest first. A pointer to a slice is its number in that sequence. Only what
cannot be computed again is written: ``lcs`` and ``csa`` are rebuilt, in the same grouping, so that a restored
operator goes on with the same bits.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from windrow.columns.encoding import encode
from windrow.errors import CorruptSnapshot
from windrow.kernels.slices.layout import NONE
from windrow.operator.folding import take_slots
from windrow.operator.keys import Keys
from windrow.operator.plan import Ints
from windrow.operator.slices import SliceTable
from windrow.storage.validate import POINTERS, from_bytes, to_bytes
from windrow.storage.validate_slices import KeyState, SliceState, checked_keys, checked_slices

__all__ = [
    "from_bytes",
    "image_of",
    "live_keys",
    "load_image",
    "load_slices",
    "load_state",
    "slices_of",
    "state_of",
    "to_bytes",
]


def live_keys(table: SliceTable, keys: Keys) -> Ints:
    """The keys that have any state, in their order; the others are as if they had never been seen."""
    live: Ints = keys.order[table.live()[keys.order]]
    return live


def state_of(table: SliceTable, order: Ints, *, relative: bool = False) -> KeyState:
    """The slices, windows and counters of these keys as arrays. ``relative`` counts the rows of each key from its first
    slice on."""
    slices, slides = table.slices, table.slides
    lengths = np.zeros(len(order), dtype=np.int64)
    slots = np.empty(int(slices.held[order].sum()), dtype=np.int64)
    table.kernels.walk(slices, order, lengths, slots)
    sorter = np.argsort(slots)
    return KeyState(
        lengths=lengths,
        slices=_slices(table, slots, lengths if relative else None),
        following=slides.following[:, order],
        pointers={name: _numbers(getattr(slides, name)[:, order], slots, sorter) for name in POINTERS},
        counters={name: counter[..., order] for name, counter in sorted(table.slicer.counters.items())},
    )


def image_of(table: SliceTable, keys: Keys, order: Ints, *, relative: bool = False) -> dict[str, Any]:
    """The slices, windows and counters of these keys as plain values."""
    state = state_of(table, order, relative=relative)
    return {
        "keys": keys.plain(order),
        "lengths": to_bytes(state.lengths),
        "following": to_bytes(state.following),
        **{name: to_bytes(numbers) for name, numbers in state.pointers.items()},
        "counters": {name: to_bytes(counter) for name, counter in state.counters.items()},
        "slices": _plain(table, state.slices),
    }


def _numbers(pointers: Any, slots: Ints, sorter: Ints) -> Any:
    """Where among some slots each pointer points to; NONE for nowhere."""
    if not len(slots):
        return np.full(pointers.shape, NONE, dtype=np.int64)
    found = sorter[np.minimum(np.searchsorted(slots, pointers, sorter=sorter), len(slots) - 1)]
    return np.where(slots[found] == pointers, found, NONE)


def load_image(image: dict[str, Any], table: SliceTable, keys: Keys) -> Ints:
    """Add the keys of an image to a slice table; returns their numbers. The image is checked before anything changes."""
    checked = checked_keys(image, table)
    numbers = keys.load(image["keys"])
    table.ensure_keys()
    if table.slices.held[numbers].any() or len(np.unique(numbers)) < len(numbers):
        raise CorruptSnapshot("a key is in the state twice")
    load_state(checked, table, numbers)
    for name, values in checked.counters.items():
        table.slicer.counter(name)[..., numbers] = values
    for state in table.aggregates:
        state.rebuild(table, numbers)
    return numbers


def load_state(checked: KeyState, table: SliceTable, numbers: Ints) -> None:
    """Put the slices of keys that have none into a table, and the windows over them. What follows from them, ``lcs``
    and ``csa``, is still to be rebuilt."""
    slots = _load(checked.slices, table)
    _connect(table, numbers, checked.lengths, slots)
    slides = table.slides
    slides.following[:, numbers] = checked.following
    slot_of = np.append(slots, NONE)
    for name, pointers in checked.pointers.items():
        getattr(slides, name)[:, numbers] = slot_of[pointers]


def _connect(table: SliceTable, numbers: Ints, lengths: Ints, slots: Ints) -> None:
    """Link slices, key after key, oldest first."""
    slices = table.slices
    if len(slots):
        slices.newer[slots], slices.older[slots] = np.append(slots[1:], NONE), np.append(NONE, slots[:-1])
    ends = np.cumsum(lengths)
    some = np.flatnonzero(lengths)
    first, last = slots[(ends - lengths)[some]], slots[ends[some] - 1]
    slices.first[numbers[some]], slices.last[numbers[some]] = first, last
    slices.older[first] = slices.newer[last] = NONE
    slices.held[numbers] = lengths


def slices_of(table: SliceTable, slots: Ints) -> dict[str, Any]:
    """Slices as plain values, without what connects them."""
    return _plain(table, _slices(table, slots, None))


def _slices(table: SliceTable, slots: Ints, lengths: Ints | None) -> SliceState:
    """Slices as arrays. ``lengths`` is how many each key has, if positions are to be relative."""
    slices = table.slices
    partials = {state.name: state.written(slots, lengths) for state in table.aggregates}
    return SliceState(slices.stamp[slots], slices.stop[slots], slices.page[slots], partials)


def _plain(table: SliceTable, slices: SliceState) -> dict[str, Any]:
    count = len(slices.stamps)
    return {
        "stamps": to_bytes(slices.stamps),
        "stops": b"" if (slices.stops == slices.stamps).all() else to_bytes(slices.stops),
        "pages": b"" if not slices.pages.any() else to_bytes(slices.pages),
        "partials": {
            state.name: encode(state.monoid, slices.partials[state.name], 0, count)
            for state in table.aggregates
        },
    }


def load_slices(image: dict[str, Any], table: SliceTable, folded: int | None = None) -> Ints:
    """Put slices into unused slots, connected to nothing; returns the slots.

    ``folded`` is the slot of the slice that stands for them, if they are a page.
    """
    return _load(checked_slices(image, table, folded), table)


def _load(checked: SliceState, table: SliceTable) -> Ints:
    slots = take_slots(table, len(checked.stamps))
    slices = table.slices
    slices.stamp[slots], slices.stop[slots] = checked.stamps, checked.stops
    slices.page[slots] = checked.pages
    for state in table.aggregates:
        for part, values in zip(state.partials.parts, checked.partials[state.name], strict=True):
            part[slots] = values
    return slots
