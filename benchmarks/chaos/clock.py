"""A wall clock that jumps, for the processes of a job alone."""

from __future__ import annotations

import os
import struct
import subprocess
from pathlib import Path
from random import Random

SECONDS = (-86_400, -3_600, -61, -1, 1, 61, 3_600, 86_400)
"""How far the clock may be off."""


class Clock:
    """Processes that are started with :attr:`environment` see a wall clock that can be set. Needs a C compiler."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._file, library = folder / "clock", folder / "clock.so"
        self._file.write_bytes(bytes(8))
        source = Path(__file__).with_name("clock.c")
        subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-o", library, source, "-ldl"], check=True)
        self.environment = {"LD_PRELOAD": str(library), "WINDROW_CLOCK": str(self._file)}

    def jump(self, chance: Random) -> bool:
        """Be off by something else from now on."""
        with self._file.open("r+b") as held:
            os.pwrite(held.fileno(), struct.pack("<q", chance.choice(SECONDS) * 10**9), 0)
        return True
