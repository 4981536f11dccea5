# SPDX-License-Identifier: Apache-2.0
"""The policies and the aggregate of a user that transcripts name."""

from __future__ import annotations

from typing import Any

import windrow as wr


def anything(window: Any) -> bool:
    """Every window is acceptable."""
    return True


def at_most_three(window: Any) -> bool:
    return bool(window.n <= 3)


def total_at_most_ten(window: Any) -> bool:
    return window.total is None or bool(window.total <= 10)


def dominated(candidate: Any, after: Any, before: Any) -> bool:
    """What is left has a value at least as large as the candidate's largest."""
    return candidate.peak is None or (after.peak is not None and bool(candidate.peak <= after.peak))


def four_units_old(candidate: Any, after: Any, before: Any) -> bool:
    """The newest of the candidate is four time units older than the newest of all (the thesis, Fig. 4.2)."""
    return bool(before.max - candidate.max >= 4)


@wr.aggregate_type(
    partial={"low": "f8", "high": "f8"}, identity=(float("inf"), float("-inf")), commutative=True
)
class Spread:
    """The distance from the smallest to the largest value."""

    def lift(x: float) -> tuple[float, float]:  # type: ignore[misc]
        return x, x

    def combine(a: tuple[float, float], b: tuple[float, float]) -> tuple[float, float]:  # type: ignore[misc]
        return min(a[0], b[0]), max(a[1], b[1])

    def lower(p: tuple[float, float]) -> float:  # type: ignore[misc]
        return p[1] - p[0]
