# SPDX-License-Identifier: Apache-2.0
"""Where evictions of varying size will end: the rule of the hop histogram.

The sample of sizes is that of the evictions that fit into a window, or of twice as many. It is two sets of moments in six
numbers: the older one is forgotten when the newer one is large enough.

>>> import numpy as np
>>> moments, z = np.zeros(6), 1.96
>>> for _ in range(30):
...     evicted(moments, 6, left=18)
>>> [first for first in range(18) if share(moments, z, first, first)]
[1, 2, 3, 4, 7, 8, 9, 10, 13, 14, 15, 16]
>>> share(moments, z, 1, 4), share(moments, z, 4, 7)
(True, False)
"""

from __future__ import annotations

import math
from typing import Any

from windrow.approximate.prediction import FEWEST, combined, hop_interval, with_result

__all__ = ["evicted", "share"]


def evicted(moments: Any, size: int, left: int) -> None:
    """So many updates have gone together, at the most, and so many are left."""
    newer = with_result((moments[3], moments[4], moments[5]), float(size))
    moments[3], moments[4], moments[5] = newer
    if newer[0] >= max(float(FEWEST), left / max(newer[1], 1.0)):
        for i in range(3):
            moments[i], moments[3 + i] = moments[3 + i], 0.0


def share(moments: Any, z: float, first: int, last: int) -> bool:
    """Whether two updates, counted from the beginning of the window, are expected inside one eviction.

    The updates at both ends of an eviction are not inside: they stay alone, so that a prediction that holds costs no error.
    """
    sample = combined((moments[0], moments[1], moments[2]), (moments[3], moments[4], moments[5]))
    if sample[0] < FEWEST or sample[1] < 4.0:
        return False
    ahead = int(last / sample[1]) + 1
    begin = math.ceil(hop_interval(sample, ahead - 1, z)[1]) if ahead > 1 else 0
    end = math.floor(hop_interval(sample, ahead, z)[0])
    return begin < first and last < end - 1
