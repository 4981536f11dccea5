# SPDX-License-Identifier: Apache-2.0
"""What a worker process keeps from one micro-batch to the next.

Only state variables survive a task, and Spark gives the next micro-batch of a group to any worker. So what is kept is used
only by the job that kept it, and only if the token that was written to the state store with it is the one that is there
now. A job that is started again reads its state.
"""

from __future__ import annotations

import os
from collections import OrderedDict
from collections.abc import Hashable
from typing import Generic, TypeVar

MOST = 64
"""How many groups of a kind a worker keeps."""
Kept = TypeVar("Kept")


class WorkerCache(Generic[Kept]):
    """Things by job and group, each with the token of the state that it belongs to."""

    def __init__(self, most: int = MOST) -> None:
        self._most = most
        self._held: OrderedDict[tuple[bytes, Hashable], tuple[bytes, Kept]] = OrderedDict()

    def take(self, job: bytes, group: Hashable, token: bytes | None) -> Kept | None:
        """What was kept under this token; it is not kept any longer."""
        found = self._held.pop((job, group), None)
        return found[1] if found is not None and token is not None and found[0] == token else None

    def keep(self, job: bytes, group: Hashable, kept: Kept) -> bytes:
        """Keep something; returns the token to write to the state store with it."""
        token = os.urandom(8)
        self._held[job, group] = token, kept
        while len(self._held) > self._most:
            self._held.popitem(last=False)
        return token


def new_job() -> bytes:
    """What tells a job from all others."""
    return os.urandom(8)
