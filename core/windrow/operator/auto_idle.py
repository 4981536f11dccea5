# SPDX-License-Identifier: Apache-2.0
"""A D that tunes itself: ``idle="auto"``.

To keep a silent key hot costs memory for as long as it is silent; to freeze and thaw it costs time once. That is ski rental
(Karlin, Manasse, Rudolph and Sleator, *Competitive snoopy caching*, Algorithmica 1988): to rent until the rent has reached the
price is never worse than twice the best. Here the silences of the past tell more. They are counted in a histogram whose old
entries fade, with the silences that last. The D with the least cost over them is chosen, never one above the break-even
point.

Everything here follows from rows and watermarks and from :class:`Costs`, which are given, so it can be replayed.

>>> tuned = AutoIdle()
>>> tuned.heard(np.full(5000, 30_000_000))                   # reports every 30 seconds
>>> left = tuned.histogram_of(np.full(3000, 900_000_000))    # and 3,000 vehicles that left 15 minutes ago
>>> tuned.decide(*left, size=0)
>>> tuned.after // 1_000_000, tuned.why
(32, 'auto: 5,000 silences of up to 32s, 3,000 that last')
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from windrow import durations
from windrow.memory import format_bytes
from windrow.operator.plan import Ints

__all__ = ["AutoIdle", "Costs"]

LEAST, STEPS = 1_000_000, 64
"""The shortest D, and how many there are, each √2 times the one before."""
FADE = 1 << 16
"""After so many silences the weight of old ones is halved."""
AGAIN = 1 << 12
"""After so many silences D is chosen again; after as many as there are silent keys, if these are more."""
BETTER = 0.9
"""Another D is chosen only if its cost is so many times that of the present one, or less."""


@dataclass(frozen=True)
class Costs:
    """What freezing costs, as it was recorded on 2 cores. Other numbers lead to another D, never to another result."""

    freeze: float = 12e-6
    """Seconds to freeze a key."""
    thaw: float = 25e-6
    """Seconds to thaw a key."""
    row: float = 1e-6
    """Seconds for a row, with the windows that it finishes."""
    break_even: int = 600_000_000
    """How long a key may be hot for the price of one freeze and thaw, in microseconds of event time, if no budget is given."""


class AutoIdle:
    """Chooses D from the silences between the rows of keys.

    ``memory`` is how many bytes the state may have. While it has more, a hot key costs twice as much at every choice. ``cpu`` is
    the share of the time that freezing and thawing may take. It wins over ``memory``.
    """

    def __init__(self, memory: int | None = None, cpu: float = 0.05, costs: Costs | None = None) -> None:
        self.memory, self.cpu, self.costs = memory, cpu, costs or Costs()
        self.durations = (LEAST * 2 ** (np.arange(STEPS) / 2)).astype(np.int64)
        self.after = self.costs.break_even
        self.why = "auto: no silences are known yet, so D is the break-even point"
        self.break_even = self.costs.break_even
        self._closed = np.zeros(STEPS + 1)
        self._lengths = np.zeros(STEPS + 1)
        self._heard = self._silent = self._fading = 0

    @property
    def is_due(self) -> bool:
        """Whether enough was heard to choose again."""
        return self._heard >= max(AGAIN, self._silent)

    @property
    def histogram(self) -> tuple[Ints, Any, Any]:
        """Durations, how many silences are up to each, and their sums; the last entries are those of longer ones.

        Whoever counts silences adds to it, and calls :meth:`counted`."""
        return self.durations, self._closed, self._lengths

    def blank(self) -> tuple[Any, Any]:
        """The entries of a histogram without silences."""
        return np.zeros(STEPS + 1), np.zeros(STEPS + 1)

    def counted(self, silences: int) -> None:
        """So many silences were added to the histogram."""
        self._heard += silences
        self._fading += silences
        if self._fading >= FADE:
            self._fading //= 2
            self._closed /= 2
            self._lengths /= 2

    def histogram_of(self, silences: Ints) -> tuple[Any, Any]:
        """The entries of a histogram of these silences."""
        places = np.searchsorted(self.durations, silences)
        lengths = np.bincount(places, weights=silences, minlength=STEPS + 1)
        return np.bincount(places, minlength=STEPS + 1), lengths

    def heard(self, silences: Ints) -> None:
        """Rows came after silences of these lengths."""
        closed, lengths = self.histogram_of(silences)
        self._closed += closed
        self._lengths += lengths
        self.counted(len(silences))

    def decide(self, lasting: Any, lengths: Any, size: int) -> None:
        """Choose D. ``lasting`` and ``lengths`` are the histogram of silences that last, ``size`` the bytes of the state."""
        self._heard, self._silent = 0, int(lasting.sum())
        full = self.memory is not None and size > self.memory
        if self.memory is not None:
            slack = size < 0.8 * self.memory
            self.break_even = max(self.break_even // 2, LEAST) if full else self.break_even
            self.break_even = min(self.break_even * 2, self.costs.break_even) if slack else self.break_even
        cost, busy = self._cost(lasting, lengths)
        allowed = (self.durations <= max(self.break_even, LEAST)) & (busy <= self.cpu)
        if not allowed.any():  # the shortest that takes no more of the time; the longest takes none of it
            self.after = int(self.durations[np.argmax(busy <= self.cpu)])
            shortest = durations.format(self.after // 1_000_000 * 1_000_000)
            self.why = f"auto: less than {shortest} would take more than {self.cpu:.0%} of the time"
        else:
            best = int(np.argmin(np.where(allowed, cost, np.inf)))
            now = np.searchsorted(self.durations, self.after)
            if not (now < STEPS and allowed[now] and cost[best] > BETTER * cost[now]):
                self.after = int(self.durations[best])
            at = int(np.searchsorted(self.durations, self.after)) + 1
            within = int(self._closed[:at].sum())
            self.why = (
                f"auto: {within:,} silences of up to {durations.format(self.after // 1_000_000 * 1_000_000)}, "
                f"{int(lasting[at:].sum()):,} that last"
            )
        if full:
            self.why += f"; {format_bytes(size)} of state is more than the {format_bytes(self.memory or 0)} it may have"

    def _cost(self, lasting: Any, lengths: Any) -> tuple[Any, Any]:
        """For every D, its cost in microseconds of a hot key, and the share of the time that freezing takes."""
        beyond = self._closed[::-1].cumsum()[::-1][1:]  # silences that are longer than D
        shorter = self._lengths.cumsum()[:-1]
        over = lasting[::-1].cumsum()[::-1][1:]
        held = lengths.cumsum()[:-1]
        hot = shorter + beyond * self.durations + held + over * self.durations
        cost = hot + (beyond + over) * self.break_even
        rows = max(float(self._closed.sum()), 1.0)
        busy = beyond * (self.costs.freeze + self.costs.thaw) / (rows * self.costs.row)
        return cost, busy
