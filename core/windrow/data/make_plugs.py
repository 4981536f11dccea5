# SPDX-License-Identifier: Apache-2.0
"""Makes `plugs.csv`: the load, in watts, of three smart plugs, one reading per plug every ten seconds.

The readings are invented, from a fixed seed, so that the file can be made again byte for byte:

    python -m windrow.data.make_plugs > plugs.csv

>>> print("".join(list(lines())[:4]), end="")
ts,plug,load
2024-03-01T18:00:00,desk,46.5
2024-03-01T18:00:00,fridge,90.7
2024-03-01T18:00:00,kettle,0.2
"""

import random
import sys
from collections.abc import Iterator
from datetime import datetime, timedelta

SEED = 20240301
START = datetime(2024, 3, 1, 18)
STEP = timedelta(seconds=10)
READINGS = 180


def lines() -> Iterator[str]:
    """The lines of `plugs.csv`, header first, in order of time and then plug."""
    chance = random.Random(SEED)
    yield "ts,plug,load\n"
    for reading in range(READINGS):
        time = (START + reading * STEP).isoformat()
        for plug, load in (("desk", desk), ("fridge", fridge), ("kettle", kettle)):
            yield f"{time},{plug},{load(reading, chance):.1f}\n"


def desk(reading: int, chance: random.Random) -> float:
    """A laptop and a lamp; the lamp goes on after a quarter of an hour."""
    return 48 + (9 if reading >= 90 else 0) + chance.uniform(-6, 6)


def fridge(reading: int, chance: random.Random) -> float:
    """A compressor that runs eight minutes of every twenty, and draws more as it starts."""
    minute = reading / 6 % 20
    if minute >= 8:
        return 1.5 + chance.uniform(-0.5, 0.5)
    return 88 + (60 if 0 < minute < 0.2 else 0) + chance.uniform(-4, 4)


def kettle(reading: int, chance: random.Random) -> float:
    """Idle, except for two boils of three minutes and one of one minute."""
    boils = 9 <= reading < 27 or 102 <= reading < 120 or 165 <= reading < 171
    return 2150 + chance.uniform(-40, 40) if boils else chance.uniform(0.2, 0.6)


if __name__ == "__main__":
    sys.stdout.writelines(lines())
