# SPDX-License-Identifier: Apache-2.0
"""Stored state that is damaged, or changed under a correct checksum, and an operator that goes on from it."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Sequence
from functools import cache
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

import windrow as wr
from windrow.columns.encoding import decode_value, encode_value
from windrow.columns.ipc import to_ipc
from windrow.storage import snapshot
from windrow.storage.codec import compress, decompress
from windrow.storage.pages import MemoryPages
from windrow.storage.segments import Segments
from windrow_conformance.fuzzing import mutate
from windrow_conformance.generated import AGGREGATES, SCHEMA
from windrow_conformance.simulation.streams import APPROXIMATE, WINDOWS

NAMES = ("n", "peak", "all", "median")
MODES: tuple[dict[str, Any], ...] = (
    {"late": "drop"},
    {"late": "side", "lateness": 10},
    {"late": "update", "lateness": 20},
)
HEAD = 22
"""Bytes before the body of a snapshot."""
Images = dict[str, Any]
Given = tuple[wr.Query, dict[str, bytes], bool]
"""A query, the bytes of its state under the names of pages (of a snapshot, without name), and whether to run it compiled."""


@cache
def kept_cases() -> tuple[tuple[wr.Query, wr.Idle | None], ...]:
    """Every kind of window, with every way to treat late rows; with frozen keys; with buckets. And whether keys are frozen."""
    aggregates = {name: AGGREGATES[name] for name in NAMES}
    bounded = {name: AGGREGATES[name] for name in ("n", "peak", "total")}
    exact = [
        wr.Query(by="k", window=window, aggregates=aggregates, **mode) for window in WINDOWS for mode in MODES
    ]
    buckets = [
        wr.Query(by="k", window=window, aggregates=bounded, lateness=10, within=within)
        for window, within in APPROXIMATE
    ]
    return (
        *((query, None) for query in exact),
        *((query, wr.Idle(0, cohort=1)) for query in exact if query.late == "drop"),
        *((query, None) for query in buckets),
    )


def rows(first: int, count: int) -> pa.Table:
    """Rows of two keys, a little out of order."""
    times = [first + n + (3 if n % 5 == 0 else 0) for n in range(count)]
    return pa.table(
        {
            "k": ["a" if n % 3 else None for n in range(count)],
            "ts": times,
            "x": [None if n % 7 == 0 else float(n % 11) for n in range(count)],
            "i": [n % 4 for n in range(count)],
            "d": times,
        }
    ).cast(SCHEMA)


@cache
def _stored(number: int, kind: str) -> dict[str, bytes]:
    """State in the middle of a stream: a snapshot, pages, or segments."""
    query, idle = kept_cases()[number]
    if kind == "snapshot":
        operator = wr.Operator(query, SCHEMA, compiled=False, idle=idle)
        for first in (0, 30):
            operator.process(rows(first, 30))
            operator.advance(first + 25)
        operator.process(rows(0, 2))
        return {"": operator.snapshot()}
    pages = MemoryPages()
    store = Segments(pages) if kind == "segments" else pages
    operator = wr.Operator.open(query, SCHEMA, store, compiled=False, idle=idle)
    for first in range(0, 300, 60):
        operator.process(rows(first, 60) if first % 120 else rows(first, 60).filter(pc.field("k") == "a"))
        operator.advance(first + 50)
        operator.commit()
    operator.process(rows(0, 2))
    operator.commit()
    return dict(pages.held)


# Bytes that were changed, as by a disk.


def _damaged(kind: str, random: Random) -> tuple[int, dict[str, bytes]]:
    number = random.randrange(len(kept_cases()))
    held = dict(_stored(number, kind))
    name = random.choice(sorted(held))
    if random.random() < 0.1:
        held[name] = held[random.choice(sorted(held))]
    else:
        held[name] = mutate.data(held[name], random)
    return number, held


def damaged_snapshot(random: Random) -> tuple[int, dict[str, bytes]]:
    return _damaged("snapshot", random)


def damaged_page(random: Random) -> tuple[int, dict[str, bytes]]:
    return _damaged("pages", random)


def damaged_segment(random: Random) -> tuple[int, dict[str, bytes]]:
    return _damaged("segments", random)


def restore(given: tuple[int, dict[str, bytes]]) -> None:
    """Restore a snapshot."""
    number, held = given
    wr.Operator.restore(kept_cases()[number][0], held[""], compiled=False)


def open_store(given: tuple[int, dict[str, bytes]]) -> None:
    """Open a store, and have all of its pages read."""
    _opened(given, MemoryPages())


def open_segments(given: tuple[int, dict[str, bytes]]) -> None:
    _opened(given, MemoryPages(), segments=True)


def _opened(given: tuple[int, dict[str, bytes]], pages: MemoryPages, segments: bool = False) -> None:
    number, held = given
    pages.commit(held, [])
    store = Segments(pages) if segments else pages
    wr.Operator.open(kept_cases()[number][0], SCHEMA, store, compiled=False).snapshot()


# State that nobody wrote, under a correct checksum.


def crafted(random: Random) -> tuple[int, bool, Images]:
    """The plain values of a snapshot or of pages, with a few changes in one of them."""
    number, stored = random.randrange(len(kept_cases())), random.random() < 0.5
    held = _stored(number, "pages" if stored else "snapshot")
    images = {
        name: decode_value((decompress(blob) if stored else blob)[HEAD:]) for name, blob in held.items()
    }
    page = random.choice(sorted(images))
    for _ in range(random.choice([1, 1, 1, 2, 3])):
        images[page] = _changed(images[page], random)
    return number, stored, images


def go_on(given: tuple[int, bool, Images], compiled: bool = True) -> None:
    """Load the state, and go on as a stream does."""
    number, stored, images = given
    query, idle = kept_cases()[number]
    if stored:
        pages = MemoryPages()
        pages.commit({name: compress(_written(image)) for name, image in images.items()}, [])
        operator = wr.Operator.open(query, SCHEMA, pages, compiled=compiled, idle=idle)
    else:
        operator = wr.Operator.restore(query, _written(images[""]), compiled=compiled, idle=idle)
    since = max(min(operator.watermark, 2**60), -(2**60))
    operator.process(rows(since, 40))
    operator.advance(since + 20)
    operator.late()
    if stored:
        operator.commit()
    operator.process(rows(since + 40, 40))
    operator.flush()
    operator.snapshot()


def _written(image: Any) -> bytes:
    body = encode_value(image)
    return struct.pack("<8sHQI", snapshot.MAGIC, snapshot.FIRST, len(body), zlib.crc32(body)) + body


def _changed(value: Any, random: Random) -> Any:
    """The same value but for one change, somewhere in it."""
    if isinstance(value, dict) and value and random.random() > 0.06:
        name = random.choice(list(value))
        if random.random() < 0.05:
            return {other: entry for other, entry in value.items() if other != name}
        return {**value, name: _changed(value[name], random)}
    if isinstance(value, list | tuple) and value and random.random() > 0.06:
        entries = list(value)
        place = random.randrange(len(entries))
        if random.random() < 0.3:
            entries = random.choice([entries[:place], entries + entries[place:], entries[::-1]])
        else:
            entries[place] = _changed(entries[place], random)
        return type(value)(entries)
    if isinstance(value, bytes) and random.random() > 0.06:
        return _changed_bytes(value, random)
    return mutate.plain(value, random) if not isinstance(value, tuple) else ("a",)


def _changed_bytes(blob: bytes, random: Random) -> bytes:
    """Other bytes: of a table, of partials with their own checksum, or of numbers."""
    if blob[:4] == b"\xff\xff\xff\xff" and len(blob) > 16:
        if random.random() < 0.3:
            other = rows(random.choice([0, 2**61]), random.randrange(4))
            return to_ipc(
                random.choice([other, other.select(["ts", "x"]), other.rename_columns(list("abcde"))])
            )
        return mutate.data(blob, random)
    if len(blob) >= 8:
        checksum, count = struct.unpack_from("<II", blob)
        if zlib.crc32(blob[8:], count) == checksum:
            count = random.choice([count, count, count, (count + 1) % 2**32, 0, 2**32 - 1])
            body = (
                _changed_bytes(blob[8:], random) if random.random() < 0.5 else mutate.data(blob[8:], random)
            )
            return struct.pack("<II", zlib.crc32(body, count), count) + body
    if len(blob) % 8 or not blob:
        return random.choice([blob[:-1], blob + b"\0" * 8, mutate.data(blob, random)])
    return _packed(_changed_numbers(list(struct.unpack(f"<{len(blob) // 8}q", blob)), random))


def _changed_numbers(numbers: list[int], random: Random) -> Sequence[int]:
    place, how = random.randrange(len(numbers)), random.random()
    if how < 0.5:
        numbers[place] = random.choice([*mutate.WILD, len(numbers), len(numbers) - 1])
    elif how < 0.65:
        random.shuffle(numbers)
    elif how < 0.8:
        numbers[place] = max(min(numbers[place] + random.choice([-30, -1, 1, 2, 40]), 2**63 - 1), -(2**63))
    else:
        return random.choice([numbers[:place], numbers + numbers[place:], [numbers[place]] * len(numbers)])
    return numbers


def _packed(numbers: Sequence[int]) -> bytes:
    return struct.pack(f"<{len(numbers)}q", *numbers)
