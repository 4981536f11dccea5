# SPDX-License-Identifier: Apache-2.0
"""Sorting rows by their keys, byte by byte: time that follows their number, and no guesses at branches.

The four highest bytes in which keys differ are sorted by, from the lowest of them. That leaves few rows out of order, if
any, and these are inserted where they belong. Should there be many, lower bytes are sorted by as well. A few rows are
sorted by insertion alone.
"""

from __future__ import annotations

from typing import Any

import numpy as np

MIN: Any = np.int64(-0x8000000000000000)
BYTES, VALUES = 8, 256
AT_FIRST = 4
"""How many bytes are sorted by at first."""

FEW = 48
"""So many rows are faster inserted one by one."""


def sort_rows(keys: Any, rows: Any, room: Any, count: Any, tally: Any) -> Any:
    """Sort the first ``count`` pairs of a key and a row by key; equal ones keep their order.

    Both arrays have ``room`` places twice: pairs go to and fro between the halves. ``tally`` has BYTES · VALUES places.
    Returns where the sorted pairs begin, 0 or ``room``.
    """
    if count <= FEW:
        inserted(keys, rows, 0, count, FEW * FEW)
        return 0
    differ = np.int64(0)
    for i in range(count):
        differ |= keys[i] ^ keys[0]
    top = BYTES - 1
    while top > 0 and (differ >> (8 * top)) & 255 == 0:
        top -= 1
    low = max(top + 1 - AT_FIRST, 0)
    at = by_bytes(keys, rows, room, 0, count, tally, low, top)
    if low > 0 and not inserted(keys, rows, at, count, count):
        at = by_bytes(keys, rows, room, at, count, tally, 0, top)
    return at


def by_bytes(keys: Any, rows: Any, room: Any, source: Any, count: Any, tally: Any, low: Any, top: Any) -> Any:
    """Sort pairs that begin at ``source`` by the bytes from ``low`` to ``top``. Returns where they begin then."""
    for i in range(low * VALUES, (top + 1) * VALUES):
        tally[i] = 0
    for i in range(source, source + count):
        key = keys[i] ^ MIN
        for byte in range(low, top + 1):
            tally[byte * VALUES + ((key >> (8 * byte)) & 255)] += 1
    for byte in range(low, top + 1):
        if tally[byte * VALUES + (((keys[source] ^ MIN) >> (8 * byte)) & 255)] == count:
            continue
        place = room - source
        for value in range(byte * VALUES, (byte + 1) * VALUES):
            tally[value], place = place, place + tally[value]
        for i in range(source, source + count):
            value = byte * VALUES + (((keys[i] ^ MIN) >> (8 * byte)) & 255)
            place = tally[value]
            tally[value] = place + 1
            keys[place], rows[place] = keys[i], rows[i]
        source = room - source
    return source


def inserted(keys: Any, rows: Any, begin: Any, count: Any, most: Any) -> bool:
    """Insert each pair among those before it. False if that takes more than so many moves."""
    for i in range(begin + 1, begin + count):
        if keys[i - 1] > keys[i]:
            key, row = keys[i], rows[i]
            j = i
            while j > begin and keys[j - 1] > key:
                keys[j], rows[j] = keys[j - 1], rows[j - 1]
                j -= 1
            keys[j], rows[j] = key, row
            most -= i - j
            if most < 0:
                return False
    return True
