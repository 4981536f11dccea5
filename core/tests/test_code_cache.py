"""Code that is compiled in one process and read from the cache in another."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

SIZES = """
import sys
import numpy as np
import windrow as wr
from windrow.kernels.partials import allocate, slots
from windrow.kernels.specialise import specialise
from windrow.testing import fold

for k in map(int, sys.argv[1:]):
    monoid = wr.KLL("x", k=k).bind()
    parts = allocate(monoid, 1)
    specialise(fold, slots(monoid)).absorb(parts, (np.arange(1000.0),), 0, 1000)
    print(parts[3].sum())
"""


def sizes(cache: Path, *ks: int) -> list[int]:
    """How many of 1000 values sketches keep, by compiled code, in a process of its own."""
    run = subprocess.run(
        [sys.executable, "-c", SIZES, *map(str, ks)],
        env={**os.environ, "NUMBA_CACHE_DIR": str(cache)},
        capture_output=True,
        text=True,
        check=True,
    )
    return [int(line) for line in run.stdout.split()]


def test_what_is_read_from_the_cache_is_not_taken_for_what_was_compiled(tmp_path: Path) -> None:
    """The functions of the two sketches have the same names, and differ in a parameter that is compiled in."""
    (many,) = sizes(tmp_path, 100)
    assert many > 3 * 50 + 40
    few, again = sizes(tmp_path, 50, 100)
    assert few <= 3 * 50 + 40
    assert again == many
