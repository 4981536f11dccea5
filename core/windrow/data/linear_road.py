# SPDX-License-Identifier: Apache-2.0
"""Vehicles on expressways, in the schema of the Linear Road benchmark's position reports. Synthetic.

What it matches: a report of each vehicle every 30 s, journeys of a few to tens of minutes, three hours, about
44 million rows with the default of four expressways, traffic that grows from a trickle; expressways of 100
segments of a mile with three lanes, an entrance and an exit lane each way; vehicles that stop, and an accident
about every 20 minutes on each side of each expressway: two vehicles that stand in the same place, with slow
traffic behind. (Arasu et al., *Linear Road*, VLDB 2004; the experiments on compressed state.) The
drivers are invented, and tolls, balances and queries are left out.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields

import numpy as np
import pyarrow as pa

from windrow.data.blocks import BATCH, Floats, Ints, chance, positive, reader, timestamps

SCHEMA = pa.schema(
    {
        "time": pa.timestamp("us", "UTC"),
        "vid": pa.int32(),
        "speed": pa.int16(),
        "xway": pa.int16(),
        "lane": pa.int8(),
        "dir": pa.int8(),
        "seg": pa.int8(),
        "pos": pa.int32(),
    }
)
START = 1_072_915_200  # 1 January 2004
SECONDS = 3 * 3600
EVERY = 30  # seconds between the reports of a vehicle
SEGMENTS, FEET = 100, 5280
FIRST_RATE, LAST_RATE = 20, 2017  # reports a second on one expressway, at the start and at the end
JOURNEY = 25  # reports of a vehicle, on average
ACCIDENT_EVERY = 1200 // EVERY  # rounds of reports between accidents on one side of one expressway
BLOCK = 1 << 16
ENTRANCE, EXIT = 0, 4


@dataclass
class Vehicles:
    """The vehicles whose reports fall on the same second of each half minute, one entry per vehicle."""

    vid: Ints
    way: Ints  # 2 * expressway + direction
    pos: Floats  # feet along the road
    pace: Floats  # miles an hour that the driver likes
    left: Ints  # reports still to come
    stands: Ints  # reports for which it will not move
    age: Ints

    def kept(self, which: Ints) -> Vehicles:
        return Vehicles(*(getattr(self, each.name)[which] for each in fields(self)))

    def joined(self, other: Vehicles) -> Vehicles:
        return Vehicles(
            *(np.concatenate([getattr(self, each.name), getattr(other, each.name)]) for each in fields(self))
        )

    def move(self, feet: Floats) -> None:
        """Drive on; a vehicle that arrives at the end of the road has one report left."""
        self.pos += feet
        arrived = self.pos >= SEGMENTS * FEET - 1
        self.pos[arrived] = SEGMENTS * FEET - 1
        self.left[arrived] = np.minimum(self.left[arrived], 1)

    def reported(self) -> None:
        """Count one report of each vehicle."""
        self.left -= 1
        self.age += 1
        np.maximum(self.stands - 1, 0, out=self.stands)


def linear_road(
    rows: int | None = None, seed: int = 0, *, expressways: int = 4, batch_rows: int = BATCH
) -> pa.RecordBatchReader:
    """Position reports in order of time; without ``rows`` three hours, 11 million rows per expressway.

    >>> linear_road(rows=1, seed=3).schema.names
    ['time', 'vid', 'speed', 'xway', 'lane', 'dir', 'seg', 'pos']
    """
    positive("expressways", expressways)
    return reader(SCHEMA, _together(_seconds(seed, expressways)), rows, batch_rows)


def _together(parts: Iterator[list[np.ndarray]]) -> Iterator[pa.RecordBatch]:
    """Join seconds to blocks of at least ``BLOCK`` rows."""
    buffered: list[list[np.ndarray]] = []
    rows = 0
    for part in parts:
        buffered.append(part)
        rows += len(part[0])
        if rows >= BLOCK:
            yield _batch(buffered)
            buffered, rows = [], 0
    if rows:
        yield _batch(buffered)


def _batch(parts: list[list[np.ndarray]]) -> pa.RecordBatch:
    columns = [np.concatenate(each) for each in zip(*parts, strict=True)]
    return pa.RecordBatch.from_arrays([timestamps(columns[0]), *map(pa.array, columns[1:])], schema=SCHEMA)


def _seconds(seed: int, expressways: int) -> Iterator[list[np.ndarray]]:
    groups: list[Vehicles | None] = [None] * EVERY
    blocked = np.full(2 * expressways, -1.0)  # where the latest accident of each side is; -1: nowhere
    clears = np.zeros(2 * expressways, dtype=np.int64)
    entered = 0
    for second in range(SECONDS):
        draw = chance(seed, second)
        group = groups[second % EVERY]
        wanted = int(expressways * (FIRST_RATE + (LAST_RATE - FIRST_RATE) * second / SECONDS))
        blocked[clears <= second] = -1.0
        if group is not None:
            group = group.kept(np.flatnonzero(group.left > 0))
            _drive(group, blocked, draw)
        new = _entering(draw, entered, max(wanted - (0 if group is None else len(group.vid)), 0), expressways)
        entered += len(new.vid)
        group = new if group is None else group.joined(new)
        if second % EVERY == 0 and second:
            _crash(group, second, blocked, clears, draw)
        groups[second % EVERY] = group
        yield _reports(second, group, blocked)
        group.reported()


def _entering(draw: np.random.Generator, first: int, count: int, expressways: int) -> Vehicles:
    return Vehicles(
        vid=np.arange(first, first + count, dtype=np.int32),
        way=draw.integers(0, 2 * expressways, size=count, dtype=np.int16),
        pos=draw.integers(0, (SEGMENTS - 1) * FEET, size=count).astype(np.float64),
        pace=np.clip(draw.normal(57.0, 9.0, size=count), 30.0, 100.0),
        left=4 + draw.poisson(JOURNEY - 4, size=count),
        stands=np.zeros(count, dtype=np.int64),
        age=np.zeros(count, dtype=np.int64),
    )


def _drive(group: Vehicles, blocked: Floats, draw: np.random.Generator) -> None:
    """Move all vehicles of a group by half a minute."""
    count = len(group.vid)
    group.stands[(draw.random(count, dtype=np.float32) < 0.002) & (group.stands == 0)] = 4 + int(
        draw.integers(0, 8)
    )
    group.move(_speed(group, blocked) * (FEET * EVERY / 3600.0))


def _speed(group: Vehicles, blocked: Floats) -> Floats:
    """Miles an hour: zero for vehicles that stand, reduced up to five segments before an accident."""
    accident = blocked[group.way]
    behind = accident - group.pos
    jam = (accident >= 0) & (behind >= 0) & (behind < 5 * FEET)
    return np.where(group.stands > 0, 0.0, np.where(jam, group.pace * 0.35, group.pace))


def _crash(group: Vehicles, second: int, blocked: Floats, clears: Ints, draw: np.random.Generator) -> None:
    """Stop two adjacent vehicles on one side in the same place, for ten to twenty minutes."""
    for way in np.flatnonzero(draw.random(len(blocked)) < 1.0 / ACCIDENT_EVERY).tolist():
        there = np.flatnonzero((group.way == way) & (group.left > 8) & (group.age > 0))
        if blocked[way] >= 0 or len(there) < 2:
            continue
        pair = there[np.argsort(group.pos[there], kind="stable")][len(there) // 2 - 1 :][:2]
        rounds = int(draw.integers(20, 40))
        group.pos[pair] = group.pos[pair[0]]
        group.stands[pair] = rounds
        group.left[pair] = np.maximum(group.left[pair], rounds + 4)
        blocked[way] = group.pos[pair[0]]
        clears[way] = second + rounds * EVERY


def _reports(second: int, group: Vehicles, blocked: Floats) -> list[np.ndarray]:
    count = len(group.vid)
    speed = _speed(group, blocked)
    seg = (group.pos // FEET).astype(np.int8)
    travel = 1 + (group.vid % 3)
    lane = np.where(group.age == 0, ENTRANCE, np.where((group.left <= 1) & (group.stands == 0), EXIT, travel))
    direction = (group.way & 1).astype(np.int8)
    feet = group.pos.astype(np.int32)
    # Westbound, positions are counted from the other end.
    feet = np.where(direction == 1, SEGMENTS * FEET - 1 - feet, feet).astype(np.int32)
    seg = (feet // FEET).astype(np.int8)
    return [
        np.full(count, (START + second) * 1_000_000),
        group.vid,
        np.rint(speed).astype(np.int16),
        (group.way >> 1).astype(np.int16),
        lane.astype(np.int8),
        direction,
        seg,
        feet,
    ]
