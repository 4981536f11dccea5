# SPDX-License-Identifier: Apache-2.0
"""How each kind of window cuts rows into slices and finds its due windows: one small class each."""

from __future__ import annotations

from windrow.operator.slicers.base import Slicer
from windrow.operator.slicers.each_row import DeltaSlicer, TimeSlideSlicer, TupleSlicer
from windrow.operator.slicers.fixed import CountSlicer, TimeSlicer
from windrow.operator.slicers.policy import PolicySlicer
from windrow.operator.slicers.session import SessionSlicer
from windrow.query.bound import BoundQuery
from windrow.windows import (
    CountWindow,
    DeltaWindow,
    PolicyWindow,
    SessionWindow,
    SlideByTime,
    SlideByTuple,
    TimeWindow,
)

__all__ = ["Slicer", "TimeSlicer", "slicer_of"]


def slicer_of(bound: BoundQuery) -> Slicer:
    """The slicer of a query's window."""
    window = bound.query.windows[0][1]
    if isinstance(window, CountWindow):
        return CountSlicer([window])
    if isinstance(window, SessionWindow):
        return SessionSlicer(window)
    if isinstance(window, SlideByTuple):
        return TupleSlicer(window)
    if isinstance(window, SlideByTime):
        return TimeSlideSlicer(window)
    if isinstance(window, DeltaWindow):
        return DeltaSlicer(window, bound)
    if isinstance(window, PolicyWindow):
        return PolicySlicer(window)
    return TimeSlicer([each for _, each in bound.query.windows if isinstance(each, TimeWindow)])
