# SPDX-License-Identifier: Apache-2.0
"""Counters of a function, in the group ``windrow`` of Flink's metrics."""

from __future__ import annotations

from pyflink.datastream import RuntimeContext
from pyflink.metrics import Counter


class Uncounted(Counter):
    """What a function has instead of a counter if ``python.metric.enabled`` is false: then PyFlink has no metrics at all."""

    def inc(self, n: int = 1) -> None:
        pass

    def dec(self, n: int = 1) -> None:
        pass

    def get_count(self) -> int:
        return 0


def counter(context: RuntimeContext, name: str) -> Counter:
    """The counter of this name."""
    metrics = context.get_metrics_group()
    return Uncounted() if metrics is None else metrics.add_group("windrow").counter(name)
