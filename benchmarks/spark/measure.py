"""What a benchmark case is, and how a job is timed."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any


@dataclass(frozen=True)
class Case:
    """Our rate and a peer's, and how many times the peer's rate ours has to be."""

    name: str
    ours: Callable[[], float]
    peer_name: str
    peer: Callable[[], float]
    required: float


def rate(frame: Callable[[], Any], rows: int, rounds: int = 3) -> Callable[[], float]:
    """Rows per second of the fastest of some rounds of a batch job; measured when first asked for."""

    @cache
    def best() -> float:
        fastest = float("inf")
        for _ in range(rounds):
            begin = time.perf_counter()
            frame().write.format("noop").mode("overwrite").save()
            fastest = min(fastest, time.perf_counter() - begin)
        return rows / fastest

    return best
