"""How each kind of window cuts rows into slices, knows its due windows, and lets slices go: one small class
each.

All of them drive the same :class:`~windrow.runs.State`. ``ordered`` disciplines see every row in its final
order (time, then arrival), so the operator keeps rows back until the watermark has passed them.
"""

from __future__ import annotations

from windrow.bound import BoundQuery
from windrow.disciplines.base import Discipline, Rows
from windrow.disciplines.each_row import ByDelta, ByTime, ByTuple
from windrow.disciplines.policy import ByPolicy
from windrow.disciplines.sliced import InCount, InSessions, InTime
from windrow.windows import (
    CountWindow,
    DeltaWindow,
    PolicyWindow,
    SessionWindow,
    SlideByTime,
    SlideByTuple,
    TimeWindow,
)

__all__ = ["Discipline", "InTime", "Rows", "discipline"]


def discipline(bound: BoundQuery) -> Discipline:
    """The discipline of a query's window."""
    window = bound.query.window
    if isinstance(window, CountWindow):
        return InCount(bound, [window])
    for kind, made in _KINDS.items():
        if isinstance(window, kind):
            return made(bound)
    windows = [each for _, each in bound.query.windows]
    assert all(isinstance(each, TimeWindow) for each in windows)
    return InTime(bound, windows)


_KINDS: dict[type, type[Discipline]] = {
    SessionWindow: InSessions,
    SlideByTuple: ByTuple,
    SlideByTime: ByTime,
    DeltaWindow: ByDelta,
    PolicyWindow: ByPolicy,
}
