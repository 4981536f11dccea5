"""What a benchmark case is, and how a job is timed."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Case:
    """Our rate and a peer's, and how many times the peer's rate ours has to be."""

    name: str
    ours: Callable[[], float]
    peer_name: str
    peer: Callable[[], float]
    required: float


class Rate:
    """Rows per second of the fastest of some rounds of a batch job.

    Rounds of ours and of the peer alternate, so that what else the machine does meets both.
    """

    def __init__(self, frame: Callable[[], Any], rows: int, rounds: int) -> None:
        self.frame, self.rows, self.rounds = frame, rows, rounds
        self.seconds: list[float] = []

    def round(self) -> None:
        if len(self.seconds) < self.rounds:
            begin = time.perf_counter()
            self.frame().write.format("noop").mode("overwrite").save()
            self.seconds.append(time.perf_counter() - begin)

    def __call__(self) -> float:
        return self.rows / min(self.seconds)


def rate(frame: Callable[[], Any], rows: int, rounds: int = 4) -> Rate:
    return Rate(frame, rows, rounds)
