# SPDX-License-Identifier: Apache-2.0
"""Between two values."""

from __future__ import annotations

from typing import Any

import numpy as np


def between(low: Any, high: Any, share: Any) -> Any:
    """The point that lies ``share`` of the way from ``low`` to ``high``, as
    :func:`windrow.aggregates.holistic.interpolated` has it.
    """
    if low == high or share == 0.0:
        return low
    if np.isinf(low) or np.isinf(high):
        return low + high
    scale = 1.0
    if np.isinf(high - low):  # halves are exact here, and their difference is finite
        low, high, scale = low / 2.0, high / 2.0, 2.0
    if share >= 0.5:  # from the nearer side, as numpy does
        return scale * (high - (high - low) * (1.0 - share))
    return scale * (low + (high - low) * share)
