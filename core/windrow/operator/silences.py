# SPDX-License-Identifier: Apache-2.0
"""Since when each key is silent, and whether keys enough for a block have been silent for long.

To look at every key at every watermark would take long. Rows only make the last time of a key later. So one look counts what
the keys weigh that will be idle in each part of the next D, and a row of such a key takes it out again. Keys are looked at again when
those that are left can be a cohort, or when keys that had rows since can be idle.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from windrow.kernels.slices import idle as idle_kernels
from windrow.kernels.slices.layout import FOREVER
from windrow.kernels.specialise import specialise
from windrow.operator.auto_idle import AutoIdle
from windrow.operator.freezing import weights
from windrow.operator.idle import Idle
from windrow.operator.plan import Ints
from windrow.operator.room import longer

if TYPE_CHECKING:
    from windrow.operator.slices import SliceTable

LOOKS = 64
"""Into so many parts D is divided, or up to half as many, to see in which of them a cohort will be idle."""
SAMPLE = 1 << 14
"""Of more keys than that, a part is looked at to choose D."""
MOST = (1 << 31) - 1
"""More slices and rows than any key has."""
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
        self._counted = np.empty(0, np.int32)
        """For each key what it weighs in ``_coming``."""
        self._coming = np.zeros(LOOKS + 1, np.int64)
        """What hot keys weighed at the last look, by the time of their last row, without those that had rows since."""
        self._since, self._shift = -FOREVER, 0
        self._due = self._fresh = -FOREVER
        """The earliest watermarks at which the keys in ``_coming`` can be a cohort, and at which others can be idle."""
        self._kernels = specialise(idle_kernels, {}, compiled=compiled)

    @property
    def why(self) -> str:
        """Why this D."""
        if self.auto is not None:
            return self.auto.why
        return "idle is not given" if self.after is None else "given"

    def hear(self, keys: Ints, times: Ints) -> None:
        """Rows of these keys came, the latest of each at one of these times."""
        silences = (_NOTHING, _NOTHING, _NOTHING) if self.auto is None else self.auto.histogram
        count, earliest = self._kernels.hear(
            keys, times, self.last, self.refused, self._counted, self._coming, self._since, self._shift,
            silences,
        )  # fmt: skip
        if self.auto is not None:
            self.auto.counted(count)
        if self.after is not None:
            self._fresh = min(self._fresh, earliest + self.after)

    def idle_keys(self, table: SliceTable, of: Any, watermark: int, size: Callable[[], int]) -> Ints:
        """The hot keys that are idle at a watermark, if they are a cohort; ``of`` is the block of each cold key.

        ``size`` says how many bytes the state has.
        """
        if self.auto is not None and self.auto.is_due:
            self._choose(self.auto, table, of, watermark, size)
        if self.after is None or watermark < min(self._due, self._fresh) or watermark >= FOREVER:
            return _NOTHING
        if watermark < self._fresh:
            self._foresee()
            if watermark < self._due:
                return _NOTHING
        self._since, self._shift = watermark - self.after, max(self.after // LOOKS, 1).bit_length()
        self._coming[:] = 0
        idle = np.empty(len(of), np.int64)
        count, found = self._kernels.find_idle(
            of, self.refused, self.last, weights(table), self._since, self._shift, min(self.cohort, MOST),
            self._counted, self._coming, idle,
        )  # fmt: skip
        self._fresh = FOREVER
        self._foresee()
        return idle[:count] if found >= self.cohort else _NOTHING

    def _choose(
        self, auto: AutoIdle, table: SliceTable, of: Any, watermark: int, size: Callable[[], int]
    ) -> None:
        lasting, stride = auto.blank(), 1 + len(of) // SAMPLE
        held, edges = table.slices.held, auto.durations
        self._kernels.count_lasting(held, of, self.last, watermark, stride, edges, *lasting)
        auto.decide(*lasting, size())
        if self.after != auto.after:
            self.after, self._fresh = auto.after, -FOREVER

    def _foresee(self) -> None:
        """See when the keys that were counted, and had no row since, can be a cohort."""
        enough = np.flatnonzero(np.cumsum(self._coming) >= self.cohort)[:1]
        since = [self._since + 1 + (max(at - 1, 0) << self._shift) for at in enough.tolist()]
        self._due = since[0] + (self.after or 0) if since else FOREVER

    def refuse(self, keys: Ints) -> None:
        """These keys stay hot until their next row."""
        self.refused[keys] = True

    def start(self, keys: Ints, watermark: int) -> None:
        """When these keys had their last row is not known: they count as just seen."""
        self.last[keys] = watermark
        self._fresh = -FOREVER

    def forget(self, keys: Ints) -> None:
        """The numbers of these keys, which have no state, may be given to other keys."""
        known = keys[keys < len(self.last)]
        self.last[known], self._counted[known] = -FOREVER, 0

    def grow(self, room: int) -> None:
        if room > len(self.last):
            self.last, self.refused = longer(self.last, room, -FOREVER), longer(self.refused, room, 0)
            self._counted = longer(self._counted, room, 0)
