# SPDX-License-Identifier: Apache-2.0
"""Memory of this machine, and amounts of memory as text.

>>> parse_bytes("1.5GB"), parse_bytes("512 MiB"), format_bytes(6_220_800_000_000_000)
(1500000000, 536870912, '6.2 PB')
"""

from __future__ import annotations

import os
import re
from pathlib import Path

from windrow.errors import QueryError

__all__ = ["available", "format_bytes", "half_of_memory", "parse_bytes"]

UNITS = ("B", "kB", "MB", "GB", "TB", "PB", "EB")
AMOUNT = re.compile(r"\s*([0-9]+(?:\.[0-9]+)?)\s*([kMGTPE]?)(i?)B?\s*", re.IGNORECASE)
UNKNOWN = 1 << 33
"""Assumed where the system does not tell: 8 GiB."""


def available() -> int:
    """Bytes that can be had without taking them from other programs, as far as the system tells."""
    try:
        free = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):  # not on this system
        free = UNKNOWN
    try:
        listed = re.search(r"MemAvailable:\s+(\d+)", Path("/proc/meminfo").read_text(encoding="ascii"))
    except OSError:
        listed = None
    return int(listed[1]) * 1024 if listed else free


def half_of_memory() -> int:
    """What one part of the work may take, so that there is room for the rest of it."""
    return available() // 2


def parse_bytes(text: str, name: str = "memory") -> int:
    """An amount such as ``4GB``, ``512MiB`` or a number of bytes. ``name`` is used in errors."""
    found = AMOUNT.fullmatch(text)
    if found is None or not float(found[1]):
        raise QueryError(
            f"{name}: cannot read {text!r} as an amount of memory; write one such as 500MB or 4GB"
        )
    power = " KMGTPE".index(found[2].upper() or " ")
    return int(float(found[1]) * (1024 if found[3] else 1000) ** power)


def format_bytes(count: int) -> str:
    """The amount in the largest unit of which there is at least one."""
    amount, unit = float(count), 0
    while amount >= 1000 and unit < len(UNITS) - 1:
        amount, unit = amount / 1000, unit + 1
    return f"{amount:.1f} {UNITS[unit]}" if unit else f"{count} B"
