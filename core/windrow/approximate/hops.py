# SPDX-License-Identifier: Apache-2.0
"""Where evictions of varying size will end: the rule of the hop histogram.

>>> hops = Hops(0.95)
>>> for _ in range(30):
...     hops.evicted(6, left=18)
>>> [first for first in range(18) if hops.share(first, first)]
[1, 2, 3, 4, 7, 8, 9, 10, 13, 14, 15, 16]
>>> hops.share(1, 4), hops.share(4, 7)
(True, False)
"""

from __future__ import annotations

import math

from windrow.approximate.prediction import (
    FEWEST,
    NO_RESULTS,
    combined,
    hop_interval,
    normal_quantile,
    with_result,
)

__all__ = ["Hops"]


class Hops:
    """The sizes of recent evictions, and which updates are expected to go together.

    The sample is that of the evictions that fit into a window, or of twice as many. It is two sets of moments: the
    older one is forgotten when the newer one is large enough.
    """

    def __init__(self, confidence: float) -> None:
        self.z = normal_quantile(confidence)
        self.older = self.newer = NO_RESULTS

    def evicted(self, size: int, left: int) -> None:
        """So many updates have gone together, at the most, and so many are left."""
        self.newer = with_result(self.newer, float(size))
        if self.newer[0] >= max(FEWEST, left / max(self.newer[1], 1.0)):
            self.older, self.newer = self.newer, NO_RESULTS

    def share(self, first: int, last: int) -> bool:
        """Whether two updates, counted from the beginning of the window, are expected inside one eviction.

        The updates at both ends of an eviction are not inside: they stay alone, so that a prediction that holds costs no error.
        """
        sample = combined(self.older, self.newer)
        if sample[0] < FEWEST or sample[1] < 4.0:
            return False
        ahead = int(last / sample[1]) + 1
        begin = math.ceil(hop_interval(sample, ahead - 1, self.z)[1]) if ahead > 1 else 0
        end = math.floor(hop_interval(sample, ahead, self.z)[0])
        return begin < first and last < end - 1
