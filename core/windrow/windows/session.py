# SPDX-License-Identifier: Apache-2.0
"""Session windows: rows with short gaps between them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from windrow import durations
from windrow.durations import Duration
from windrow.errors import WindowError
from windrow.windows.base import Context, Interval, Window

__all__ = ["SessionWindow"]


@dataclass(frozen=True, init=False, repr=False)
class SessionWindow(Window):
    """Consecutive rows belong to one session if their times differ by at most ``gap``.

    ``window_start`` is the time of the first row. ``window_end`` is the time of the last row plus ``gap``. A row
    at exactly ``window_end`` still belongs to the session, so a session is final when the watermark has passed
    ``window_end``.

    >>> window = SessionWindow(gap="5us")
    >>> times = [0, 3, 8, 14, 15]
    >>> window.extent(0, times), window.extent(1, times), window.mapping(3, times)
    (range(0, 3), range(3, 5), range(1, 2))
    """

    gap: int

    kind: ClassVar[str] = "session"
    context: ClassVar[Context] = "FCF"
    trigger: ClassVar[str] = "the watermark passes window_end"

    def __init__(self, gap: Duration) -> None:
        self._assign(gap=self._positive_duration("gap", gap))

    def extent(self, w: int, times: Sequence[int]) -> Interval:
        """The positions of the rows of session ``w``, given the times of all rows in order."""
        starts = self._starts(times)
        if not 0 <= w < len(starts):
            raise WindowError(f"these {len(times)} rows have {len(starts)} sessions; there is no session {w}")
        return Interval(starts[w], starts[w + 1] if w + 1 < len(starts) else len(times))

    def mapping(self, i: int, times: Sequence[int]) -> Interval:
        """The one session of the row at position ``i``. Only the times up to ``i`` are read."""
        if not 0 <= i < len(times):
            raise WindowError(f"there is no row {i} among these {len(times)} rows")
        w = len(self._starts(times[: i + 1])) - 1
        return Interval(w, w + 1)

    def _starts(self, times: Sequence[int]) -> list[int]:
        """The position of the first row of each session."""
        return [i for i in range(len(times)) if i == 0 or times[i] - times[i - 1] > self.gap]

    @property
    def label(self) -> str:
        return f"session {durations.format(self.gap)}"

    def parameters(self) -> dict[str, Any]:
        return {"gap": durations.format(self.gap)}
