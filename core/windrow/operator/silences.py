# SPDX-License-Identifier: Apache-2.0
"""Since when each key is silent, and whether keys enough for a block have been silent for long.

To look at every key at every watermark would take long. Rows only make the last time of a key later. So after one look it
is known before which watermark no cohort can be idle, and nothing is looked at until then.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from windrow.kernels.slices import idle as idle_kernels
from windrow.kernels.slices.layout import FOREVER
from windrow.kernels.specialise import specialise
from windrow.operator.auto_idle import AutoIdle
from windrow.operator.freezing import weight
from windrow.operator.idle import Idle
from windrow.operator.plan import Ints
from windrow.operator.room import longer

if TYPE_CHECKING:
    from windrow.operator.slices import SliceTable

LOOKS = 64
"""Into so many parts D is divided, to see in which of them a cohort will be idle."""
_NOTHING = np.empty(0, np.int64)


class Silences:
    """When keys had their last row. ``idle`` says how long a silence makes a key idle; none if none does."""

    def __init__(self, idle: Idle | None, *, compiled: bool) -> None:
        self.auto = (
            AutoIdle(idle.memory_bytes, idle.cpu) if idle is not None and idle.micros is None else None
        )
        self.after = None if idle is None else idle.micros if self.auto is None else self.auto.after
        """For how long a key has to be silent; never, if that is none."""
        self.cohort = 1 if idle is None else idle.cohort
        self.last = np.empty(0, np.int64)
        """For each key the time of its last row."""
        self.refused = np.empty(0, np.bool_)
        """Keys whose next window raises an error: they stay hot, and raise it when it is due, if it ever is."""
        self._next = -FOREVER
        self._kernels = specialise(idle_kernels, {}, compiled=compiled)

    @property
    def why(self) -> str:
        """Why this D."""
        if self.auto is not None:
            return self.auto.why
        return "idle is not given" if self.after is None else "given"

    def hear(self, keys: Ints, times: Ints) -> None:
        """Rows of these keys came, the latest of each at one of these times."""
        edges, closed, lengths = _NOTHING, _NOTHING, _NOTHING
        if self.auto is not None:
            edges, closed, lengths = self.auto.histogram
        count, earliest = self._kernels.hear(keys, times, self.last, self.refused, edges, closed, lengths)
        if self.auto is not None:
            self.auto.counted(count)
        if self.after is not None:
            self._next = min(self._next, earliest + self.after)

    def idle_keys(self, table: SliceTable, of: Any, watermark: int, size: Callable[[], int]) -> Ints:
        """The hot keys that are idle at a watermark, if they are a cohort; ``of`` is the block of each cold key.

        ``size`` says how many bytes the state has.
        """
        if self.auto is not None and self.auto.is_due:
            lasting = self.auto.blank()
            edges = self.auto.durations
            self._kernels.count_lasting(table.slices.held, of, self.last, watermark, edges, *lasting)
            self.auto.decide(*lasting, size())
            self.after, self._next = self.auto.after, -FOREVER
        if self.after is None or watermark < self._next or watermark >= FOREVER:
            return _NOTHING
        idle, coming = np.empty(len(of), np.int64), np.zeros(LOOKS, np.int64)
        count, found, earliest = self._kernels.find_idle(
            table.slices.held, of, self.refused, self.last, weight(table, slice(None)), watermark - self.after,
            self.cohort, max(self.after // LOOKS, 1), coming, idle,
        )  # fmt: skip
        self._next = earliest + self.after if earliest < FOREVER else FOREVER
        return idle[:count] if found >= self.cohort else _NOTHING

    def refuse(self, keys: Ints) -> None:
        """These keys stay hot until their next row."""
        self.refused[keys] = True

    def start(self, keys: Ints, watermark: int) -> None:
        """When these keys had their last row is not known: they count as just seen."""
        self.last[keys] = watermark
        self._next = -FOREVER

    def forget(self, keys: Ints) -> None:
        """The numbers of these keys, which have no state, may be given to other keys."""
        self.last[keys[keys < len(self.last)]] = -FOREVER

    def grow(self, room: int) -> None:
        if room > len(self.last):
            self.last, self.refused = longer(self.last, room, -FOREVER), longer(self.refused, room, 0)
