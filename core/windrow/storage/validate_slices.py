# SPDX-License-Identifier: Apache-2.0
"""What the slices of keys and the windows over them have to be before a kernel sees them.

Kernels follow links and indices without asking. So here every index, length, link and order of an image is checked
against the slice table that it is loaded into. All checks are linear in the number of slices.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from windrow.columns.encoding import decode_checked
from windrow.errors import CorruptSnapshot
from windrow.kernels.slices.layout import FOREVER, LAST_ROW, LEVEL, NONE, UNSET
from windrow.operator.plan import Ints
from windrow.operator.slicers.each_row import DeltaSlicer, TimeSlideSlicer, TupleSlicer
from windrow.operator.slicers.fixed import CountSlicer, FixedSlicer, TimeSlicer
from windrow.operator.slicers.policy import PolicySlicer
from windrow.operator.slicers.session import SessionSlicer
from windrow.storage.validate import KEYS, POINTERS, SLICES, check_entries, check_keys, numbers

if TYPE_CHECKING:
    from windrow.operator.slices import SliceTable

__all__ = [
    "KeyState",
    "SliceState",
    "check_following",
    "check_reached",
    "check_stamps",
    "check_state",
    "checked_counters",
    "checked_keys",
    "checked_slices",
]

MOST_SLICES = 1 << 31
"""A table has no room for more, so a folded slice does not stand for more."""
_NUMBER = (1 << LEVEL) - 1


class SliceState(NamedTuple):
    """Slices as arrays, in no table."""

    stamps: Any
    stops: Any
    pages: Ints
    partials: dict[str, tuple[Any, ...]]


class KeyState(NamedTuple):
    """The slices of keys, key after key, the windows over them, and the counters, as arrays."""

    lengths: Ints
    slices: SliceState
    following: Ints
    pointers: dict[str, Ints]
    counters: dict[str, Any]


def checked_keys(image: Mapping[str, Any], table: SliceTable) -> KeyState:
    """All of an image but the values of its keys."""
    check_entries(image, KEYS, "the state")
    check_keys(image["keys"], table.keys.fields)
    count, windows = len(image["keys"]), table.slicer.windows
    state = KeyState(
        lengths=numbers(image, "lengths", count),
        slices=checked_slices(image["slices"], table),
        following=numbers(image, "following", windows * count).reshape(windows, count),
        pointers={name: numbers(image, name, windows * count).reshape(windows, count) for name in POINTERS},
        counters=checked_counters(image, table),
    )
    stored = "made" in image or "query" in image  # else it is a copy of slices of another table
    check_state(state, table, made=image.get("made"), stored=stored)
    return state


def check_state(
    state: KeyState,
    table: SliceTable,
    *,
    made: list[int] | None = None,
    stored: bool,
    counted: bool = True,
) -> None:
    """Every index, length and order of the arrays is one that a kernel may follow.

    ``made`` is how many pages each key has had in a store. Counters that are elsewhere are not ``counted``.
    """
    lengths, slices, following, pointers, _ = state
    total = len(slices.stamps)
    if len(lengths) and not 0 <= lengths.min() <= lengths.max() <= total:
        raise CorruptSnapshot(f"a key has {lengths.min()} or {lengths.max()} of {total} slices")
    if int(lengths.sum()) != total:
        raise CorruptSnapshot(f"the state has {total} slices, but its keys have {int(lengths.sum())}")
    of = np.repeat(np.arange(len(lengths)), lengths)
    _check_order(slices, of, table)
    if stored:
        _check_folded(slices, of, made, table.fold)
    check_following(following, table)
    _check_pointers(pointers, lengths)
    if isinstance(table.slicer, FixedSlicer) and not table.slicer.late_slices:
        _check_left_behind(slices, of, following, pointers, table.slicer)
    if counted:
        _check_counters(state, table)
    if stored and isinstance(table.slicer, TimeSlideSlicer):
        _check_held(state, table.fold)


def check_counters(state: KeyState, table: SliceTable) -> None:
    """The counters of keys agree with their slices, which were checked before the counters were known."""
    _check_counters(state, table)
    if isinstance(table.slicer, TimeSlideSlicer):
        _check_held(state, table.fold)


def checked_slices(image: Mapping[str, Any], table: SliceTable, folded: int | None = None) -> SliceState:
    """Slices, and their partials. ``folded`` is the slot of the slice that stands for them, if they are a page."""
    check_entries(image, SLICES, "slices")
    dtype = table.slices.stamp.dtype
    if len(image["stamps"]) % dtype.itemsize:
        raise CorruptSnapshot(
            f"'stamps' has {len(image['stamps'])} bytes, not a multiple of {dtype.itemsize}"
        )
    count = len(image["stamps"]) // dtype.itemsize
    stamps = numbers(image, "stamps", count, dtype)
    stops = numbers(image, "stops", count, dtype) if image["stops"] else stamps
    pages = numbers(image, "pages", count) if image["pages"] else np.zeros(count, dtype=np.int64)
    partials = {}
    for state in table.aggregates:
        blob = image["partials"].get(state.name)
        if type(blob) is not bytes:
            raise CorruptSnapshot(f"there are no partials of aggregate {state.name!r}")
        partials[state.name] = decode_checked(state.monoid, blob)
        found = len(partials[state.name][0])
        if found != count:
            raise CorruptSnapshot(f"aggregate {state.name!r} has {found} partials of {count} slices")
    slices = SliceState(stamps, stops, pages, partials)
    check_stamps(slices, table)
    if "name" in image and "keys" not in image:
        _check_page(str(image["name"]), slices, table, folded)
    return slices


def check_reached(table: SliceTable, reached: int) -> None:
    """No row can come before the slices that a window has been computed over."""
    if not isinstance(table.slicer, TimeSlicer):
        return
    front = table.slides.front
    if (front != NONE).any() and int(table.slices.stamp[front[front != NONE]].max()) >= table.slicer.place(
        reached
    ):
        raise CorruptSnapshot("windows were computed over slices that the watermark has not reached")


def check_stamps(slices: SliceState, table: SliceTable) -> None:
    """Where slices begin and end: in reach, and not before they begin."""
    stamps, stops = slices.stamps, slices.stops
    if not (stops >= stamps).all():
        raise CorruptSnapshot("a slice ends before it begins")
    if len(stamps) and not isinstance(table.slicer, DeltaSlicer):
        least, most = int(stamps.min()), int(stops.max())
        if not -FOREVER < least <= most < FOREVER:
            raise CorruptSnapshot(f"a slice lies at {least} or {most}, out of range")
    points = not isinstance(table.slicer, SessionSlicer) and not table.slicer.merges
    if points and ((stops != stamps) & (slices.pages == 0)).any():
        raise CorruptSnapshot("a slice that is not folded is longer than a point")


def _check_order(slices: SliceState, of: Ints, table: SliceTable) -> None:
    """The slices of a key are in order. Only rows with slices of their own may be at one place."""
    ends, begins = slices.stops[:-1], slices.stamps[1:]
    distinct = isinstance(table.slicer, FixedSlicer | SessionSlicer)
    in_order = ends < begins if distinct else ends <= begins
    if not (in_order | (of[1:] != of[:-1])).all():
        raise CorruptSnapshot("the slices of a key are not in order")


def _check_folded(slices: SliceState, of: Ints, made: list[int] | None, fold: int) -> None:
    """Folded slices stand for pages that their key has had, each for another one."""
    folded = np.flatnonzero(slices.pages)
    if not len(folded):
        return
    if made is None:
        raise CorruptSnapshot("a slice stands for a page, but the state is in no store")
    levels = slices.pages[folded] >> LEVEL
    pages = (slices.pages[folded] & _NUMBER) - 1
    if not ((levels >= 1) & (levels <= _deepest(fold)) & (pages >= 0)).all():
        raise CorruptSnapshot("a slice stands for a page that cannot exist")
    if not (pages < np.array(made, dtype=np.int64)[of[folded]] // fold ** (levels - 1)).all():
        raise CorruptSnapshot("a slice stands for a page that its key has never had")
    # In a stream, the pages of a key follow each other. Where their first slices do, no two are one, and nothing is sorted.
    first, same_key = pages * fold ** (levels - 1), of[folded[1:]] == of[folded[:-1]]
    if ((first[1:] > first[:-1]) | ~same_key).all():
        return
    distinct = np.unique(np.stack([of[folded], slices.pages[folded]]), axis=1)
    if distinct.shape[1] != len(folded):
        raise CorruptSnapshot("two slices stand for one page")


def _deepest(fold: int) -> int:
    """The highest level of a folded slice."""
    return int(np.log2(MOST_SLICES) // np.log2(max(fold, 2)))


def _check_page(name: str, slices: SliceState, table: SliceTable, folded: int | None) -> None:
    """A page holds slices in order, or folded ones of the level below, and never itself."""
    count = len(slices.stamps)
    fold = count if table.paging is None else table.paging.fold
    try:
        _, level, number = (int(part) for part in name.split("."))
    except ValueError:
        raise CorruptSnapshot(f"there is no page {name!r} of slices") from None
    if count < 2 or count != fold or not 1 <= level <= _deepest(fold) or number < 0:
        raise CorruptSnapshot(f"page {name!r} cannot have {count} slices")
    first = (level - 1) << LEVEL | (number * fold + 1)
    expected = np.zeros(fold, dtype=np.int64) if level == 1 else first + np.arange(fold)
    if not (slices.pages == expected).all():
        raise CorruptSnapshot(f"page {name!r} does not hold the slices of the level below")
    _check_order(slices, np.zeros(fold, dtype=np.int64), table)
    if folded is not None:
        bounds = table.slices.stamp[folded], table.slices.stop[folded]
        if (slices.stamps[0], slices.stops[-1]) != bounds:
            raise CorruptSnapshot(f"page {name!r} is not what its slice stands for")


def check_following(following: Ints, table: SliceTable) -> None:
    """The next windows begin in reach."""
    known = following[following != UNSET]
    if len(known) and not -FOREVER < known.min() <= known.max() <= FOREVER:
        raise CorruptSnapshot("the id of a window is out of range")
    slicer = table.slicer
    slides: list[int] = []
    if isinstance(slicer, FixedSlicer):
        slides = slicer.grid.slide.tolist()
    elif isinstance(slicer, TimeSlideSlicer):
        slides = [slicer.window.slide]
    for slide, ids in zip(slides, following, strict=False):
        known = ids[ids != UNSET]
        if len(known) and max(-int(known.min()), int(known.max())) * slide > 2 * FOREVER - 1:
            raise CorruptSnapshot("a window begins out of range")


def _check_pointers(pointers: Mapping[str, Ints], lengths: Ints) -> None:
    """Windows begin and end at slices of their own key, in order."""
    ends = np.cumsum(lengths)
    begins = ends - lengths
    for name, numbers_ in pointers.items():
        inside = (numbers_ >= begins) & (numbers_ < ends)
        if not (inside | (numbers_ == NONE)).all():
            raise CorruptSnapshot(f"{name!r} points to no slice of its key")
    lo, front, back = (pointers[name] for name in POINTERS)
    in_order = (lo != NONE) & (lo <= front) & (front <= back)
    if not (in_order | (front == NONE)).all():
        raise CorruptSnapshot("'lo', 'front' and 'back' are not in order")


def _check_left_behind(
    slices: SliceState, of: Ints, following: Ints, pointers: Mapping[str, Ints], slicer: FixedSlicer
) -> None:
    """A window that has results does not go back to slices before its first one: none of them is in a window to come."""
    position = np.arange(len(of))
    for which, (length, slide, offset) in enumerate(zip(*slicer.grid, strict=True)):
        first = following[which][of]
        before = (position < pointers["lo"][which][of]) & (pointers["front"][which][of] != NONE)
        left = np.flatnonzero(before & (first != UNSET))
        stamps = slices.stamps[left] - offset
        latest, earliest = stamps // slide, (stamps - length) // slide + 1
        if ((latest >= first[left]) & (latest >= earliest)).any():
            raise CorruptSnapshot("a window has dropped a slice that it still needs")


def checked_counters(image: Mapping[str, Any], table: SliceTable) -> dict[str, Any]:
    """The counters that the kind of window has, in the shape of each."""
    slicer, count = table.slicer, len(image["keys"])
    known = "held" if isinstance(slicer, TimeSlideSlicer) else ""
    known = "seen" if isinstance(slicer, CountSlicer | TupleSlicer) else known
    known = "trigger" if isinstance(slicer, DeltaSlicer) else known
    known = "evicted" if isinstance(slicer, PolicySlicer) else known
    counters = {}
    for name, blob in image["counters"].items():
        merged = name == "leaves" and slicer.merges
        if (name not in (known, LAST_ROW) and not merged) or type(blob) is not bytes:
            raise CorruptSnapshot(f"these windows have no counter {name!r}")
        shape = (3, count) if name == "trigger" else (count,)
        dtype = slicer.stamps if name == "trigger" else np.int64
        counters[name] = numbers(image["counters"], name, int(np.prod(shape)), dtype).reshape(shape)
    return counters


def _check_counters(checked: KeyState, table: SliceTable) -> None:
    """Counters agree with the slices."""
    slices, counters = checked.slices, checked.counters
    for name, most in (
        ("seen", FOREVER),
        ("held", FOREVER),
        ("evicted", FOREVER),
        ("leaves", FOREVER),
        (LAST_ROW, 2 * FOREVER - 1),
    ):
        values = counters.get(name, np.zeros(0))
        if len(values) and not 0 <= values.min() <= values.max() < most:
            raise CorruptSnapshot(f"the counter {name!r} is out of range")
    some = np.flatnonzero(checked.lengths)
    last = slices.stops[np.cumsum(checked.lengths)[some] - 1]
    if isinstance(table.slicer, CountSlicer):
        seen = counters.get("seen", np.zeros(len(checked.lengths), dtype=np.int64))
        if not (last < seen[some]).all() or (slices.stamps < 0).any():
            raise CorruptSnapshot("a key has slices after the rows that it has seen")
    if isinstance(table.slicer, DeltaSlicer) and "trigger" in counters:
        trigger = counters["trigger"][:, some]
        if not ((trigger[0] != 0) & (last <= trigger[2]) & (trigger[1] <= trigger[2])).all():
            raise CorruptSnapshot("a key has slices after the last value that it has seen")


def _check_held(checked: KeyState, fold: int) -> None:
    """``held`` counts the rows of the last window."""
    lo, back = checked.pointers["lo"][0], checked.pointers["back"][0]
    known = back != NONE
    if not (lo[known] != NONE).all() or not (lo[known] <= back[known]).all():
        raise CorruptSnapshot("a window ends before it begins")
    rows = np.append(0, np.cumsum(fold ** (checked.slices.pages >> LEVEL)))
    expected = np.where(known, rows[back + 1] - rows[np.maximum(lo, 0)], 0)
    held = checked.counters.get("held", np.zeros(len(lo), dtype=np.int64))
    fresh = ~known & (checked.following[0] == UNSET)
    if (held[known | fresh] != expected[known | fresh]).any():
        raise CorruptSnapshot("the counter 'held' is not the number of rows in the window")
