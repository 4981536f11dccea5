# SPDX-License-Identifier: Apache-2.0
"""Smart plugs in private households, in the schema of the DEBS 2014 grand challenge. Synthetic.

What it matches: 40 houses with 2,125 plugs; each plug reports about once a second, its load in watts
(property 1) and its work in kWh (property 0); plug ids repeat between households, 14 of them, the low ones a
little more often; September 2013. (Jerzak and Ziekow, *The DEBS 2014 Grand Challenge*, 2014.) The households'
habits are invented: fridges that cycle, lights and televisions in the evening, kettles, washing machines,
computers, and many plugs that draw almost nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from windrow import durations
from windrow.data.blocks import BATCH, Floats, Ints, chance, positive, reader, timestamps
from windrow.durations import Duration
from windrow.errors import GeneratorError

SCHEMA = pa.schema(
    {
        "id": pa.int64(),
        "timestamp": pa.timestamp("us", "UTC"),
        "value": pa.float64(),
        "property": pa.int8(),
        "plug_id": pa.int32(),
        "household_id": pa.int32(),
        "house_id": pa.int32(),
    }
)
WORK, LOAD = 0, 1
START = 1_377_986_400  # 1 September 2013, midnight in Germany
SECONDS = 30 * 86_400
IDS = 14
MISSING = 0.02
READINGS = 1 << 16  # of a block, before the missing ones

# What may be plugged in: share of plugs, watts at rest, watts at work (least, most), length of a cycle in seconds
# (least, most), share of a cycle at work, chance that a cycle works at all by night, day and evening.
APPLIANCES = (
    ("standby", 0.34, 1.5, (0, 3), (3600, 9000), 0.5, (0.5, 0.5, 0.5)),
    ("fridge", 0.16, 2.0, (70, 130), (1500, 3000), 0.35, (1.0, 1.0, 1.0)),
    ("light", 0.20, 0.3, (8, 90), (2400, 9000), 0.9, (0.04, 0.15, 0.75)),
    ("screen", 0.14, 1.0, (60, 180), (2700, 9000), 0.8, (0.05, 0.25, 0.7)),
    ("computer", 0.10, 4.0, (35, 160), (1800, 7200), 0.85, (0.1, 0.55, 0.6)),
    ("kettle", 0.04, 0.2, (1200, 2300), (900, 2400), 0.12, (0.02, 0.3, 0.35)),
    ("washer", 0.02, 1.0, (350, 2100), (3600, 7200), 0.6, (0.02, 0.18, 0.22)),
)


def smart_home(
    rows: int | None = None,
    seed: int = 0,
    *,
    plugs: int = 2125,
    houses: int = 40,
    skip: Duration = 0,
    batch_rows: int = BATCH,
) -> pa.RecordBatchReader:
    """Loads and work of smart plugs, in order of time. Without ``rows``, a whole month.

    ``skip`` leaves out the first part of the month: "18h" starts in the first evening.

    >>> smart_home(rows=2, seed=1).read_all().column("property").to_pylist()
    [0, 1]
    """
    positive("plugs", plugs)
    if positive("houses", houses) > plugs:
        raise GeneratorError(f"houses is {houses}, more than there are plugs ({plugs})")
    first = durations.parse(skip, name="skip") // 1_000_000
    if not 0 <= first < SECONDS:
        raise GeneratorError(f"skip has to be shorter than the month, not {skip!r}")
    return reader(SCHEMA, _blocks(seed, _plugs(seed, plugs, houses), first), rows, batch_rows)


@dataclass(frozen=True)
class Plugs:
    """Where each plug is and what is in it, one entry per plug."""

    plug: Ints
    household: Ints
    house: Ints
    rest: Floats
    watts: Floats
    cycle: Ints
    busy: Ints
    phase: Ints
    habit: Floats
    salt: Ints
    meter: Floats


def _plugs(seed: int, count: int, houses: int) -> Plugs:
    draw = chance(seed, 0)
    sizes = draw.integers(4, IDS + 1, size=count)
    sizes = sizes[: int(np.searchsorted(np.cumsum(sizes), count)) + 1]
    if len(sizes) < houses:  # few plugs: every house has a household all the same
        sizes = np.full(houses, count // houses) + (np.arange(houses) < count % houses)
    home = np.concatenate([np.arange(houses), draw.integers(0, houses, size=len(sizes) - houses)])
    number = np.zeros(len(sizes), dtype=np.int32)
    for house in range(houses):
        number[home == house] = np.arange(int((home == house).sum()))
    of = np.repeat(np.arange(len(sizes)), sizes)[:count]
    first = np.concatenate([[0], np.cumsum(sizes)[:-1]])
    kind = draw.choice(len(APPLIANCES), size=count, p=[each[1] for each in APPLIANCES])
    low, high = (np.array([each[3][end] for each in APPLIANCES])[kind] for end in (0, 1))
    short, long = (np.array([each[4][end] for each in APPLIANCES])[kind] for end in (0, 1))
    cycle = draw.integers(short, long, endpoint=True)
    return Plugs(
        plug=((np.arange(count) - first[of]) % IDS).astype(np.int32),
        household=number[of],
        house=home[of].astype(np.int32),
        rest=np.array([each[2] for each in APPLIANCES])[kind] * draw.uniform(0.5, 1.5, count),
        watts=draw.uniform(low, high + 1e-9),
        cycle=cycle,
        busy=(cycle * np.array([each[5] for each in APPLIANCES])[kind]).astype(np.int64),
        phase=draw.integers(0, cycle),
        habit=np.array([each[6] for each in APPLIANCES])[kind],
        salt=draw.integers(1, 1 << 62, size=count, dtype=np.uint64),
        meter=np.round(draw.gamma(2.0, 20.0, count), 3),
    )


def _blocks(seed: int, plugs: Plugs, first: int) -> Iterator[pa.RecordBatch]:
    count = len(plugs.plug)
    span = max(1, READINGS // count)
    meter = plugs.meter
    rows = 0
    for number, begin in enumerate(range(first, SECONDS, span)):
        seconds = np.arange(begin, min(begin + span, SECONDS))
        draw = chance(seed, 1, number)
        load = _loads(plugs, seconds, draw)
        work = meter + np.cumsum(load, axis=0) / 3.6e6
        meter = work[-1]
        here = draw.random(load.shape, dtype=np.float32) >= MISSING
        second, plug = np.nonzero(here)
        taken = len(second)
        value = np.empty((taken, 2))
        value[:, WORK], value[:, LOAD] = work[here], load[here]
        np.multiply(value, 1000.0, out=value)
        np.rint(value, out=value)
        np.divide(value, 1000.0, out=value)
        yield pa.RecordBatch.from_arrays(
            [
                pa.array(np.arange(rows, rows + 2 * taken)),
                timestamps(np.repeat((START + seconds[second]) * 1_000_000, 2)),
                pa.array(value.ravel()),
                pa.array(np.tile(np.array([WORK, LOAD], dtype=np.int8), taken)),
                *(pa.array(np.repeat(each[plug], 2)) for each in (plugs.plug, plugs.household, plugs.house)),
            ],
            schema=SCHEMA,
        )
        rows += 2 * taken


def _loads(plugs: Plugs, seconds: Ints, draw: np.random.Generator) -> Floats:
    """Watts of every plug (across) at every second (down)."""
    clock = seconds[:, None] + plugs.phase
    turn = clock // plugs.cycle
    at = clock - turn * plugs.cycle
    hour = (START // 3600 + 2 + seconds // 3600) % 24  # local time in Germany
    part = np.where(hour < 6, 0, np.where(hour < 17, 1, 2))
    # Whether a cycle works is a hash of its number, so that it does not depend on where blocks end.
    mixed = (turn.astype(np.uint64) + plugs.salt) * np.uint64(0x9E3779B97F4A7C15)
    lot = (mixed >> np.uint64(40)).astype(np.float32) * np.float32(2.0**-24)
    on = (at < plugs.busy) & (lot < plugs.habit.T[part])
    noise = draw.standard_normal(on.shape, dtype=np.float32)
    level = np.where(on, plugs.rest + plugs.watts, plugs.rest)
    started = on & (at < 3)  # a motor or a lamp draws more as it starts
    level = np.where(started, level * 1.3, level)
    return np.asarray(np.maximum(level * (1.0 + 0.02 * noise), 0.0))
