"""How long this process has spent compiling: what a first run waits for, and a metric of the engines.

>>> compile_seconds() >= 0.0
True
"""

from __future__ import annotations

import threading
from time import perf_counter
from typing import Any

import numba.core.event

events: Any = numba.core.event


class _Clock(numba.core.event.Listener):
    """Adds up compilations; one that is part of another counts once."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self.here = threading.local()

    def on_start(self, event: Any) -> None:
        self.here.depth = getattr(self.here, "depth", 0) + 1
        if self.here.depth == 1:
            self.here.begin = perf_counter()

    def on_end(self, event: Any) -> None:
        self.here.depth = getattr(self.here, "depth", 1) - 1
        if self.here.depth == 0:
            self.seconds += perf_counter() - self.here.begin


_clock = _Clock()
events.register("numba:compile", _clock)


def compile_seconds() -> float:
    """The seconds that this process has compiled so far."""
    return _clock.seconds
