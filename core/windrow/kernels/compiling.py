# SPDX-License-Identifier: Apache-2.0
"""How long this process has spent compiling: what a first run waits for, and a metric of the engines.

Every kernel that is compiled is logged by the logger ``windrow.compiling``: when it begins (DEBUG) and, if it took more
than a moment, how long it took (INFO). Where nobody sees that, one line announces the wait (WARNING): Python shows it
even if logging is not set up. Kernels that come from the cache on disk are not compiled.

>>> compile_seconds() >= 0.0
True
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import perf_counter
from typing import Any

import numba.core.event

events: Any = numba.core.event
logger = logging.getLogger("windrow.compiling")

MOMENT = 0.2
"""Seconds; what takes less is not worth a line."""
PATIENCE = 1.0
"""Seconds of compiling after which a wait is announced."""


class _Clock(numba.core.event.Listener):
    """Adds up compilations; one that is part of another counts once."""

    def __init__(self) -> None:
        self.seconds, self.kernels = 0.0, 0
        self.thread = _Nesting()
        self.told: list[Callable[[str | None], None]] = []
        self.forbidden = 0
        self.announced = False

    def on_start(self, event: Any) -> None:
        if self.forbidden:
            self.thread.refuse()
            raise NotCached(f"{_name(event)} would have to be compiled")
        if self.thread.enter():
            name = _name(event)
            logger.debug("compiling %s", name)
            for tell in self.told:
                tell(name)
            if self.seconds > PATIENCE and not self.told and not logger.isEnabledFor(logging.INFO):
                self.announce(name)

    def announce(self, name: str) -> None:
        """One line for each process that waits."""
        if not self.announced:
            self.announced = True
            logger.warning(
                "windrow compiles the kernels of a query when it first runs (%.1f s so far, now %s). "
                "They are cached on disk, so the next run does not wait",
                self.seconds,
                name,
            )

    def forbid(self, change: int) -> None:
        self.forbidden += change

    def on_end(self, event: Any) -> None:
        seconds = self.thread.leave()
        if seconds is None:
            return
        self.seconds, self.kernels = self.seconds + seconds, self.kernels + 1
        for tell in self.told:
            tell(None)
        if seconds > MOMENT:
            logger.info("compiled %s in %.1f s; it is cached for other processes", _name(event), seconds)


class _Nesting(threading.local):
    """How deep the compilations of one thread are nested, and when the outermost began."""

    def __init__(self) -> None:
        self.depth, self.begin, self.refused = 0, 0.0, 0

    def refuse(self) -> None:
        """A compilation does not take place. Numba says that it ends all the same."""
        self.refused += 1

    def enter(self) -> bool:
        """Whether this is the outermost."""
        self.depth += 1
        if self.depth > 1:
            return False
        self.begin = perf_counter()
        return True

    def leave(self) -> float | None:
        """The seconds since the outermost began, if this is the outermost."""
        if self.refused:
            self.refused -= 1
            return None
        self.depth -= 1
        return perf_counter() - self.begin if self.depth == 0 else None


_clock = _Clock()
events.register("numba:compile", _clock)


def compile_seconds() -> float:
    """The seconds that this process has compiled so far."""
    return _clock.seconds


def compiled_kernels() -> int:
    """How many kernels this process has compiled so far."""
    return _clock.kernels


@contextmanager
def telling(tell: Callable[[str | None], None]) -> Iterator[None]:
    """Call a function with the name of each kernel when it begins to be compiled, and with ``None`` when it is."""
    _clock.told.append(tell)
    try:
        yield
    finally:
        _clock.told.remove(tell)


class NotCached(Exception):
    """A kernel is not in the cache, and must not be compiled now."""


@contextmanager
def only_from_cache() -> Iterator[None]:
    """Kernels are loaded, not compiled: one that no cache has raises :class:`NotCached`. It holds for all threads."""
    _clock.forbid(1)
    try:
        yield
    finally:
        _clock.forbid(-1)


def _name(event: Any) -> str:
    """The kernel's module and function, as far as numba says."""
    function = getattr((event.data or {}).get("dispatcher"), "py_func", None)
    module = str(getattr(function, "__module__", "")).rpartition(".")[2].partition("_")[0]
    return ".".join(filter(None, [module, str(getattr(function, "__name__", "a kernel"))]))
