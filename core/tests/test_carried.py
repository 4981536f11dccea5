"""Compiled code that one process packs and another takes over, which has an empty cache."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from windrow.kernels import carried

PROGRAM = """
import sys
from pathlib import Path
import numpy as np
import windrow as wr
from windrow.kernels import carried
from windrow.kernels.compiling import NotCached, compiled_kernels, only_from_cache
from windrow.kernels.partials import allocate, slots
from windrow.kernels.specialise import specialise
from windrow.testing import fold

LEAST = 3.0

@wr.aggregate_type(partial={"low": "f8", "high": "f8"}, identity=(float("inf"), float("-inf")))
class Spread:
    def lift(x):
        return x, max(x, LEAST)

    def combine(a, b):
        return min(a[0], b[0]), max(a[1], b[1])

    def lower(p):
        return p[1] - p[0]

def run():
    monoid = Spread("x").bind()
    parts = allocate(monoid, 1)
    specialise(fold, slots(monoid)).absorb(parts, (np.arange(100.0),), 0, 100)
    return [float(part[0]) for part in parts]

what, file = sys.argv[1], Path(sys.argv[2])
if what == "take":
    carried.take_over(file.read_bytes())
if what == "pack":
    with only_from_cache():
        try:
            run()
        except NotCached as problem:
            print(problem, file=sys.stderr)
    assert compiled_kernels() == 0
with carried.used() as found:
    print(*run(), compiled_kernels())
if what == "pack":
    file.write_bytes(carried.pack(found.values()))
"""


def run(what: str, file: Path, cache: Path) -> tuple[str, str]:
    """The partial and how many kernels were compiled for it, in a process of its own; and what it says."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, what, str(file)],
        env={**os.environ, "NUMBA_CACHE_DIR": str(cache)},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.strip(), done.stderr


def test_a_process_with_an_empty_cache_compiles_nothing_that_it_takes_over(tmp_path: Path) -> None:
    file, there = tmp_path / "packed", tmp_path / "there"
    found, told = run("pack", file, tmp_path / "here")
    assert found == "0.0 99.0 100.0 1"
    assert "fold.absorb would have to be compiled" in told
    # What came from the cache travels, too.
    assert run("pack", file, tmp_path / "here") == ("0.0 99.0 100.0 0", "")
    assert run("take", file, there)[0] == "0.0 99.0 100.0 0"
    # It is kept for processes that take over nothing.
    assert run("nothing", file, there)[0] == "0.0 99.0 100.0 0"


def changed(packed: bytes, **values: str) -> bytes:
    begin = len(carried.MAGIC) + 8
    end = begin + int.from_bytes(packed[len(carried.MAGIC) : begin], "big")
    header: dict[str, Any] = json.loads(packed[begin:end])
    header["made for"].update({name.replace("_", " "): value for name, value in values.items()})
    text = json.dumps(header).encode()
    return carried.MAGIC + len(text).to_bytes(8, "big") + text + packed[end:]


def test_code_for_other_surroundings_is_not_taken_over() -> None:
    packed = carried.pack([])
    assert carried.take_over(packed) == 0
    with pytest.raises(carried.ForeignCode, match=r"another CPU \(z80, here .*\), CPU features \(none, here"):
        carried.take_over(changed(packed, CPU="z80", CPU_features="none"))
    with pytest.raises(carried.ForeignCode, match="another windrow"):
        carried.take_over(changed(packed, windrow="0"))
    with pytest.raises(carried.ForeignCode, match="not compiled code"):
        carried.take_over(b"\x80\x04." + packed)
