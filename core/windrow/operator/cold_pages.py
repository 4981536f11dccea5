# SPDX-License-Identifier: Apache-2.0
"""Cold blocks in a store: each is a page that is written once.

====================  ==========================================================================================
``cold.N``            the keys of a block, their counters, their slices as :mod:`windrow.storage.cold_block` packs them,
                      and the windows that come out without the slices being read
``cold`` (header)     which blocks there are, and for each that lost keys one bit per key: whether it is still cold
====================  ==========================================================================================

A key that is frozen leaves its leaf, and one that thaws gets a place in a new one. So a commit writes nothing of keys
that stay cold, whatever their windows do.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from windrow.aggregates.extent import Positions
from windrow.columns.encoding import decode_value, encode_value
from windrow.errors import CorruptSnapshot
from windrow.kernels.slices.layout import FOREVER, Results
from windrow.operator.cards import COLUMNS
from windrow.operator.extents import ExtentState
from windrow.operator.plan import Due, Ints
from windrow.storage.cold_block import Codec, pack, unpack
from windrow.storage.validate import MOST, check_keys, check_number, numbers, to_bytes
from windrow.storage.validate_slices import check_following, checked_counters

if TYPE_CHECKING:
    from windrow.operator.slices import SliceTable

WINDOWS = ("which", "start", "end", "repeat")


def page_name(number: int) -> str:
    return f"cold.{number}"


def page_of(table: SliceTable, keys: Ints, block: bytes, due: Due | None, empty: Ints) -> dict[str, Any]:
    """A block as the plain values of a page. ``due`` are the next windows of its keys."""
    counters = {name: to_bytes(counter[..., keys]) for name, counter in sorted(table.slicer.counters.items())}
    return {
        "keys": table.keys.plain(keys),
        "counters": counters,
        "block": block,
        "cards": b"" if due is None else _packed(due, keys),
        "empty": to_bytes(empty),
        "following": to_bytes(table.slides.following[:, keys]),
    }


class ReadPage:
    """A page that was read and checked: numbers of its keys, and what belongs to them."""

    def __init__(self, image: dict[str, Any], table: SliceTable, name: str) -> None:
        check_keys(image["keys"], table.keys.fields)
        count = len(image["keys"])
        counters = checked_counters(image, table)
        self.block: bytes = image["block"]
        self.empty = numbers(image, "empty", count)
        if len(self.empty) and not -FOREVER < self.empty.min() <= self.empty.max() <= FOREVER:
            raise CorruptSnapshot(f"{name}: a key ends out of range")
        windows = table.slicer.windows
        self.following = numbers(image, "following", windows * count).reshape(windows, count)
        check_following(self.following, table)
        self.keys = table.keys.load(image["keys"])
        table.ensure_keys()
        if len(np.unique(self.keys)) < count:
            raise CorruptSnapshot(f"{name}: a key is in the block twice")
        cards = image["cards"] if foresees(table) else b""
        self.due = _unpacked(cards, table, self.keys, name) if cards else None
        self.counters = counters


def foresees(table: SliceTable) -> bool:
    """Whether results of windows are computed here, and so can be known in advance. If not, positions of rows are sent
    to workers, and a cold key that is read from a store thaws."""
    wholes = [state.whole for state in table.aggregates if isinstance(state, ExtentState)]
    return not any(isinstance(whole, Positions) for whole in wholes)


def listed(blocks: dict[int, Any], of: Any) -> list[tuple[int, bytes]]:
    """The entry of the header: the blocks, and which keys of each are still cold."""
    found = []
    for number, block in sorted(blocks.items()):
        left = of[block.keys] == number
        found.append((number, b"" if left.all() else np.packbits(left).tobytes()))
    return found


def checked_list(entry: Any) -> list[tuple[int, bytes]]:
    """The entry of the header, if it names each block once."""
    if type(entry) is not list:
        raise CorruptSnapshot(f"'cold' has to be list, not {type(entry).__name__}")
    for pair in entry:
        if type(pair) not in (tuple, list) or len(pair) != 2 or type(pair[1]) is not bytes:
            raise CorruptSnapshot("'cold' has to be pairs of a block and which of its keys are cold")
        check_number(pair[0], 0, MOST, "the number of a cold block")
    if len({pair[0] for pair in entry}) < len(entry):
        raise CorruptSnapshot("'cold' names a block twice")
    return entry


def still_cold(left: bytes, count: int, name: str) -> Any:
    """Which keys of a block are still cold."""
    if not left:
        return np.ones(count, np.bool_)
    if len(left) != -(-count // 8):
        raise CorruptSnapshot(f"{name}: the header has {len(left)} bytes for {count} keys")
    return np.unpackbits(np.frombuffer(left, np.uint8), count=count).astype(np.bool_)


def _packed(due: Due, keys: Ints) -> bytes:
    """Windows to come, with the place of each key in its block."""
    order = np.argsort(keys)
    columns: dict[str, Any] = {"key": order[np.searchsorted(keys, due.key, sorter=order)]}
    columns |= {name: getattr(due, name) for name in WINDOWS}
    for name, (out, ok) in due.results.items():
        typed = out.dtype.kind in "iubf"
        columns[f"{name}.out"] = out if typed else encode_value(out.tolist())
        columns[f"{name}.ok"] = ok
    return pack(columns, Codec("zstd"))


def _unpacked(blob: bytes, table: SliceTable, keys: Ints, name: str) -> Due:
    columns = unpack(blob, f"the windows of {name}")
    key: Any = columns.get("key")
    found: dict[str, Any] = {each: columns.get(each) for each in COLUMNS}
    count = 0 if key is None else len(key)
    if any(not isinstance(each, np.ndarray) or len(each) != count for each in found.values()):
        raise CorruptSnapshot(f"{name}: its windows are incomplete")
    which, repeat = found["which"], found["repeat"]
    if count and not (0 <= key.min() <= key.max() < len(keys) and repeat.min() >= 1):
        raise CorruptSnapshot(f"{name}: a window belongs to no key")
    if count and not 0 <= which.min() <= which.max() < table.slicer.windows:
        raise CorruptSnapshot(f"{name}: there is no such window")
    results = {}
    for state in table.aggregates:
        out, ok = columns.get(f"{state.name}.out"), columns.get(f"{state.name}.ok")
        room = state.room(count)
        if isinstance(out, bytes):
            out = decode_value(out)
        if out is None or ok is None or len(out) != count or len(ok) != count:
            raise CorruptSnapshot(f"{name}: results of {state.name!r} are missing")
        room.out[:] = out
        results[state.name] = Results(room.out, np.asarray(ok, np.bool_))
    start, end = (found[each].astype(table.slices.stamp.dtype) for each in ("start", "end"))
    return Due(keys[key], which, start, end, repeat, results)
