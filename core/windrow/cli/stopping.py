# SPDX-License-Identifier: Apache-2.0
"""A command that is told to end removes what it has half written."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from threading import current_thread, main_thread

__all__ = ["stoppable"]


@contextmanager
def stoppable() -> Iterator[None]:
    """SIGTERM inside the block is an exception, as Ctrl-C is, so that files are closed. A second one ends the process.

    Python's own way to end would leave hidden files behind. The exit code is that of a process which the signal ended.
    """
    if current_thread() is not main_thread():
        yield
        return

    def end(number: int, _: object) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        raise SystemExit(128 + number)

    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
