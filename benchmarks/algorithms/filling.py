"""Compiled loops that fill a window and empty it one by one, over the operations of any algorithm."""

from __future__ import annotations

from typing import Any

from windrow.algorithms.base import evict, insert


def fill(state: Any, parts: Any, count: int) -> None:
    """Insert the first ``count`` partials."""
    for i in range(count):
        insert(state, parts, i)


def evict_one_by_one(state: Any, count: int) -> None:
    for _ in range(count):
        evict(state)
