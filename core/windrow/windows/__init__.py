# SPDX-License-Identifier: Apache-2.0
"""Window specifications: which rows belong together, and when their result is due.

This package is the only place that computes window ids from times or positions, and bounds from window ids; see
:mod:`windrow.windows.grid`.

>>> from windrow.windows import TimeWindow
>>> TimeWindow(range="1h", slide="1s").label
'1h/1s'
"""

from windrow.windows.base import KINDS, Window
from windrow.windows.count import CountWindow
from windrow.windows.delta import DeltaWindow
from windrow.windows.hybrid import SlideByTime, SlideByTuple
from windrow.windows.policy import PolicyWindow
from windrow.windows.session import SessionWindow
from windrow.windows.time import TimeWindow, pane

__all__ = [
    "KINDS",
    "CountWindow",
    "DeltaWindow",
    "PolicyWindow",
    "SessionWindow",
    "SlideByTime",
    "SlideByTuple",
    "TimeWindow",
    "Window",
    "pane",
]
