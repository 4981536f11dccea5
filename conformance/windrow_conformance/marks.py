# SPDX-License-Identifier: Apache-2.0
"""Marks: what an engine cannot do, whose gap that is, and why.

A marked case runs like any other. If it fails, that was to be expected; if it passes, the mark is out of date and
the suite is red until it is taken away.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Gap(Enum):
    """Whose gap it is."""

    OURS = "ours to do"
    ENGINES = "the engine's"
    NEVER = "never"


@dataclass(frozen=True)
class Mark:
    """A gap with its reason, in one sentence."""

    gap: Gap
    reason: str

    def __str__(self) -> str:
        return f"{self.gap.value}: {self.reason}"
